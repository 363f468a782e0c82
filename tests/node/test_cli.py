"""The command line: what it imports, what it says, and that no secret is asked for in the open."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import types
from pathlib import Path
from typing import Any

import click
import pytest

from ledger.types import Terms
from node import cli
from node.config import load_config, parse_config
from node.errors import UserError
from node.wallet import create_wallet, wallet_address

JOIN = f"/ip4/1.2.3.4/tcp/1/p2p/Qm{'a' * 44}"


def run(capsys: pytest.CaptureFixture[str], *argv: str | Path) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of one command."""
    with pytest.raises(SystemExit) as ended:
        cli.main([str(word) for word in argv])
    out, err = capsys.readouterr()
    return ended.value.code or 0, out, err


@pytest.fixture
def password(tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_text("pw\n")
    return path


def test_importing_the_command_line_imports_nothing_heavy() -> None:
    heavy = "{'torch', 'vllm', 'hivemind', 'libp2p', 'transformers', 'trio', 'eth_account', 'pydantic'}"
    code = f"import sys, node.cli; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def commands(group: click.Group, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for name, command in group.commands.items():
        found += commands(command, (*path, name)) if isinstance(command, click.Group) else [(*path, name)]
    return found


@pytest.mark.parametrize("words", [(), *commands(cli.cli)], ids=" ".join)
def test_every_help_teaches_with_an_example(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, *words, "--help")
    assert code == 0
    assert "Example" in out
    assert f"intellect-node {' '.join(words)}".strip() in out


# What these print is for programs already, or never ends.
WITHOUT_JSON = {("config",), ("run", "local"), ("chain", "start"), ("unit", "systemd"), ("unit", "container")}


@pytest.mark.parametrize("words", sorted({*commands(cli.cli)} - WITHOUT_JSON), ids=" ".join)
def test_every_other_command_can_answer_in_json(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert "--json" in run(capsys, *words, "--help")[1]


def test_no_option_takes_a_password() -> None:
    names = {
        option for command in [cli.cli, *cli.wallet.commands.values()] for p in command.params for option in p.opts
    }
    assert "--password" not in names
    assert {"--password-file", "--password-fd"} <= names


def test_wallet_new_and_show(
    tmp_path: Path, password: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.wallet.create_wallet", lambda path, secret: create_wallet(path, secret, iterations=2))
    key = tmp_path / "keys" / "key.json"
    code, out, err = run(capsys, "wallet", "new", key, "--password-file", password)
    assert (code, out.strip(), err) == (0, wallet_address(key), "")
    assert run(capsys, "wallet", "show", key)[:2] == (0, out)
    code, _, err = run(capsys, "wallet", "new", key, "--password-file", password)
    assert code == 1
    assert err == f"error: {key} exists and is never overwritten\nfix: choose another file name\n"
    code, _, err = run(capsys, "wallet", "show", tmp_path / "none.json")
    assert code == 3
    assert "fix: make one: intellect-node wallet new" in err


def test_config_prints_what_holds_and_explains(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "config", "--set", "rl.steps=3")
    assert code == 0
    assert tomllib.loads(out)["rl"]["steps"] == 3
    assert "rl.asynchrony = 2   (integer, ≥ 0, ≤ 4)" in run(capsys, "config", "--explain")[1]
    code, _, err = run(capsys, "config", "--set", "rl.asynchrony=9")
    assert code == 2
    assert err.startswith("error: rl.asynchrony = 9 is not legal\nfix: ")


def fake(
    monkeypatch: pytest.MonkeyPatch, module: str, name: str, result: Any = None
) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Puts a function that records its calls in the place of `module.name`."""
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def record(*given: Any, **named: Any) -> Any:
        calls.append((given, named))
        return result

    monkeypatch.setitem(sys.modules, module, types.SimpleNamespace(**{name: record}))
    return calls


def test_a_role_is_handed_everything_it_needs(
    tmp_path: Path, password: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = fake(monkeypatch, "node.start", "run_role")
    key = tmp_path / "key.json"
    address = create_wallet(key, "pw", iterations=2)
    options = [
        "--role",
        "worker",
        "--wallet",
        key,
        "--password-file",
        password,
        "--rpc",
        "http://127.0.0.1:1",
        "--port",
        "7",
    ]
    code, _, err = run(
        capsys, *options, "--join", JOIN, "--join", JOIN.replace("tcp/1", "tcp/2"), "--set", "worker.threads=2"
    )
    assert (code, err) == (0, "")
    (((role, config, account), named),) = calls
    assert (role, account.address, config.ledger.rpc, config.worker.threads) == (
        "worker",
        address,
        "http://127.0.0.1:1",
        2,
    )
    assert named == {"join": (JOIN, JOIN.replace("tcp/1", "tcp/2")), "data_dir": Path("data-worker"), "port": 7}


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (["--role", "worker"], 2, "--wallet"),
        (["--role", "worker", "--wallet", "/none/key.json"], 3, "there is no wallet at /none/key.json"),
        (["--role", "miner"], 2, "trainer"),
        (["--role", "worker", "peers"], 2, "takes no command"),
        (["pool", "invite", "me"], 2, "not an address"),
        (["pool", "create"], 2, "--wallet is missing"),
        (["peers", "--set", "task.nam=x"], 2, "did you mean task.name"),
    ],
)
def test_what_a_wrong_command_says(argv: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    got, _, err = run(capsys, *argv)
    assert got == code
    assert words in err
    assert "Traceback" not in err


def test_run_local_is_handed_its_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = fake(monkeypatch, "node.local", "main")
    options = [
        "--steps",
        "3",
        "--no-cheat",
        "--validators",
        "5",
        "--no-bribe",
        "--seed",
        "7",
        "--model",
        "/m",
        "--out",
        tmp_path,
        "--set",
        "rl.group_size=4",
    ]
    assert run(capsys, "run", "local", *options)[0] == 0
    ((_, named),) = calls
    wanted = {"steps": 3, "cheat": False, "seed": 7, "model": "/m", "out": tmp_path, "workers": 2, "minutes": 15.0}
    wanted |= {"validators": 5, "bribe": False}
    assert wanted.items() <= named.items()
    assert (named["overrides"], named["config_path"], named["task"]) == (("rl.group_size=4",), None, None)


def test_pool_commands(
    tmp_path: Path, password: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    key, out = tmp_path / "key.json", tmp_path / "run.toml"
    address = create_wallet(key, "pw", iterations=2)
    wallet = ["--wallet", key, "--password-file", password]
    calls = fake(monkeypatch, "node.pool", "invite")
    assert run(capsys, "pool", "invite", address.lower(), *wallet, "--join", JOIN)[:2] == (
        0,
        f"{address} has joined the pool as worker\n",
    )
    assert calls[0][1] == {"node": address, "role": "worker", "join": (JOIN,)}
    made = parse_config("", overrides=["ledger.pool_id=4"])
    calls = fake(monkeypatch, "node.pool", "create", made)
    assert run(capsys, "pool", "create", *wallet, "--out", out)[:2] == (0, f"pool 4; its config is in {out}\n")
    assert load_config(out) == made
    named = calls[0][1]
    assert (named["name"], named["manager"], named["start"]) == ("default", None, True)
    assert named["terms"] == Terms(min_stake_wei=10**18, slash_wei=10**18)
    other = ["--unit-price", "0.001", "--quorum", "2", "--challenge", "60", "--requirements", "https://x", "--pending"]
    assert run(capsys, "pool", "create", *wallet, "--out", tmp_path / "other.toml", *other)[0] == 0
    terms = Terms(
        min_stake_wei=10**18, slash_wei=10**18, unit_price_wei=10**15, quorum=2, panel=2, challenge_s=60,
        requirements_uri="https://x",
    )  # fmt: skip
    assert (calls[1][1]["terms"], calls[1][1]["start"]) == (terms, False)
    assert "is not overwritten" in run(capsys, "pool", "create", *wallet, "--out", out)[2]
    assert "more than --min-stake" in run(capsys, "pool", "create", *wallet, "--slash", "2")[2]
    assert "less than --quorum" in run(capsys, "pool", "create", *wallet, "--quorum", "3", "--panel", "2")[2]
    fake(monkeypatch, "node.pool", "show", ({"pool_id": 1}, {"pool": "1", "owner": "me"}))
    assert run(capsys, "pool", "show") == (0, "pool   1\nowner  me\n", "")
    assert run(capsys, "pool", "show", "--json") == (0, '{\n  "pool_id": 1\n}\n', "")


def test_a_user_error_from_inside_a_nursery_is_shown_without_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise BaseExceptionGroup(
            "nursery", [ExceptionGroup("inner", [UserError("no peer alive", fix="check --join", exit_code=4)])]
        )

    monkeypatch.setitem(sys.modules, "node.peers", types.SimpleNamespace(main=fail))
    assert run(capsys, "peers") == (4, "", "error: no peer alive\nfix: check --join\n")
