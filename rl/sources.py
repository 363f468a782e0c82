"""Where the problems of a task come from, by its name: a file, a generator, a data set of a hub, or this package.

    maths · code                                         bundled
    /data/problems.jsonl · /data/problems.parquet        a file
    reasoning-gym:NAME?seed=1&size=500&OPTION=VALUE      a generator
    hf:OWNER/NAME?split=train&name=SUBSET&revision=HASH  a data set of a hub, for machines with a network

Any of them may end in `#sha256=HEX`, the hash that the task must have. Decides how a name is read, and bounds what is
read. It installs nothing and refuses, with the command to type, where a package is missing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qsl

from rl import flat_json

BUNDLED = ("maths", "code")
_DATA = Path(__file__).with_name("data")
MAX_FILE_BYTES = 2 << 30
MAX_LINE_BYTES = 16 << 20
MAX_GENERATED = 100_000
ANSWER_TAGS = "\n\nGive the final answer between <answer> and </answer>."


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A task's name, read."""

    kind: Literal["bundled", "file", "generator", "hub"]
    where: str
    options: dict[str, str]
    sha256: str
    """Lower-case hex that the task must have; "" where none is demanded."""

    @property
    def title(self) -> str:
        """The same on every machine, wherever a file lies there."""
        return Path(self.where).stem if self.kind == "file" else self.where


def parse_source(name: str) -> Source | None:
    """The source that `name` means; None where it is of no known form. Raises ValueError for a bad hash or option."""
    name, _, fragment = name.partition("#")
    sha256 = fragment.removeprefix("sha256=").lower()
    if fragment and (not fragment.startswith("sha256=") or len(sha256) != 64 or set(sha256) - set("0123456789abcdef")):
        raise ValueError("after # comes sha256= and 64 hex digits")
    kind, _, rest = name.partition(":")
    if name in BUNDLED:
        return Source(kind="bundled", where=name, options={}, sha256=sha256)
    if kind in ("reasoning-gym", "hf") and rest:
        where, _, query = rest.partition("?")
        options = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []
        if len(dict(options)) != len(options):
            raise ValueError(f"an option is given twice in {name!r}")
        known = {"reasoning-gym": "generator", "hf": "hub"}
        return Source(kind=known[kind], where=where, options=dict(options), sha256=sha256)  # type: ignore[arg-type]
    if name.endswith((".jsonl", ".parquet")):
        return Source(kind="file", where=name, options={}, sha256=sha256)
    return None


def rows_of(source: Source) -> Iterable[object]:
    """The rows that `rl.problems.read_rows` takes. Raises ValueError, with what to do."""
    if source.kind == "bundled":
        return _lines(_DATA / f"{source.where}.jsonl")
    if source.kind == "generator":
        return _generated(source)
    if source.kind == "hub":
        return _from_hub(source)
    path = Path(source.where)
    if not path.is_file():
        raise ValueError(f"there is no file {path}; give the path of a .jsonl or .parquet file")
    if path.stat().st_size > MAX_FILE_BYTES:
        raise ValueError(f"{path} has {path.stat().st_size} bytes, allowed are {MAX_FILE_BYTES}")
    return _lines(path) if path.suffix == ".jsonl" else _parquet(path)


def _lines(path: Path) -> Iterator[object]:
    with path.open("rb") as file:
        number = 0
        while line := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                raise ValueError(f"{path}: line {number} has more than {MAX_LINE_BYTES} bytes")
            if not line.strip():
                continue
            try:
                yield flat_json.loads(line)
            except ValueError as error:
                raise ValueError(f"{path}: line {number} is no JSON: {error}") from error


def _parquet(path: Path) -> Iterator[object]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=1024, use_threads=False):
                yield from batch.to_pylist()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a readable Parquet file: {error}") from error


def _generated(source: Source) -> Iterator[dict[str, Any]]:
    if find_spec("reasoning_gym") is None:
        raise ValueError(
            f"{source.where} needs reasoning-gym: .venv/bin/python -m pip install reasoning-gym==VERSION, the one in "
            "pyproject.toml"
        )
    import reasoning_gym

    options = {key: _plain(value) for key, value in source.options.items()}
    if not {"seed", "size"} <= set(options):
        raise ValueError(f"reasoning-gym:{source.where} needs ?seed=…&size=…, so that everybody has the same problems")
    if not isinstance(options["size"], int) or not 1 <= options["size"] <= MAX_GENERATED:
        raise ValueError(f"size of reasoning-gym:{source.where} must be 1 to {MAX_GENERATED}")
    try:
        dataset = reasoning_gym.create_dataset(source.where, **options)
    except (ValueError, TypeError, AssertionError) as error:
        raise ValueError(f"reasoning-gym:{source.where}: {error}") from error
    generator = json.dumps({"name": source.where, "options": options}, sort_keys=True)
    for index in range(options["size"]):
        entry = dataset[index]
        yield {
            "problem_id": f"{source.where}/{index}",
            "task_type": "reasoning-gym",
            "prompt": entry["question"].strip() + ANSWER_TAGS,
            "gold_standard_solution": str(entry["answer"]),
            "verification_info": {"generator": generator, "entry": json.dumps({"index": index})},
        }


def _plain(value: str) -> Any:
    """A number or true or false where it is one."""
    try:
        return json.loads(value)
    except ValueError:
        return value


def _from_hub(source: Source) -> Iterable[object]:
    if find_spec("datasets") is None:
        raise ValueError(f"hf:{source.where} needs the package datasets: .venv/bin/python -m pip install datasets")
    import datasets

    unknown = set(source.options) - {"split", "name", "revision"}
    if unknown:
        raise ValueError(f"hf:{source.where}: unknown option {sorted(unknown)[0]!r}; known: split, name, revision")
    options = {"split": "train"} | source.options
    return datasets.load_dataset(source.where, **options)
