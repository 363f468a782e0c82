"""Tasks from data sets: what becomes a problem, what is dropped and counted, and that everybody has the same."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rl import sources, task_types
from rl.problems import MAX_PROMPT_CHARS, Problem, RowInvalid, read_rows
from rl.sandbox import run as sandbox
from rl.sources import parse_source
from rl.tasks import RewardFailed, Task, check_name, load_task

ROW = {"problem_id": "a", "task_type": "number", "prompt": "1 + 1?", "gold_standard_solution": "2"}


def write(path: Path, *rows: object) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_a_file_becomes_a_task(tmp_path: Path) -> None:
    task = load_task(write(tmp_path / "mine.jsonl", ROW, ROW | {"problem_id": "b", "metadata": {"level": 3}}))
    assert (task.name, task.size, dict(task.dropped)) == ("mine", 2, {})
    assert task.problem(1).metadata == {"level": "3"}
    assert task.problem(1).source == "mine"
    assert task.reward(task.problem(0), "it is 2", True) == 1.0


def test_parquet_and_jsonl_are_the_same_task(tmp_path: Path) -> None:
    rows = [ROW | {"verification_info": {"a": "1"}}, ROW | {"problem_id": "b", "verification_info": {"a": "2"}}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "same.parquet")
    one = load_task(write(tmp_path / "same.jsonl", *rows))
    assert load_task(str(tmp_path / "same.parquet")).sha256() == one.sha256()


def test_where_a_file_lies_is_no_part_of_the_task(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    one, other = (load_task(write(folder / "t.jsonl", ROW)) for folder in (tmp_path, tmp_path / "other"))
    assert one.sha256() == other.sha256()


def test_faulty_rows_are_dropped_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    maths = ROW | {"task_type": "maths"}
    code = ROW | {"task_type": "code", "gold_standard_solution": None}
    rows = [
        ROW,
        ROW,
        ROW | {"problem_id": "long", "prompt": "x" * (MAX_PROMPT_CHARS + 1)},
        ROW | {"problem_id": "blank", "prompt": " "},
        ROW | {"problem_id": "nothing", "gold_standard_solution": None},
        ROW | {"problem_id": "word", "gold_standard_solution": "two"},
        maths | {"problem_id": "proof", "gold_standard_solution": "see proof"},
        maths | {"problem_id": "none", "gold_standard_solution": ""},
        maths | {"problem_id": "good", "gold_standard_solution": "2"},
        code | {"problem_id": "untested", "verification_info": {"mode": "stdin", "tests": []}},
    ]
    with caplog.at_level(logging.WARNING):
        task = load_task(write(tmp_path / "faulty.jsonl", *rows))
    assert [task.problem(index).problem_id for index in range(task.size)] == ["a", "good"]
    counts = {"duplicate-id": 1, "prompt-too-long": 1, "no-prompt": 1, "no-gold": 2, "unusable-gold": 2}
    assert dict(task.dropped) == counts | {"unusable-tests": 1}
    assert "8 rows dropped: 1 duplicate-id, 2 no-gold" in caplog.text


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ([], "row 2 is no object"),
        (ROW | {"problem_id": None}, "problem_id must be text"),
        (ROW | {"problem_id": ""}, "0 characters"),
        (ROW | {"problem_id": "x" * 201}, "201 characters"),
        (ROW | {"prompt": ["a"]}, "prompt must be text, not list"),
        (ROW | {"gold_standard_solution": 2.5}, "must be text, not float"),
        (ROW | {"problem_id": "b", "metadata": "{"}, "metadata is no JSON"),
        (ROW | {"problem_id": "b", "metadata": "[1]"}, "metadata must be an object"),
        (ROW | {"problem_id": "b", "task_type": "magic"}, "unknown task_type 'magic'; known: code, maths, number"),
    ],
)
def test_a_broken_data_set_is_refused_with_its_row(tmp_path: Path, row: object, fault: str) -> None:
    with pytest.raises(ValueError, match=fault.replace("(", r"\(")):
        load_task(write(tmp_path / "broken.jsonl", ROW, row))


def test_a_data_set_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rl.problems.MAX_PROBLEMS", 3)
    with pytest.raises(RowInvalid, match="more than 3 rows"):
        read_rows((ROW | {"problem_id": str(number)} for number in range(10)), "x")


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("t.jsonl", None, "there is no file"),
        ("t.jsonl", b"{", "line 1 is no JSON"),
        ("t.jsonl", b"\n\n" + b"[" * 100_000, "line 3 is no JSON"),
        ("t.jsonl", b"", "no usable problem"),
        ("t.parquet", b"PAR1 not", "not a readable Parquet file"),
    ],
)
def test_an_unreadable_file_is_refused(tmp_path: Path, name: str, content: bytes | None, fault: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=fault):
        load_task(str(tmp_path / name))


def test_a_demanded_hash_is_checked(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", ROW)
    digest = load_task(path).sha256()
    assert load_task(f"{path}#sha256={digest.upper()}").sha256() == digest
    write(tmp_path / "t.jsonl", ROW | {"gold_standard_solution": "3"})
    with pytest.raises(ValueError, match="differs from the pool owner's"):
        load_task(f"{path}#sha256={digest}")


def test_the_hash_covers_every_problem_its_order_and_how_it_is_judged() -> None:
    def task(*problems: Problem, **versions: str) -> Task:
        return Task(
            name="t", size=len(problems), make_problem=problems.__getitem__, score=lambda *a: 0.0, versions=versions
        )

    one = Problem(problem_id="1", source="t", task_type="number", prompt="?", gold_standard_solution="1")
    two = replace(one, problem_id="2")
    tasks = [task(one, two, number="1"), task(two, one, number="1"), task(one, number="1"), task(one, two, number="2")]
    tasks.append(task(replace(one, gold_standard_solution="2"), two, number="1"))
    assert len({each.sha256() for each in tasks}) == len(tasks)


@pytest.mark.parametrize("name", ["maths#sha256=1", "maths#md5=1", "reasoning-gym:a?x=1&x=2", "hf:a/b?split"])
def test_a_name_that_cannot_be_read_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"64 hex digits|given twice|bad query"):
        check_name(name)


def test_names_are_read() -> None:
    found = parse_source("hf:owner/set?split=test&revision=abc")
    assert found is not None
    assert (found.kind, found.where, found.options) == ("hub", "owner/set", {"split": "test", "revision": "abc"})
    assert parse_source("reasoning-gym:") is None
    assert parse_source("arithmetic") is None


# --- rewards that fail ---


def test_a_reward_is_what_a_rollout_file_stores_of_it() -> None:
    problem = Problem(problem_id="p", source="t", task_type="number", prompt="?", gold_standard_solution="1")
    task = Task(name="t", size=1, make_problem=lambda index: problem, score=lambda *a: 0.1)
    stored = pa.array([0.1], pa.float32())[0].as_py()
    assert task.reward(problem, "1", True) == stored != 0.1
    assert task.agrees(problem, "1", True, stored)


@pytest.mark.parametrize(
    "score",
    [
        lambda *a: 1 / 0,
        lambda *a: float("nan"),
        lambda *a: float("inf"),
        lambda *a: None,
        lambda *a: 1e300,
        lambda *a: 2.0,
        lambda *a: -1.0,
    ],
)
def test_a_reward_that_cannot_be_computed_is_never_a_zero(score: object) -> None:
    problem = Problem(problem_id="p", source="t", task_type="number", prompt="?", gold_standard_solution="1")
    task = Task(name="t", size=1, make_problem=lambda index: problem, score=score)  # type: ignore[arg-type]
    with pytest.raises(RewardFailed, match="p: "):
        task.reward(problem, "1", True)
    with pytest.raises(RewardFailed, match="p: "):
        task.agrees(problem, "1", True, 0.0)


def test_without_a_sandbox_code_is_refused_when_the_task_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "available", lambda: {"namespaces": "Operation not permitted"})
    load_task.cache_clear()
    with pytest.raises(sandbox.SandboxUnavailable, match="code tasks need a sandbox"):
        load_task("code")
    load_task.cache_clear()


@pytest.mark.parametrize(("name", "wrong"), [("maths", "\\boxed{-1}"), ("code", "```python\npass\n```")])
def test_a_validator_agrees_with_the_worth_and_nothing_else(name: str, wrong: str) -> None:
    task = load_task(name)
    problem = task.problem(0)
    gold = problem.gold_standard_solution
    right = f"\\boxed{{{gold}}}" if name == "maths" else f"```python\n{gold}```"
    for text, worth in ((right, 1.0), (wrong, 0.0)):
        assert task.reward(problem, text, True) == worth
        assert task.agrees(problem, text, True, worth)
        assert not task.agrees(problem, text, True, 1.0 - worth)


# --- functions of other packages ---


@pytest.fixture
def _installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    point = EntryPoint(name="shouting", value="tests.rl.reward_functions:shouting", group=task_types.GROUP)
    monkeypatch.setattr(task_types, "entry_points", lambda group: [point])
    task_types.task_types.cache_clear()
    yield
    task_types.task_types.cache_clear()


@pytest.mark.usefixtures("_installed")
def test_a_new_environment_is_one_function(tmp_path: Path) -> None:
    task = load_task(write(tmp_path / "loud.jsonl", ROW | {"task_type": "shouting", "gold_standard_solution": "AHOY"}))
    problem = task.problem(0)
    assert task.reward(problem, "AHOY", True) == 1.0
    assert task.reward(problem, "ahoy", True) == 0.0
    assert task.agrees(problem, "AHOY", True, 1.0)
    assert not task.agrees(problem, "ahoy", True, 1.0)
    with pytest.raises(RewardFailed, match="ZeroDivisionError"):
        task.reward(problem, "divide", True)
    with pytest.raises(RewardFailed, match="nan"):
        task.reward(problem, "nan", True)


@pytest.mark.usefixtures("_installed")
def test_one_that_never_returns_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_types, "REWARD_LIMITS", replace(task_types.REWARD_LIMITS, cpu_s=1))
    task = load_task(write(tmp_path / "endless.jsonl", ROW | {"task_type": "shouting"}))
    with pytest.raises(RewardFailed, match="overran"):
        task.reward(task.problem(0), "forever", True)


# --- generators and hubs ---


@pytest.fixture
def _generators(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A stand-in for reasoning-gym, here and in the grading process."""
    monkeypatch.syspath_prepend(str(Path(__file__).with_name("fake_generators")))
    monkeypatch.delitem(sys.modules, "reasoning_gym", raising=False)
    task_types._generated_grader.cache_clear()
    yield
    task_types._generated_grader.cache_clear()
    sys.modules.pop("reasoning_gym", None)


@pytest.mark.usefixtures("_generators")
def test_a_generator_becomes_a_task() -> None:
    task = load_task("reasoning-gym:doubling?seed=3&size=5")
    problem = task.problem(4)
    assert (task.size, problem.problem_id, problem.gold_standard_solution) == (5, "doubling/4", "608")
    assert problem.prompt.startswith("Twice 304?")
    assert task.reward(problem, "<think><answer>1</answer></think><answer> 608 </answer>", True) == 1.0
    assert task.reward(problem, "<answer>609</answer>", True) == 0.0
    assert task.sha256() != load_task("reasoning-gym:doubling?seed=4&size=5").sha256()


@pytest.mark.usefixtures("_generators")
def test_a_check_that_evaluates_the_answer_gives_nothing_away(tmp_path: Path) -> None:
    task = load_task("reasoning-gym:doubling?seed=3&size=5")
    left = tmp_path / "left"
    with pytest.raises(RewardFailed, match="Operation not permitted"):
        task.reward(task.problem(0), f"os.open({str(left)!r}, os.O_CREAT | os.O_WRONLY)", True)
    assert not left.exists()


@pytest.mark.usefixtures("_generators")
@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("reasoning-gym:doubling", "needs \\?seed"),
        ("reasoning-gym:doubling?seed=1&size=0", "must be 1 to"),
        ("reasoning-gym:doubling?seed=1&size=5&factor=-1", "factor must be positive"),
        ("reasoning-gym:doubling?seed=1&size=5&colour=red", "colour"),
        ("reasoning-gym:nope?seed=1&size=5", "not registered"),
    ],
)
def test_a_generator_that_is_asked_wrongly_says_so(name: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        load_task(name)


@pytest.mark.parametrize(
    ("name", "advice"),
    [("reasoning-gym:chain_sum?seed=1&size=2", "reasoning-gym"), ("hf:owner/set", "datasets")],
)
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, name: str, advice: str) -> None:
    monkeypatch.setattr(sources, "find_spec", lambda package: None)
    with pytest.raises(ValueError, match=f"pip install {advice}"):
        load_task(name)


def test_a_set_of_a_hub_becomes_a_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "datasets.py").write_text(
        "def load_dataset(where, **options):\n"
        "    yield {'problem_id': 'a', 'task_type': 'number', 'prompt': f'{where} {sorted(options.items())}',\n"
        "           'gold_standard_solution': '2', 'verification_info': '{\"a\": 1}', 'unknown': 1}\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "datasets", raising=False)
    task = load_task("hf:owner/set?revision=abc")
    assert task.problem(0).prompt == "owner/set [('revision', 'abc'), ('split', 'train')]"
    assert task.problem(0).verification_info == {"a": "1"}
    with pytest.raises(ValueError, match="unknown option 'branch'"):
        load_task("hf:owner/set?branch=x")
    sys.modules.pop("datasets", None)
