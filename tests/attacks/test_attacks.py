"""Every attack is caught for the right reason, by one check, and the page says so.

The page's test is in this file so that attacks are tried once where files of tests are dealt out to processes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.attacks.attack import Attack
from tests.attacks.library import ATTACKS, LIMITS
from tests.attacks.limits import Limit
from tests.attacks.page import ELSEWHERE, render
from tests.attacks.stage import Stage
from tests.attacks.trial import Trial, outcome_of
from verify.rejection import SENTENCES, UNPUNISHED

ROOT = Path(__file__).resolve().parents[2]
TrialOf = Callable[[Attack], Trial]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_attack(trial_of: TrialOf, attack: Attack) -> None:
    trial = trial_of(attack)
    outcome = "late" if attack.code in UNPUNISHED else "rejected"
    assert trial.outcome == f"{outcome}: {attack.code}"
    assert trial.carrier == attack.code
    assert trial.found[0] == attack.code


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.name)
def test_what_gets_through(stage: Stage, limit: Limit) -> None:
    """The page admits these; once a check catches one of them, it becomes an attack."""
    assert outcome_of(stage, limit.make(stage)) == "accepted"


def test_every_reason_has_its_attack() -> None:
    assert {attack.code for attack in ATTACKS} == set(SENTENCES)
    assert {code for code in SENTENCES if "no punishment" in SENTENCES[code].lower()} == UNPUNISHED


def test_names_and_stories_are_of_one_attack_each() -> None:
    named = Counter(attack.name for attack in ATTACKS)
    assert [name for name, times in named.items() if times > 1] == []
    assert len(ATTACKS) >= 60


def test_the_page_is_the_current_one(trial_of: TrialOf) -> None:
    page = (ROOT / "docs" / "attacks.md").read_text()
    assert page == render([trial_of(attack) for attack in ATTACKS]), "run scripts/write_attack_matrix"


@pytest.mark.parametrize(("path", "name"), [(path, name) for path, tests in ELSEWHERE.items() for _, name in tests])
def test_attacks_on_other_parts_are_where_the_page_says(path: str, name: str) -> None:
    assert re.search(rf"\b(?:def|function) {name}\(", (ROOT / path).read_text())
