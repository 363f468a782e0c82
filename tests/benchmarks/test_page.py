"""Tables go where the page has marks for them, and nowhere else."""

from __future__ import annotations

import pytest

from benchmarks.page import fill, markdown

PAGE = """before
<!-- one: written by scripts/a -->
old
<!-- /one -->
between
<!-- two: written by scripts/a -->
<!-- /two -->
<!-- one: written by scripts/b -->
not ours
<!-- /one -->
after
"""


def test_tables_replace_what_stood_between_their_marks() -> None:
    filled = fill(PAGE, {"one": "| new |", "two": "| other |"}, "scripts/a")
    assert "old" not in filled
    assert [line for line in filled.splitlines() if line and not line.startswith("<!--")] == [
        "before",
        "| new |",
        "between",
        "| other |",
        "not ours",
        "after",
    ]
    assert fill(filled, {"one": "| new |", "two": "| other |"}, "scripts/a") == filled


def test_a_page_without_a_place_for_a_table_is_refused() -> None:
    with pytest.raises(ValueError, match="no place for the table 'three'"):
        fill(PAGE, {"three": "| x |"}, "scripts/a")


def test_a_table_has_its_head_a_rule_and_its_rows() -> None:
    assert markdown(["a", "b"], [["1", "2"]]).splitlines() == ["| a | b |", "| --- | --- |", "| 1 | 2 |"]
