"""The code for changed weights: bit-exact for whatever bits there are, small for real updates, and never surprised."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dht import patterns
from dht.patterns import BYTES, LAYOUTS, Layout, PatternInvalid, decode, encode

KINDS = {**LAYOUTS, "I8": BYTES}
ODD = {  # ±0, ±∞, NaNs with payloads, the smallest and largest numbers
    "BF16": (0x0000, 0x8000, 0x7F80, 0xFF80, 0x7FC0, 0xFFC1, 0x7F81, 0x0001, 0x8001, 0x7F7F, 0xFF7F),
    "F16": (0x0000, 0x8000, 0x7C00, 0xFC00, 0x7E00, 0xFE01, 0x7C01, 0x0001, 0x8001, 0x7BFF, 0xFBFF),
    "F32": (0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 0x7F800001, 1, 0x80000001, 0x7F7FFFFF),
    "I8": (0, 1, 127, 128, 255),
}


def _arrays(kind: str) -> st.SearchStrategy[np.ndarray]:
    dtype = np.dtype(KINDS[kind].dtype)
    any_bits = st.integers(0, 2 ** (8 * dtype.itemsize) - 1) | st.sampled_from(ODD[kind])
    return hnp.arrays(dtype, st.integers(1, 400), elements=any_bits, fill=st.sampled_from(ODD[kind]))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_whatever_bits_become_whatever_others(kind: str, data: st.DataObject) -> None:
    old = data.draw(_arrays(kind))
    new = data.draw(hnp.arrays(old.dtype, old.size, elements=st.integers(0, 2 ** (8 * old.itemsize) - 1)))
    kept = data.draw(hnp.arrays(np.bool_, old.size))
    new = np.where(kept, old, new)
    assert decode(old, encode(old, new, KINDS[kind]), KINDS[kind]).tobytes() == new.tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_many_blocks_and_every_odd_number(kind: str) -> None:
    rng = np.random.default_rng(5)
    dtype = np.dtype(KINDS[kind].dtype)
    old = rng.integers(0, 2 ** (8 * dtype.itemsize), 3 * patterns.BLOCK + 17, dtype=dtype)
    new = old.copy()
    places = rng.integers(0, old.size, 5000)
    new[places] = rng.choice(np.array(ODD[kind], dtype=dtype), places.size)
    assert decode(old, encode(old, new, KINDS[kind]), KINDS[kind]).tobytes() == new.tobytes()


def test_nothing_changed_takes_nothing() -> None:
    old = np.arange(1000, dtype="<u2")
    assert encode(old, old.copy(), LAYOUTS["BF16"]) == b""
    assert decode(old, b"", LAYOUTS["BF16"]).tobytes() == old.tobytes()


def _update(rate: float, count: int = 1 << 20) -> tuple[np.ndarray, np.ndarray]:
    """bf16 patterns of normal weights in float32 before and after a step of at most `rate`, as AdamW takes it."""
    rng = np.random.default_rng(1)
    weights = rng.normal(0, 0.05, count).astype(np.float32)
    moved = weights - rate * np.clip(rng.normal(0, 0.6, count), -1, 1).astype(np.float32)
    return _bfloat16(weights), _bfloat16(moved)


def _bfloat16(values: np.ndarray) -> np.ndarray:
    """The nearest, ties to even; for finite numbers."""
    bits = values.view("<u4").astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")


@pytest.mark.parametrize("rate", [3e-7, 1e-6, 3e-6, 1e-5])
def test_a_small_update_takes_less_than_the_entropy_of_positions_alone(rate: float) -> None:
    old, new = _update(rate)
    share = np.count_nonzero(old != new) / old.size
    entropy = -share * np.log2(share) - (1 - share) * np.log2(1 - share) + share  # and one bit for each direction
    assert len(encode(old, new, LAYOUTS["BF16"])) < old.size * entropy / 8


def test_all_numbers_changed_take_little_more_than_the_numbers() -> None:
    rng = np.random.default_rng(2)
    for kind, layout in KINDS.items():
        dtype = np.dtype(layout.dtype)
        old, new = (rng.integers(0, 2 ** (8 * dtype.itemsize), 1 << 16, dtype=dtype) for _ in range(2))
        assert len(encode(old, new, layout)) < 1.4 * old.nbytes, kind


HOSTILE_OLD, HOSTILE_NEW = _update(1e-5, 5000)
HOSTILE = encode(HOSTILE_OLD, HOSTILE_NEW, LAYOUTS["BF16"])


def _survives(data: bytes, layout: Layout = LAYOUTS["BF16"]) -> None:
    try:
        found = decode(HOSTILE_OLD, data, layout)
    except PatternInvalid:
        return
    assert found.shape == HOSTILE_OLD.shape


def test_every_truncation_is_refused() -> None:
    for size in range(1, len(HOSTILE)):
        with pytest.raises(PatternInvalid):
            decode(HOSTILE_OLD, HOSTILE[:size], LAYOUTS["BF16"])


def test_every_flipped_bit_is_refused_or_gives_other_numbers() -> None:
    for place in range(8 * len(HOSTILE)):
        data = bytearray(HOSTILE)
        data[place // 8] ^= 1 << place % 8
        try:
            found = decode(HOSTILE_OLD, bytes(data), LAYOUTS["BF16"])
        except PatternInvalid:
            continue
        assert found.tobytes() != HOSTILE_NEW.tobytes(), place


@settings(max_examples=400, deadline=None)
@given(st.binary(max_size=600))
def test_any_bytes(data: bytes) -> None:
    _survives(data)


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(HOSTILE) - 1), st.integers(0, 255)), min_size=1, max_size=8))
def test_any_changed_bytes(changes: list[tuple[int, int]]) -> None:
    data = bytearray(HOSTILE)
    for place, value in changes:
        data[place] = value
    _survives(bytes(data))


def test_another_array_than_the_one_that_was_changed() -> None:
    """Only the hash of the result can say so, if the counts happen to fit; nothing breaks."""
    for seed in range(50):
        other = np.random.default_rng(seed).integers(0, 1 << 16, HOSTILE_OLD.size, dtype=np.uint16).astype("<u2")
        try:
            assert decode(other, HOSTILE, LAYOUTS["BF16"]).size == other.size, f"seed {seed}"
        except PatternInvalid:
            continue
