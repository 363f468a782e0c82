"""A pool's requirements as a document of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from node.config import parse_config
from node.errors import ConfigError
from node.requirements import MAX_REQUIREMENTS_BYTES, load_requirements, parse_requirements


@pytest.mark.parametrize(
    "text",
    [
        "cores = 8\nmemory_gb = 16",
        "[requirements]\ncores = 8\nmemory_gb = 16.0",
        '{"cores": 8, "memory_gb": 16}',
        ' {"requirements": {"cores": 8, "memory_gb": 16.0}}',
    ],
)
def test_toml_and_json_with_and_without_the_table(text: str) -> None:
    wanted = parse_requirements(text.encode())
    assert (wanted.cores, wanted.memory_gb, wanted.disk_gb, wanted.gpu_memory_gb) == (8, 16.0, 0, 0)
    assert parse_config("[requirements]\ncores = 8\nmemory_gb = 16").requirements == wanted


def test_nothing_is_demanded_by_default() -> None:
    assert set(parse_requirements(b"").model_dump().values()) == {0}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"x" * (MAX_REQUIREMENTS_BYTES + 1), "more than"),
        (b"\xff", "neither"),
        (b"cores =", "neither"),
        (b"{", "neither"),
        (b'{"a":' * 800, "neither"),
        (b"[1]", "unknown key"),
        (b"core = 8", "unknown key"),
        (b"cores = -1", "not legal"),
        (b"cores = 1.5", "not legal"),
        (b'cores = "8"', "not legal"),
        (b"memory_gb = inf", "not legal"),
        (b"requirements = 8", "a section"),
        (b"[requirements]\n[model]", "unknown key"),
    ],
)
def test_anything_else_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_requirements(data)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "pool.json").write_text('{"disk_gb": 5}')
    assert load_requirements(tmp_path / "pool.json").disk_gb == 5
    with pytest.raises(ConfigError, match=r"none\.toml"):
        load_requirements(tmp_path / "none.toml")
