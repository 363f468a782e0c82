"""One stage for all attacks, and each attack tried once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.attacks.attack import Attack
from tests.attacks.stage import Stage, open_stage
from tests.attacks.trial import Trial, try_out


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return open_stage(tmp_path_factory.mktemp("stage"))


@pytest.fixture(scope="session")
def trial_of(stage: Stage) -> Callable[[Attack], Trial]:
    tried: dict[str, Trial] = {}

    def trial(attack: Attack) -> Trial:
        if attack.name not in tried:
            tried[attack.name] = try_out(stage, attack)
        return tried[attack.name]

    return trial
