"""Programs of strangers: each ends within its limits, is worth nothing, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from rl.grading.grader import NotGraded
from rl.sandbox import bubblewrap, syscall_filter
from rl.sandbox import code as grading
from rl.sandbox import run as sandbox
from rl.sandbox.code import Case, Tests, TestsInvalid, agrees, grade, parse_tests, passes, program_of
from rl.sandbox.run import PYTHON, Ended, Limits, Program, SandboxUnavailable, run
from tests.rl.bombs import ENDLESS, LEFT, QUICK, SNOOPS

ROOT = Path(__file__).resolve().parents[2]
MEANS = [means for means, fault in sandbox.available().items() if fault is None]
SUM = {
    "stdin": Tests(mode="stdin", function="", cases=(Case(given="2 3\n", expected="5\n"),), budget_s=4.0),
    "function": Tests(mode="function", function="solve", cases=(Case(given="[2, 3]", expected=5),), budget_s=4.0),
}
RIGHT = {"stdin": "a, b = map(int, input().split())\nprint(a + b)", "function": "def solve(a, b): return a + b"}
QUICK_LIMITS = Limits(cpu_s=5.0, wall_s=20.0)


def test_this_machine_offers_a_sandbox() -> None:
    """Without one none of the tests below would say anything."""
    assert MEANS


def fenced(program: str) -> str:
    return f"```python\n{program}\n```"


MARK = f"run-by-{os.getpid()}"


@pytest.fixture(autouse=True)
def _nothing_is_left_running() -> Iterator[None]:
    """Neither below this process nor anywhere else: a program's own children keep its command line."""
    yield
    ours = [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]
    assert [child.pid for child in ours if "rl.sandbox.supervisor" in child.cmdline()] == []
    marked = [process.pid for process in psutil.process_iter(["cmdline"]) if MARK in (process.info["cmdline"] or [])]
    assert marked == []


def short(program: Program, limits: Limits) -> Ended:
    """As `run`, with less time, so that what would not end is seen to be ended soon."""
    marked = Program(argv=(*program.argv, MARK), files=program.files, stdin=program.stdin)
    return run(marked, Limits(cpu_s=0.4, wall_s=1.2))


@pytest.mark.parametrize("mode", ["stdin", "function"])
def test_a_right_program_is_worth_one(mode: str) -> None:
    assert grade(SUM[mode], "<think>```python\nno\n```</think>" + fenced(RIGHT[mode])) == 1.0
    assert agrees(SUM[mode], fenced(RIGHT[mode]), 1.0)
    assert not agrees(SUM[mode], fenced(RIGHT[mode]), 0.0)


@pytest.mark.parametrize("name", ENDLESS)
def test_what_would_never_end_is_ended(name: str) -> None:
    began = time.monotonic()
    assert not passes(ENDLESS[name], SUM["stdin"], run_one=short)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("mode", ["stdin", "function"])
@pytest.mark.parametrize("name", QUICK)
def test_a_bomb_is_worth_nothing(name: str, mode: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        program = QUICK[name].replace("{port}", str(server.getsockname()[1]))
        assert not passes(program, SUM[mode], run_one=short)
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize("name", SNOOPS)
def test_what_is_outside_is_neither_read_nor_written(name: str, tmp_path: Path) -> None:
    secret, package = tmp_path / "tests.json", ROOT / "rl" / "__init__.py"
    secret.write_text("the expected output")
    before = package.read_bytes()
    program = SNOOPS[name].replace("{secret!r}", repr(str(secret))).replace("{package!r}", repr(str(package)))
    ended = run(Program(argv=(*PYTHON, "/box/a.py"), files={"a.py": program}), QUICK_LIMITS)
    assert ended.exit_code != 0
    assert ended.output == b""
    assert package.read_bytes() == before
    assert [path for path in LEFT if os.access(path, os.F_OK)] == []


@pytest.mark.parametrize("means", MEANS)
def test_each_means_gives_the_same(means: str) -> None:
    look = (
        "import os\nprint(os.getuid(), os.getpid() < 10, sorted(os.listdir('/dev')), os.listdir('/box'), os.urandom(4))"
    )
    ended = run(Program(argv=(*PYTHON, "/box/a.py"), files={"a.py": look}), QUICK_LIMITS, means)
    devices = ["full", "null", "random", "urandom", "zero"]
    assert ended.output.decode() == f"65534 True {devices} ['a.py'] {bytes(4)}\n"


OPEN = """
import os
for number in range(64):
    try:
        os.fstat(number)
        print(number)
    except OSError:
        pass
"""


@pytest.mark.parametrize("means", MEANS)
def test_attack_no_descriptor_is_left_open_inside(means: str) -> None:
    """One of the supervisor's own was: memory that no limit counts, with the whole order in it."""
    ended = run(Program(argv=(*PYTHON, "/box/a.py"), files={"a.py": OPEN}), QUICK_LIMITS, means)
    assert ended.output.decode().split() == ["0", "1", "2"]


def test_a_program_does_the_same_every_time() -> None:
    """Hashes, addresses and random numbers: what a worker saw pass must pass at its validator."""
    program = (
        "import random\nprint(random.random(), hash('a'), id(object()), {object(): 1, 'b': 2}, list({'x', 'y', 'z'}))"
    )
    runs = [run(Program(argv=(*PYTHON, "/box/a.py"), files={"a.py": program}), QUICK_LIMITS).output for _ in range(3)]
    assert runs[0]
    assert len(set(runs)) == 1


def test_runs_beside_each_other_do_not_meet() -> None:
    program = Program(
        argv=(*PYTHON, "/box/a.py"), files={"a.py": "import os\nopen('x', 'x').write('1')\nprint(input())"}
    )

    def one(number: int) -> bytes:
        return run(Program(argv=program.argv, files=program.files, stdin=str(number)), Limits()).output

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(one, range(8))) == [f"{number}\n".encode() for number in range(8)]


def test_a_run_ends_with_the_process_that_asked_for_it() -> None:
    """SIGKILL leaves it no time to clean up."""
    asking = (
        "from rl.sandbox.run import *\n"
        "run(Program(argv=(*PYTHON, '/box/a.py'), files={'a.py': 'import time; time.sleep(3600)'}), Limits())"
    )
    asker = subprocess.Popen([sys.executable, "-c", asking], cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)})
    until = time.monotonic() + 30
    family: list[psutil.Process] = []
    try:
        while len(family) < 3 and time.monotonic() < until:  # supervisor, process 1 of the sandbox, the program
            family = psutil.Process(asker.pid).children(recursive=True)
    finally:
        asker.send_signal(signal.SIGKILL)
        asker.wait()
    assert len(family) >= 3
    _, alive = psutil.wait_procs(family, timeout=20)
    assert alive == []


def test_one_wrong_test_of_eleven_is_worth_nothing() -> None:
    cases = tuple(Case(given=f"{n}\n", expected=f"{n}\n") for n in range(11))
    tests = Tests(mode="stdin", function="", cases=cases, budget_s=5.0)
    assert not passes("n = int(input())\nprint(n if n < 10 else 0)", tests)
    assert passes("n = int(input())\nprint(n if n < 10 else 0)", replace(tests, cases=cases[:3]))


def ended(output: bytes = b"", *, how: str = "exited", exit_code: int = 0, cpu_s: float = 0.1) -> Ended:
    return Ended(how=how, exit_code=exit_code, output=output, cpu_s=cpu_s, wall_s=cpu_s)  # type: ignore[arg-type]


def test_the_budget_is_the_problems_and_not_the_tests() -> None:
    cases = tuple(Case(given="", expected="1") for _ in range(50))
    tests = Tests(mode="stdin", function="", cases=cases, budget_s=1.0)
    seen: list[float] = []

    def slow(program: Program, limits: Limits) -> Ended:
        seen.append(limits.cpu_s)
        return ended(b"1", cpu_s=0.3)

    assert not passes("x", tests, run_one=slow)
    assert seen == pytest.approx([1.0, 0.7, 0.4, 0.1])


@pytest.mark.parametrize(("needed_s", "tolerated"), [(0.2, {1.0}), (0.5, {0.0, 1.0}), (3.9, {0.0, 1.0}), (5.0, {0.0})])
def test_near_the_budget_either_reward_is_honest(needed_s: float, tolerated: set[float]) -> None:
    """A worker may have a machine four times faster or slower than the validator's."""
    tests = Tests(mode="stdin", function="", cases=(Case(given="", expected="1"),), budget_s=1.0)

    def at_this_speed(program: Program, limits: Limits) -> Ended:
        return ended(b"1", cpu_s=needed_s) if needed_s < limits.cpu_s else ended(how="cpu", exit_code=-9)

    honest = {claimed for claimed in (0.0, 1.0) if agrees(tests, fenced("x"), claimed, at_this_speed)}
    assert honest == tolerated
    assert not agrees(tests, fenced("x"), 0.5, at_this_speed)
    assert agrees(tests, "no program", 0.0, at_this_speed)
    assert not agrees(tests, "no program", 1.0, at_this_speed)


@pytest.mark.parametrize(
    ("expected", "output", "right"),
    [
        ("5\n6\n", b"5  \r\n6\r\n\r\n", True),
        ("5", b" 5", False),
        ("5", b"5\n6", False),
        ("a b", b"a  b", False),
        ("", b"\n", True),
        ("5", b"\xff\xfe", False),
    ],
)
def test_printed_lines(expected: str, output: bytes, right: bool) -> None:
    assert grading._right("stdin", expected, output) is right


@pytest.mark.parametrize(
    ("expected", "output", "right"),
    [
        (5, b"5", True),
        (5, b"5.0", True),
        (1, b"true", False),
        (True, b"true", True),
        (True, b"1", False),
        (0.3, b"0.30000000000000004", True),
        (0.3, b"0.3001", False),
        ([1, [2, "a"]], b'[1, [2, "a"]]', True),
        ([1, 2], b"[2, 1]", False),
        ([1, 2], b"[1, 2, 3]", False),
        ({"a": None}, b'{"a": null}', True),
        ({"a": 1}, b'{"a": 1, "b": 2}', False),
        (None, b"null", True),
        (None, b"", False),
        (0, b"NaN", False),
        (1e308, b"1" * 400, False),
        (0, b"[" * 100_000, False),
        (0, b"9" * 10_000, False),
    ],
)
def test_returned_values(expected: object, output: bytes, right: bool) -> None:
    assert grading._right("function", expected, output) is right


@pytest.mark.parametrize(
    ("info", "fault"),
    [
        ({}, "unreadable"),
        ({"tests": "[]"}, "1 to 200"),
        ({"tests": "{}"}, "1 to 200"),
        ({"tests": "[1]"}, "each test"),
        ({"tests": '[{"input": 1, "output": ""}]'}, "text"),
        ({"tests": '[{"input": "", "output": " "}]'}, "does nothing"),
        ({"tests": '[{"input": "", "output": "1"}]', "mode": "magic"}, "mode"),
        ({"tests": '[{"input": [1], "output": 1}]', "mode": "function"}, "no name"),
        ({"tests": '[{"input": 1, "output": 1}]', "mode": "function", "function": "f"}, "list of its arguments"),
        ({"tests": '[{"input": "", "output": "1"}]', "budget_s": "1e9"}, "budget_s"),
        ({"tests": '[{"input": "", "output": "1"}]', "budget_s": "nan"}, "budget_s"),
        ({"tests": "[" * 100_000}, "unreadable"),
    ],
)
def test_a_problem_without_usable_tests_is_invalid(info: dict[str, str], fault: str) -> None:
    with pytest.raises(TestsInvalid, match=fault):
        parse_tests(info)


def test_tests_are_read() -> None:
    tests = parse_tests({"tests": '[{"input": [1], "output": [2]}]', "mode": "function", "function": "f"})
    assert tests == Tests(mode="function", function="f", cases=(Case(given="[1]", expected=[2]),), budget_s=10.0)


@pytest.mark.parametrize(
    ("text", "program"),
    [
        ("```python\na\n```\n```\nb\n```", "b\n"),
        ("<think>```\na\n```</think>", None),
        ("```python\na", None),
        ("", None),
        ("```py\n" + "a" * 70_000 + "\n```", None),
    ],
)
def test_which_program_is_meant(text: str, program: str | None) -> None:
    assert program_of(text) == program


@pytest.mark.parametrize("text", ["```" + " " * 60_000, "```python" + "\t" * 60_000, "``` " * 30_000])
def test_attack_blanks_after_a_fence_hold_nobody_up(text: str) -> None:
    began = time.process_time()
    assert program_of(text) is None
    assert time.process_time() - began < 1


def test_without_a_sandbox_no_program_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"bwrap": "not installed", "namespaces": "clone with new namespaces: Operation not permitted"}
    monkeypatch.setattr(sandbox, "available", lambda: found)
    with pytest.raises(SandboxUnavailable, match=r"Operation not permitted.*max_user_namespaces"):
        grade(SUM["stdin"], fenced(RIGHT["stdin"]))


def test_what_the_kernel_refuses_is_a_fault_and_no_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user namespace that may hold no other: what a container without privileges looks like."""
    script = (
        "import ctypes, pathlib\n"
        "assert ctypes.CDLL(None).unshare(0x10000000) == 0\n"
        "pathlib.Path('/proc/sys/user/max_user_namespaces').write_text('0')\n"
        "from rl.sandbox.run import *\n"
        "print(fault_of(NAMESPACES))"
    )
    said = subprocess.run(
        ["unshare", "--user", "--map-root-user", sys.executable, "-c", script],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert "could not be made" in said.stdout + said.stderr


def test_an_ordinary_user_has_the_sandbox_too() -> None:
    """As uid 1000 of a namespace whose real user may be root: the kernel then counts no processes, and the probe says
    so; every other part of the sandbox must stand."""
    said = subprocess.run(
        ["unshare", "--user", "--map-user=1000", "--map-group=1000", sys.executable, "-c",
         "import os; from rl.sandbox.run import *; print(os.geteuid(), fault_of(NAMESPACES))"],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert said.stdout.strip() in ("1000 None", "1000 may start 64 processes of 8")


def test_a_supervisor_that_says_nothing_is_no_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "ROOT", Path("/nonexistent"))
    with pytest.raises(NotGraded, match=r"without a word|did not end"):
        run(Program(argv=PYTHON), QUICK_LIMITS, "namespaces")


def test_both_means_show_the_same_and_hide_the_rest() -> None:
    words = bubblewrap.command("/usr/bin/bwrap", ["python"], box_bytes=1, code_folder="/code", info=9)
    assert {"--unshare-all", "--die-with-parent", "--as-pid-1", "--clearenv"} <= set(words)
    binds = [words[place + 1] for place, word in enumerate(words) if word in ("--bind", "--dev-bind")]
    assert all(source.startswith("/dev/") for source in binds)
    assert "--proc" not in words
    assert words[-2:] == ["--", "python"]


def test_the_filter_is_whole_steps_and_jumps_stay_inside() -> None:
    steps = syscall_filter.build()
    count = len(steps) // 8
    assert len(steps) % 8 == 0
    assert count < 4096
    for place in range(count):
        code, if_true, if_false = steps[8 * place], steps[8 * place + 2], steps[8 * place + 3]
        if code & 7 == 5:
            assert place + 1 + max(if_true, if_false) < count
