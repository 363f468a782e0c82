"""Our proofs and errors against those of the real `toploc` on 1,200 drawn inputs (scripts/write_toploc_vectors)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.verify.toploc_inputs import CASES, CHANGES, KINDS, Case, draw_cases, fingerprint, input_fingerprint
from verify.proofs import NO_MATCH, PRIME, BlockErrors, build_many, compare_many

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "toploc-random.json").read_text())["cases"]


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return draw_cases()


@pytest.fixture(scope="module")
def proofs(cases: list[Case]) -> list[list[bytes]]:
    """Ours, built in one batch per cut."""
    built: list[list[bytes]] = [[] for _ in cases]
    for members, cut in alike(cases):
        for member, ours in zip(members, build_many([cases[m].states for m in members], **cut), strict=True):
            built[member] = ours
    return built


def alike(cases: list[Case]) -> Iterator[tuple[list[int], dict[str, int]]]:
    """Numbers of the cases that are cut in the same way, and that cut as arguments."""
    cuts = [(case.topk, case.block_tokens) for case in cases]
    for topk, block_tokens in sorted(set(cuts)):
        members = [number for number, cut in enumerate(cuts) if cut == (topk, block_tokens)]
        yield members, {"topk": topk, "block_tokens": block_tokens}


def test_the_inputs_are_those_that_toploc_was_asked_about(cases: list[Case]) -> None:
    """Fails if numpy draws otherwise than it did: then write the vectors anew, with scripts/write_toploc_vectors."""
    assert len(cases) == len(VECTORS) == CASES >= 1000
    assert [input_fingerprint(case) for case in cases] == [inputs for inputs, _, _ in VECTORS]


def test_every_input_has_one_right_answer(cases: list[Case]) -> None:
    for case in cases:
        for block in (*case.blocks(case.states), *case.blocks(case.others)):
            magnitude = np.sort(block & np.uint16(0x7FFF))[::-1]
            settled = block.size <= case.topk or magnitude[case.topk - 1] > magnitude[case.topk]
            assert settled or (case.kind == "constant" and (block == block[0]).all()), case


def test_bytes_equal_those_of_toploc(proofs: list[list[bytes]]) -> None:
    assert [fingerprint(ours) for ours in proofs] == [theirs for _, theirs, _ in VECTORS]


def test_errors_equal_those_of_toploc(cases: list[Case], proofs: list[list[bytes]]) -> None:
    for members, cut in alike(cases):
        compared = compare_many([cases[m].others for m in members], [proofs[m] for m in members], **cut)
        for member, errors in zip(members, compared, strict=True):
            assert isinstance(errors, tuple), (member, errors)
            assert [numbers(e) for e in errors] == VECTORS[member][2], member


def numbers(errors: BlockErrors) -> list[float]:
    return [errors.exponent_mismatches, errors.mantissa_mean, errors.mantissa_median]


def test_the_inputs_reach_every_corner(cases: list[Case], proofs: list[list[bytes]]) -> None:
    assert Counter((case.kind, case.change) for case in cases).keys() >= {
        (kind, how) for kind in KINDS for how in CHANGES
    }
    tokens = {len(case.states) for case in cases}
    assert {1, 31, 32, 33, 64, 130} <= tokens
    flat = [proof for ours in proofs for proof in ours]
    assert len({int.from_bytes(proof[:2]) for proof in flat} - {PRIME}) == 8
    assert len({len(proof) for proof in flat}) >= 50
    errors = [block for _, _, blocks in VECTORS for block in blocks]
    assert sum(block == [0, 0.0, 0.0] for block in errors) >= 100
    assert sum(block[2] == NO_MATCH for block in errors) >= 100
    assert len({block[1] for block in errors}) >= 1000
