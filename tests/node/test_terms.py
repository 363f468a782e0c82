"""What a pool asks and threatens, in words."""

from __future__ import annotations

import dataclasses

from ledger.types import UNBEGUN_LEASE_UNIX_S, Node, Pool, PoolState, Terms
from node.terms import own_stake_told, terms_told, weaknesses

TOKEN = 10**18
OWNER, MANAGER, NODE, STAKER = ("0x" + digit * 40 for digit in "1234")
TERMS = Terms(
    min_stake_wei=100 * TOKEN, slash_wei=40 * TOKEN, unit_price_wei=TOKEN // 1000, quorum=2, panel=3, round_s=60,
    verdict_s=86_400, challenge_s=3_600, lease_s=300, requirements_uri="https://example.org/needs.toml",
)  # fmt: skip
POOL = Pool(
    pool_id=7, domain_id=1, owner=OWNER, pending_owner="0x" + "0" * 40, state=PoolState.ACTIVE, joins_paused=False,
    ended_unix_s=0, manager=MANAGER, epoch=3, lease_expires_unix_s=1_090, terms=TERMS,
)  # fmt: skip


def told(pool: Pool) -> dict[str, str]:
    return terms_told(pool, chain_unix_s=1_000, funds_wei=5 * TOKEN)


def test_stake_penalty_quorum_appeal_price_and_who_manages_are_all_said() -> None:
    assert told(POOL) == {
        "owner": OWNER,
        "manager": f"{MANAGER}, epoch 3, 90 s of its lease left",
        "stake": "100 tokens to join; a rejection burns 40",
        "credit": "0.001 tokens a verified token; 5 are there for it",
        "verdicts": "by 2 that agree, of 3 drawn at first and more every 60 s, within 86400 s",
        "appeals": "within 3600 s of a rejection, and as long again to judge them",
        "asks for": "https://example.org/needs.toml",
    }
    assert weaknesses(POOL) == ()


def test_a_pool_without_penalty_pay_or_second_opinion_says_so() -> None:
    harmless = dataclasses.replace(TERMS, slash_wei=0, unit_price_wei=0, quorum=1, panel=1, requirements_uri="")
    pool = dataclasses.replace(POOL, terms=harmless, pending_owner=STAKER)
    assert told(pool)["stake"].endswith("a rejection burns nothing")
    assert told(pool)["verdicts"].startswith("by one validator alone, of 1 drawn at first")
    assert told(pool)["owner"] == f"{OWNER}, offered to {STAKER}"
    assert [text.split(":")[0] for text in weaknesses(pool)] == [
        "a rejection burns nothing", "a verified token is worth nothing",
    ]  # fmt: skip


def test_a_lease_that_lapsed_or_never_began() -> None:
    assert told(dataclasses.replace(POOL, lease_expires_unix_s=999))["manager"].endswith("its lease has lapsed")
    unbegun = dataclasses.replace(POOL, lease_expires_unix_s=UNBEGUN_LEASE_UNIX_S)
    assert told(unbegun)["manager"].endswith("its lease has not begun: it never started")


def test_ones_own_stake() -> None:
    node = Node(address=NODE, staker=NODE, stake_wei=100 * TOKEN, unbonding_wei=0, locked_wei=0, matures_unix_s=0)
    assert own_stake_told(node) == "100 tokens, this wallet's"
    pressed = dataclasses.replace(node, staker=STAKER, locked_wei=40 * TOKEN, unbonding_wei=2 * TOKEN)
    assert own_stake_told(pressed) == f"100 tokens, {STAKER}'s, 40 of them under a case, 2 more on their way out"
