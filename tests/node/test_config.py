"""The run's configuration: defaults, round trip, and what each fault says."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.config import SECTIONS, RunConfig, explain, legal_range, load_config, parse_config
from node.errors import ConfigError
from node.sections import Task
from rl.tasks import task_names


def test_defaults_are_legal_and_survive_toml() -> None:
    assert RunConfig.model_validate({}) == parse_config("")
    assert parse_config(RunConfig().to_toml()) == RunConfig()


@settings(deadline=None)  # a busy machine is not a fault
@given(st.text(max_size=200).filter(lambda text: not any("\ud800" <= c <= "\udfff" for c in text)))
def test_any_text_survives_toml(text: str) -> None:
    config = RunConfig().model_copy(update={"task": RunConfig().task.model_copy(update={"system_prompt": text})})
    assert parse_config(config.to_toml()) == config


def test_overrides_win_and_take_bare_words() -> None:
    config = parse_config(
        "[rl]\nsteps = 5\n",
        overrides=["rl.steps=3", "rl.steps=4", "task.name=digits", "model.path=/a/b c", "rl.learning_rate=1e-6"],
    )
    assert (config.rl.steps, config.task.name, config.model.path, config.rl.learning_rate) == (
        4,
        "digits",
        "/a/b c",
        1e-6,
    )
    address = "0x" + "Ab" * 20
    assert parse_config("", overrides=[f'trainer.validators=["{address}"]']).trainer.validators == (address,)


@pytest.mark.parametrize(
    ("text", "overrides", "words"),
    [
        ("[rl]\ngroup_sise = 8\n", (), ["rl.group_sise", "did you mean rl.group_size"]),
        ("[reinforcement]\n", (), ["reinforcement", "Known sections: model"]),
        ("steps = 3\n", (), ["steps", "did you mean rl.steps"]),
        ("rl = 3\n", (), ["rl is a section"]),
        ("[rl]\nasynchrony = 5\n", (), ["rl.asynchrony = 5", "≥ 0", "≤ 4"]),
        ("[rl]\nlearning_rate = nan\n", (), ["rl.learning_rate = nan", "> 0"]),
        ("[rl]\nsteps = 2.5\n", (), ["rl.steps = 2.5", "integer"]),
        ("[rl]\nclip_delta = 1.1\n", (), ["section rl", "clip_delta 1.1 must exceed"]),
        ("[ledger]\nroot = '0x12'\n", (), ["ledger.root = '0x12'", "40 hex digits"]),
        ("[trainer]\nvalidators = ['me']\n", (), ["trainer.validators", "'me'", "40 hex digits"]),
        ("[rl\n", (), ["not TOML"]),
        ("", ("rl.steps",), ["--set section.key=value"]),
        ("", ("rl.stepz=3",), ["rl.stepz", "did you mean rl.steps"]),
        ("", ("rl.steps=many",), ["rl.steps = 'many'", "integer"]),
    ],
)
def test_each_fault_names_key_value_and_range(text: str, overrides: tuple[str, ...], words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, overrides=overrides)
    for word in words:
        assert word in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_config_file_that_is_missing_binary_or_huge(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        load_config(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_config(tmp_path / "binary.toml")
    (tmp_path / "huge.toml").write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(ConfigError, match="larger than"):
        load_config(tmp_path / "huge.toml")
    (tmp_path / "good.toml").write_text("[task]\nmax_new_tokens = 7\n")
    assert load_config(tmp_path / "good.toml").task.max_new_tokens == 7


def test_every_key_is_documented_and_explained() -> None:
    text = explain()
    for section, model in SECTIONS.items():
        for name, field in model.model_fields.items():
            assert field.description, f"{section}.{name} has no description"
            assert f"{section}.{name} = " in text
            assert legal_range(field) in text


def test_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        RunConfig().rl.steps = 3  # type: ignore[misc]


@pytest.mark.parametrize("host", ["0.0.0.0", "999.1.1.1", "no_such_host", "::1", "1.2.3"])
def test_a_host_that_nobody_can_dial_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match=r"network\.host") as told:
        parse_config("", overrides=[f"network.host={host}"])
    assert "IPv4" in told.value.fix


def test_completions_that_leave_no_room_for_a_prompt_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"task\.max_new_tokens 100 leaves no room"):
        parse_config("", overrides=["task.max_new_tokens=100", "model.max_model_len=64"])


def test_a_policy_that_rollouts_may_come_from_is_kept() -> None:
    with pytest.raises(ConfigError, match=r"keep_versions 2 must exceed rl\.asynchrony 2"):
        parse_config("", overrides=["network.keep_versions=2"])
    assert parse_config("", overrides=["network.keep_versions=1", "rl.asynchrony=0"]).network.keep_versions == 1


@pytest.mark.parametrize("name", [*task_names(), "/data/mine.jsonl", "reasoning-gym:chain_sum?seed=1&size=9"])
def test_the_config_takes_the_tasks_that_exist(name: str) -> None:
    assert Task(name=name).name == name


@pytest.mark.parametrize("name", ["", "astrology", "mine.csv", "maths#sha256=12"])
def test_the_config_takes_no_others(name: str) -> None:
    with pytest.raises(ValueError, match=r"unknown task|64 hex digits"):
        Task(name=name)
