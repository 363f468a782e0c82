"""The service files: their text parses, starts the command line that it should, and keeps secrets out of it."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from node.cli import cli
from node.cli_options import ROLES
from node.errors import UserError
from node.unit import Service, containerfile, systemd_unit

JOIN = "/ip4/10.0.0.5/tcp/4002/p2p/QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N"
INSTRUCTIONS = {"FROM", "RUN", "WORKDIR", "COPY", "USER", "ENV", "VOLUME", "STOPSIGNAL", "ENTRYPOINT"}


def service(role: str = "worker", **changes: object) -> Service:
    fields = {"program": (sys.executable, "-m", "node.cli"), "config": "/etc/run.toml", "wallet": "/srv/key.json",
              "password_file": "/srv/password", "join": (JOIN,), "port": 4001}  # fmt: skip
    return Service(role=role, **fields | changes)  # type: ignore[arg-type]


def unit(text: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",), comment_prefixes=("#",))
    parser.optionxform = str  # type: ignore[method-assign, assignment]
    parser.read_string(text)
    return parser


def parsed(words: list[str]) -> dict[str, object]:
    """What the command line makes of them."""
    with click.Context(cli).scope():
        return cli.make_context("intellect-node", words).params


@pytest.mark.parametrize("role", ROLES)
def test_the_unit_starts_the_node(role: str) -> None:
    section = unit(systemd_unit(service(role)))["Service"]
    words = shlex.split(section["ExecStart"])
    assert words[:3] == [sys.executable, "-m", "node.cli"]
    params = parsed(words[3:])
    assert (params["role"], str(params["wallet_path"]), params["port"]) == (role, "/srv/key.json", 4001)
    assert (str(params["data_dir"]), str(params["password_file"])) == (f"%S/intellect-node/{role}", "%d/password")
    assert params["join"] == (JOIN,)


def test_the_unit_confines_the_node() -> None:
    section = unit(systemd_unit(service()))["Service"]
    wanted = {"Restart": "on-failure", "StateDirectoryMode": "0700", "UMask": "0077", "NoNewPrivileges": "yes",
              "CapabilityBoundingSet": "", "ProtectSystem": "strict", "PrivateTmp": "yes",
              "LoadCredential": "password:/srv/password", "RestartPreventExitStatus": "2 3 4"}  # fmt: skip
    assert {name: section.get(name) for name in wanted} == wanted
    assert "/run/docker.sock" in section["InaccessiblePaths"]
    assert "PrivateDevices" not in section, "a worker computes, on a GPU if there is one"
    assert unit(systemd_unit(service("relay")))["Service"]["PrivateDevices"] == "yes"


@pytest.mark.parametrize("path", ["/srv/my key.json", '/srv/a"b', "/srv/100%d", "/srv/$HOME", "/srv/back\\slash"])
def test_paths_are_taken_literally(path: str) -> None:
    line = unit(systemd_unit(service(wallet=path)))["Service"]["ExecStart"]
    words = shlex.split(line)
    assert words[words.index("--wallet") + 1].replace("%%", "%").replace("$$", "$") == path


@pytest.mark.parametrize("changes", [{"wallet": "/srv/a\nUser=root"}, {"config": "run.toml"}, {"wallet": ""},
                                     {"password_file": "/a\rb"}])  # fmt: skip
def test_what_a_unit_cannot_hold_is_refused(changes: dict[str, str]) -> None:
    with pytest.raises(UserError):
        service(**changes)


@pytest.mark.parametrize("role", ROLES)
def test_the_containerfile_starts_the_node(role: str) -> None:
    text = containerfile(service(role))
    lines = re.sub(r"\\\n", " ", text).splitlines()
    instructions = [line.split(" ", 1) for line in lines if line and not line.startswith("#")]
    assert {name for name, _ in instructions} == INSTRUCTIONS
    words = json.loads(dict(instructions)["ENTRYPOINT"])
    params = parsed(words[1:])
    assert (words[0], params["role"], str(params["data_dir"])) == ("intellect-node", role, "/state")
    assert dict(instructions)["USER"] != "0"
    root = Path(__file__).resolve().parents[2]
    copied = [word for name, rest in instructions if name == "COPY" for word in rest.split()[:-1]]
    assert all((root / word).exists() for word in copied), copied
    packages = {path.parent.name for path in root.glob("*/__init__.py")} - {"tests", "benchmarks"}
    assert packages <= set(copied), "every package of the program is in the image"
    assert "docker.sock" not in text


if shutil.which("systemd-analyze"):  # elsewhere the tests above are what checks the units

    @pytest.mark.parametrize("role", ROLES)
    def test_systemd_finds_nothing_to_say(role: str, tmp_path: Path) -> None:
        path = tmp_path / f"intellect-node-{role}.service"
        path.write_text(systemd_unit(service(role, user="root")))
        argv = ["systemd-analyze", "verify", "--man=no", str(path)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        told = [line for line in (done.stdout + done.stderr).splitlines() if path.name in line]
        assert (told, done.returncode) == ([], 0), done.stderr


def test_the_command_prints_them(tmp_path: Path) -> None:
    for name in ("run.toml", "key.json", "password"):
        (tmp_path / name).write_text("")
    options = ["--role", "relay", "--config", "run.toml", "--wallet", "key.json", "--password-file", "password"]
    root = Path(__file__).resolve().parents[2]
    for kind, first in (("systemd", "[Unit]"), ("container", "FROM ")):
        done = subprocess.run(
            [sys.executable, "-m", "node.cli", "unit", kind, *options], cwd=tmp_path, capture_output=True, text=True,
            env={"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin"}, timeout=60, check=True,
        )  # fmt: skip
        assert first in done.stdout
        assert str(tmp_path / "key.json") in done.stdout
