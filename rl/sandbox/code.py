"""What a program is worth: 1.0 if it passes all tests of its problem within one budget, else 0.0.

A program runs once for each test, in a sandbox of its own that holds the test's input and never what is expected:
outputs are compared here, outside, so there is no verdict inside that could be printed, patched or read. Budgets are in
seconds, and no two machines do the same in one: `agrees` tolerates either reward where the machine may decide.
It never rewards a problem without tests.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from rl import flat_json
from rl.maths.answer import after_thinking
from rl.sandbox.run import PYTHON, Ended, Limits, Program, run

TOLERANCE = 4.0
"""How much faster or slower than each other a worker's and a validator's machine may be."""
MAX_PROGRAM_CHARS = 65_536
MAX_TESTS = 200
MAX_TESTS_CHARS = 4 << 20
MAX_BUDGET_S = 60.0
DEFAULT_BUDGET_S = 10.0
WALL_FACTOR = 6.0
"""Wall time for a second of CPU time, for machines that are shared; a program that sleeps ends by it."""
RELATIVE, ABSOLUTE = 1e-9, 1e-12
"""How far two floats may differ: sums in another order, not another algorithm."""
_BLOCK = re.compile(r"```[ \t]*+(?:python|py|python3)?[ \t]*+\n(.*?)```", re.DOTALL | re.IGNORECASE)
"""Possessive blanks: a run of blanks that no line's end follows is read once, not once for each way to part it."""

Run = Callable[[Program, Limits], Ended]


class TestsInvalid(ValueError):
    """A problem's tests cannot be used; the problem is to be dropped."""

    __test__ = False  # no class of pytest's


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One test: what goes in, and what must come out."""

    given: str
    """Standard input; for a function, the JSON list of its arguments."""
    expected: Any
    """Text; for a function, the JSON value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tests:
    """All tests of a problem."""

    __test__ = False

    mode: Literal["stdin", "function"]
    function: str
    cases: tuple[Case, ...]
    budget_s: float
    """CPU seconds of all tests together."""


def parse_tests(info: Mapping[str, str]) -> Tests:
    """Tests from a problem's `verification_info`.

    Keys: `mode` (stdin or function), `tests` (JSON: a list of {"input", "output"}), `function` (a name), `budget_s`.
    Raises TestsInvalid.
    """
    mode, text = info.get("mode", "stdin"), info.get("tests", "")
    if mode not in ("stdin", "function"):
        raise TestsInvalid(f"mode {mode[:20]!r}: known are stdin and function")
    function = info.get("function", "")
    if mode == "function" and not function.isidentifier():
        raise TestsInvalid(f"function {function[:40]!r} is no name")
    try:
        budget_s = float(info.get("budget_s", DEFAULT_BUDGET_S))
        rows = flat_json.loads(text) if len(text) <= MAX_TESTS_CHARS else None
    except ValueError as error:
        raise TestsInvalid(f"unreadable tests: {error}") from error
    if not 0 < budget_s <= MAX_BUDGET_S:
        raise TestsInvalid(f"budget_s {budget_s:g}, allowed are up to {MAX_BUDGET_S:g}")
    if not isinstance(rows, list) or not 1 <= len(rows) <= MAX_TESTS:
        raise TestsInvalid(f"a list of 1 to {MAX_TESTS} tests is needed")
    cases = tuple(_case(mode, row) for row in rows)
    if mode == "stdin" and not any(_lines(case.expected.encode()) for case in cases):
        raise TestsInvalid("no test expects any output: a program that does nothing would pass")
    return Tests(mode=mode, function=function, cases=cases, budget_s=budget_s)  # type: ignore[arg-type]


def _case(mode: str, row: object) -> Case:
    if not isinstance(row, dict) or not {"input", "output"} <= set(row):
        raise TestsInvalid('each test is {"input": …, "output": …}')
    given, expected = row["input"], row["output"]
    if mode == "function":
        if not isinstance(given, list):
            raise TestsInvalid("the input of a function is the list of its arguments")
        return Case(given=json.dumps(given), expected=expected)
    if not isinstance(given, str) or not isinstance(expected, str):
        raise TestsInvalid("input and output of a program are text")
    return Case(given=given, expected=expected)


def program_of(completion: str) -> str | None:
    """The last block of code after the thinking; None where there is none of acceptable length."""
    blocks = _BLOCK.findall(after_thinking(completion))
    return blocks[-1] if blocks and len(blocks[-1]) <= MAX_PROGRAM_CHARS else None


def passes(program: str, tests: Tests, scale: float = 1.0, run_one: Run = run) -> bool:
    """Whether `program` passes all tests with `scale` times the time and memory. Ends at the first that it fails.

    Raises NotGraded and SandboxUnavailable.
    """
    if "\0" in program or not _encodable(program):
        return False
    limits = Limits(cpu_s=tests.budget_s, wall_s=tests.budget_s * WALL_FACTOR).scaled(scale)
    left = limits
    command = ("/sandbox/runner.py", tests.function) if tests.mode == "function" else ("/box/solution.py",)
    for case in tests.cases:
        files = {"solution.py": program}
        ended = run_one(Program(argv=(*PYTHON, *command), files=files, stdin=case.given), left)
        if ended.how != "exited" or ended.exit_code != 0 or not _right(tests.mode, case.expected, ended.output):
            return False
        left = replace(left, cpu_s=left.cpu_s - ended.cpu_s, wall_s=left.wall_s - ended.wall_s)
        if left.cpu_s <= 0 or left.wall_s <= 0:
            return False
    return bool(tests.cases)


def grade(tests: Tests, completion: str, run_one: Run = run) -> float:
    """1.0 or 0.0. Raises NotGraded and SandboxUnavailable."""
    program = program_of(completion)
    return float(program is not None and passes(program, tests, run_one=run_one))


def agrees(tests: Tests, completion: str, claimed: float, run_one: Run = run) -> bool:
    """Whether an honest machine, up to TOLERANCE times faster or slower than this one, can have graded so."""
    program = program_of(completion)
    if program is None or claimed not in (0.0, 1.0):
        return claimed == 0.0
    if claimed == 1.0:
        return passes(program, tests, TOLERANCE, run_one)
    return not passes(program, tests, 1 / TOLERANCE, run_one)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return False
    return True


def _right(mode: str, expected: Any, output: bytes) -> bool:
    if mode == "stdin":
        return _lines(output) == _lines(expected.encode("utf-8", "surrogatepass"))
    try:
        return _equal(expected, flat_json.loads(output, parse_constant=_no_constant))
    except ValueError:
        return False


def _lines(output: bytes) -> list[bytes]:
    """Without line ends, trailing blanks and blank lines at the end."""
    lines = [line.rstrip() for line in output.replace(b"\r\n", b"\n").split(b"\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _equal(expected: Any, got: Any) -> bool:
    """JSON values, where 2 is 2.0 but true is not 1."""
    if isinstance(expected, bool) or isinstance(got, bool):
        return expected is got
    if isinstance(expected, float) or isinstance(got, float):
        numbers = isinstance(expected, int | float) and isinstance(got, int | float)
        try:
            return numbers and math.isclose(expected, got, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
        except OverflowError:  # an integer that no float holds
            return False
    if isinstance(expected, list) and isinstance(got, list):
        return len(expected) == len(got) and all(_equal(a, b) for a, b in zip(expected, got, strict=True))
    if isinstance(expected, dict) and isinstance(got, dict):
        return expected.keys() == got.keys() and all(_equal(value, got[key]) for key, value in expected.items())
    return type(expected) is type(got) and expected == got


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")
