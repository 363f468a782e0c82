"""The options that name a pool's terms, and whether they go together.

Decides their spelling and defaults. Amounts are tokens, kept as wei; times are seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from node.cli_options import TOKENS, options
from node.errors import UserError
from node.show import tokens

if TYPE_CHECKING:
    from ledger.types import Terms

SECONDS = click.IntRange(1, 2**32 - 1)


def _option(name: str, kind: click.ParamType, default: float | str, help_text: str) -> Any:
    return click.option(name, type=kind, default=default, show_default=True, help=help_text)


terms_options = options(
    _option("--min-stake", TOKENS, "1", "Tokens that a member must hold at stake."),
    _option("--slash", TOKENS, "1", "Tokens burnt by a rejection, at most --min-stake."),
    _option("--unit-price", TOKENS, "0", "Tokens paid for a unit of verified work (a generated token)."),
    _option("--member-limit", click.IntRange(1, 2**32 - 1), 10_000, "Most members at once."),
    _option("--quorum", click.IntRange(1, 254), 1, "Validators that must agree on a verdict."),
    click.option(
        "--panel", type=click.IntRange(1, 255), help="Validators drawn at first for each.  [default: as --quorum]"
    ),
    _option("--round", SECONDS, 60, "Seconds until twice as many validators are drawn."),
    _option("--verdict", SECONDS, 86_400, "Seconds after which nobody can be slashed for a submission any more."),
    _option("--challenge", SECONDS, 3_600, "Seconds to appeal against a rejection, and again to judge the appeal."),
    _option("--lease", SECONDS, 600, "Seconds for which a trainer that falls silent stays the manager."),
    click.option("--requirements", default="", help="Where what a member's machine must be is described (a URI)."),
)


def check_terms(terms: Mapping[str, Any]) -> None:
    """Raise UserError where the options contradict each other."""
    if terms["slash"] > terms["min_stake"]:
        raise UserError(
            f"--slash {tokens(terms['slash'])} is more than --min-stake {tokens(terms['min_stake'])}",
            fix="a rejection burns at most the stake",
            exit_code=2,
        )
    if terms["panel"] is not None and terms["panel"] < terms["quorum"]:
        raise UserError(
            f"--panel {terms['panel']} is less than --quorum {terms['quorum']}",
            fix="draw at least as many validators as must agree",
            exit_code=2,
        )


def terms_of(terms: Mapping[str, Any]) -> Terms:
    """The options as the contract's terms."""
    from ledger.types import Terms

    return Terms(
        min_stake_wei=terms["min_stake"],
        slash_wei=terms["slash"],
        unit_price_wei=terms["unit_price"],
        member_limit=terms["member_limit"],
        quorum=terms["quorum"],
        panel=terms["panel"] or terms["quorum"],
        round_s=terms["round"],
        verdict_s=terms["verdict"],
        challenge_s=terms["challenge"],
        lease_s=terms["lease"],
        requirements_uri=terms["requirements"],
    )
