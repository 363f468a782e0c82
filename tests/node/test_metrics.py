from __future__ import annotations

import json
from pathlib import Path

from node.metrics import MetricsLog, MetricsTail


def test_what_is_written_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    tail = MetricsTail(path)
    assert tail.read() == []
    log = MetricsLog(path)
    log.write("step", step=1, reward=0.5, name="ü\n")
    [first] = tail.read()
    assert first.pop("unix_s") > 1.6e9
    assert first == {"kind": "step", "step": 1, "reward": 0.5, "name": "ü\n"}
    assert tail.read() == []
    log.write("a")
    log.write("b")
    assert [line["kind"] for line in tail.read()] == ["a", "b"]
    log.close()


def test_numbers_that_json_cannot_hold_become_null(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "m")
    log.write("x", a=float("nan"), b=float("inf"), c=float("-inf"), d=1.5)
    log.close()
    line = json.loads((tmp_path / "m").read_text(), parse_constant=lambda word: 1 / 0)
    assert [line[name] for name in "abcd"] == [None, None, None, 1.5]


def test_half_a_line_waits_for_its_other_half(tmp_path: Path) -> None:
    path = tmp_path / "m"
    tail = MetricsTail(path)
    path.write_bytes(b'{"kind":"a"}\n{"kind":')
    assert tail.read() == [{"kind": "a"}]
    assert tail.read() == []
    with path.open("ab") as file:
        file.write(b'"b"}\n')
    assert tail.read() == [{"kind": "b"}]


def test_a_second_start_appends_and_the_file_is_private(tmp_path: Path) -> None:
    path = tmp_path / "m"
    for kind in ("first", "second"):
        log = MetricsLog(path)
        log.write(kind)
        log.close()
    assert [line["kind"] for line in MetricsTail(path).read()] == ["first", "second"]
    assert path.stat().st_mode & 0o777 == 0o600
