"""math-verify's comparison of two LaTeX expressions, as it runs inside the grading process.

Decides only how math-verify is asked: LaTeX and nothing else, no time limits of its own (its caller counts calls), no
searching in prose. The strings that come here have passed `rl.maths.bounds`. Never imported by a node's own process.
"""

from __future__ import annotations

import logging

from math_verify import parse, verify
from math_verify.parser import LatexExtractionConfig

logging.getLogger("math_verify").setLevel(logging.CRITICAL)
logging.getLogger("latex2sympy2_extended").setLevel(logging.CRITICAL)
_LATEX = (LatexExtractionConfig(),)
_WARM = (
    (r"2\sqrt{2}+\frac{1}{3}", r"\sqrt{8}"),
    (r"x^2+2x+1", r"(x+1)^2"),
    (r"y=2x+\sin(x)", r"2x-y=0"),
    (r"(-\infty,2]\cup[3,\infty)", r"\{1,2\}"),
    (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"e^{i\pi}"),
    (r"x\ge 3", r"\log_2(x)"),
)


def read(text: str) -> list[object]:
    """What math-verify makes of `text`: expressions; empty where it cannot read it."""
    return parse(f"${text}$", extraction_config=_LATEX, fallback_mode="no_fallback", parsing_timeout=None)


def equal(gold: str, answer: str) -> bool:
    """Whether `answer` equals `gold`."""
    return bool(verify(read(gold), read(answer), timeout_seconds=None))


def readable(golds: list[str]) -> list[bool]:
    """Which of `golds` can be read."""
    return [bool(read(gold)) for gold in golds]


def ask(question: str, *arguments: object) -> object:
    """The one function of the grading process: `equal` or `readable` by name."""
    return {"equal": equal, "readable": readable}[question](*arguments)  # type: ignore[operator]


# Parsers and caches are filled before the first fork: what a comparison costs then depends on nothing but itself.
for _gold, _answer in _WARM:
    equal(_gold, _answer)
