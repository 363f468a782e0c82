"""What a record may say and who may say it; every refusal has its attack here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgpack
import pytest
from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_account.signers.local import LocalAccount

from dht.admission import EVERYBODY, Admitted, address_row
from dht.keys import node_key, provider_key, run_state_key
from dht.records import (
    CLOCK_TOLERANCE_S,
    MAX_LIFETIME_S,
    MAX_SEALED_BYTES,
    Authority,
    NodeRecord,
    ProviderRecord,
    RecordBody,
    RecordInvalid,
    RunStateRecord,
    SignedRecord,
    encode_record,
    open_record,
    sign_record,
    storage_time,
)
from dht.signing import RecordDomain

NOW = 1_800_000_000.0
EPOCH = 4
PEER = "12D3KooWGRUQUDYqLRHnYXYzbTRHgTgWzgcvHWDXYLtMJpVqSQfX"


def node_body(address: str, **changes: Any) -> NodeRecord:
    body = NodeRecord(
        address=address, peer_id=PEER, roles=("worker",), multiaddrs=("/ip4/127.0.0.1/tcp/4001",),
        bulk_url="http://127.0.0.1:8000",
    )  # fmt: skip
    return replace(body, **changes)


@pytest.fixture
def bodies(accounts: list[LocalAccount], domain: RecordDomain) -> list[tuple[RecordBody, LocalAccount, str]]:
    provider = ProviderRecord(address=accounts[1].address, content=b"c" * 32, bulk_url="http://127.0.0.1:1")
    state = RunStateRecord(epoch=EPOCH, open_step=3, policy_version=1, manifest_hash=b"m" * 32)
    return [
        (node_body(accounts[1].address), accounts[1], node_key(domain.run_id, accounts[1].address)),
        (
            node_body(accounts[1].address, sealed=b"s" * MAX_SEALED_BYTES, x25519=b"k" * 32), accounts[1],
            node_key(domain.run_id, accounts[1].address),
        ),
        (provider, accounts[1], provider_key(domain.run_id, b"c" * 32)),
        (state, accounts[0], run_state_key(domain.run_id)),
    ]  # fmt: skip


@pytest.fixture
def signed(accounts: list[LocalAccount], domain: RecordDomain) -> SignedRecord:
    body = node_body(accounts[1].address)
    return sign_record(body, domain=domain, account=accounts[1], sequence=1, expires_unix_s=int(NOW) + 60)


def opened(
    record: SignedRecord | bytes, domain: RecordDomain, manager: str, now: float = NOW, admitted: Admitted = EVERYBODY
) -> SignedRecord:
    data = record if isinstance(record, bytes) else encode_record(record)
    authority = Authority(manager=manager, epoch=EPOCH)
    return open_record(data, domain=domain, authority=authority, now_unix_s=now, admitted=admitted)


def test_every_kind_survives_the_round_trip(bodies: Any, domain: RecordDomain, accounts: list[LocalAccount]) -> None:
    for body, account, key in bodies:
        record = sign_record(body, domain=domain, account=account, sequence=7, expires_unix_s=int(NOW) + 60)
        assert opened(record, domain, accounts[0].address) == record
        assert (record.key, record.subject, record.content) == (key, account.address, body)


def test_the_digest_is_the_standard_s(signed: SignedRecord, domain: RecordDomain, accounts: list[LocalAccount]) -> None:
    fields = {
        "salt": "bytes32", "runId": "bytes32", "kind": "string", "key": "string", "subject": "address", "body": "bytes",
        "sequence": "uint64", "expires": "uint64",
    }  # fmt: skip
    message = encode_typed_data(
        {"name": "intellect-node", "version": "1", "chainId": domain.chain_id, "verifyingContract": domain.contract},
        {"Record": [{"name": name, "type": kind} for name, kind in fields.items()]},
        {"salt": domain.salt, "runId": domain.run_id, "kind": signed.kind, "key": signed.key, "subject": signed.subject,
         "body": signed.body, "sequence": signed.sequence, "expires": signed.expires_unix_s},
    )  # fmt: skip
    assert Account.recover_message(message, signature=signed.signature) == accounts[1].address


@pytest.mark.parametrize(
    "change",
    [{"sequence": 2}, {"expires_unix_s": int(NOW) + 61}, {"signature": b"\0" * 65}, {"signature": b""}, {"kind": "x"},
     {"run_id": b"x" * 32}, {"subject": "0x" + "00" * 20}, {"key": "elsewhere"}, {"sequence": -1}],
)  # fmt: skip
def test_a_changed_field_is_refused(
    signed: SignedRecord, domain: RecordDomain, accounts: list[LocalAccount], change: dict[str, Any]
) -> None:
    with pytest.raises(RecordInvalid):
        opened(replace(signed, **change), domain, accounts[0].address)


def test_forged_for_another_subject(domain: RecordDomain, accounts: list[LocalAccount]) -> None:
    victim, thief = accounts[1], accounts[2]
    with pytest.raises(RecordInvalid, match="another address"):
        sign_record(node_body(victim.address), domain=domain, account=thief, sequence=1, expires_unix_s=int(NOW) + 60)
    honest = sign_record(
        node_body(thief.address), domain=domain, account=thief, sequence=1, expires_unix_s=int(NOW) + 60
    )
    packed = msgpack.packb([victim.address, PEER, ["worker"], [], "", b"", b""])
    stolen = replace(honest, subject=victim.address, body=packed, key=node_key(domain.run_id, victim.address))
    with pytest.raises(RecordInvalid, match="forged"):
        opened(stolen, domain, accounts[0].address)


def test_attack_a_stranger_speaks_but_to_admit_the_manager_nobody_need_be_asked(
    bodies: Any, domain: RecordDomain, accounts: list[LocalAccount]
) -> None:
    """Also one whose signature would be good; the manager's word counts by the lease alone."""
    nobody = Admitted(b"")
    for body, account, _ in bodies:
        record = sign_record(body, domain=domain, account=account, sequence=1, expires_unix_s=int(NOW) + 60)
        for manager, admitted in ((accounts[0], nobody), (accounts[0], Admitted(address_row([account.address])))):
            if manager is account or account.address in admitted:
                assert opened(record, domain, manager.address, admitted=admitted) == record
                continue
            for forged in (record, replace(record, signature=b"")):  # before the cost of a signature
                with pytest.raises(RecordInvalid, match="the ledger shows no such stake"):
                    opened(forged, domain, manager.address, admitted=admitted)
    own = sign_record(
        node_body(accounts[1].address), domain=domain, account=accounts[1], sequence=1, expires_unix_s=int(NOW) + 60
    )
    assert opened(own, domain, accounts[1].address, admitted=nobody) == own


@pytest.mark.parametrize("address", ["", "nobody", "0x" + "00" * 19, "0x" + "zz" * 20])
def test_a_node_record_of_no_address_is_malformed(
    domain: RecordDomain, accounts: list[LocalAccount], address: str
) -> None:
    with pytest.raises(RecordInvalid, match="malformed address"):
        sign_record(node_body(address), domain=domain, account=accounts[1], sequence=1, expires_unix_s=int(NOW))


def test_run_state_of_another_than_the_manager(domain: RecordDomain, accounts: list[LocalAccount]) -> None:
    state = RunStateRecord(epoch=EPOCH, open_step=1, policy_version=0, manifest_hash=b"m" * 32)
    record = sign_record(state, domain=domain, account=accounts[1], sequence=1, expires_unix_s=int(NOW) + 60)
    with pytest.raises(RecordInvalid, match="manager"):
        opened(record, domain, accounts[0].address)


def test_run_state_of_an_earlier_lease_is_refused_and_of_this_one_and_a_later_one_taken(
    domain: RecordDomain, accounts: list[LocalAccount]
) -> None:
    for epoch in (EPOCH - 1, EPOCH, EPOCH + 1):
        state = RunStateRecord(
            epoch=epoch, open_step=1, policy_version=0, manifest_hash=b"m" * 32, state_hash=b"s" * 32
        )
        record = sign_record(state, domain=domain, account=accounts[0], sequence=1, expires_unix_s=int(NOW) + 60)
        if epoch < EPOCH:
            with pytest.raises(RecordInvalid, match="lease 3"):
                opened(record, domain, accounts[0].address)
        else:
            assert opened(record, domain, accounts[0].address).content == state


@pytest.mark.parametrize("change", [{"epoch": -1}, {"manifest_hash": b"m"}, {"state_hash": b"s"}, {"open_step": 2**63}])
def test_malformed_run_states(domain: RecordDomain, accounts: list[LocalAccount], change: dict[str, Any]) -> None:
    state = replace(RunStateRecord(epoch=EPOCH, open_step=1, policy_version=0, manifest_hash=b"m" * 32), **change)
    with pytest.raises(RecordInvalid, match="malformed"):
        sign_record(state, domain=domain, account=accounts[0], sequence=1, expires_unix_s=int(NOW))


@pytest.mark.parametrize("field", ["chain_id", "salt", "run_id", "contract"])
def test_replayed_into_another_deployment(
    signed: SignedRecord, domain: RecordDomain, accounts: list[LocalAccount], field: str
) -> None:
    other = {"chain_id": 1, "salt": b"t" * 32, "run_id": b"q" * 32, "contract": accounts[2].address}[field]
    with pytest.raises(RecordInvalid):
        opened(signed, replace(domain, **{field: other}), accounts[0].address)


def test_expiry_by_the_receiver_s_clock(
    signed: SignedRecord, domain: RecordDomain, accounts: list[LocalAccount]
) -> None:
    manager = accounts[0].address
    edge = signed.expires_unix_s + CLOCK_TOLERANCE_S
    assert opened(signed, domain, manager, edge) == signed
    with pytest.raises(RecordInvalid, match="expired"):
        opened(signed, domain, manager, edge + 0.1)
    first = signed.expires_unix_s - MAX_LIFETIME_S - CLOCK_TOLERANCE_S
    assert opened(signed, domain, manager, first) == signed
    with pytest.raises(RecordInvalid, match="ahead"):
        opened(signed, domain, manager, first - 0.1)


@pytest.mark.parametrize(
    "change",
    [{"peer_id": "not base58 0OIl"}, {"roles": ("king",)}, {"roles": ("worker",) * 9}, {"multiaddrs": ("ip4",)},
     {"multiaddrs": ("/a",) * 9}, {"bulk_url": "file:///etc/passwd"}, {"bulk_url": "http://a/b?c"},
     {"multiaddrs": ("/" + "a" * 300,)}, {"sealed": b"s" * 4097}, {"sealed": "text"}, {"x25519": b"k" * 31},
     {"x25519": b"k" * 33}],
)  # fmt: skip
def test_malformed_bodies(domain: RecordDomain, accounts: list[LocalAccount], change: dict[str, Any]) -> None:
    body = node_body(accounts[1].address, **change)
    with pytest.raises(RecordInvalid, match="malformed"):
        sign_record(body, domain=domain, account=accounts[1], sequence=1, expires_unix_s=int(NOW))


@pytest.mark.parametrize(
    "data", [b"", b"\xc1", msgpack.packb([]), msgpack.packb([1] * 8), b"\xdd\xff\xff\xff\xff", bytes(20_000)]
)
def test_hostile_bytes(domain: RecordDomain, accounts: list[LocalAccount], data: bytes) -> None:
    with pytest.raises(RecordInvalid):
        opened(data, domain, accounts[0].address)


def test_a_later_sequence_sorts_later_within_a_second(signed: SignedRecord) -> None:
    later = replace(signed, sequence=signed.sequence + 1)
    assert storage_time(later) > storage_time(signed)
    assert storage_time(replace(signed, sequence=999_999)) < storage_time(
        replace(signed, expires_unix_s=signed.expires_unix_s + 1, sequence=0)
    )
