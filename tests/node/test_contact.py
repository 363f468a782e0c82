"""Sealed contacts: read by the manager alone, and never leading it astray."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgpack
import pytest
from nacl.public import PrivateKey, PublicKey, SealedBox

from dht.records import MAX_SEALED_BYTES, NodeRecord
from node.contact import ContactInvalid, contact_key, open_contact, seal_contact, ways_to
from tests.node.life_bench import DOMAIN, MANAGER, account, peer_id

KEY = contact_key(MANAGER, DOMAIN)
PUBLIC = bytes(KEY.public_key)
ADDRESSES = (f"/ip4/10.0.0.7/tcp/4001/p2p/{peer_id(1)}", f"/ip4/192.168.1.7/tcp/4001/p2p/{peer_id(1)}")


def record(number: int = 1, sealed: bytes | None = None, **changes: Any) -> NodeRecord:
    address = account(number).address
    sealed = seal_contact(ADDRESSES, address=address, x25519=PUBLIC) if sealed is None else sealed
    body = NodeRecord(
        address=address, peer_id=peer_id(number), roles=("worker",), multiaddrs=(), bulk_url="", sealed=sealed
    )
    return replace(body, **changes)


def test_the_manager_reads_what_was_sealed_to_it_and_nobody_else_does() -> None:
    assert open_contact(record(), KEY) == ADDRESSES
    for other in (account(1), account(2)):
        with pytest.raises(ContactInvalid, match="not sealed to this key"):
            open_contact(record(), contact_key(other, DOMAIN))
    assert b"10.0.0.7" not in record().sealed


def test_the_key_is_the_wallets_own_the_same_each_time_and_of_this_run() -> None:
    assert bytes(contact_key(MANAGER, DOMAIN)) == bytes(KEY)
    other_run = replace(DOMAIN, run_id=b"q" * 32)
    assert bytes(contact_key(MANAGER, other_run)) != bytes(KEY)


def test_its_length_says_nothing_and_no_two_are_alike() -> None:
    address = account(1).address
    one, other = (seal_contact(a, address=address, x25519=PUBLIC) for a in (ADDRESSES[:1], ADDRESSES))
    assert len(one) == len(other)
    assert one != seal_contact(ADDRESSES[:1], address=address, x25519=PUBLIC)


def test_eight_long_addresses_fit_and_more_do_not() -> None:
    long = ["/" + "a" * 255] * 8
    assert len(seal_contact(long, address=account(1).address, x25519=PUBLIC)) <= MAX_SEALED_BYTES
    with pytest.raises(ValueError, match="too many"):
        seal_contact(["/a"] * 9, address=account(1).address, x25519=PUBLIC)


def test_attack_anothers_contact_is_copied_into_ones_own_record() -> None:
    with pytest.raises(ContactInvalid, match="sealed for another node"):
        open_contact(record(2, record().sealed), KEY)


def test_attack_the_manager_is_sent_to_a_third_party() -> None:
    victim = f"/ip4/10.9.9.9/tcp/22/p2p/{peer_id(3)}"
    sealed = seal_contact([*ADDRESSES, victim], address=account(1).address, x25519=PUBLIC)
    with pytest.raises(ContactInvalid, match="another peer"):
        open_contact(record(sealed=sealed), KEY)


@pytest.mark.parametrize(
    "plain",
    [b"", b"\xc1", msgpack.packb(1), msgpack.packb([b"", b""]), msgpack.packb([msgpack.packb([1, 2]), b""]),
     msgpack.packb([msgpack.packb([account(1).address, [1]]), b""]),
     msgpack.packb([msgpack.packb([account(1).address, ["/a"]]), b""]), b"\xdd\xff\xff\xff\xff"],
)  # fmt: skip
def test_hostile_contents(plain: bytes) -> None:
    with pytest.raises(ContactInvalid):
        open_contact(record(sealed=bytes(SealedBox(PublicKey(PUBLIC)).encrypt(plain))), KEY)


@pytest.mark.parametrize("sealed", [b"x", b"x" * 48, b"x" * 4096])
def test_hostile_boxes(sealed: bytes) -> None:
    with pytest.raises(ContactInvalid):
        open_contact(record(sealed=sealed), PrivateKey.generate())


def test_the_ways_to_a_node() -> None:
    through = f"/p2p/{peer_id(1)}"
    assert ways_to(record(), KEY) == (*ADDRESSES, through)
    assert ways_to(record(), None) == (through,)
    assert ways_to(record(multiaddrs=ADDRESSES[:1], sealed=b""), KEY) == (ADDRESSES[0], through)
