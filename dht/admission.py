"""Decides whose node and provider records a directory takes: those of the addresses that the ledger admits.

Pure: what the ledger says is told from outside, whole or as changes, in rows of 20-byte addresses. It refuses to grow
beyond MAX_ADMITTED addresses; without a ledger (`EVERYBODY`) it keeps nobody out.
"""

from __future__ import annotations

from collections.abc import Iterable

from eth_utils import to_canonical_address

ADDRESS_BYTES = 20
MAX_ADMITTED = 100_000  # 2 MB in a frame, 10 MB as a set; each of them has the pool's stake at work


class Admitted:
    """A set of addresses that changes in place; of `None`, all there are."""

    def __init__(self, row: bytes | None) -> None:
        """Raises ValueError for a row that is cut, or of more than MAX_ADMITTED addresses."""
        self._addresses = None if row is None else set(_addresses(row))

    def __contains__(self, address: str) -> bool:
        """`address` as 0x string."""
        return self._addresses is None or to_canonical_address(address) in self._addresses

    def change(self, *, add: bytes, remove: bytes) -> None:
        """The same change twice is the same as once. Raises ValueError as the constructor, and then changes nothing."""
        added, removed = _addresses(add), _addresses(remove)
        if self._addresses is None:
            raise ValueError("everybody is admitted: there is nothing to change")
        if len(self._addresses.union(added).difference(removed)) > MAX_ADMITTED:
            raise ValueError(f"more than {MAX_ADMITTED} addresses")
        self._addresses.update(added)
        self._addresses.difference_update(removed)


EVERYBODY = Admitted(None)
"""For a directory without a ledger."""


def address_row(addresses: Iterable[str]) -> bytes:
    """0x strings as a row."""
    return b"".join(map(to_canonical_address, addresses))


def _addresses(row: bytes) -> list[bytes]:
    if len(row) % ADDRESS_BYTES or len(row) > MAX_ADMITTED * ADDRESS_BYTES:
        raise ValueError(f"a row of {len(row)} bytes is cut, or longer than {MAX_ADMITTED} addresses")
    return [row[at : at + ADDRESS_BYTES] for at in range(0, len(row), ADDRESS_BYTES)]
