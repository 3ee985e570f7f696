"""Links hold on the site, exercises say how to work on them, and bad input is one sentence."""

import json

import pytest

from docs.site import SiteError, first_kernel
from docs.site.lesson_pages import Sources, add_lessons, lay_out


@pytest.fixture
def root(tmp_path):
    """A repository with a lesson, a kernel and a page."""
    for folder in ("notebooks", "solutions", "kernels", "docs/pages"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    (tmp_path / "kernels" / "add.py").write_text("x = '```'\n")
    (tmp_path / "solutions" / "01-add.py").write_text("# %%\n")
    (tmp_path / "docs" / "pages" / "terms.md").write_text(
        "# Terms\n\n[add](../../kernels/add.py)\n"
    )
    write_lesson(tmp_path, [markdown("# 01 · Add\n\n[kernel](../kernels/add.py)")])
    return tmp_path


def write_lesson(root, cells):
    (root / "notebooks" / "01-add.ipynb").write_text(json.dumps({"cells": cells}))


def markdown(text):
    return {"cell_type": "markdown", "id": "m", "metadata": {}, "source": text.splitlines(True)}


def code(text, *outputs):
    cell = {"cell_type": "code", "id": "c", "metadata": {}, "source": text, "outputs": [*outputs]}
    return cell | {"execution_count": 1}


def lesson_of(root):
    """The cells of the lesson's page."""
    sources = Sources(root / "out", root)
    add_lessons(sources)
    return json.loads(sources.files["lessons/01-add.ipynb"])["cells"]


@pytest.mark.parametrize(
    ("text", "linked"),
    [
        ("[a](../kernels/add.py)", "[a](../kernels/add.md)"),
        ("[a](01-add.ipynb#part)", "[a](01-add.ipynb#part)"),
        ("[a](../docs/pages/terms.md)", "[a](../pages/terms.md)"),
        ("[a](https://triton-lang.org/x)", "[a](https://triton-lang.org/x)"),
        ("[a](#part)", "[a](#part)"),
        ("`add[4](x, out)`", "`add[4](x, out)`"),
        ("``a ` [b](gone.py)``", "``a ` [b](gone.py)``"),
        ("```python\nadd[4](x, out)\n```", "```python\nadd[4](x, out)\n```"),
    ],
)
def test_links_hold_on_the_site_and_code_has_none(root, text, linked):
    sources = Sources(root / "out", root)
    assert sources.relink(text, "notebooks/01-add.ipynb", "lessons/01-add.ipynb") == linked


def test_a_link_to_what_is_not_there_is_named(root):
    sources = Sources(root / "out", root)
    with pytest.raises(SiteError, match=r"^notebooks/a.ipynb links to ../kernels/gone.py, which"):
        sources.relink("[a](../kernels/gone.py)", "notebooks/a.ipynb", "lessons/a.ipynb")


def test_a_linked_file_has_a_page_that_shows_it(root):
    (root / "setup.cfg").write_text("[a]\n")
    sources = Sources(root / "out", root)
    assert sources.relink("[a](../setup.cfg)", "notebooks/a", "lessons/a") == (
        "[a](../files/setup.cfg.md)"
    )
    assert sources.shown == {"setup.cfg"}


@pytest.mark.parametrize(
    ("content", "problem"),
    [(None, "is missing"), ("{", "is no notebook"), ("[]", "is no notebook")],
)
def test_a_lesson_that_cannot_be_read_is_one_sentence_with_the_command(root, content, problem):
    path = root / "notebooks" / "01-add.ipynb"
    path.unlink()
    if content is not None:
        path.write_text(content)
    with pytest.raises(SiteError) as error:
        lesson_of(root)
    assert str(error.value).startswith(f"notebooks/01-add.ipynb {problem}")
    assert str(error.value).endswith("run `course notebooks 01`.")


def test_a_lesson_that_is_missing_is_named_before_a_link_to_it(root):
    (root / "solutions" / "02-next.py").write_text("# %%\n")
    write_lesson(root, [markdown("[on](02-next.ipynb)")])
    with pytest.raises(SiteError, match=r"^notebooks/02-next.ipynb is missing: run"):
        lesson_of(root)


def test_behind_each_check_stands_the_command_that_opens_the_lesson(root):
    write_lesson(
        root,
        [
            code("# exercise fill-a-vector\n..."),
            code('check("fill-a-vector", add)'),
            markdown("on"),
        ],
    )
    kinds = [cell["cell_type"] for cell in lesson_of(root)]
    assert kinds == ["code", "code", "markdown", "markdown"]
    assert "<code>make lab LAB=01</code>" in lesson_of(root)[2]["source"]


def test_the_output_that_answers_a_prediction_is_folded_and_no_other(root):
    output = {"output_type": "stream", "name": "stdout", "text": "12"}
    asked, told = markdown("**Predict:** how many?"), markdown("Twelve.")
    before, between = code("0", output), code("def f(): ...")
    first, second, third = (code(text, output) for text in "123")
    write_lesson(root, [before, asked, between, first, second, asked, told, third])
    folded = [
        "".join(cell["source"])
        for cell in lesson_of(root)
        if "hide-output" in cell["metadata"].get("tags", [])
    ]
    assert folded == ["1"]


def test_what_only_programs_read_is_left_out(root):
    data = {"text/plain": "right", "application/vnd.triton-course.checked+json": {}}
    output = {"output_type": "execute_result", "data": data, "metadata": {}}
    write_lesson(root, [code("1", output)])
    assert lesson_of(root)[0]["outputs"][0]["data"] == {"text/plain": "right"}


def test_only_what_differs_is_written_and_what_is_gone_is_removed(root):
    first = Sources(root / "out", root)
    first.add("a.md", "a")
    first.add("b.md", "b")
    first.write()
    before = (root / "out" / "a.md").stat().st_mtime_ns
    second = Sources(root / "out", root)
    second.add("a.md", "a")
    second.write()
    assert (root / "out" / "a.md").stat().st_mtime_ns == before
    assert not (root / "out" / "b.md").exists()


def test_the_repository_has_each_lesson_kernel_and_page_in_the_contents(tmp_path):
    sources = Sources(tmp_path)
    lay_out(sources)
    front = sources.files["index.md"].decode()
    for file in sources.files:
        if file.endswith((".md", ".ipynb")) and file != "index.md":
            page = file.rpartition(".")[0]
            assert f"\n{page}\n" in front or f"<{page}>\n" in front
    assert {"lessons/11-softmax-of-a-row.ipynb", "kernels/softmax.md"} <= sources.files.keys()


def test_the_replay_of_the_front_page_is_the_kernel_s(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_STATIC", "1")
    assert first_kernel.recorded(tmp_path / "kernel.py") == first_kernel.SAVED.read_text()
