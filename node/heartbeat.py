"""What a heartbeat says, who may say it, and what the manager answers.

A heartbeat is EIP-712 data of its own type, signed by the node's wallet over the run (chain, contract, salt, run id),
both peer ids and a sequence number. Pure. It refuses a heartbeat that came from another peer than it names, that is
meant for another manager, or that another wallet signed. It holds no time: the sender's clock is nobody's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from eth_utils import is_checksum_address, keccak

from dht.records import MAX_INTEGER, RunStateRecord
from dht.signing import RecordDomain, SignatureInvalid, Signer, recover, sign, typed_hash, word
from node.stream_errors import Refusal

HEARTBEAT_PROTOCOL = "/intellect-node/heartbeat/1"
HEARTBEAT_BYTES = 1024
MAX_PEER_ID_CHARS = 128
_TYPE = (
    "Heartbeat(bytes32 salt,bytes32 runId,address node,string nodePeer,string managerPeer,"
    "uint64 sequence,string state,uint64 step)"
)


class Mode(StrEnum):
    """What the node is about."""

    WORKING = "working"
    PAUSED = "paused"
    """Alive, but takes no new work."""
    DRAINING = "draining"
    """Finishes what it has, then leaves the pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """`node` is the wallet's address; `step` the one it works for (0 where it does not)."""

    node: str
    node_peer: str
    manager_peer: str
    sequence: int
    mode: Mode
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The manager's reply: where it sees the node, how often it wants to hear of it, and the newest run state."""

    standing: str
    every_s: float
    run_state: RunStateRecord | None


def sign_heartbeat(beat: Heartbeat, *, domain: RecordDomain, account: Signer) -> dict[str, Any]:
    """The message that carries `beat`, signed by its node's wallet."""
    return {
        "node": beat.node,
        "node_peer": beat.node_peer,
        "manager_peer": beat.manager_peer,
        "sequence": beat.sequence,
        "mode": str(beat.mode),
        "step": beat.step,
        "signature": sign(_digest(beat, domain), account),
    }


def open_heartbeat(message: Mapping[str, Any], *, domain: RecordDomain, remote: str, own_peer: str) -> Heartbeat:
    """The heartbeat in a message of the peer `remote` (as the transport knows it) to this node. Raises Refusal."""
    texts, numbers = ("node", "node_peer", "manager_peer", "mode"), ("sequence", "step")
    if set(message) != {*texts, *numbers, "signature"}:
        raise Refusal("malformed", "a heartbeat has exactly its fields and a signature")
    if not all(isinstance(message[name], str) and len(message[name]) <= MAX_PEER_ID_CHARS for name in texts):
        raise Refusal("malformed", "a text of the heartbeat is none, or too long")
    if not all(type(message[name]) is int and 0 <= message[name] <= MAX_INTEGER for name in numbers):
        raise Refusal("malformed", "a number of the heartbeat is none, or out of range")
    if not isinstance(message["signature"], bytes) or not is_checksum_address(message["node"]):
        raise Refusal("malformed", "a heartbeat names a node and carries its signature")
    if message["mode"] not in iter(Mode):
        raise Refusal("malformed", "a node is working, paused or draining")
    if message["manager_peer"] != own_peer:
        raise Refusal("not-mine", "this heartbeat is for another manager")
    if message["node_peer"] != remote:
        raise Refusal("not-yours", "this heartbeat was signed for another peer than the one that brings it")
    fields = {name: message[name] for name in (*texts, *numbers)}
    beat = Heartbeat(**fields | {"mode": Mode(fields["mode"])})
    try:
        signer = recover(_digest(beat, domain), message["signature"])
    except SignatureInvalid as error:
        raise Refusal("forged", str(error)) from error
    if signer != beat.node:
        raise Refusal("forged", "not signed by the node's wallet for this run")
    return beat


def encode_answer(answer: Answer) -> dict[str, Any]:
    """The reply that carries `answer`."""
    state = answer.run_state
    run = [state.epoch, state.open_step, state.policy_version, state.manifest_hash] if state else []
    return {"standing": answer.standing, "every_s": answer.every_s, "run": run}


def open_answer(message: Mapping[str, Any]) -> Answer:
    """The manager's answer; the stream says that it is the manager's. Raises ValueError for what is none."""
    standing, every_s, run = message.get("standing"), message.get("every_s"), message.get("run")
    if not isinstance(standing, str) or len(standing) > 32 or not standing.isprintable():
        raise ValueError("no standing")
    if not isinstance(every_s, (int, float)) or not 0.1 <= every_s <= 3600:
        raise ValueError("no interval")
    if not isinstance(run, list) or [type(item) for item in run] not in ([], [int, int, int, bytes]):
        raise ValueError("no run state")
    if run and not (all(0 <= number <= MAX_INTEGER for number in run[:3]) and len(run[3]) == 32):
        raise ValueError("a run state out of range")
    state = None
    if run:
        state = RunStateRecord(epoch=run[0], open_step=run[1], policy_version=run[2], manifest_hash=run[3])
    return Answer(standing=standing, every_s=float(every_s), run_state=state)


def _digest(beat: Heartbeat, domain: RecordDomain) -> bytes:
    texts = [keccak(text=text) for text in (beat.node_peer, beat.manager_peer, beat.mode)]
    return typed_hash(
        domain,
        _TYPE,
        (domain.salt, domain.run_id, word(beat.node), *texts[:2], word(beat.sequence), texts[2], word(beat.step)),
    )
