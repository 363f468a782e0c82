"""The commands `task …` and `eval`, by a tiny model on transformers and as a person would type them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from node import cli
from rl.tasks import load_task, task_names

QUICK = ("--backend", "transformers", "--max-new-tokens", "3", "--set", "model.compute_type=float32")


def run(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of one command."""
    with pytest.raises(SystemExit) as ended:
        cli.main([str(word) for word in argv])
    out, err = capsys.readouterr()
    return ended.value.code or 0, out, err


def answered(capsys: pytest.CaptureFixture[str], *argv: object) -> Any:
    """What the command prints as JSON."""
    code, out, err = run(capsys, *argv, "--json")
    assert code == 0, err
    return json.loads(out)


# --- show, split


def test_show_tells_what_a_task_holds(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = [
        {"problem_id": f"p{n}", "task_type": "number", "prompt": "x" * n, "gold_standard_solution": "1"}
        for n in range(9)
    ]
    path = tmp_path / "mine.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    found = answered(capsys, "task", "show", path)
    assert (found["problems"], found["dropped"], found["types"]) == (8, {"no-prompt": 1}, {"number": 8})
    assert found["mean_prompt_characters"] == 4.5
    assert found["sha256"] == load_task(str(path)).sha256()
    assert [sample["problem_id"] for sample in found["samples"]] == ["p1", "p4", "p7"]
    _, out, _ = run(capsys, "task", "show", path)
    for told in ("8 number (version 1)", "1 no-prompt", "xxxx\n", found["sha256"]):
        assert told in out


@pytest.mark.parametrize("name", task_names())
def test_every_task_can_be_split_and_demanded_by_its_hash(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = answered(capsys, "task", "split", name, "--test", "0.3", "--out", tmp_path / "out")
    train, test = (load_task(found[side]["name"]) for side in ("train", "test"))
    assert re.fullmatch(r"/.*/out/test\.jsonl#sha256=[0-9a-f]{64}", found["test"]["name"])
    ids = [task.problem(index).problem_id for task in (train, test) for index in range(task.size)]
    whole = load_task(name)
    assert sorted(ids) == sorted(whole.problem(index).problem_id for index in range(whole.size))
    code, _, err = run(capsys, "task", "split", name, "--out", tmp_path / "out")
    assert (code, "exists and is never overwritten" in err) == (1, True)


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (("task", "show", "nowhere.jsonl"), "there is no file nowhere.jsonl"),
        (("task", "show", "sums"), "unknown task 'sums'"),
        (("task", "split", "arithmetic", "--test", "0.0001", "--out", "{tmp}/s"), "one side is empty"),
        (("task", "split", "arithmetic", "--out", "{tmp}/file/s"), "cannot write"),
        (("task", "filter", "digits", "--model", "{tmp}/none", "--out", "{tmp}/k.jsonl"), "there is no folder"),
        (("task", "filter", "digits", "--model", "{model}", "--out", "{tmp}/k.csv"), "does not end in .jsonl"),
        (("task", "filter", "digits", "--low", "0.6", "--out", "{tmp}/k.jsonl"), "--low 0.6 is above --high 0.5"),
        (("task", "filter", "digits", "--model", "{model}", "--out", "{tmp}/file.jsonl"), "not made by a filter"),
        (("eval", "{tmp}/none", "--task", "digits"), "there is no folder"),
        (("eval", "{tmp}", "--task", "digits"), "is no complete model: it lacks config.json"),
        (("eval", "{model}", "--task", "sums"), "task.name = 'sums'"),
        (("eval", "{model}", "--base", "{tmp}/none", "--task", "digits"), "there is no folder"),
    ],
)
def test_a_wrong_word_is_told_with_its_cure(
    argv: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, tiny_model: Path
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "file.jsonl").write_text("")
    code, out, err = run(capsys, *(word.format(tmp=tmp_path, model=tiny_model) for word in argv))
    assert code in (1, 2)
    assert out == ""
    assert told in err
    assert "fix: " in err


# --- filter


def test_a_filter_that_was_stopped_goes_on_and_comes_to_the_same(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, tiny_model: Path
) -> None:
    out, beside = tmp_path / "kept.jsonl", tmp_path / "kept.answers.jsonl"
    words = ("task", "filter", "digits", "--model", tiny_model, "--samples", 4, "--out", out, *QUICK)
    found = answered(capsys, *words)
    kept, answers = out.read_bytes(), beside.read_bytes()
    rates = {row["problem_id"]: sum(row["rewards"]) / 4 for row in map(json.loads, answers.splitlines()[1:])}
    assert len(rates) == 40
    counts = found["counts"]
    assert counts["kept"] == sum(0.125 <= rate <= 0.5 for rate in rates.values()) == found["problems"] > 0
    assert counts["too-easy"] == sum(rate > 0.5 for rate in rates.values())
    assert counts["too-hard"] == sum(rate < 0.125 for rate in rates.values())
    assert counts["ungraded"] == 0
    task = load_task(found["name"])
    for index in range(task.size):
        assert task.problem(index).metadata["pass_rate"] == str(rates[task.problem(index).problem_id])

    # Killed in the middle of a line of the second part: the first is kept, the rest is answered again, as before.
    out.unlink()
    beside.write_bytes(b"".join(answers.splitlines(keepends=True)[:20]) + b'{"problem_id": "dig')
    _, _, err = run(capsys, *words)
    assert "answered: 40 of 40 problems" in err
    assert (out.read_bytes(), beside.read_bytes()) == (kept, answers)

    # Another band asks nothing again; another question is another file's.
    _, _, err = run(capsys, *words, "--high", "0.25")
    assert "answered" not in err
    assert len(out.read_bytes().splitlines()) == sum(0.125 <= rate <= 0.25 for rate in rates.values())
    code, _, err = run(capsys, *words, "--seed", "1")
    assert (code, "answers another question: seed was 0" in err) == (1, True)
    assert beside.read_bytes() == answers


# --- eval


def test_eval_beside_the_base(capsys: pytest.CaptureFixture[str], tmp_path: Path, tiny_model: Path) -> None:
    words = ("eval", tiny_model, "--base", tiny_model, "--task", "digits", "--limit", 18, "--samples", 4, *QUICK)
    out = tmp_path / "report.json"
    report = answered(capsys, *words, "--out", out)
    assert json.loads(out.read_text()) == report
    assert (report["problems"], report["samples"], report["backend"]) == (18, 4, "transformers")
    assert report["task_sha256"] == load_task("digits").sha256()
    model, base = report["model"], report["base"]
    assert model == base, "the same policy, problems and noise: the same answers"
    assert {k: gain["mean"] for k, gain in report["difference"]["pass"].items()} == {"1": 0.0, "2": 0.0, "4": 0.0}
    assert model["avg"] == model["pass"]["1"]
    assert 0 <= model["avg"]["low"] <= model["avg"]["mean"] <= model["avg"]["high"] < 1
    assert model["pass"]["1"]["mean"] < model["pass"]["2"]["mean"] < model["pass"]["4"]["mean"]
    assert 1 <= model["mean_tokens"] <= 3
    assert model["mean_target_miss"] is None


def test_eval_with_target_lengths_and_for_people(capsys: pytest.CaptureFixture[str], tiny_model: Path) -> None:
    words = ("eval", tiny_model, "--task", "digits", "--limit", 4, "--samples", 2, *QUICK)
    code, out, _ = run(capsys, *words, "--set", "task.length_targets=[3]", "--set", "task.length_alpha=0.1")
    assert code == 0
    for told in ("4 problems of digits, 2 answers each at temperature 1", "avg@2", "pass@2", "off target", "bootstrap"):
        assert told in out
    assert "difference" not in out


def test_a_task_too_long_for_the_model_is_told(capsys: pytest.CaptureFixture[str], tiny_model: Path) -> None:
    words = ("eval", tiny_model, "--task", "digits", "--backend", "transformers", "--max-new-tokens", 300)
    code, _, err = run(capsys, *words)
    assert code == 1
    assert re.search(r"prompt and completion need 3\d\d tokens, the model has 256: ask for fewer", err)
