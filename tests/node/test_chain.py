"""Asking the ledger: silence is no answer, an endpoint's hiccup is no "no", and what the contract says is final."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import trio
import trio.testing

from ledger.errors import ChainBehind, ChainUnavailable, NotMined, Reverted, RpcError, WrongChain
from ledger.types import Bar, Member, Role
from node.chain import MAX_RPC_ERRORS, RETRY_LAST_S, on_chain
from node.membership import Admission, belongs, serves_workers

ME = "0x" + "1" * 40
AWAY = ChainUnavailable("http://127.0.0.1:1", "no answer")
BEHIND = ChainBehind("http://127.0.0.1:1", 9, 7)
OVERLOADED = RpcError("eth_call", "too many requests")


def member(*, active: bool) -> Member:
    return Member(
        address=ME, role=Role.RELAY, active=active, since_unix_s=0, epoch=0, used=0, bar=Bar.NONE
    )  # fmt: skip


@dataclass
class Ledger:
    """Has these faults first, and then the answer."""

    faults: list[Exception] = field(default_factory=list)
    active: bool = True
    asked: int = 0

    def member(self, pool_id: int, address: str) -> Member:
        self.asked += 1
        if self.faults:
            raise self.faults.pop(0)
        return member(active=self.active)

    def may_manage(self, pool_id: int, address: str) -> bool:
        return False


@pytest.mark.parametrize(
    "faults", [[AWAY] * 30, [OVERLOADED] * MAX_RPC_ERRORS, [NotMined("0x12", 60.0), AWAY], [BEHIND] * 30]
)
async def test_a_hiccup_of_the_endpoint_is_waited_out(
    faults: list[Exception], autojump_clock: trio.testing.MockClock
) -> None:
    ledger = Ledger([*faults])
    began = trio.current_time()
    assert await on_chain(ledger.member, 1, ME) == member(active=True)
    assert ledger.asked == len(faults) + 1
    assert trio.current_time() - began <= len(faults) * RETRY_LAST_S


@pytest.mark.parametrize("asks", [belongs, serves_workers])
@pytest.mark.parametrize("active", [True, False])
async def test_an_rpc_hiccup_does_not_read_as_not_a_member(
    asks: Callable[..., object], active: bool, autojump_clock: trio.testing.MockClock
) -> None:
    ledger = Ledger([AWAY, OVERLOADED, AWAY], active=active)
    assert await asks(ledger, 1, ME) is active  # type: ignore[misc]
    assert ledger.asked == 4


async def test_a_member_that_starts_during_an_outage_is_one_when_the_chain_is_back(
    autojump_clock: trio.testing.MockClock,
) -> None:
    ledger = Ledger([AWAY] * 20)
    admission = Admission(ledger, address=ME, pool_id=1, role=Role.RELAY)  # type: ignore[arg-type]
    await admission.wait()
    assert admission.joined


@pytest.mark.parametrize("final", [Reverted("UnknownPool"), WrongChain("chain id", 1, 2)])
async def test_what_the_ledger_says_is_final(final: Exception) -> None:
    ledger = Ledger([final, AWAY])
    with pytest.raises(type(final)):
        await on_chain(ledger.member, 1, ME)
    assert ledger.asked == 1


async def test_an_endpoint_that_only_errs_is_told(autojump_clock: trio.testing.MockClock) -> None:
    ledger = Ledger([OVERLOADED] * 100)
    with pytest.raises(RpcError, match="too many requests"):
        await on_chain(ledger.member, 1, ME)
    assert ledger.asked == MAX_RPC_ERRORS + 1
