"""How a command writes to the ledger: opens it with the wallet's account, and tells a refusal in words with its fix.

Decides which contract errors a person can cure, and how. What is not listed here is shown by its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from node.cli_options import ChainChoice, WalletChoice
from node.errors import UserError
from node.show import moment, tokens

FIXES = {
    "NotOwner": "use the wallet of the owner (`domain show`, `pool show`)",
    "NotPendingOwner": "the present owner must offer it to this wallet first (`transfer`)",
    "NotManager": "use the wallet that holds the pool's lease (`pool show`)",
    "NotPoolOwner": "use the wallet of the pool's owner (`pool show`)",
    "NotStaker": "use the wallet that registered the node (`stake show`)",
    "NotRegistered": "register the node first: intellect-node stake deposit",
    "AlreadyRegistered": "add to its stake instead: intellect-node stake deposit, without --binding",
    "BindingExpired": "let the node sign a new one: intellect-node wallet bind",
    "BindingNotByNode": "let the node's own wallet sign it: intellect-node wallet bind",
    "BindingWrongDeployment": "let the node sign it with this run's --config",
    "StakeTooLow": "deposit more, or ask for less (`stake show`)",
    "Unbonding": "wait until then; until then it can still answer for what the node did",
    "StakeUnderCase": "wait for the case to close (`explain`)",
    "ZeroAmount": "nothing is there to be moved; stake is first taken out by amount: `stake withdraw AMOUNT`",
    "WrongState": "see the pool's state with `pool show`",
    "StillOwing": "wait until then: submissions of the ended pool may still be judged",
    "MayNotAccuse": "use the wallet of the manager or of one of the pool's validators",
    "AlreadyOpen": "the same accusation is before the validators already (`explain`)",
    "AccusationPending": "wait for its outcome (`explain`): a node answers one accusation at a time",
    "MayNotAppeal": "use the wallet of the node, of its staker or of one of the pool's validators",
    "AppealTooLate": "the outcome stands",
    "UnknownDocket": "copy the id of the submission or accusation from `submissions` or `events`",
    "NoOpenCase": "nothing is left to decide (`explain`)",
    "StillOpen": "wait until then",
    "SlashAboveMinStake": "a slash burns at most the stake that members must have",
    "WindowAboveUnbonding": "choose a shorter --verdict or --challenge time",
    "NotActiveMember": "see who is a member with `pool members`",
    "ERC20InsufficientBalance": "send stake tokens to this wallet first",
}
MOMENTS = frozenset(("StillOwing", "AppealTooLate", "StillOpen", "Unbonding", "BindingExpired"))
AMOUNTS = frozenset(("StakeTooLow", "StakeUnderCase", "SlashAboveMinStake", "ERC20InsufficientBalance"))


@contextmanager
def writing(chain: ChainChoice, wallet: WalletChoice) -> Iterator[tuple[Any, Any]]:
    """The ledger with the wallet's account, and the run's pool. What goes wrong inside becomes a UserError."""
    from node.run_ledger import open_ledger

    ledger, pool = open_ledger(chain.config(), wallet.account(), None)
    try:
        with told():
            yield ledger, pool
    finally:
        ledger.close()


@contextmanager
def writing_without_pool(chain: ChainChoice, wallet: WalletChoice) -> Iterator[Any]:
    """The ledger with the wallet's account, where the config need not name a pool yet."""
    from ledger.client import Ledger
    from node.run_ledger import deployment_of

    config = chain.config()
    ledger = Ledger(config.ledger.rpc, deployment_of(config), wallet.account())
    try:
        with told():
            ledger.check()
            yield ledger
    finally:
        ledger.close()


@contextmanager
def told() -> Iterator[None]:
    """Ledger errors as UserErrors."""
    from ledger.errors import ChainUnavailable, InsufficientFunds, LedgerError, Reverted

    try:
        yield
    except ChainUnavailable as error:
        raise UserError(str(error), fix="start the chain, or name its address with --rpc URL") from error
    except InsufficientFunds as error:
        raise UserError(str(error), fix=f"send some ether to {error.address}") from error
    except Reverted as error:
        fix = FIXES.get(
            error.error_name,
            "see what the error means in contracts/src/interfaces, and who may do what in docs/protocol.md",
        )
        raise UserError(f"the ledger refuses: {refusal(error.error_name, error.arguments)}", fix=fix) from error
    except LedgerError as error:
        raise UserError(str(error), fix="cure what it says, then try again") from error


def refusal(name: str, arguments: tuple[Any, ...]) -> str:
    """A contract's error for people: times as dates, amounts in tokens."""
    if name == "Unbonding":
        return f"Unbonding: the stake of {arguments[0]} can be withdrawn from {moment(arguments[1])} on"
    if name == "WrongState":
        from ledger.types import PoolState

        return f"WrongState: the pool is {PoolState(arguments[0]).name.lower()}"
    shown = []
    for argument in arguments:
        if isinstance(argument, bytes):
            shown.append(f"0x{argument.hex()}")
        elif isinstance(argument, int) and name in MOMENTS:
            shown.append(moment(argument))
        elif isinstance(argument, int) and name in AMOUNTS:
            shown.append(f"{tokens(argument)} tokens")
        else:
            shown.append(str(argument))
    return f"{name}({', '.join(shown)})"


def offered(to: str) -> str:
    """What offering a pool or domain to this account has done: one offered to nobody is offered no more."""
    if int(to, 16) == 0:
        return "offered to nobody any more; its owner stays"
    return f"offered to {to}; it must accept"


def short_code(reason: str) -> str:
    """The reason, if the ledger can keep it. Raises UserError."""
    if not reason.isascii() or not reason.isprintable() or not 1 <= len(reason) <= 32:
        raise UserError(f"the reason {reason!r} does not fit", fix="use 1 to 32 ASCII characters", exit_code=2)
    return reason
