"""The list of known faults names tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROWS = [
    [cell.strip() for cell in line.strip("|\n ").split(" | ")]
    for line in (ROOT / "tests" / "cases_protocol.md").read_text().splitlines()
    if "::" in line
]
FEWEST_FAULTS = 100


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


def test_the_list_is_whole() -> None:
    assert len(ROWS) >= FEWEST_FAULTS
