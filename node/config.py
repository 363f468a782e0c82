"""A run's settings: one TOML file, read once into frozen models.

Decides how the tables of `node.sections` and `node.role_sections` are read, overridden, written and explained. Refuses
unknown keys, values out of range and values of another type, naming key, value, range and the nearest known key. Opens
nothing but the one file.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import NoneType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import ValidationError, model_validator
from pydantic.fields import FieldInfo

from node.errors import ConfigError
from node.role_sections import Relay, Requirements, Trainer, Validator, Worker
from node.sections import NAMED_PATTERNS, Ledger, Model, Network, Rl, Section, Task

MAX_CONFIG_BYTES = 1 << 20


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
    requirements: Requirements = Requirements()

    @model_validator(mode="after")
    def _completions_fit(self) -> RunConfig:
        if self.task.max_new_tokens >= self.model.max_model_len:
            raise ValueError(
                f"task.max_new_tokens {self.task.max_new_tokens} leaves no room for a prompt in "
                f"model.max_model_len {self.model.max_model_len}"
            )
        return self

    @model_validator(mode="after")
    def _allowed_policies_are_kept(self) -> RunConfig:
        if self.network.keep_versions <= self.rl.asynchrony:
            raise ValueError(
                f"network.keep_versions {self.network.keep_versions} must exceed rl.asynchrony {self.rl.asynchrony}, "
                "or nobody can judge honest work of the oldest policy allowed"
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
        element, *_ = inner
        words = "list of integers" if element is int or get_args(element)[:1] == (int,) else "list of text"
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
