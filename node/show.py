"""How a command shows what it found: rows or facts, for people as text, for programs as JSON.

Decides spelling only: amounts in tokens for people and in wei for programs, hashes in hex, names in lower case. Text
that came from the network is shown without control characters.
"""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

TOKEN_WEI = ETHER_WEI = 10**18


def plain(value: Any) -> Any:
    """The value in JSON's types; dataclasses by their fields, bytes as 0x…, enums by their names."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.name.lower()
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [plain(item) for item in value]
    return value


def tokens(amount_wei: int) -> str:
    """An amount in tokens, exact."""
    whole, rest = divmod(amount_wei, TOKEN_WEI)
    return f"{whole:,}" if not rest else f"{whole:,}.{rest:018d}".rstrip("0")


def moment(unix_s: int) -> str:
    """Seconds of the chain's clock as a date in UTC."""
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def clean(text: str) -> str:
    """Without what could steer a terminal."""
    return "".join(character if character.isprintable() else "�" for character in text)


def rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], *, as_json: bool, empty: str) -> None:
    """One line a row, aligned; every row's own fields in JSON. `empty` is said where there is none."""
    if as_json:
        click.echo(json.dumps([plain(row) for row in rows], indent=2))
        return
    if not rows:
        click.echo(empty)
        return
    cells = [[clean(str(plain(row[column]))) for column in columns] for row in rows]
    heads = [column.replace("_", " ") for column in columns]
    widths = [max(len(line[i]) for line in [heads, *cells]) for i in range(len(columns))]
    for line in [heads, *cells]:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def facts(values: Mapping[str, Any], *, as_json: bool, told: Mapping[str, str] | None = None) -> None:
    """One line a fact: `told` for people, or else the values themselves; the values in JSON."""
    if as_json:
        click.echo(json.dumps(plain(values), indent=2))
        return
    lines = told or {name.replace("_", " "): str(plain(value)) for name, value in values.items()}
    width = max(map(len, lines))
    for name, text in lines.items():
        click.echo(f"{name.ljust(width)}  {clean(text)}")


def done(sentence: str, *, as_json: bool, **values: Any) -> None:
    """What a command that changed something says."""
    click.echo(json.dumps(plain(values)) if as_json else clean(sentence))
