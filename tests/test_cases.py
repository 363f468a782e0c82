"""The lists of known faults name tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LISTS = {"cases_protocol.md": 100, "cases_rl.md": 45}
"""The lists, and the fewest faults that each holds."""


def rows_of(name: str) -> list[list[str]]:
    lines = (ROOT / "tests" / name).read_text().splitlines()
    return [[cell.strip() for cell in line.strip("|\n ").split(" | ")] for line in lines if "::" in line]


ROWS = [row for name in LISTS for row in rows_of(name)]


def names_in(path: Path) -> set[str]:
    """Names of the functions that pytest or forge runs as tests."""
    text = path.read_text()
    if path.suffix == ".sol":
        return set(re.findall(r"^    function (test\w*)\(", text, re.MULTILINE))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.parse(text).body if isinstance(node, functions) and node.name.startswith("test_")}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[1].split("::")[1])
def test_the_test_for_this_fault_exists(row: list[str]) -> None:
    fault, test, outcome = row
    path, _, name = test.partition("::")
    assert fault
    assert outcome
    assert (ROOT / path).name.startswith("test_") or path.endswith(".t.sol")
    assert name in names_in(ROOT / path)


@pytest.mark.parametrize("name", LISTS)
def test_the_list_is_whole(name: str) -> None:
    assert len(rows_of(name)) >= LISTS[name]
