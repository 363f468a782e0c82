r"""The worth of a mathematical answer: 1.0 or 0.0, the same on every machine.

Three readings, each tried only where the one before it does not know: exactly (`rl.maths.exact`), as text, and
symbolically (`rl.maths.symbolic`, in a process that can be killed). What is beyond `rl.maths.bounds`, or takes more
function calls than `LIMITS` allows, is worth 0.0: both are properties of the text and the locked packages, not of the
machine. What breaks a limit that is a property of the machine (CPU time, memory) raises `NotGraded`: nothing follows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from rl.grading.grader import CallLimits, Grader, OverBudget
from rl.maths import exact
from rl.maths.answer import final_answer
from rl.maths.bounds import symbolic_fault

BUDGET = 1_000_000
"""Function calls of one comparison. Real answers took up to 530,000 (0.5 s); a million took 1 s."""
UNSURE = 0.1
"""The same comparison takes up to 0.15 % more or fewer calls in another of three processes, since some of Python's
sets are ordered by addresses. A validator tolerates either reward within 10 % of the budget."""
LIMITS = CallLimits(calls=round(BUDGET * (1 + UNSURE)), cpu_s=20, wall_s=120.0)
READ_AT_ONCE = 16
"""Gold answers read in one call: a fork each would cost more than the reading."""

Equal = Callable[[str, str], bool]
grader = Grader("rl.maths.symbolic:ask", LIMITS)


def grade(gold: str, completion: str) -> float:
    """1.0 if the completion's final answer is worth `gold`, in which `unusable` finds no fault. Raises NotGraded."""
    answer = final_answer(completion)
    return float(answer is not None and same_answer(gold, answer, equal_symbolic))


def agrees(gold: str, completion: str, claimed: float) -> bool:
    """Whether an honest machine can have graded `completion` as `claimed`. Raises NotGraded."""
    answer = final_answer(completion)
    if answer is None:
        return claimed == 0.0
    low, high = (same_answer(gold, answer, partial(equal_symbolic, budget=BUDGET * (1 + d))) for d in (-UNSURE, UNSURE))
    return claimed in (float(low), float(high))


def same_answer(gold: str, answer: str, equal: Equal) -> bool:
    """Whether two written answers are worth the same."""
    try:
        wanted, given = exact.read(gold), exact.read(answer)
        gold_text, answer_text = exact.clean(gold), exact.clean(answer)
    except exact.NoValue:
        return False
    if wanted is not None and given is not None:
        return exact.same(wanted, given)
    if gold_text.replace(" ", "") == answer_text.replace(" ", ""):
        return True
    if isinstance(wanted, exact.Word) and len(wanted.text) > 1 and "∞" not in wanted.text:
        return False
    if symbolic_fault(gold_text) or symbolic_fault(answer_text):
        return False
    return equal(gold_text, answer_text)


def equal_symbolic(gold: str, answer: str, budget: float = BUDGET) -> bool:
    """math-verify's word; False beyond the budget of calls. Raises NotGraded."""
    try:
        equal, calls = grader.count("equal", gold, answer)
    except OverBudget:
        return False
    return bool(equal) and calls <= budget


def unusable(golds: Sequence[str]) -> list[str | None]:
    """For each gold answer why nothing could be compared with it, or None."""
    faults: list[str | None] = []
    to_read: dict[int, str] = {}
    for place, gold in enumerate(golds):
        fault = None
        try:
            known, text = exact.read(gold), exact.clean(gold)
            if known is None and (fault := symbolic_fault(text)) is None:
                to_read[place] = text
        except exact.NoValue as none:
            fault = str(none)
        faults.append(fault)
    places = list(to_read)
    for start in range(0, len(places), READ_AT_ONCE):
        group = places[start : start + READ_AT_ONCE]
        for place, readable in zip(group, _readable([to_read[place] for place in group]), strict=True):
            faults[place] = None if readable else "math-verify cannot read it"
    return faults


def _readable(texts: list[str]) -> list[bool]:
    try:
        return [bool(known) for known in grader.call("readable", texts)]
    except OverBudget:
        return [False] if len(texts) == 1 else [known for text in texts for known in _readable([text])]
