"""The checked-in contract artifacts, and the translation between Python values and ABI bytes.

Decides nothing about meaning: names, types and selectors come from the artifacts. Addresses become checksum strings,
structs become tuples. Refuses unknown function names (`KeyError`, our fault).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import eth_abi
from eth_utils import keccak, to_checksum_address
from eth_utils.abi import collapse_if_tuple

from ledger.errors import Reverted

ARTIFACTS = Path(__file__).parent / "artifacts"
CONTRACTS = ("StakeToken", "NodeRegistry", "ComputePools", "Treasury", "RunLedger", "Court")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One function, event or error: its name, its parameters' names and ABI types."""

    name: str
    names: tuple[str, ...]
    types: tuple[str, ...]
    indexed: tuple[bool, ...]
    outputs: tuple[str, ...]

    @property
    def hash(self) -> bytes:
        return keccak(text=f"{self.name}({','.join(self.types)})")


class Interface:
    """The ABI and creation bytecode of one contract."""

    def __init__(self, name: str) -> None:
        artifact = json.loads((ARTIFACTS / f"{name}.json").read_text())
        self.bytecode = bytes.fromhex(artifact["bytecode"].removeprefix("0x"))
        entries = {kind: [_entry(e) for e in artifact["abi"] if e["type"] == kind] for kind in _KINDS}
        self.functions = {entry.name: (entry, entry.hash[:4]) for entry in entries["function"]}
        self.events = {entry.hash: entry for entry in entries["event"]}
        self.errors = {entry.hash[:4]: entry for entry in entries["error"]}
        self._constructor = entries["constructor"][0] if entries["constructor"] else None

    def encode(self, function: str, *arguments: object) -> bytes:
        """Call data."""
        entry, selector = self.functions[function]
        return selector + eth_abi.encode(entry.types, arguments)

    def decode(self, function: str, output: bytes) -> tuple[object, ...]:
        """The returned values, in order."""
        types = self.functions[function][0].outputs
        return _checksummed(types, eth_abi.decode(types, output))

    def creation(self, *arguments: object) -> bytes:
        """Bytecode followed by the constructor's arguments."""
        types = self._constructor.types if self._constructor else ()
        return self.bytecode + eth_abi.encode(types, arguments)


@cache
def interface(name: str) -> Interface:
    """The interface of the contract with this name, read once."""
    return Interface(name)


def topic_of(contract: str, event: str) -> str:
    """The first topic of the event with this name, for `eth_getLogs`."""
    return next(f"0x{topic.hex()}" for topic, entry in interface(contract).events.items() if entry.name == event)


def topics_of(events: Iterable[str]) -> list[str]:
    """The first topics of events with these names, of whichever contract."""
    names = set(events)
    found = {
        topic for contract in CONTRACTS for topic, entry in interface(contract).events.items() if entry.name in names
    }
    return sorted(f"0x{topic.hex()}" for topic in found)


def decode_revert(data: bytes) -> Reverted:
    """The error a contract reverted with, as `Reverted`; `Error(string)` and `Panic(uint256)` included."""
    for name in CONTRACTS:
        if entry := interface(name).errors.get(data[:4]):
            return Reverted(entry.name, _checksummed(entry.types, eth_abi.decode(entry.types, data[4:])))
    for signature, kind in (("Error(string)", "string"), ("Panic(uint256)", "uint256")):
        if data[:4] == keccak(text=signature)[:4]:
            return Reverted(signature.partition("(")[0], eth_abi.decode([kind], data[4:]))
    return Reverted("unknown error", (data,))


def decode_log(topics: list[bytes], data: bytes) -> tuple[str, dict[str, object]] | None:
    """Event name and values by parameter name; None for an event that is not ours."""
    for name in CONTRACTS:
        if entry := interface(name).events.get(topics[0]):
            break
    else:
        return None
    plain = [t for t, indexed in zip(entry.types, entry.indexed, strict=True) if not indexed]
    rest, keys = iter(eth_abi.decode(plain, data)), iter(topics[1:])
    values = [
        eth_abi.decode([t], next(keys))[0] if indexed else next(rest)
        for t, indexed in zip(entry.types, entry.indexed, strict=True)
    ]
    return entry.name, dict(zip(entry.names, _checksummed(entry.types, tuple(values)), strict=True))


_KINDS = ("function", "event", "error", "constructor")


def _entry(raw: dict) -> Entry:
    inputs = raw["inputs"]
    return Entry(
        name=raw.get("name", ""),
        names=tuple(p["name"] for p in inputs),
        types=tuple(collapse_if_tuple(p) for p in inputs),
        indexed=tuple(p.get("indexed", False) for p in inputs),
        outputs=tuple(collapse_if_tuple(p) for p in raw.get("outputs", ())),
    )


def _checksummed(types: tuple[str, ...], values: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(_tidy(t, value) for t, value in zip(types, values, strict=True))


def _tidy(kind: str, value: object) -> object:
    if kind == "address":
        return to_checksum_address(value)
    if kind.endswith("[]"):
        return tuple(_tidy(kind[:-2], item) for item in value)
    if kind.startswith("("):
        return _checksummed(tuple(_split(kind[1:-1])), value)
    return value


def _split(inner: str) -> list[str]:
    parts, depth, current = [], 0, ""
    for character in inner:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += character
    return [*parts, current]
