"""The grading process: every end that a call can come to, and none of them a reward that nobody meant."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator

import pytest

from rl.grading.grader import CallLimits, Grader, NotGraded, OverBudget
from tests.rl.grading_functions import WRITTEN

TARGET = "tests.rl.grading_functions:misbehave"


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    grader = Grader(TARGET, CallLimits(calls=50_000, cpu_s=1, wall_s=3.0))
    yield grader
    grader.close()


def test_a_value_comes_back(grader: Grader) -> None:
    assert grader.call("double", 21) == 42


@pytest.mark.parametrize(
    ("how", "kind"),
    [
        ("raise", "raised"),
        ("exit", "raised"),
        ("memory", "raised"),
        ("unspeakable", "raised"),
        ("vanish", "died"),
        ("killed", "died"),
        ("spin", "overran"),
        ("sleep", "overran"),
    ],
)
def test_no_value_is_no_reward(grader: Grader, how: str, kind: str) -> None:
    with pytest.raises(NotGraded) as caught:
        grader.call(how)
    assert caught.value.kind == kind
    assert grader.call("double", 4) == 8
    assert grader.started == 1


@pytest.mark.parametrize("how", ["write a file", "open a socket", "start a program", "signal its parent"])
def test_it_can_touch_nothing(grader: Grader, how: str) -> None:
    """A library that evaluates a part of an answer must not thereby give this machine away."""
    with pytest.raises(NotGraded, match=r"PermissionError|Operation not permitted"):
        grader.call(how)
    assert not os.path.exists(WRITTEN)
    assert grader.call("read a file") is True


def test_what_needs_confining_is_not_graded_without(monkeypatch: pytest.MonkeyPatch) -> None:
    child = (
        "import rl.grading.confine as c, runpy; c.confine = lambda: False; "
        "runpy.run_module('rl.grading.child', run_name='__main__')"
    )
    limits = CallLimits(calls=0, cpu_s=1, wall_s=3.0, confined=True)
    real = subprocess.Popen

    def unconfined(argv: list[str], **options: object) -> subprocess.Popen[bytes]:
        return real([*argv[:3], "-c", child, *argv[5:]], **options)

    monkeypatch.setattr(subprocess, "Popen", unconfined)
    fresh = Grader(TARGET, limits)
    with pytest.raises(NotGraded, match="no filter of system calls"):
        fresh.call("double", 1)
    fresh.close()


def test_a_budget_of_calls_cannot_be_caught_away(grader: Grader) -> None:
    with pytest.raises(OverBudget):
        grader.call("calls")


def test_what_it_prints_is_no_reply(grader: Grader) -> None:
    assert grader.call("print") == len('{"value": 7}\n')


def test_attack_a_graded_call_does_not_answer_for_those_after_it(grader: Grader) -> None:
    """What an answer is made to run must not decide what somebody else's answer is worth."""
    with pytest.raises(NotGraded):
        grader.call("forge replies")
    assert [grader.call("double", number) for number in range(3)] == [0, 2, 4]


def test_attack_a_reply_without_end_is_cut_off(grader: Grader) -> None:
    """It would fill the grading process's memory for as long as the call may take."""
    began = time.monotonic()
    with pytest.raises(NotGraded):
        grader.call("flood")
    assert time.monotonic() - began < 2
    assert grader.call("double", 4) == 8


def test_each_call_begins_from_the_same_memory(grader: Grader) -> None:
    assert [grader.call("remember", number) for number in range(3)] == [1, 1, 1]


def test_it_sees_no_secret(grader: Grader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WALLET_PASSWORD", "x")
    fresh = Grader(TARGET, CallLimits(calls=0, cpu_s=1, wall_s=3.0))
    assert "WALLET_PASSWORD" not in fresh.call("environment")
    fresh.close()


def test_many_threads_at_once_are_answered_each_its_own(grader: Grader) -> None:
    answers: dict[int, object] = {}
    threads = [
        threading.Thread(target=lambda n=number: answers.update({n: grader.call("double", n)})) for number in range(40)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {number: 2 * number for number in range(40)}


def test_a_killed_process_is_replaced(grader: Grader) -> None:
    grader.call("double", 1)
    assert grader._process is not None
    os.kill(grader._process.pid, signal.SIGKILL)
    assert grader.call("double", 3) == 6
    assert grader.started == 2


def test_closing_leaves_no_process() -> None:
    fresh = Grader(TARGET, CallLimits(calls=0, cpu_s=5, wall_s=3.0))
    fresh.call("double", 1)
    assert fresh._process is not None
    pid = fresh._process.pid
    fresh.close()
    with pytest.raises(ProcessLookupError):
        os.killpg(pid, 0)


def test_a_function_that_is_not_there_is_said() -> None:
    with pytest.raises(NotGraded, match="cannot be imported"):
        Grader("tests.rl.grading_functions:absent", CallLimits(calls=0, cpu_s=1, wall_s=1.0)).call()


def test_waiting_in_the_queue_is_not_a_wrong_answer() -> None:
    """The wall limit is shorter than the queue: it must count from a call's own beginning."""
    grader = Grader(TARGET, CallLimits(calls=0, cpu_s=5, wall_s=0.5))
    outcomes: list[object] = []

    def one() -> None:
        try:
            outcomes.append(grader.call("sleep"))
        except NotGraded as fault:
            outcomes.append(fault.kind)

    grader.call("double", 1)
    began = time.monotonic()
    threads = [threading.Thread(target=one) for _ in range(3)]
    threads += [threading.Thread(target=lambda: outcomes.append(grader.call("double", 5)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    grader.close()
    assert time.monotonic() - began > 0.5 * 3
    assert sorted(map(str, outcomes)) == ["10", "overran", "overran", "overran"]
