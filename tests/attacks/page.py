"""The page on attacks, from their trials: docs/attacks.md. Pure; `scripts/write_attack_matrix` writes it."""

from __future__ import annotations

from collections.abc import Sequence

from tests.attacks.library import FAMILIES, LIMITS
from tests.attacks.trial import Trial
from verify.verdict import CHECKS

ELSEWHERE: dict[str, tuple[tuple[str, str], ...]] = {
    "contracts/test/Runs.t.sol": (
        ("A thief records another's work under the same key first", "test_attack_copiedWorkKey"),
        ("A file is proven under another counter", "test_attack_aFileUnderAnotherCounter"),
    ),
    "contracts/test/Invites.t.sol": (
        ("Other addresses are tried for easier draws, without a stake", "test_unregisteredOrPoorNodesMayNotJoin"),
    ),
    "contracts/test/Members.t.sol": (
        ("A blacklisted worker comes back", "test_attack_blacklistedNodeOrStakerReturns"),
    ),
    "contracts/test/Cases.t.sol": (
        ("A cheat takes its stake out before the verdict", "test_attack_takingTheStakeOutBeforeTheVerdict"),
        ("Many cheats are to cost one stake", "test_attack_oneStakeForManyCheats"),
    ),
    "contracts/test/Votes.t.sol": (
        ("A bribed validator votes twice", "test_attack_twoVoicesOfOneValidator"),
        ("A lazy validator copies another's commitment", "test_attack_copyingAnothersCommitment"),
        (
            "A bribed validator changes its mind when it sees the others'",
            "test_attack_changingOnesMindAfterSeeingOthers",
        ),
        ("A validator reveals before a quorum has committed", "test_attack_revealingBeforeAQuorumCommitted"),
        ("A validator decides alone, undrawn", "test_attack_aloneButNotDrawnOrTooLate"),
    ),
    "contracts/test/Dockets.t.sol": (
        ("A validator judges itself or its own worker", "test_attack_judgingOneselfOrOnesOwnWorker"),
        ("Friends are let in after the work to judge it", "test_attack_validatorsLetInAfterTheWork"),
        ("Accusations are repeated until the panel is friendly", "test_attack_manyAccusationsToDrawAFriendlyPanel"),
        ("Strangers accuse honest workers", "test_attack_strangersWorkersAndTheBlacklistedAccuse"),
    ),
    "tests/node/test_handover.py": (
        (
            "A copier floods a relay to push the copied file out",
            "test_attack_a_copier_does_not_push_the_copied_file_out",
        ),
    ),
    "tests/node/test_judge.py": (
        ("A file ends the process that checks it", "test_a_file_that_ends_the_checks_is_given_up_and_slashes_nobody"),
        ("Work that nobody recorded is to be judged", "test_attack_work_that_nobody_recorded_is_not_judged"),
    ),
    "tests/rl/test_grading.py": (
        (
            "An answer that is run as code says what others' answers are worth",
            "test_attack_a_graded_call_does_not_answer_for_those_after_it",
        ),
        ("An answer that is run as code replies without end", "test_attack_a_reply_without_end_is_cut_off"),
    ),
    "tests/rl/test_maths.py": (
        (
            "Blanks after the word answer keep a validator busy",
            "test_attack_blanks_after_the_word_answer_hold_nobody_up",
        ),
    ),
    "tests/rl/test_sandbox.py": (
        ("Blanks after a code fence do the same", "test_attack_blanks_after_a_fence_hold_nobody_up"),
        ("A program looks for descriptors left open", "test_attack_no_descriptor_is_left_open_inside"),
    ),
    "tests/rl/test_parquet_pages.py": (
        ("A column of pages without number", "test_attack_pages_without_number_are_not_walked_through"),
    ),
    "tests/verify/test_verdict.py": (
        (
            "A text of megabytes is handed to the reward function",
            "test_attack_no_text_but_the_tokens_own_reaches_the_reward_function",
        ),
        (
            "An answer that cannot be scored hides forged tokens",
            "test_attack_an_answer_that_cannot_be_scored_hides_no_cheat",
        ),
    ),
    "tests/verify/test_copies.py": (
        (
            "A copied token is so unlikely that the check breaks",
            "test_attack_a_copied_token_that_is_next_to_impossible_breaks_no_check",
        ),
    ),
}
"""Attacks on what is not a check of a submission, by the file of their tests: what is tried, and the test."""


def render(trials: Sequence[Trial]) -> str:
    """The whole page, from a trial of each attack of the library."""
    by_name = {trial.attack.name: trial for trial in trials}
    alone = sum(_stands_alone(trial) for trial in trials)
    parts = [_HEAD.format(attacks=len(trials), checks=len(CHECKS), alone=alone), _by_check(trials)]
    for family in FAMILIES:
        rows = [_row(by_name[attack.name]) for attack in family.attacks]
        parts += [f"## {family.title}", _table(("cheat", "who", "carried by", "without it", "also found by"), rows)]
    parts += ["## What gets through", _GETS_THROUGH]
    parts.append(
        _table(("cheat", "why, and what bounds it"), [(f"{x.name}: {_clause(x.story)}", x.why) for x in LIMITS])
    )
    parts += ["## Attacks on other parts", _OTHER_PARTS]
    parts.append(
        _table(
            ("attack", "test"),
            [(story, f"`{path}`: `{name}`") for path, tests in ELSEWHERE.items() for story, name in tests],
        )
    )
    return "\n\n".join(parts) + "\n"


_HEAD = """# Attacks

Written by `scripts/write_attack_matrix`; a test holds it to what the checks do.

Each of the {attacks} cheats below is a small modified worker in `tests/attacks/`. It attacks the real checks, on a tiny
random policy: once with all {checks} of them, then with each single one switched off. The check without which the
outcome is another **carries** the attack. *Without it* says who catches the cheat then: the next check, or

- **nobody**: all other checks were made and found nothing. That check stands alone ({alone} attacks), and a fault in
  it is a hole;
- *barred*: the others found nothing, but those that take for granted what failed were not made. A check that bars the
  way keeps from them what they cannot read; they are not run on it even if it is switched off.

*Also found by* names all other checks that would have rejected the same submission. How surely subtle cheats are told
on a real model, as int8 weights, is in `verify/thresholds.py`; here they are among what gets through."""

_GETS_THROUGH = """No check finds these. The test that says so fails as soon as one does."""

_OTHER_PARTS = """What is no check of a submission is attacked where it is tested: the ledger's entries, the court with
its bribed and lazy validators, the relays, what grades answers, and what would leave a check unmade."""


def _by_check(trials: Sequence[Trial]) -> str:
    rows = []
    for check in CHECKS:
        carried = [trial for trial in trials if trial.carrier == check.name]
        alone = sum(_stands_alone(trial) for trial in carried)
        besides = sum(check.name in trial.found and trial.carrier != check.name for trial in trials)
        rows.append((f"`{check.name}`", str(len(carried)), str(alone), str(besides)))
    return _table(("check, in order", "attacks it carries", "of these alone", "finds besides"), rows)


def _row(trial: Trial) -> tuple[str, ...]:
    attack = trial.attack
    others = ", ".join(f"`{name}`" for name in trial.found if name != trial.carrier)
    return f"{attack.name}: {_clause(attack.story)}", attack.who, f"`{trial.carrier}`", _without(trial), others or "–"


def _without(trial: Trial) -> str:
    outcome = trial.without[trial.carrier]
    if outcome != "accepted":
        return f"`{outcome.split(': ')[1]}`"
    return "*barred*" if trial.bars_others else "**nobody**"


def _stands_alone(trial: Trial) -> bool:
    return trial.without[trial.carrier] == "accepted" and not trial.bars_others


def _clause(story: str) -> str:
    return story[0].lower() + story[1:].removesuffix(".")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)
