"""Every way the ledger can fail its caller, each naming the fault and what would help.

Decides nothing and retries nothing: `ChainUnavailable` and `NotMined` may pass with time, the others will not.
"""

from __future__ import annotations

from urllib.parse import urlsplit


class LedgerError(Exception):
    """Base of all errors of this package."""


class ChainUnavailable(LedgerError):
    """The RPC endpoint did not answer; trying again later may help."""

    def __init__(self, url: str, cause: str) -> None:
        super().__init__(f"no chain at {shown_url(url)} ({cause}): is the node running and the --rpc URL right?")


class ChainBehind(ChainUnavailable):
    """The endpoint knows fewer blocks than were handled: one of several behind an address lags, or blocks went back."""

    def __init__(self, url: str, handled: int, found: int) -> None:
        LedgerError.__init__(
            self,
            f"the chain at {shown_url(url)} is at block {found}, where block {handled} was handled already: this "
            "endpoint lags behind, or the chain was set back; nothing is missed, it is waited for",
        )


class NotMined(LedgerError):
    """A transaction was sent and is still unmined; it stays in the queue and is settled by the next write."""

    def __init__(self, transaction_hash: str, waited_s: float) -> None:
        super().__init__(f"transaction {transaction_hash} not mined after {waited_s:.0f} s")
        self.transaction_hash = transaction_hash


class RpcError(LedgerError):
    """The endpoint answered with an error; `is_revert` where a contract refused, with `data` as the reason."""

    def __init__(self, method: str, message: str, data: bytes | None = None) -> None:
        super().__init__(f"{method}: {message}")
        self.message = message
        self.data = data or b""
        self.is_revert = data is not None or "revert" in message.lower()


class WrongChain(LedgerError):
    """The endpoint serves another chain, or another deployment, than the one expected."""

    def __init__(self, what: str, expected: object, found: object) -> None:
        super().__init__(f"wrong chain: {what} should be {expected}, found {found}; use this run's deployment file")
        self.expected = expected
        self.found = found


class InsufficientFunds(LedgerError):
    """The account cannot pay for gas and value."""

    def __init__(self, address: str, balance_wei: int) -> None:
        super().__init__(f"account {address} has {balance_wei} wei, too little for gas and value: send it some ether")
        self.address = address
        self.balance_wei = balance_wei


class Reverted(LedgerError):
    """The contract refused; `error_name` and `arguments` are those of the Solidity error."""

    def __init__(self, error_name: str, arguments: tuple[object, ...] = ()) -> None:
        super().__init__(f"refused by the contract: {error_name}{_shown(arguments)}")
        self.error_name = error_name
        self.arguments = arguments


class InvitesUsedUp(LedgerError):
    """All 256 invites of a member's epoch were used or cancelled; an ejection opens the next epoch."""


class DatabaseTooNew(LedgerError):
    """A newer version of this program wrote the file."""

    def __init__(self, path: str, found: int, known: int) -> None:
        super().__init__(
            f"{path} has version {found} of its tables, this program knows {known}: run the newer program again"
        )
        self.path = path


class DeploymentInvalid(LedgerError):
    """A deployment description lacks a field or holds one of the wrong form."""


class AnvilFailed(LedgerError):
    """The local development chain did not start."""


def shown_url(url: str) -> str:
    """Scheme, host and port: what else is in the URL of an endpoint may be a key."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _shown(arguments: tuple[object, ...]) -> str:
    shown = ", ".join(f"0x{part.hex()}" if isinstance(part, bytes) else str(part) for part in arguments)
    return f"({shown})"
