"""Activation proofs that were miscounted, malformed, invented, taken from elsewhere, or made for other tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from rl.rollouts import Rollout
from tests.attacks.attack import Family, Offer
from tests.attacks.stage import Rollouts, Stage
from tests.verify.conftest import RULES
from verify.proofs import PRIME, build_many

PROOFS = Family("Proofs")
Forge = Callable[[tuple[bytes, ...]], tuple[bytes, ...]]

# --- counted and formed wrongly: one row of 40 tokens, whose proofs are of 258 bytes each

_MALFORMED: tuple[tuple[str, str, Forge], ...] = (
    ("one proof missing", "Proves the first 32 tokens and leaves the rest open.", lambda proofs: proofs[:-1]),
    ("no proofs", "Proves nothing, since nothing can be wrong in nothing.", lambda proofs: ()),
    ("one proof too many", "Adds a proof that belongs to no token.", lambda proofs: (*proofs, proofs[-1])),
    ("an empty proof", "Puts an empty string where a proof belongs.", lambda proofs: (*proofs[:-1], b"")),
    (
        "a proof of zeros",
        "Sends modulus 0, by which the reference verifier divides.",
        lambda proofs: (*proofs[:-1], bytes(258)),
    ),
    ("a header only", "Sends a modulus and no coefficients.", lambda proofs: (*proofs[:-1], proofs[-1][:2])),
    ("a proof of 257 bytes", "Leaves a byte out.", lambda proofs: (*proofs[:-1], proofs[-1][:-1])),
    ("a proof of 259 bytes", "Adds a byte.", lambda proofs: (*proofs[:-1], proofs[-1] + b"\0")),
    (
        "a proof of a megabyte",
        "Sends a polynomial of 2 to the 19 coefficients to evaluate.",
        lambda proofs: (*proofs[:-1], bytes(2**20)),
    ),
    (
        "a small modulus",
        "Sends a modulus of 1, by which all indices are one.",
        lambda proofs: (b"\0\1" + proofs[0][2:], *proofs[1:]),
    ),
    (
        "a coefficient outside the field",
        "Sends a coefficient that no polynomial modulo 65497 has.",
        lambda proofs: (proofs[0][:-2] + b"\xff\xff", *proofs[1:]),
    ),
    (
        "the bytes of another machine",
        "Writes its numbers low byte first, which another reading might accept as anything.",
        lambda proofs: tuple(np.frombuffer(p, ">u2").astype("<u2").tobytes() for p in proofs),
    ),
)
for _name, _story, _forge in _MALFORMED:
    PROOFS.add(
        _name,
        "saboteur",
        "proof-count",
        _story,
        lambda stage, forge=_forge: Offer(
            content=stage.edit(stage.longest, proofs=forge(stage.honest[stage.longest].proofs))
        ),
    )

# --- invented: all rows


def _polynomial(proof: bytes, coefficients: np.ndarray) -> bytes:
    padded = np.zeros(len(proof) // 2 - 1, dtype=">u2")
    padded[: len(coefficients)] = coefficients[: len(padded)]
    return PRIME.to_bytes(2, "big") + padded.tobytes()


_RANDOM = np.random.default_rng(0).integers(0, PRIME, 128)
_INVENTED: tuple[tuple[str, str, Callable[[bytes], bytes]], ...] = (
    (
        "zero polynomials",
        "Commits to nought, which a verifier of ratios may divide by.",
        lambda p: _polynomial(p, np.zeros(1)),
    ),
    (
        "constant polynomials",
        "Commits to one number that lies amid all activations.",
        lambda p: _polynomial(p, np.array([0x4010])),
    ),
    ("random polynomials", "Commits to random numbers of the right form.", lambda p: _polynomial(p, _RANDOM)),
    (
        "the first coefficient only",
        "Keeps the constant term of an honest proof and spares itself the interpolation.",
        lambda p: p[:4] + bytes(len(p) - 4),
    ),
)
for _name, _story, _invent in _INVENTED:
    PROOFS.add(
        _name,
        "lazy",
        "proof-mismatch",
        _story,
        lambda stage, invent=_invent: Offer(
            content=stage.edit_all(lambda r: {"proofs": tuple(invent(p) for p in r.proofs)})
        ),
    )

# --- taken from elsewhere


@PROOFS.by("lazy", "proof-mismatch")
def the_same_proof_for_every_block(stage: Stage) -> Offer:
    """Computes one proof and uses it wherever the length is right."""
    one = {len(p): p for r in stage.honest for p in r.proofs}
    return Offer(content=stage.edit_all(lambda r: {"proofs": tuple(one[len(p)] for p in r.proofs)}))


@PROOFS.by("lazy", "proof-mismatch")
def two_proofs_swapped(stage: Stage) -> Offer:
    """Hands in both proofs of one completion in the wrong order."""
    first, second = stage.honest[stage.longest].proofs
    return Offer(content=stage.edit(stage.longest, proofs=(second, first)))


@PROOFS.by("lazy", "proof-mismatch")
def one_false_block_among_many(stage: Stage) -> Offer:
    """Proves all but one block, hoping that a mean forgives it."""
    first, second = stage.honest[stage.longest].proofs
    return Offer(content=stage.edit(stage.longest, proofs=(first, _polynomial(second, _RANDOM))))


@PROOFS.by("lazy", "proof-mismatch")
def proofs_of_the_neighbouring_sample(stage: Stage) -> Offer:
    """Takes the proofs of another completion of the same problem."""
    full = [n for n, r in enumerate(stage.honest) if len(r.completion_ids) == 40][:2]
    return Offer(content=stage.edit(full[0], proofs=stage.honest[full[1]].proofs))


def _proven_as(stage: Stage, moved: Rollouts) -> Offer:
    """Honest work with the proofs of other rollouts of the same lengths."""
    pairs = zip(stage.honest, moved, strict=True)
    return Offer(content=tuple(replace(r, proofs=m.proofs) for r, m in pairs))


@PROOFS.by("lazy", "proof-mismatch")
def proofs_after_another_prompt(stage: Stage) -> Offer:
    """Proves its tokens behind a prompt that was already in its cache."""
    other = stage.honest[-1].prompt_ids
    return _proven_as(stage, stage.world.prove(stage.edit_all(lambda r: {"prompt_ids": other})))


@PROOFS.by("lazy", "proof-mismatch")
def proofs_without_the_prompt(stage: Stage) -> Offer:
    """Proves its tokens behind the turn marker alone, which spares it the prompt."""
    return _proven_as(stage, stage.world.prove(stage.edit_all(lambda r: {"prompt_ids": r.prompt_ids[-1:]})))


@PROOFS.by("lazy", "proof-mismatch")
def proofs_of_the_states_one_token_later(stage: Stage) -> Offer:
    """Proves the states behind its tokens, not those that the tokens were chosen from."""
    prefilled = stage.world.policy.prefill(stage.honest, sampling=RULES.sampling, keys=None)
    shifted = build_many([np.concatenate([p.states[1:], p.states[-1:]]) for p in prefilled])
    pairs = zip(stage.honest, shifted, strict=True)
    return Offer(content=tuple(replace(r, proofs=tuple(p)) for r, p in pairs))


@PROOFS.by("copier", "proof-mismatch")
def proofs_of_an_answer_by_another_worker(stage: Stage) -> Offer:
    """Proves what somebody else said to the same problem, and reports its own tokens."""
    other = stage.unseeded
    pairs = zip(stage.honest, other, strict=True)
    same = [replace(r, proofs=o.proofs) if len(o.completion_ids) == len(r.completion_ids) else r for r, o in pairs]
    return Offer(content=same)


@PROOFS.by("greedy", "proof-mismatch")
def tokens_rewritten_after_proving(stage: Stage) -> Offer:
    """Proves honest tokens and exchanges two of three afterwards; text and rewards fit."""

    def rewritten(ids: tuple[int, ...]) -> tuple[int, ...]:
        return (*(3 + token % 90 if n % 3 else token for n, token in enumerate(ids[:-1])), ids[-1])

    return Offer(content=[stage.with_tokens(r, rewritten(r.completion_ids)) for r in stage.honest])


@PROOFS.by("greedy", "proof-mismatch")
def the_answer_rewritten_after_proving(stage: Stage) -> Offer:
    """Proves one honest completion and puts the solution in its place, padded to the length that was proven."""
    row = stage.ended
    old, right = stage.honest[row], stage.problems[stage.honest[row].group].gold_standard_solution
    ids = stage.answer_ids(" " * (len(old.completion_ids) - 1 - len(right)) + right)
    return Offer(content=stage.world.edit(stage.honest, row, **_fields(stage.with_tokens(old, ids))))


def _fields(rollout: Rollout) -> dict[str, object]:
    names = ("completion_ids", "text", "finish_reason", "reward")
    return {name: getattr(rollout, name) for name in names}
