"""What the pages name is there: files, links, commands with their options, and keys of the config."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from node.cli import cli
from node.config import SECTIONS

ROOT = Path(__file__).resolve().parent.parent
PAGES = {str(path.relative_to(ROOT)): path.read_text() for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"))}
PACKAGES = ("node", "rl", "verify", "dht", "ledger", "contracts", "scripts", "tests", "docs", "benchmarks")
MADE = ("contracts/node_modules",)
"""What `scripts/setup` makes."""
FILE_ENDINGS = ("log", "sqlite", "json", "jsonl", "toml", "md", "py", "html", "png", "parquet")


def quoted(text: str) -> Iterator[str]:
    """What a page sets in backticks, on one line each."""
    for words in re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        yield " ".join(words.split())


def shown(text: str) -> Iterator[str]:
    """Every command line of the program that a page shows."""
    lines = [line.strip(" $") for line in text.splitlines() if re.match(r" {4}|\$ ", line)]
    for line in (*lines, *quoted(text)):
        if line.startswith("intellect-node "):
            yield line.split("    #")[0]


def command_of(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that the words name, and the rest of them. KeyError where there is none."""
    command: click.Command = cli
    while isinstance(command, click.Group) and words and re.fullmatch(r"[a-z][a-z-]+", words[0]):
        command, words = command.commands[words[0]], words[1:]
    return command, words


@pytest.mark.parametrize("page", PAGES)
def test_links_and_pictures(page: str) -> None:
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", PAGES[page])
    local = [target for target in targets if not target.startswith("http")]
    assert [target for target in local if not ((ROOT / page).parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_no_merge_is_unfinished(page: str) -> None:
    assert re.findall(r"^(?:<{7}|={7}|>{7})(?: .*)?$", PAGES[page], re.MULTILINE) == []


@pytest.mark.parametrize("page", PAGES)
def test_files(page: str) -> None:
    named = re.findall(rf"(?<![\w/-])(?:{'|'.join(PACKAGES)})/[A-Za-z0-9_./*-]*", PAGES[page])
    assert [name for name in named if not name.startswith(MADE) and not list(ROOT.glob(name.rstrip("./")))] == []


@pytest.mark.parametrize("page", PAGES)
def test_commands_and_their_options(page: str) -> None:
    for line in shown(PAGES[page]):
        words = line.split()[1:]
        if words and re.fullmatch(r"[A-Z]+", words[0]):  # COMMAND
            continue
        command, rest = command_of(words)
        known = {name for option in command.params for name in option.opts} | {"--help"}
        assert {word for word in rest if word.startswith("--")} <= known, line


@pytest.mark.parametrize("page", PAGES)
def test_commands_that_are_named_in_passing(page: str) -> None:
    for words in (item.split() for item in quoted(PAGES[page])):
        group = cli.commands.get(words[0])
        if isinstance(group, click.Group) and len(words) > 1 and re.fullmatch(r"[a-z-]+", words[1]):
            assert words[1] in group.commands, words


@pytest.mark.parametrize("page", PAGES)
def test_keys_of_the_config(page: str) -> None:
    named = re.findall(rf"\b({'|'.join(SECTIONS)})\.([a-z_]+)\b", " ".join(quoted(PAGES[page])))
    missing = [(s, key) for s, key in named if key not in FILE_ENDINGS and key not in SECTIONS[s].model_fields]
    assert missing == []


def test_every_file_of_the_program_has_its_line_in_the_architecture() -> None:
    table = PAGES["ARCHITECTURE.md"].split("## Files")[1]
    rows = [re.findall(r"`([^`]+)`", row.split("|")[1]) for row in table.splitlines() if "`" in row]
    patterns = [name.removeprefix("node/") for row in rows if row[0].startswith("node/") for name in row]
    assert [name for name in patterns if not list((ROOT / "node").glob(name))] == []
    files = {path.name for path in (ROOT / "node").glob("*.py")} - {"__init__.py"}
    assert files - {path.name for name in patterns for path in (ROOT / "node").glob(name)} == set()
