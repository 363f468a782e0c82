r"""What may be handed to the symbolic comparison: LaTeX of a closed vocabulary whose numbers cannot grow without end.

`9^{9^{9^9}}` needs no function call to keep a machine busy for ever, so counting calls does not stop it. Here an upper
bound of the bits of every number in an expression is computed from its text alone, before anything evaluates it. Pure;
refuses more than it must (sums, integrals and limits are no answers), and never says that an answer is wrong for that
alone: see `rl.maths.grade`.
"""

from __future__ import annotations

import re

MAX_CHARS = 300
MAX_DEPTH = 12
MAX_BITS = 200_000
"""Of any integer met in evaluation: 60,000 decimal digits, more than any answer in use (2^{2024} has 2,024 bits)."""
MAX_DIGITS = 60

_COMMANDS = frozenset(
    {
        "frac", "sqrt", "cdot", "times", "div", "pm", "circ", "overline", "binom", "mid", "vert", "in", "pi",
        "theta", "alpha", "beta", "gamma", "delta", "lambda", "mu", "omega", "phi", "varphi", "sigma", "tau",
        "rho", "epsilon", "infty", "sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh", "arcsin",
        "arccos", "arctan", "log", "ln", "lg", "exp", "cup", "cap", "setminus", "emptyset", "varnothing",
        "mathbb", "mathrm", "text", "begin", "end", "leq", "geq", "le", "ge", "lt", "gt", "neq", "ne", "lfloor",
        "rfloor", "lceil", "rceil",
    }
)  # fmt: skip
_WORDS = frozenset(
    {
        "sin", "cos", "tan", "cot", "sec", "csc", "log", "exp", "pmatrix", "bmatrix", "vmatrix", "matrix",
        "array", "arcsin", "arccos", "arctan",
    }
)  # fmt: skip
_TOKEN = re.compile(r"\\[A-Za-z]+|\\[{}\\|%$ ]|\d+(?:\.\d+)?|\.\d+|[A-Za-z]+|[-+*/=<>()\[\]{}^_,;:|!'&.%]|\s+")


class TooLarge(ValueError):
    """An expression is longer, deeper or larger than allowed."""


def symbolic_fault(text: str) -> str | None:
    """Why `text` may not be evaluated symbolically; None where it may."""
    if not text.strip() or len(text) > MAX_CHARS:
        return f"{len(text)} characters, allowed are 1 to {MAX_CHARS}"
    tokens, place = [], 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            return f"the character {text[place]!r}"
        place = match.end()
        tokens.append(match[0])
    for token in tokens:
        if token[0] == "\\" and token[1:].isalpha() and token[1:] not in _COMMANDS:
            return f"the command {token}"
        if token.isalpha() and len(token) > 3 and token not in _WORDS:
            return f"the word {token!r}"
        if token[0].isdigit() and len(token) > MAX_DIGITS:
            return f"a number of {len(token)} digits"
    try:
        _Bits([token for token in tokens if not token.isspace()]).all()
    except TooLarge as large:
        return str(large)
    return None


class _Bits:
    """An upper bound of log2 of every number that a list of tokens can evaluate to, by recursive descent."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens, self._place = tokens, 0

    def all(self) -> int:
        total = 0
        while self._place < len(self._tokens):
            total += self._run(0)
            self._place += 1  # a closing bracket that none opened
        return total

    def _run(self, depth: int) -> int:
        """Bits of a product of everything up to the next closing bracket."""
        total = 0
        while self._place < len(self._tokens) and not self._closes(self._tokens[self._place]):
            total = _bounded(total + self._item(depth))
        return total

    def _item(self, depth: int) -> int:
        bits, powers = self._atom(depth), 0
        while self._place < len(self._tokens) and self._tokens[self._place] in ("^", "!"):
            operator = self._tokens[self._place]
            self._place += 1
            powers += operator == "^"
            if powers > 1:  # a^b^c: whose exponent c is depends on who reads it
                raise TooLarge("a power of a power without brackets")
            # n! has fewer than n·log2(n) bits, and n^m m times the bits of n; n and m are below 2^bits.
            bits = _bounded(bits << min(bits, 40)) if operator == "!" else _bounded(max(bits, 1) * self._power(depth))
        return bits

    def _power(self, depth: int) -> int:
        if self._place >= len(self._tokens):
            return 1
        signs = 0
        while self._place + 1 < len(self._tokens) and self._tokens[self._place] in ("-", "+"):
            self._place += 1
            signs += 1
            if signs > MAX_DEPTH:
                raise TooLarge("too many signs")
        group = self._tokens[self._place : self._place + 3]
        if len(group) == 3 and group[0] == "{" and group[2] == "}" and group[1].isdecimal():
            self._place += 3
            return _bounded(int(group[1]))
        if group[0].isdecimal():
            self._place += 1
            return _bounded(int(group[0]))
        return 1 << min(self._item(depth), 40)

    def _atom(self, depth: int) -> int:
        if depth > MAX_DEPTH:
            raise TooLarge(f"brackets {depth} deep, allowed are {MAX_DEPTH}")
        token = self._tokens[self._place]
        self._place += 1
        if token in ("(", "[", "{", "\\{"):
            bits = self._run(depth + 1)
            self._place += 1
            return bits
        if token == "\\binom":
            bits = self._item(depth + 1) + self._item(depth + 1) if self._place + 1 < len(self._tokens) else 0
            return _bounded(bits << min(bits, 40))
        if token == "\\exp":
            return 2 * (1 << min(self._item(depth + 1), 40)) if self._place < len(self._tokens) else 2
        if token[0].isdigit() or (token[0] == "." and len(token) > 1):
            return max(1, int(token.replace(".", "")).bit_length())
        if token.isalpha():
            return 2 * len(token)
        return 2 if token == "\\pi" else 0

    @staticmethod
    def _closes(token: str) -> bool:
        return token in (")", "]", "}", "\\}")


def _bounded(bits: int) -> int:
    if bits > MAX_BITS:
        raise TooLarge(f"a number may have more than {MAX_BITS} bits")
    return bits
