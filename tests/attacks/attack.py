"""What an attack is: a worker that was modified to cheat, why, and the rejection that it deserves.

It describes only. The families of attacks are the other modules of this folder, what the checks find is
`tests.attacks.trial`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from rl.rollouts import Rollout
from tests.attacks.stage import Stage
from tests.verify.conftest import CLAIM, RULES
from verify.copies import NO_EARLIER, Earlier
from verify.rejection import SENTENCES
from verify.rules import Claim, Rules

Who = Literal["greedy", "lazy", "copier", "saboteur"]
"""Wants credit or reward that is not due; wants to compute less; lives on others' work; wants harm: a broken trainer, a
broken validator, or somebody else slashed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What reaches a validator, and the terms under which it judges."""

    content: Sequence[Rollout] | bytes | None
    """Rollouts to be written as they should be, the bytes of a file, or None: nobody serves it."""
    claim: Claim = CLAIM
    """As on the ledger. Its hash is the file's own where it is empty."""
    rules: Rules = RULES
    earlier: Earlier = NO_EARLIER


Make = Callable[[Stage], Offer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One cheat."""

    name: str
    who: Who
    story: str
    """One sentence: what the worker does, and what for."""
    code: str
    """Of the rejection, a key of `verify.rejection.SENTENCES`."""
    make: Make


@dataclass(frozen=True, slots=True)
class Family:
    """Attacks of one kind, in the order in which they are written down."""

    title: str
    attacks: list[Attack] = field(default_factory=list)

    def add(self, name: str, who: Who, code: str, story: str, make: Make) -> None:
        """One more. Raises ValueError if there is no such code, or the story is no sentence."""
        if code not in SENTENCES or not story.endswith("."):
            raise ValueError(f"{name}: a known code and a sentence are needed, not {code!r} and {story!r}")
        self.attacks.append(Attack(name=name, who=who, story=story, code=code, make=make))

    def by(self, who: Who, code: str) -> Callable[[Make], Make]:
        """The same of a function: its name is the attack's, its docstring the story."""

        def register(make: Make) -> Make:
            self.add(make.__name__.strip("_").replace("_", " "), who, code, " ".join(make.__doc__.split()), make)
            return make

        return register
