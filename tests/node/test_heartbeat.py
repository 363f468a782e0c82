"""What a heartbeat must be to count, each cheat refused by name, and the manager's answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from eth_account import Account
from eth_account.messages import encode_typed_data

from dht.records import RunStateRecord
from dht.signing import RecordDomain
from node.heartbeat import Answer, Heartbeat, Mode, encode_answer, open_answer, open_heartbeat, sign_heartbeat
from node.peer_key import make_peer_key
from node.streams import Refusal

NODE, OTHER, MANAGER = (Account.from_key(bytes([n]) * 32) for n in (1, 2, 3))
NODE_PEER, OTHER_PEER, MANAGER_PEER = (make_peer_key(bytes([n]) * 32).peer_id for n in (1, 2, 3))
DOMAIN = RecordDomain(chain_id=31337, contract=MANAGER.address, salt=b"s" * 32, run_id=b"r" * 32)
BEAT = Heartbeat(
    node=NODE.address, node_peer=NODE_PEER, manager_peer=MANAGER_PEER, sequence=7, mode=Mode.WORKING, step=3
)
MESSAGE = sign_heartbeat(BEAT, domain=DOMAIN, account=NODE)


def opened(message: dict[str, Any], *, remote: str = NODE_PEER, own: str = MANAGER_PEER, domain: Any = DOMAIN) -> Any:
    return open_heartbeat(message, domain=domain, remote=remote, own_peer=own)


@pytest.mark.parametrize("mode", Mode)
def test_a_heartbeat_is_read(mode: Mode) -> None:
    beat = replace(BEAT, mode=mode)
    assert opened(sign_heartbeat(beat, domain=DOMAIN, account=NODE)) == beat


def test_the_digest_is_the_standard_s() -> None:
    kinds = {"salt": "bytes32", "runId": "bytes32", "node": "address", "nodePeer": "string", "managerPeer": "string",
             "sequence": "uint64", "state": "string", "step": "uint64"}  # fmt: skip
    signable = encode_typed_data(
        {"name": "intellect-node", "version": "1", "chainId": 31337, "verifyingContract": DOMAIN.contract},
        {"Heartbeat": [{"name": name, "type": kind} for name, kind in kinds.items()]},
        {"salt": DOMAIN.salt, "runId": DOMAIN.run_id, "node": BEAT.node, "nodePeer": NODE_PEER,
         "managerPeer": MANAGER_PEER, "sequence": 7, "state": "working", "step": 3},
    )  # fmt: skip
    assert Account.recover_message(signable, signature=MESSAGE["signature"]) == NODE.address


def test_attack_a_node_keeps_another_alive_by_beating_in_its_name() -> None:
    forged = sign_heartbeat(BEAT, domain=DOMAIN, account=OTHER)  # names the victim, signed by the friend
    with pytest.raises(Refusal, match="forged"):
        opened(forged)
    with pytest.raises(Refusal, match="not-yours"):  # the victim's own heartbeat, brought by another peer
        opened(MESSAGE, remote=OTHER_PEER)
    with pytest.raises(Refusal, match="forged"):  # the same with the peer id exchanged
        opened(MESSAGE | {"node_peer": OTHER_PEER}, remote=OTHER_PEER)


def test_attack_a_heartbeat_for_one_manager_is_passed_on_to_another() -> None:
    with pytest.raises(Refusal, match="not-mine"):
        opened(MESSAGE, own=OTHER_PEER)


@pytest.mark.parametrize(
    "change",
    [{"chain_id": 1}, {"contract": NODE.address}, {"salt": b"t" * 32}, {"run_id": b"q" * 32}],
)
def test_attack_a_heartbeat_of_another_chain_pool_salt_or_run(change: dict[str, Any]) -> None:
    with pytest.raises(Refusal, match="forged"):
        opened(MESSAGE, domain=replace(DOMAIN, **change))


@pytest.mark.parametrize("change", [{"sequence": 8}, {"mode": "draining"}, {"step": 4}, {"node": OTHER.address},
                                    {"signature": b"\x01" * 65}, {"signature": b""}])  # fmt: skip
def test_a_changed_field_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(Refusal, match="forged"):
        opened(MESSAGE | change)


@pytest.mark.parametrize(
    "message",
    [{}, {k: v for k, v in MESSAGE.items() if k != "step"}, MESSAGE | {"time": 1}, MESSAGE | {"sequence": -1},
     MESSAGE | {"sequence": True}, MESSAGE | {"sequence": 2**63}, MESSAGE | {"step": "3"}, MESSAGE | {"mode": "dead"},
     MESSAGE | {"node": NODE.address.lower()}, MESSAGE | {"node": 5}, MESSAGE | {"node_peer": "x" * 200},
     MESSAGE | {"signature": "s" * 65}, MESSAGE | {"mode": None}],
)  # fmt: skip
def test_malformed_heartbeats(message: dict[str, Any]) -> None:
    with pytest.raises(Refusal, match="malformed"):
        opened(message)


def test_no_clock_of_the_sender_is_in_it() -> None:
    """Of "a clock one second ahead makes every heartbeat expired": there is nothing that could."""
    assert set(Heartbeat.__dataclass_fields__) == {"node", "node_peer", "manager_peer", "sequence", "mode", "step"}


@pytest.mark.parametrize(
    "state", [None, RunStateRecord(epoch=1, open_step=4, policy_version=2, manifest_hash=b"m" * 32)]
)
def test_an_answer_is_read(state: RunStateRecord | None) -> None:
    answer = Answer(standing="active", every_s=10.0, run_state=state)
    assert open_answer(encode_answer(answer)) == answer


@pytest.mark.parametrize(
    "change",
    [{"standing": 1}, {"standing": "x" * 33}, {"standing": "\x1b[2J"}, {"every_s": 0}, {"every_s": 1e9},
     {"every_s": float("nan")}, {"run": None}, {"run": [1, 2]}, {"run": [1, 2, "m"]}, {"run": [1, 2, b"m"]},
     {"run": [-1, 2, b"m" * 32]}, {"run": [True, 2, b"m" * 32]}],
)  # fmt: skip
def test_hostile_answers(change: dict[str, Any]) -> None:
    good = encode_answer(Answer(standing="active", every_s=10.0, run_state=None))
    with pytest.raises(ValueError, match=r"no |out of range"):
        open_answer(good | change)
