"""JSON from strangers ends in a value or a fault, whatever the recursion limit of the process."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl import flat_json
from rl.flat_json import MAX_DEPTH, loads


@pytest.fixture(autouse=True)
def _raised_limit() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(10**7)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.parametrize(
    "text", ["[" * 500_000, '{"a":' * 500_000, '["\\""' + ",[" * 200_000, '"\\\\"' + "[" * 500_000]
)
def test_deep_nesting_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="nested"):
        loads(text)


def test_many_brackets_side_by_side_are_not() -> None:
    assert loads("[" + ",".join(["[]"] * 1000) + "]") == [[]] * 1000
    assert loads(json.dumps("[" * 1000 + '\\"' + "{" * 1000).encode()) == "[" * 1000 + '\\"' + "{" * 1000
    assert loads("[" * MAX_DEPTH + "]" * MAX_DEPTH)


def test_no_text_is_a_fault() -> None:
    for wrong in (b"\xff", b"", "[", "nul"):
        with pytest.raises(ValueError, match=r"."):
            loads(wrong)


@given(
    st.recursive(st.none() | st.text('["\\]{', max_size=5), lambda inner: st.lists(inner, max_size=3), max_leaves=30)
)
def test_the_depth_is_that_of_the_value(value: object) -> None:
    def depth(value: object) -> int:
        return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0

    assert flat_json._depth(json.dumps(value)) == depth(value)
