"""Whom a directory admits: a bounded set that is told in rows and changes in place."""

from __future__ import annotations

import pytest
from eth_account.signers.local import LocalAccount

from dht.admission import ADDRESS_BYTES, EVERYBODY, MAX_ADMITTED, Admitted, address_row


def row_of(count: int, start: int = 0) -> bytes:
    return b"".join(number.to_bytes(ADDRESS_BYTES, "big") for number in range(start, start + count))


def test_changes_are_idempotent_and_seen_at_once(accounts: list[LocalAccount]) -> None:
    one, two, three = (account.address for account in accounts)
    admitted = Admitted(address_row([one, two]))
    for _ in range(2):
        admitted.change(add=address_row([three]), remove=address_row([one]))
        assert [address in admitted for address in (one, two, three)] == [False, True, True]
    assert one in EVERYBODY


def test_everybody_is_no_list_that_could_change(accounts: list[LocalAccount]) -> None:
    with pytest.raises(ValueError, match="everybody"):
        Admitted(None).change(add=address_row([accounts[0].address]), remove=b"")


@pytest.mark.parametrize("row", [b"x" * (ADDRESS_BYTES - 1), row_of(MAX_ADMITTED + 1)], ids=["cut", "too long"])
def test_a_row_is_whole_and_bounded(row: bytes) -> None:
    with pytest.raises(ValueError, match="row"):
        Admitted(row)


def test_it_grows_up_to_its_bound_and_not_beyond() -> None:
    admitted = Admitted(row_of(MAX_ADMITTED - 1))
    admitted.change(add=row_of(1, start=MAX_ADMITTED), remove=b"")
    last = row_of(1, start=MAX_ADMITTED + 1)
    with pytest.raises(ValueError, match="more than"):
        admitted.change(add=last, remove=b"")
    assert f"0x{last.hex()}" not in admitted
    admitted.change(add=last, remove=row_of(1))
    assert f"0x{last.hex()}" in admitted
    assert f"0x{row_of(1).hex()}" not in admitted
