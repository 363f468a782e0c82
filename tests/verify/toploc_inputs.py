"""The inputs on which our proofs are held against the real `toploc`: drawn, not stored, from one seed.

Decides which states a worker proves and with which states a validator compares; `scripts/write_toploc_vectors` asks
toploc about them and `test_toploc_vectors` asks us. Refuses inputs that have no right answer: toploc takes the k
largest magnitudes by torch's `topk`, whose choice among equal ones is undefined, so no block has equal magnitudes on
both sides of its k-th place (`settle`), unless both completions are constant, when every choice gives the same bytes
and numbers. Equal magnitudes among the chosen stay, of either sign. Only exact arithmetic follows the draw, so that
bits do not depend on the processor.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

SEED = 20250126
CASES = 1200
MAGNITUDE, INFINITY = 0x7FFF, 0x7F80

HIDDEN = (1, 3, 16, 48, 64, 96, 128, 576)
TOP_K = (128,) * 6 + (1, 2, 5, 17, 200)
BLOCK_TOKENS = (32,) * 6 + (1, 3, 16)
MAX_TOKENS, MAX_BLOCKS = 130, 9
WIDE = ((4096, 33), (2048, 40), (4096, 16), (8192, 32))
"""Hidden sizes, and tokens, whose blocks reach beyond index 65497, and beyond 2^17."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What one worker proves, and what one validator holds against it; both uint16 [tokens, hidden], bf16 bits."""

    states: np.ndarray
    others: np.ndarray
    topk: int
    block_tokens: int
    kind: str
    change: str

    def blocks(self, states: np.ndarray) -> Iterator[np.ndarray]:
        """`states` cut as the proofs cut it, each flattened."""
        for start in range(0, len(states), self.block_tokens):
            yield states[start : start + self.block_tokens].reshape(-1)


Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]


def bf16(values: np.ndarray) -> np.ndarray:
    """Bits of float32 rounded to nearest even."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def float32(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def normal(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return bf16(rng.standard_normal(shape, dtype=np.float32))


def loud_columns(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """As in real models: a few dimensions a hundred times the others, by a power of two."""
    loud = np.where(rng.random(shape[1]) < 0.03, np.float32(128), np.float32(1))
    return bf16(rng.standard_normal(shape, dtype=np.float32) * loud)


def spread(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Magnitudes over 80 powers of two."""
    values = rng.standard_normal(shape, dtype=np.float32)
    return bf16(np.ldexp(values, rng.integers(-40, 40, shape)).astype(np.float32))


def finite_bits(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Any bits but infinities and NaNs."""
    return rng.integers(0, INFINITY, shape, dtype=np.uint16) | signs(rng, shape)


def tiny(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Zeros of both signs, and subnormals."""
    return rng.integers(0, 0x80, shape, dtype=np.uint16) | signs(rng, shape)


def huge(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """The five topmost powers of two, and infinities."""
    return rng.integers(INFINITY - 5 * 128, INFINITY + 1, shape, dtype=np.uint16) | signs(rng, shape)


def sparse(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """One number in fifty, between zeros of both signs."""
    return np.where(rng.random(shape) < 0.02, normal(rng, shape), signs(rng, shape))


def few_levels(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Seven neighbouring magnitudes: nearly everything is a tie."""
    return rng.integers(0x3F80, 0x3F87, shape, dtype=np.uint16) | signs(rng, shape)


def not_numbers(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """One NaN in every row, of any payload, over few numbers: bits from 0xffd9 on are reduced modulo 65497."""
    states = sparse(rng, shape)
    nan = rng.integers(INFINITY + 1, MAGNITUDE + 1, shape[0], dtype=np.uint16) | signs(rng, (shape[0],))
    states[np.arange(shape[0]), rng.integers(0, shape[1], shape[0])] = nan
    return states


def constant(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """One value everywhere, also zero and minus zero."""
    return np.full(shape, rng.choice(np.array([0, 0x8000, *rng.integers(0, INFINITY, 4)], dtype=np.uint16)))


def signs(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.integers(0, 2, shape, dtype=np.uint16) << np.uint16(15)


KINDS: dict[str, Draw] = {
    draw.__name__: draw
    for draw in (
        normal, loud_columns, spread, finite_bits, tiny, huge, sparse, few_levels, not_numbers, constant
    )
}  # fmt: skip
CHANGES = ("none", "fine", "coarse", "last_bits", "flipped_signs", "late_by_one", "others")


def changed(rng: np.random.Generator, states: np.ndarray, how: str, kind: str) -> np.ndarray:
    """States near `states`, or far from it, as a validator may find them."""
    if kind == "constant":
        return states.copy() if how == "none" else constant(rng, states.shape)
    if how in ("fine", "coarse"):
        scale = np.float32(2.0**-8 if how == "fine" else 2.0**-3)
        with np.errstate(over="ignore", invalid="ignore"):
            moved = bf16(float32(states) * (1 + scale * rng.standard_normal(states.shape, dtype=np.float32)))
        return np.where((states & MAGNITUDE) < INFINITY, moved, states)
    if how == "last_bits":
        steps = rng.integers(-2, 3, states.shape)
        moved = np.clip((states & MAGNITUDE) + steps, 0, INFINITY - 1).astype(np.uint16) | states & np.uint16(0x8000)
        return np.where((states & MAGNITUDE) < INFINITY, moved, states)
    if how == "flipped_signs":
        return states ^ signs(rng, states.shape)
    if how == "late_by_one":
        return np.roll(states, 1, axis=0)
    return states.copy() if how == "none" else KINDS[kind](rng, states.shape)


def settle(states: np.ndarray, *, topk: int, block_tokens: int) -> None:
    """Move equal magnitudes at the k-th place apart, in place: the surplus ones down by the least step.

    Zeros have no lower step: there, those that fill up to k become the smallest subnormal.
    """
    for start in range(0, len(states), block_tokens):
        block = states[start : start + block_tokens].reshape(-1)
        magnitude = block & np.uint16(MAGNITUDE)
        if block.size <= topk:
            continue
        least = np.partition(magnitude, block.size - topk)[block.size - topk]
        equal = np.flatnonzero(magnitude == least)
        chosen = topk - np.count_nonzero(magnitude > least)
        if least > 0:
            block[equal[chosen:]] -= 1
        elif len(equal) > chosen:
            block[equal[:chosen]] += 1
        states[start : start + block_tokens] = block.reshape(-1, states.shape[1])


def collide(rng: np.random.Generator, states: np.ndarray, block_tokens: int) -> None:
    """Plant large magnitudes, in place, whose indices are equal modulo 65497 and some of the numbers below it."""
    for start in range(0, len(states), block_tokens):
        block = states[start : start + block_tokens].reshape(-1)
        apart = 65497 - np.arange(rng.integers(1, 9))
        apart = apart[apart < block.size - 200]
        first = rng.permutation(200)[: len(apart)]
        block[np.concatenate([first, first + apart])] = rng.permutation(2 * len(apart)).astype(np.uint16) + 0x7E00
        states[start : start + block_tokens] = block.reshape(-1, states.shape[1])


def draw_case(number: int) -> Case:
    """Case `number` by itself, from its own stream of the seed."""
    rng = np.random.default_rng([SEED, number])
    kind, how = list(KINDS)[number % len(KINDS)], CHANGES[number % len(CHANGES)]
    topk, block_tokens = int(rng.choice(TOP_K)), int(rng.choice(BLOCK_TOKENS))
    hidden, tokens = int(rng.choice(HIDDEN)), int(rng.integers(1, min(MAX_TOKENS, MAX_BLOCKS * block_tokens) + 1))
    wide = number % 25 == 0
    if wide:
        kind, topk, block_tokens = ("normal", "spread")[number // 25 % 2], 128, 32
        hidden, tokens = WIDE[number // 25 % len(WIDE)]
    if kind == "not_numbers":  # more NaNs than k would be equals at the k-th place
        topk = max(topk, block_tokens)
        hidden = max(hidden, 16)
    states = KINDS[kind](rng, (tokens, hidden))
    if wide:
        collide(rng, states, block_tokens)
    if kind != "constant":
        settle(states, topk=topk, block_tokens=block_tokens)
    others = changed(rng, states, how, kind)
    if kind != "constant":
        settle(others, topk=topk, block_tokens=block_tokens)
    return Case(states=states, others=others, topk=topk, block_tokens=block_tokens, kind=kind, change=how)


def draw_cases() -> list[Case]:
    return [draw_case(number) for number in range(CASES)]


def fingerprint(parts: Sequence[bytes]) -> str:
    """First 16 hex digits of the SHA-256 of the parts in order, each after its length."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()[:16]


def input_fingerprint(case: Case) -> str:
    return fingerprint([np.asarray(states, dtype="<u2").tobytes() for states in (case.states, case.others)])
