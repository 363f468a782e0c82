"""Who takes part in a local run."""

from __future__ import annotations

from pathlib import Path

import pytest

from node.config import parse_config
from node.errors import UserError
from node.local import cast, main, terms_of


def test_one_seed_gives_the_same_wallets_and_another_seed_others() -> None:
    first, again, other = (cast(workers=3, cheat=True, seed=seed) for seed in (7, 7, 8))
    keys = [[bytes(p.account.key) for p in people] for people in (first, again, other)]
    assert keys[0] == keys[1]
    assert not set(keys[0]) & set(keys[2])
    assert len(set(keys[0])) == len(first)


def test_everybody_is_there_and_the_relay_comes_first() -> None:
    people = cast(workers=2, cheat=True, seed=1)
    assert [(p.name, p.role) for p in people] == [
        ("relay", "relay"), ("trainer", "trainer"), ("validator", "validator"), ("worker-1", "worker"),
        ("worker-2", "worker"), ("cheat", "worker"),
    ]  # fmt: skip


def test_of_three_validators_the_cheat_has_bribed_one_and_more_than_half_decide() -> None:
    people = cast(workers=1, cheat=True, seed=1, validators=3, bribe=True)
    judges = [p for p in people if p.role == "validator"]
    assert [(p.name, p.honest) for p in judges] == [("validator-1", True), ("validator-2", True), ("bribed", False)]
    assert judges[-1].settings == (
        "validator.verifier=node.bribed_verifier", f'validator.verifier_arguments=["{people[-1].account.address}"]',
    )  # fmt: skip
    config = parse_config("", overrides=judges[-1].settings)
    assert config.validator.verifier_arguments == (people[-1].account.address,)
    assert [(terms_of(n).quorum, terms_of(n).panel) for n in (1, 2, 3, 4, 5)] == [
        (1, 1),
        (2, 2),
        (2, 3),
        (3, 4),
        (3, 5),
    ]


@pytest.mark.parametrize(("cheat", "bribe", "validators"), [(False, True, 3), (True, False, 3), (True, True, 2)])
def test_nobody_is_bribed_without_a_cheat_or_where_the_honest_were_no_quorum(
    cheat: bool, bribe: bool, validators: int
) -> None:
    people = cast(workers=1, cheat=cheat, seed=1, validators=validators, bribe=bribe)
    judges = [p for p in people if p.role == "validator"]
    assert len(judges) == validators
    assert all(p.honest and not p.settings for p in judges)


def test_the_cheat_differs_in_its_engine_only_and_changes_nobody_else() -> None:
    with_cheat, without = (cast(workers=2, cheat=cheat, seed=1) for cheat in (True, False))
    assert [p.account.address for p in without] == [p.account.address for p in with_cheat[:-1]]
    assert all(p.honest and not p.settings for p in without)
    cheat = with_cheat[-1]
    assert (cheat.honest, cheat.settings) == (False, ("worker.engine=node.cheat_engine",))


@pytest.mark.parametrize("path", ["file/out", "file", "full"])
def test_an_output_folder_that_cannot_be_used_is_refused_with_a_fix(path: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "kept").touch()
    with pytest.raises(UserError, match="--out"):
        main(
            config_path=None, overrides=(), steps=None, minutes=1, workers=1, validators=3, cheat=False,
            bribe=True, model=None, task=None,
            seed=1, out=tmp_path / path,
        )  # fmt: skip
    assert (tmp_path / "full" / "kept").exists()
