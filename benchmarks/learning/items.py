"""What an item of the study is, which there are, and how their results come together. Knows no item.

An item is a module `benchmarks.learning.item_NAME` with a `TITLE` and a function

    def run(out: Path, *, quick: bool, say: Callable[[str], None]) -> Found

that does its work in the folder `out`, which is its own and may hold what an earlier run left.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, Protocol

import benchmarks.learning

FOUND = "found.json"
_PREFIX = "item_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What an item has found."""

    figures: dict[str, Any]
    """For `--json`: plain numbers, texts, lists and mappings with text keys. No two items share a key."""
    table: str
    """Markdown, for the place in docs/learning.md that is marked with the item's name."""
    plots: tuple[str, ...] = ()
    """Names of files in the item's folder; in docs/ each is `learning-` and its name."""


class NotRun(RuntimeError):
    """The item cannot run on this machine; the message says what is missing. What an earlier run found stands."""


class Item(Protocol):
    """A module as described above."""

    TITLE: str

    def run(self, out: Path, *, quick: bool, say: Callable[[str], None]) -> Found: ...


def names() -> tuple[str, ...]:
    """Of every item there is, sorted."""
    modules = (module.name for module in iter_modules(benchmarks.learning.__path__))
    return tuple(sorted(name.removeprefix(_PREFIX) for name in modules if name.startswith(_PREFIX)))


def load(name: str) -> Item:
    """The item of that name. Raises KeyError that names the known ones."""
    if name not in names():
        raise KeyError(f"no item {name!r}; there are {', '.join(names())}")
    return import_module(f"benchmarks.learning.{_PREFIX}{name}")  # type: ignore[return-value]


def keep(found: Found, folder: Path) -> None:
    """Write what an item found into its folder, whole or not at all."""
    partial = folder / (FOUND + ".part")
    partial.write_text(json.dumps(asdict(found), indent=1, sort_keys=True) + "\n")
    partial.replace(folder / FOUND)


def kept(out: Path) -> dict[str, Found]:
    """Name → what was found last, of every item that has been run into `out`."""
    found = {}
    for name in names():
        path = out / name / FOUND
        if path.exists():
            fields = json.loads(path.read_text())
            found[name] = Found(**fields | {"plots": tuple(fields["plots"])})
    return found


def together(found: Mapping[str, Found]) -> dict[str, Any]:
    """One mapping of all figures. Raises ValueError where two items claim a key."""
    merged: dict[str, Any] = {}
    owner: dict[str, str] = {}
    for name, one in found.items():
        for key, value in one.figures.items():
            if key in merged:
                raise ValueError(f"the items {owner[key]} and {name} both have the figure {key!r}; rename one")
            merged[key], owner[key] = value, name
    return merged
