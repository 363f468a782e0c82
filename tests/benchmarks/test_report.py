"""Tables go where the page has marks for them, and nowhere else."""

from __future__ import annotations

import pytest

from benchmarks.verify.report import audit_table, fill

PAGE = """before
<!-- one: written by scripts/bench_verify -->
old
<!-- /one -->
between
<!-- two: written by scripts/bench_verify -->
<!-- /two -->
after
"""


def test_tables_replace_what_stood_between_their_marks() -> None:
    filled = fill(PAGE, {"one": "| new |", "two": "| other |"})
    assert "old" not in filled
    assert [line for line in filled.splitlines() if line and not line.startswith("<!--")] == [
        "before",
        "| new |",
        "between",
        "| other |",
        "after",
    ]
    assert fill(filled, {"one": "| new |", "two": "| other |"}) == filled


def test_a_page_without_a_place_for_a_table_is_refused() -> None:
    with pytest.raises(ValueError, match="no place for the table 'three'"):
        fill(PAGE, {"three": "| x |"})


def test_the_audit_table_is_exact() -> None:
    assert audit_table()["1"] == {"1": 1.0, "5": 0.625, "20": 0.25}
    assert audit_table()["16"] == {"1": 0.0625, "5": 0.0625, "20": 0.0625}
