"""The lessons in a real JupyterLab, in a real browser."""

import re

import pytest

from course.lessons.source import NOTEBOOKS

pytestmark = pytest.mark.browser

# Runs every cell, and fails if its session ends. The half hour is for a lesson without end, since
# Page.evaluate has no time limit.
RUN_ALL = """async () => {
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
    await Promise.race([window.jupyterapp.commands.execute('notebook:run-all-cells'), failed]);
}"""
CELLS = """() => {
    const cells = window.jupyterapp.shell.currentWidget.content.model.cells;
    return Array.from(cells, cell => cell.toJSON()).filter(cell => cell.cell_type === 'code');
}"""


def lessons():
    """Every lesson's file. nbval runs the same cells each time; in a browser one lesson does so."""
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        group = f"lesson {path.name[:2]} in a browser"
        changed = pytest.mark.unless_unchanged(group, f"notebooks/{path.name}", "course", "kernels")
        yield pytest.param(path.name, marks=[] if path.name.startswith("01") else changed)


PICTURE_SHOWN = """() => {
    const images = document.querySelectorAll(".jp-NotebookPanel:not(.lm-mod-hidden) img[alt]");
    return [...images].some(image => image.alt.length > 40);
}"""


@pytest.mark.parametrize("name", lessons())
def test_a_lesson_runs_from_top_to_bottom(name, server, new_page, tmp_path):
    page = new_page()
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(server.format(name=name))
    page.wait_for_function("window.jupyterapp?.shell.currentWidget?.sessionContext")
    page.evaluate(RUN_ALL)
    cells = page.evaluate(CELLS)
    assert cells and all(cell["execution_count"] for cell in cells)
    assert [
        cell["source"]
        for cell in cells
        for output in cell["outputs"]
        if output["output_type"] == "error"
    ] == []
    outside = [
        url for url in requests if not re.match(r"(http|ws)://127\.0\.0\.1|data:|blob:", url)
    ]
    assert outside == []
    # The lab opens the lessons of before again, in panels that are not seen.
    if "<img src" in (NOTEBOOKS / name).read_text():
        page.wait_for_function(PICTURE_SHOWN)
    else:
        assert not page.evaluate(PICTURE_SHOWN)
    page.screenshot(path=tmp_path / "page.png")
    page.close()


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
