"""How far a long command is: said now and then, with what is left by the pace of this start."""

from __future__ import annotations

import io

from node.progress import EVERY_S, Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_now_and_then_where_they_cannot_be_rewritten() -> None:
    out, now = io.StringIO(), iter([0.0, 1.0, EVERY_S, EVERY_S + 1.0, 40.0])
    progress = Progress("answered", 100, done=40, out=out, clock=lambda: next(now))
    for _ in range(4):
        progress.add(15)
    first, last = out.getvalue().splitlines()
    assert first == "answered: 70 of 100 problems, 15 s, about 15 s left"
    assert last == "answered: 100 of 100 problems, 40 s"


def test_one_line_in_a_terminal() -> None:
    out, now = Terminal(), iter([0.0, 100.0, 102.0, 104.0])
    progress = Progress("model", 4, out=out, clock=lambda: next(now))
    progress.waits("starting")
    progress.begins()
    progress.add(2)
    progress.add(2)
    assert out.getvalue().split("\r\x1b[2K") == [
        "",
        "model: starting",
        "model: 2 of 4 problems, 2 s, about 2 s left",
        "model: 4 of 4 problems, 4 s\n",
    ]
