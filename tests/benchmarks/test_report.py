"""The study's figures that need no measurement."""

from __future__ import annotations

from benchmarks.verify.report import audit_table


def test_the_audit_table_is_exact() -> None:
    assert audit_table()["1"] == {"1": 1.0, "5": 0.625, "20": 0.25}
    assert audit_table()["16"] == {"1": 0.0625, "5": 0.0625, "20": 0.0625}
