"""All attacks, family by family, in the order in which a submission is checked."""

from __future__ import annotations

from tests.attacks.attack import Attack, Family
from tests.attacks.copies import COPIES
from tests.attacks.files import FILES
from tests.attacks.lengths import LENGTHS
from tests.attacks.limits import LIMITS
from tests.attacks.logprobs import LOGPROBS
from tests.attacks.problems import PROBLEMS
from tests.attacks.proofs import PROOFS
from tests.attacks.rewards import REWARDS
from tests.attacks.sampling import SAMPLING, UNSEEDED_SAMPLING
from tests.attacks.shape import SHAPE
from tests.attacks.timing import TIMING
from tests.attacks.weights import WEIGHTS

__all__ = ["ATTACKS", "FAMILIES", "LIMITS"]

FAMILIES: tuple[Family, ...] = (
    TIMING, FILES, SHAPE, PROBLEMS, LENGTHS, REWARDS, PROOFS, WEIGHTS, SAMPLING, UNSEEDED_SAMPLING, LOGPROBS, COPIES,
)  # fmt: skip
ATTACKS: tuple[Attack, ...] = tuple(attack for family in FAMILIES for attack in family.attacks)
