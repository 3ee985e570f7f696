"""pytest: what is to be recorded anew on a GPU stands at the end of a run, and fails nothing.

A test notes each by record_property(OUTDATED, sentence), which xdist's processes hand on too.
"""

OUTDATED = "outdated record"


def pytest_terminal_summary(terminalreporter):
    noted = {
        sentence: None
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, sentence in getattr(report, "user_properties", ())
        if name == OUTDATED
    }
    if noted:
        terminalreporter.section("to be recorded anew on a GPU (make gpu-debts)")
        for sentence in noted:
            terminalreporter.line(sentence)
