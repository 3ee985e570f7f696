"""Bad arguments and the sentences that they get."""

import pytest


def assert_each_is_refused(launchers, refusals):
    """Each launcher raises, for the arguments that `make` gives, an error that says so in one line.

    refusals: (make, error, words), where make() is a tuple or a dict of arguments.
    """
    for launcher in launchers:
        for make, error, words in refusals:
            args = make()
            with pytest.raises(error) as raised:
                launcher(**args) if isinstance(args, dict) else launcher(*args)
            text = str(raised.value)
            assert words in text and "\n" not in text, (launcher.__name__, text)
