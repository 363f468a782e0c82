"""What a pool asks of a machine, from a small document of its own: TOML or JSON, the keys of [requirements].

Decides how such a document is read. Refuses one that is long, that has unknown keys, or values out of range. The run's
config has the same section; a document given beside it takes its place.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from node.config import build_config
from node.errors import ConfigError
from node.role_sections import Requirements
from rl import flat_json

MAX_REQUIREMENTS_BYTES = 4096


def parse_requirements(data: bytes) -> Requirements:
    """The requirements in a document's bytes: the keys alone, or below one table `requirements`. Raises ConfigError."""
    if len(data) > MAX_REQUIREMENTS_BYTES:
        raise _unreadable(f"has more than {MAX_REQUIREMENTS_BYTES} bytes")
    try:
        text = data.decode()
        table: Any = flat_json.loads(text) if text.lstrip().startswith("{") else tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # JSON's, TOML's and UTF-8's errors are ValueErrors
        raise _unreadable(f"is neither TOML nor JSON: {error}") from error
    if set(table) == {"requirements"}:
        table = table["requirements"]
    return build_config({"requirements": table}).requirements


def load_requirements(path: Path) -> Requirements:
    """The requirements in the file at `path`. Raises ConfigError."""
    try:
        with path.open("rb") as file:
            return parse_requirements(file.read(MAX_REQUIREMENTS_BYTES + 1))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", fix="name an existing file") from error


def _unreadable(why: str) -> ConfigError:
    return ConfigError(f"the requirements document {why}", fix="see [requirements] in: intellect-node config --explain")
