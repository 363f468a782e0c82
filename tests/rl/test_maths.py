"""Mathematical answers: every case that broke another grader, and what no answer may do to this one."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.grading.grader import CallLimits, Grader, NotGraded, OverBudget
from rl.maths import exact
from rl.maths import grade as grading
from rl.maths.answer import final_answer
from rl.maths.bounds import MAX_CHARS, symbolic_fault
from rl.maths.grade import BUDGET, agrees, equal_symbolic, grade, same_answer, unusable

CASES = [json.loads(line) for line in Path(__file__).with_name("math_cases.jsonl").read_text().splitlines()]


def never(gold: str, answer: str) -> bool:
    raise AssertionError(f"{gold!r} and {answer!r} need no symbols")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['gold']} {case['answer']}")
def test_every_case_gives_its_reward(case: dict[str, object]) -> None:
    gold, answer = str(case["gold"]), str(case["answer"])
    if case["reward"] is None:
        assert unusable([gold]) != [None]
    else:
        assert unusable([gold]) == [None]
        began = time.process_time()
        assert grade(gold, answer) == case["reward"]
        assert time.process_time() - began < 2


def test_a_thousand_gradings_at_once_give_the_same_as_one_by_one() -> None:
    usable = [case for case in CASES if case["reward"] is not None]
    many = (usable * 40)[:1000]
    with ThreadPoolExecutor(32) as pool:
        rewards = list(pool.map(lambda case: grade(case["gold"], case["answer"]), many))
    assert rewards == [case["reward"] for case in many]


EXACT = [
    ("50\\%", "50", True),
    ("50\\%", "0.5", True),
    ("0.5", "50\\%", True),
    ("50\\%", "5", False),
    ("(1,2]", "(1, 2]", True),
    ("(1,2]", "(1,2)", False),
    ("[1,2]", "(1,2)", False),
    ("(1,2)", "(2,1)", False),
    ("(1,2)", "1,2", True),
    ("1,2", "2,1", True),
    ("1,1,2", "1,2", False),
    ("\\{1,1,2\\}", "\\{2,1\\}", True),
    ("2 \\text{ and } 3", "3, 2", True),
    ("(-\\infty,2]\\cup[3,\\infty)", "[3, \\infty) \\cup (-\\infty, 2]", True),
    ("(-\\infty,2]", "(\\infty,2]", False),
    ("2\\frac12", "\\frac52", True),
    ("12,345", "12345", True),
    ("\\$1,000", "1000", True),
    ("\\$1,000.50", "1000.5", True),
    ("5\\text{ days}", "5 days", True),
    ("5\\text{ days}", "5\\text{ day}", True),
    ("5 \\text{ m}", "5 \\text{ cm}", False),
    ("90^\\circ", "90", True),
    ("90^{\\circ}", "90\\text{ degrees}", True),
    ("\\frac13", "0.333333", True),
    ("\\frac13", "0.33333", False),
    ("\\frac13", "0.333334", False),
    ("\\frac{1}{3000000}", "0.000000", False),
    ("0.3333333", "\\frac13", True),
    ("0.1", "0.1000001", False),
    ("2^{2024}", "4^{1012}", True),
    ("2^{2024}", "2^{2023}", False),
    ("-1/2", "−0.5", True),
    ("x \\in [1,2]", "[1,2]", True),
    ("A", "\\text{A}", True),
    ("A", "B", False),
    ("\\text{Tuesday}", "tuesday", True),
    ("\\text{no solution}", "\\text{No solution}", True),
    ("3", "\\frac{1}{0}", False),
    ("3", "100000!", False),
    ("3", "2^{99999999999}", False),
    ("3", "(" * 30 + "3" + ")" * 30, False),
    ("3", "9" * 100, False),
    ("3", ",".join("3" * 100), False),
    ("3", "", False),
    ("3", "$", False),
]


@pytest.mark.parametrize(("gold", "answer", "equal"), EXACT)
def test_exact_answers(gold: str, answer: str, equal: bool) -> None:
    symbolic = never if answer and answer != "$" else lambda gold, answer: False
    assert same_answer(gold, answer, symbolic) is equal


@pytest.mark.parametrize(
    ("gold", "answer", "equal"),
    [
        ("x^2+2x+1", "(x+1)(x+1)", True),
        ("x^2+2x+1", "(x+1)(x-1)", False),
        ("\\pi", "2\\pi/2", True),
        ("\\log_2 8", "3", True),
        ("\\sin(\\pi/6)x", "x/2", True),
        ("\\sqrt{2}", "1", False),
        ("\\begin{pmatrix}1\\\\2\\end{pmatrix}", "\\begin{pmatrix}1\\\\3\\end{pmatrix}", False),
    ],
)
def test_symbolic_answers(gold: str, answer: str, equal: bool) -> None:
    assert unusable([gold]) == [None]
    assert same_answer(gold, answer, equal_symbolic) is equal


BOMBS = [
    "9^{9^{9^{9}}}x",
    "9^{9^{9x}}",
    "2^9^9^9^9x",
    "((9^{9999})^{9999})x",
    "x^{--9999999999}2^{99999999}",
    "2^{x-x+9^{9}}",
    "(1000000!)x",
    "((10!)!)!x",
    "\\binom{10^9}{10^8}x",
    "e^{e^{e^{e^{e}}}}",
    "\\exp(\\exp(\\exp(\\exp(9))))x",
    "\\sum_{i=1}^{10^9}i",
    "\\int_0^1 x dx",
    "\\input{secrets}",
    "__import__('os').system('true')",
    "lambda: 0",
    "{" * 100 + "x",
    "x" * (MAX_CHARS + 1),
    "9" * 61 + "x",
    "x\x00",
    "√√√",
]


@pytest.mark.parametrize("bomb", BOMBS)
def test_what_could_grow_without_end_is_never_evaluated(bomb: str) -> None:
    assert symbolic_fault(bomb) is not None
    assert same_answer("x+1", bomb, never) is False


@pytest.mark.parametrize(
    "harmless", ["x^{10}+x^9+x^8+1", "e^{x^2+y^2}", "2^{2024}\\pi", "\\frac{(x+1)^{12}}{12}", "n!"]
)
def test_what_cannot_is(harmless: str) -> None:
    assert symbolic_fault(harmless) is None


def test_more_calls_than_allowed_are_worth_nothing_everywhere() -> None:
    """Not a time: the outcome is that of the text and the packages."""
    assert same_answer("x+y", "(x+y+z+w+v)^{50}-(x+y+z+w)^{49}", equal_symbolic) is False


@pytest.mark.parametrize(
    ("calls", "tolerated"),
    [(1, {1.0}), (BUDGET * 0.89, {1.0}), (BUDGET * 0.95, {0.0, 1.0}), (BUDGET * 1.05, {0.0, 1.0}), (None, {0.0})],
)
def test_at_the_edge_of_the_budget_either_reward_is_honest(
    monkeypatch: pytest.MonkeyPatch, calls: float | None, tolerated: set[float]
) -> None:
    def count(question: str, *arguments: str) -> tuple[bool, float]:
        if calls is None:
            raise OverBudget("over-budget", "")
        return True, calls

    monkeypatch.setattr(grading.grader, "count", count)
    assert {claimed for claimed in (0.0, 1.0) if agrees("x^2", "\\boxed{x^3}", claimed)} == tolerated


def test_without_an_answer_only_nothing_is_honest() -> None:
    assert agrees("5", "I do not know", 0.0)
    assert not agrees("5", "I do not know", 1.0)
    assert not agrees("5", "\\boxed{5}", 0.0)


def test_what_the_machine_could_not_do_is_no_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = Grader("tests.rl.grading_functions:misbehave", CallLimits(calls=0, cpu_s=5, wall_s=0.2))
    monkeypatch.setattr(grading, "grader", stuck)
    monkeypatch.setattr(stuck, "count", lambda question, *arguments: Grader.count(stuck, "sleep"))
    with pytest.raises(NotGraded, match="overran"):
        grade("x^2", "\\boxed{x^3}")
    stuck.close()


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("\\boxed{1} then \\boxed{2}", "2"),
        ("\\boxed{\\frac{1}{2}}", "\\frac{1}{2}"),
        ("\\boxed{\\{1,2\\}}", "\\{1,2\\}"),
        ("\\boxed {3}", "3"),
        ("\\boxed{3} and \\boxed{4", None),
        ("thinking…</think> \\boxed{5}", "5"),
        ("<think> \\boxed{5}", None),
        ("<think>a</think>\\boxed{1}<think>\\boxed{2}", None),
        ("The final answer is: $\\frac12$.", "$\\frac12$"),
        ("**Answer:** 7", "7"),
        ("it is 7", None),
        ("\\boxed{" + "1" * 401 + "}", None),
    ],
)
def test_where_the_answer_stands(text: str, answer: str | None) -> None:
    assert final_answer(text) == answer


@pytest.mark.parametrize(
    "part", ["\\boxed{", "answer is ", "{", "\\", "<think>", "\\text{", "1,", "final answer answer "]
)
def test_long_completions_take_no_long_time(part: str) -> None:
    began = time.process_time()
    assert grade("17", part * 30_000) == 0.0
    assert time.process_time() - began < 2


@pytest.mark.parametrize("said", ["the answer", "Final answer", "answer is", "answer:"])
@pytest.mark.parametrize("blank", [" ", "\n"])
def test_attack_blanks_after_the_word_answer_hold_nobody_up(said: str, blank: str) -> None:
    """A policy that runs into newlines does it, too: 4,096 of them would have taken the better part of an hour."""
    began = time.process_time()
    assert grade("17", said + blank * 4_096) == 0.0
    assert time.process_time() - began < 1


@settings(max_examples=300, deadline=None)
@given(st.text("0123456789+-*/^!.,(){}[]\\frac sqrt%$x", max_size=60))
def test_reading_ends_in_a_value_or_a_fault(text: str) -> None:
    try:
        value = exact.read(text)
    except exact.NoValue:
        return
    assert value is None or exact.same(value, value)
    symbolic_fault(text)


@given(st.fractions(), st.fractions())
def test_fractions_are_compared_exactly(one: Fraction, other: Fraction) -> None:
    def latex(value: Fraction) -> str:
        return f"\\frac{{{value.numerator}}}{{{value.denominator}}}"

    assert same_answer(latex(one), latex(other), never) is (one == other)
