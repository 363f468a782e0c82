"""Items are found by their module's name; their results are kept, come together, and reach the page."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner

import benchmarks.learning
from benchmarks.learning import __main__ as command
from benchmarks.learning import items
from benchmarks.learning.items import Found

ITEM = """
from benchmarks.learning.items import Found, NotRun
TITLE = "says {name}"
def run(out, *, quick, say):
    say("at work")
    if {missing!r}:
        raise NotRun({missing!r})
    (out / "{name}.svg").write_text("<svg/>")
    return Found(figures={{"{name}_error": 0.5 if quick else 0.25}}, table="| {name} |", plots=("{name}.svg",))
"""


@pytest.fixture
def item(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Writes an item's module; those that come with the program are not seen."""
    folder = tmp_path / "modules"
    folder.mkdir()
    monkeypatch.setattr(benchmarks.learning, "__path__", [str(folder)])

    def write(name: str, missing: str = "") -> None:
        (folder / f"item_{name}.py").write_text(ITEM.format(name=name, missing=missing))
        monkeypatch.delitem(sys.modules, f"benchmarks.learning.item_{name}", raising=False)

    return write


def call(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(command.main, list(words))
    return done.exit_code, done.output


def test_a_later_call_still_has_what_an_earlier_one_found(item: Callable[..., None], tmp_path: Path) -> None:
    item("here")
    item("there")
    out, figures = tmp_path / "out", tmp_path / "figures.json"
    assert call("here", "--quick", "--out", str(out))[0] == 0
    status, said = call("there", "--out", str(out), "--json", str(figures))
    assert status == 0
    assert "| there |" in said
    assert "| here |" not in said, "only what was asked for is shown"
    assert json.loads(figures.read_text()) == {"here_error": 0.5, "there_error": 0.25}
    assert items.kept(out)["here"].plots == ("here.svg",)


def test_an_unknown_item_is_told_the_known_ones(item: Callable[..., None], tmp_path: Path) -> None:
    item("here")
    item("there")
    status, said = call("elsewhere", "--out", str(tmp_path))
    assert status == 2
    assert "no item 'elsewhere'; there are here, there" in said


def test_what_cannot_run_here_leaves_the_last_result(item: Callable[..., None], tmp_path: Path) -> None:
    item("here")
    assert call("--out", str(tmp_path / "out"))[0] == 0
    item("here", missing="no such machine")
    status, said = call("--out", str(tmp_path / "out"))
    assert (status, "not run: no such machine" in said) == (0, True), "one of all may be missing"
    assert items.kept(tmp_path / "out")["here"].figures == {"here_error": 0.25}
    assert call("here", "--out", str(tmp_path / "out"))[0] == 1, "it was asked for by name"


def test_tables_and_plots_go_into_the_page(
    item: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    item("here")
    monkeypatch.setattr(command, "ROOT", tmp_path)
    page = tmp_path / "docs" / "learning.md"
    page.parent.mkdir()
    page.write_text("<!-- here: written by scripts/bench_learning -->\n<!-- /here -->\n")
    assert call("--docs")[0] == 0
    assert "| here |" in page.read_text()
    assert (tmp_path / "docs" / "learning-here.svg").read_text() == "<svg/>"


def test_two_items_with_one_key_are_refused() -> None:
    one = Found(figures={"error": 1.0}, table="")
    with pytest.raises(ValueError, match="a and b both have the figure 'error'"):
        items.together({"a": one, "b": one})


def test_every_item_of_the_program_has_a_title_and_a_run() -> None:
    modules = [items.load(name) for name in items.names()]
    assert all(isinstance(module, ModuleType) and module.TITLE and callable(module.run) for module in modules)
