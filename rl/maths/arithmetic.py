r"""Rational arithmetic as it is written in an answer: `5!`, `2^{-98}`, `\frac{1}{3}`, `2\frac12`, `\sqrt{16}`.

Evaluated in fractions, with bounds on every number met on the way. What is not rational it refuses.
"""

from __future__ import annotations

import re
from fractions import Fraction
from math import factorial, isqrt

MAX_DIGITS = 60
MAX_BITS = 100_000
MAX_FACTORIAL = 1000
MAX_DEPTH = 20


class NoValue(ValueError):
    """It is arithmetic, but without a value: a division by zero, or a number beyond the bounds. It equals nothing."""


def evaluate(text: str) -> Fraction | None:
    """The value of `text`; None where it is more, or less, than rational arithmetic. Raises NoValue."""
    return _Arithmetic(text).whole()


class _Arithmetic:
    """Recursive descent over one expression."""

    _TOKEN = re.compile(r"\s*(\\frac|\\sqrt|\\cdot|\\div|\d+(?:\.\d+)?|\.\d+|[-+*/^!(){}\[\]])")

    def __init__(self, text: str) -> None:
        self._tokens: list[str] | None = []
        self._place, place, text = 0, 0, text.strip()
        while self._tokens is not None and place < len(text):
            match = self._TOKEN.match(text, place)
            if match is None:
                self._tokens = None
            else:
                self._tokens.append(match[1])
                place = match.end()

    def whole(self) -> Fraction | None:
        if not self._tokens:
            return None
        try:
            value = self._sum(0)
        except NotRational:
            return None
        except ZeroDivisionError:
            raise NoValue("a division by zero") from None
        return value if self._place == len(self._tokens) else None

    def _next(self) -> str:
        return self._tokens[self._place] if self._tokens and self._place < len(self._tokens) else ""

    def _take(self, *wanted: str) -> str:
        token = self._next()
        if token not in wanted:
            return ""
        self._place += 1
        return token

    def _need(self, wanted: str) -> None:
        if not self._take(wanted):
            raise NotRational

    def _sum(self, depth: int) -> Fraction:
        if depth > MAX_DEPTH:
            raise NoValue(f"brackets more than {MAX_DEPTH} deep")
        value = self._product(depth)
        while sign := self._take("+", "-"):
            term = self._product(depth)
            value = _bounded(value + term if sign == "+" else value - term)
        return value

    def _product(self, depth: int) -> Fraction:
        value = self._signed(depth)
        while operator := self._take("*", "\\cdot", "/", "\\div"):
            factor = self._signed(depth)
            value = _bounded(value * factor if operator in ("*", "\\cdot") else value / factor)
        return value

    def _signed(self, depth: int) -> Fraction:
        negative = False
        while sign := self._take("+", "-"):
            negative ^= sign == "-"
        value = self._power(depth)
        return -value if negative else value

    def _power(self, depth: int) -> Fraction:
        whole_number = self._next().isdecimal()
        value = self._atom(depth)
        if whole_number and self._next() == "\\frac":  # 2\frac{1}{2} is a mixed number
            value += self._atom(depth)
        while self._take("!"):
            if value.denominator != 1 or not 0 <= value <= MAX_FACTORIAL:
                raise NoValue(f"a factorial of something else than 0 to {MAX_FACTORIAL}")
            value = _bounded(Fraction(factorial(int(value))))
        if self._take("^"):
            value = _raised(value, self._exponent(depth))
        return value

    def _exponent(self, depth: int) -> Fraction:
        if self._take("{"):
            exponent = self._sum(depth + 1)
            self._need("}")
            return exponent
        if self._take("-"):
            return -self._exponent(depth + 1) if depth < MAX_DEPTH else self._sum(depth + 1)
        return self._power(depth + 1) if depth < MAX_DEPTH else self._sum(depth + 1)

    def _atom(self, depth: int) -> Fraction:
        for opening, closing in (("(", ")"), ("{", "}")):
            if self._take(opening):
                value = self._sum(depth + 1)
                self._need(closing)
                return value
        if self._take("\\frac"):
            above = self._argument(depth)
            return _bounded(above / self._argument(depth))
        if self._take("\\sqrt"):
            return self._root(depth)
        token = self._next()
        if not token or not (token[0].isdigit() or token[0] == "."):
            raise NotRational
        if len(token) > MAX_DIGITS:
            raise NoValue(f"a number of {len(token)} digits")
        self._place += 1
        return Fraction(token)

    def _argument(self, depth: int) -> Fraction:
        r"""Of \frac or \sqrt: a group in braces, or one digit of a number that goes on, as in \frac92."""
        if self._take("{"):
            value = self._sum(depth + 1)
            self._need("}")
            return value
        token = self._next()
        if not token.isdecimal() or self._tokens is None:
            raise NotRational
        self._tokens[self._place : self._place + 1] = [token[0], token[1:]] if len(token) > 1 else [token]
        self._place += 1
        return Fraction(token[0])

    def _root(self, depth: int) -> Fraction:
        if self._next() == "[":
            raise NotRational
        value = self._argument(depth)
        if value < 0:
            raise NotRational
        above, below = isqrt(value.numerator), isqrt(value.denominator)
        if above**2 != value.numerator or below**2 != value.denominator:
            raise NotRational
        return Fraction(above, below)


class NotRational(Exception):
    """The expression is not rational arithmetic."""


def _raised(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        raise NotRational
    bits = max(abs(base.numerator), base.denominator).bit_length()
    if abs(exponent) * bits > MAX_BITS:
        raise NoValue(f"a power of more than {MAX_BITS} bits")
    return base ** int(exponent)


def _bounded(value: Fraction) -> Fraction:
    if max(abs(value.numerator), value.denominator).bit_length() > MAX_BITS:
        raise NoValue(f"a number of more than {MAX_BITS} bits")
    return value
