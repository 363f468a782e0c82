"""Who calls, when, and how a call is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

NOBODY = "0x0000000000000000000000000000000000000000"


class Refused(Exception):
    """What a contract would revert with; the argument is the Solidity error's name."""

    @property
    def error_name(self) -> str:
        return self.args[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The transaction: its sender, and the time (seconds) and number of the block that it is mined in."""

    sender: str
    now_s: int
    block: int
    seed_of: Callable[[bytes, int], bytes]
    """(docket id, seed block) → what `Court._seedOf` makes of that block's hash."""


def refuse_if(condition: object, error_name: str) -> None:
    if condition:
        raise Refused(error_name)
