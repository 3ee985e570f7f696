"""The lessons in a real JupyterLab, in a real browser."""

import re

import pytest

from course.lessons.folders import NOTEBOOKS

pytestmark = pytest.mark.browser

# Runs every cell, or those of another command, and fails if its session ends. The half hour is for
# a lesson without end, since Page.evaluate has no time limit.
RUN_ALL = """async (command) => {
    const panel = window.jupyterapp.shell.currentWidget;
    await panel.context.ready;
    await panel.sessionContext.ready;
    await panel.sessionContext.session.kernel.info;
    const failed = new Promise((_, fail) => {
        const over = ['dead', 'restarting', 'autorestarting'];
        panel.sessionContext.statusChanged.connect((_, status) => {
            if (over.includes(status)) fail(new Error(`the session is ${status}`));
        });
        setTimeout(() => fail(new Error('the lesson did not end')), 1800000);
    });
    const ran = window.jupyterapp.commands.execute(command ?? 'notebook:run-all-cells');
    await Promise.race([ran, failed]);
}"""
CELLS = """() => {
    const cells = window.jupyterapp.shell.currentWidget.content.model.cells;
    return Array.from(cells, cell => cell.toJSON()).filter(cell => cell.cell_type === 'code');
}"""


PICTURE_SHOWN = """() => {
    const images = document.querySelectorAll(".jp-NotebookPanel:not(.lm-mod-hidden) img[alt]");
    return [...images].some(image => image.alt.length > 40);
}"""


OPEN = """async path => {
    await window.jupyterapp.restored;
    const panel = await window.jupyterapp.commands.execute('docmanager:open', { path });
    await panel.context.ready;
    await panel.revealed;
}"""


CLOSE = "window.jupyterapp.shell.currentWidget.dispose()"


@pytest.fixture
def lab_page(new_page):
    """A page that notes what it asks of other hosts than this one."""
    page = new_page()
    page.outside = []
    own = re.compile(r"(http|ws)://127\.0\.0\.1|data:|blob:")
    page.on("request", lambda request: own.match(request.url) or page.outside.append(request.url))
    return page


def errors_of(cells):
    """The sources of the cells that ended with an error."""
    outputs = [(cell["source"], output) for cell in cells for output in cell["outputs"]]
    return [source for source, output in outputs if output["output_type"] == "error"]


def test_a_lesson_runs_from_top_to_bottom(server, lab_page):
    """nbval runs every lesson's cells; here one lesson is run by the lab itself."""
    lab_page.goto(server.format(name="01-vector-add.ipynb"))
    lab_page.wait_for_function("window.jupyterapp?.shell.currentWidget?.sessionContext")
    lab_page.evaluate(RUN_ALL)
    cells = lab_page.evaluate(CELLS)
    assert cells and all(cell["execution_count"] for cell in cells)
    assert errors_of(cells) == []
    lab_page.wait_for_function(PICTURE_SHOWN)
    assert lab_page.outside == []


def test_every_lesson_opens_with_what_its_cells_showed(server, lab_page):
    lab_page.goto(server.format(name="01-vector-add.ipynb") + "&reset")
    lab_page.wait_for_function("window.jupyterapp?.shell.currentWidget?.sessionContext")
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        lab_page.evaluate(OPEN, f"work/{path.name}")
        cells = lab_page.evaluate(CELLS)
        assert cells and all(cell["execution_count"] for cell in cells), path.name
        assert errors_of(cells) == [], path.name
        if "<img src" in path.read_text():
            lab_page.wait_for_function(PICTURE_SHOWN)
        else:
            assert not lab_page.evaluate(PICTURE_SHOWN), path.name
        lab_page.evaluate(CLOSE)  # each open one makes the next one slower
    assert lab_page.outside == []


def test_folds_open_in_the_lab_to_rendered_text(server, new_page):
    page = new_page()
    page.goto(server.format(name="01-vector-add.ipynb") + "&reset")
    hint = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) details").first
    hint.wait_for(state="attached")
    hint.scroll_into_view_if_needed()
    assert not hint.locator("p").first.is_visible()
    hint.locator("summary").click()
    assert hint.locator("p").first.is_visible()
    folds = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) details")
    texts = folds.evaluate_all(
        """folds => folds.map(fold => {
            const copy = fold.cloneNode(true);
            copy.querySelectorAll('code').forEach(code => code.remove());
            return copy.textContent;
        })"""
    )
    assert texts and not any("`" in text or "**" in text for text in texts)
    page.close()


def test_saved_stages_are_fixed_width_in_the_lab_without_a_session(server, new_page):
    page = new_page()
    page.goto(server.format(name="saved.ipynb") + "&reset")
    code = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-OutputArea details pre code")
    code.first.wait_for()
    faces = code.evaluate_all("codes => codes.map(code => getComputedStyle(code).fontFamily)")
    assert len(faces) > 3 and all("mono" in face for face in faces), faces
    assert code.first.inner_text().split("\n")[0].endswith("@triton.jit")
    page.close()
