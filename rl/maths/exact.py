r"""Reads an answer exactly: numbers as fractions, with units; tuples, intervals, sets, lists; single words.

Arithmetic is evaluated where its outcome is rational (`5!`, `2^{-98}`, `\sqrt{16}`); what is symbolic is not read, and
is left to `rl.maths.symbolic`. No float is used and every number is bounded, so reading takes the same few steps
everywhere. It refuses to guess: an answer that is not read wholly is not read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from rl.maths.arithmetic import NoValue, evaluate

MAX_CHARS = 400
MAX_ITEMS = 64
ROUNDING_DIGITS = 6
"""Significant digits from which a decimal may stand for a fraction that no decimal equals (math-verify rounds to 6)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A rational number and its unit, as in `5 days` or `50\\%`; the unit is "" where none is written."""

    value: Fraction
    unit: str = ""
    decimals: int | None = None
    """Digits after the point where it was written as a decimal number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A name, such as a day, a choice or an infinity."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Several:
    """Values in brackets. The brackets say what they are; "" is a bare list, which may be meant in any order."""

    brackets: Literal["()", "[]", "(]", "[)", "{}", "", "∪"]
    items: tuple[Value, ...]


Value = Number | Word | Several

_NO_WORDS = frozenset({"proof", "notfound", "unknown", "undefined", "nan", "null", "error"})
"""What data sets write where they have no answer."""
_REPLACED = tuple(
    (re.compile(pattern), by)
    for pattern, by in (
        (r"\\(?:left|right|displaystyle|limits|bigl?|bigr?|Bigl?|Bigr?)(?![A-Za-z])", ""),
        (r"\\(?:d|t|c)frac(?![A-Za-z])", r"\\frac"),
        (r"\{,\}", ","),
        (r"\\[!,:;]|\\ |~|\\q?quad(?![A-Za-z])", " "),
        (r"\\(?:text|textrm|textbf|mathrm|mathbf|mbox|rm)(?![A-Za-z])", r"\\text"),
        (r"\\text\s*\{\s*(?:and|or)\s*\}", ","),
        (r"(?<=\d) (?=\d{3}(?!\d))", ""),
        (r"\\lbrace(?![A-Za-z])", r"\\{"),
        (r"\\rbrace(?![A-Za-z])", r"\\}"),
        (r"[−–]", "-"),
        (r"×|\\times(?![A-Za-z])|·", r"\\cdot "),
        (r"°|\\degree(?![A-Za-z])", r"^\\circ "),
        (r"π", r"\\pi "),
        (r"∞", r"\\infty "),
        (r"∪", r"\\cup "),
        (r"√\s*(\d+)", r"\\sqrt{\1}"),
    )
)
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_NAMED = re.compile(r"[A-Za-z](?:_\{?\w+\}?)?\s*(?:=|\\in(?![A-Za-z]))\s*(?=\S)")
_WORD = re.compile(r"[A-Za-z][A-Za-z-]*|\\text\s*\{\s*([A-Za-z][A-Za-z -]*?)\s*\}")
_INFINITY = re.compile(r"([-+]?)\s*\\infty")
_UNIT = re.compile(
    r"(?:(?P<degree>\^\s*(?:\{\s*\\circ\s*\}|\\circ)\s*[CF]?)|(?P<percent>\\?%)"
    r"|\\text\s*\{(?P<text>[^{}]*)\}(?P<power>\^\{?\d\}?)?"
    r"|(?<=[\d}) ])(?P<bare>[A-Za-z]{2,}(?:/[a-z]+)?(?:\^\{?\d\}?)?))$"
)
_CURRENCY = re.compile(r"^(-?)\s*(\\?[$€£])\s*(?=[\d.])")
_ONE_DECIMAL = re.compile(r"[-+]?\d*\.(\d+)")


def clean(text: str) -> str:
    """`text` with one spelling for each thing: no `$` around it, no sizes of brackets, no typographic spaces."""
    text = text.strip()
    if len(text) > MAX_CHARS:
        raise NoValue(f"{len(text)} characters, allowed are {MAX_CHARS}")
    if len(text) > 1 and text[0] == text[-1] == "$" and not text.endswith("\\$"):
        text = text.strip("$")
    for pattern, by in _REPLACED:
        text = pattern.sub(by, text)
    return text.strip().rstrip(".").strip()


def read(text: str) -> Value | None:
    """The answer's value; None where it is not one of those known here. Raises NoValue."""
    text = clean(text)
    if named := _NAMED.match(text):
        text = text[named.end() :]
    return _value(text) if text else None


def same(gold: Value, answer: Value) -> bool:
    """Whether `answer` is worth what `gold` is worth. Units count only where both have one."""
    if isinstance(gold, Number) and isinstance(answer, Number):
        return _same_number(gold, answer)
    if isinstance(gold, Several) and isinstance(answer, Several):
        return _same_items(gold, answer)
    return gold == answer


def _same_number(gold: Number, answer: Number) -> bool:
    if gold.unit and answer.unit and gold.unit != answer.unit and "%" not in (gold.unit, answer.unit):
        return False
    readings = {(g, a) for g in _readings(gold) for a in _readings(answer)}
    return any(g == a or _rounds(g, gold, a, answer) for g, a in readings)


def _readings(number: Number) -> tuple[Fraction, ...]:
    return (number.value, number.value / 100) if number.unit == "%" else (number.value,)


def _rounds(g: Fraction, gold: Number, a: Fraction, answer: Number) -> bool:
    """One is a decimal of enough digits; the other, which no decimal equals, gives it when cut or rounded there."""
    for decimal, exact, written in ((a, g, answer), (g, a, gold)):
        if written.decimals is None or written.unit == "%" or _terminates(exact):
            continue
        scaled, due = decimal * 10**written.decimals, exact * 10**written.decimals
        cut, rounded = int(due), int(due + Fraction(1 if due > 0 else -1, 2))
        if len(str(abs(int(scaled)))) >= ROUNDING_DIGITS and scaled in (cut, rounded):
            return True
    return False


def _terminates(value: Fraction) -> bool:
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return rest == 1


def _same_items(gold: Several, answer: Several) -> bool:
    kinds = {gold.brackets, answer.brackets}
    if kinds in ({"{}"}, {"{}", ""}):
        return _covers(gold.items, answer.items) and _covers(answer.items, gold.items)
    if len(gold.items) != len(answer.items):
        return False
    if kinds in ({""}, {"∪"}):
        return _covers(gold.items, answer.items) and _covers(answer.items, gold.items)
    if len(kinds) == 1 or kinds == {"", "()"}:
        return all(same(g, a) for g, a in zip(gold.items, answer.items, strict=True))
    return False


def _covers(some: tuple[Value, ...], others: tuple[Value, ...]) -> bool:
    return all(any(same(one, other) for other in others) for one in some)


def _value(text: str) -> Value | None:
    if _THOUSANDS.fullmatch(_CURRENCY.sub(r"\1", text)):
        return _number(text.replace(",", ""))
    for separator, brackets in (("\\cup", "∪"), (",", "")):
        parts = _split(text, separator)
        if len(parts) > 1:
            return _several(brackets, parts)
    if text.startswith("\\{") and text.endswith("\\}"):
        return _several("{}", _split(text[2:-2], ","))
    if text[:1] in ("(", "[") and text[-1:] in (")", "]"):
        parts = _split(text[1:-1], ",")
        if len(parts) > 1:
            return _several(text[0] + text[-1], parts)
    if word := _WORD.fullmatch(text):
        return _word(word[1] or word[0], bare=word[1] is None)
    if infinity := _INFINITY.fullmatch(text):
        return Word(text="-∞" if infinity[1] == "-" else "∞")
    return _number(text)


def _word(text: str, *, bare: bool) -> Word | None:
    words = text.split()
    if len(words) > (1 if bare else 5) or _NO_WORDS & {word.lower() for word in words}:
        return None
    return Word(text=" ".join(words).lower() if len(text) > 1 else text)


def _several(brackets: str, parts: list[str]) -> Several | None:
    if len(parts) > MAX_ITEMS:
        raise NoValue(f"{len(parts)} values, allowed are {MAX_ITEMS}")
    items = [_value(part.strip()) if part.strip() else None for part in parts]
    known = tuple(item for item in items if item is not None)
    return Several(brackets=brackets, items=known) if len(known) == len(items) else None  # type: ignore[arg-type]


def _split(text: str, separator: str) -> list[str]:
    """`text` at each separator outside brackets; half-open intervals close either kind."""
    parts, depth, start, place = [], 0, 0, 0
    while place < len(text):
        if text[place] in "([{":
            depth += 1
        elif text[place] in ")]}":
            depth -= 1
        elif depth == 0 and text.startswith(separator, place):
            parts.append(text[start:place])
            start = place + len(separator)
        place += 1
    return [*parts, text[start:]]


def _number(text: str) -> Number | None:
    unit = ""
    if currency := _CURRENCY.match(text):
        unit = currency[2].lstrip("\\")
        text = currency[1] + text[currency.end() :]
    elif found := _UNIT.search(text):
        unit = _unit_name(found)
        text = text[: found.start()].strip()
        text = text.replace(",", "") if _THOUSANDS.fullmatch(text) else text
    value = evaluate(text)
    if value is None:
        return None
    decimal = _ONE_DECIMAL.fullmatch(text)
    return Number(value=value, unit=unit, decimals=len(decimal[1]) if decimal else None)


def _unit_name(found: re.Match[str]) -> str:
    """One spelling a unit: no plural, no dots, no capitals."""
    if found["percent"]:
        return "%"
    if found["degree"]:
        return "degree" + found["degree"].rstrip()[-1:].replace("c", "").replace("}", "").lower()
    name = (found["text"] if found["bare"] is None else found["bare"]) + (found["power"] or "")
    name = re.sub(r"[\s.{}]", "", name).lower()
    if name in ("degree", "degrees"):
        return "degree"
    return "%" if name == "percent" else name[:-1] if len(name) > 2 and name.endswith("s") else name
