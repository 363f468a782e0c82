"""Does this machine compute the policy? The prefill against a plain forward pass, before anybody is judged by it.

A validator whose kernel, dtype or packing is wrong would find every honest worker guilty. So the fast path (packed
rows, its attention kernel, its arithmetic) runs over a fixed probe and is compared with the textbook one: the same
weights in float32, eager attention, one sequence at a time, nothing packed or cached. Proofs, log-probabilities,
margins and the top token must agree as closely as honest arithmetic makes them agree. If they do not, the validator
abstains: `SelfTestFailed` is no verdict.

It judges this machine only. That the weights are the announced ones was settled by their hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from rl import seeded
from rl.hardware import ComputeType
from rl.rollouts import Rollout
from rl.seeded import Sampling
from verify.computation import proof_fit
from verify.policy import Prefilled
from verify.prefill import TransformersPolicy
from verify.proofs import ProofFault, build_many
from verify.verdict import CheckFailed

PROMPTS, SAMPLES, PROMPT_TOKENS = 3, 4, 24
LENGTHS = (64, 1, 33, 32)
"""Completion tokens of each sample: whole blocks, a single token, and one more than a block."""
GREEDY = Sampling(temperature=1e-3)
"""Noise of a Gumbel number's size counts for nothing beside logits a thousand times as large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """How far a sound prefill may be from the plain pass, as means over the probe and for its worst token."""

    exponent_mean: float
    mantissa_mean: float
    gap_mean: float
    """Of log-probabilities (nats) and margins (logits)."""
    gap_max: float
    tie: float
    """Logits by which the plain pass's top token may lie behind this one's."""


TOLERANCES: Mapping[ComputeType, Tolerance] = {
    "float32": Tolerance(exponent_mean=0.2, mantissa_mean=0.05, gap_mean=0.002, gap_max=0.02, tie=0.01),
    "bfloat16": Tolerance(exponent_mean=6.0, mantissa_mean=2.1, gap_mean=0.15, gap_max=1.0, tie=0.5),
}
"""Seen on SmolLM2-135M, one CPU thread: float32 0.0, 0.0000, gaps up to 0.0000, tie 0; bfloat16 3.4, 1.33, gaps up to
0.28 nats and 0.38 logits, tie 0.0006. A random two-layer model of width 64: 0.0004 and 3.6, 1.14, 0.11."""


class SelfTestFailed(CheckFailed):
    """This machine does not compute what the policy says; its validator must not judge."""


def self_test(policy: TransformersPolicy, folder: Path) -> dict[str, float]:
    """Compare `policy`, loaded from `folder`, with the plain forward pass; what was seen.

    Takes the memory of the weights in float32 once more while it runs.

    Raises:
        SelfTestFailed: they differ by more than arithmetic explains.
    """
    rollouts = _probe(policy.vocab_size)
    keys = [hashlib.sha256(b"probe" + bytes([r.group, r.sample])).digest() for r in rollouts]
    wanted, tops = _plain(policy, folder, rollouts, keys)
    try:
        seen = policy.prefill(rollouts, sampling=Sampling(), keys=keys)
        greedy = policy.prefill(tops, sampling=GREEDY, keys=[bytes(32)] * len(tops))
    except (ValueError, RuntimeError) as fault:
        raise _failed(f"the prefill stopped: {fault}") from fault
    return _compare(policy, rollouts, wanted, seen, [p.margins[-1:] for p in greedy if p.margins is not None])


def _compare(
    policy: TransformersPolicy,
    rollouts: Sequence[Rollout],
    wanted: Sequence[Prefilled],
    seen: Sequence[Prefilled],
    behind_top: Sequence[np.ndarray],
) -> dict[str, float]:
    proofs = build_many([p.states for p in wanted])
    fit = proof_fit([replace(r, proofs=tuple(p)) for r, p in zip(rollouts, proofs, strict=True)], seen)
    if isinstance(fit, ProofFault):
        raise _failed(fit.detail)
    pairs = list(zip(wanted, seen, strict=True))
    logprobs = np.concatenate([np.abs(one.logprobs - other.logprobs) for one, other in pairs])
    margins = np.concatenate([np.abs(one.margins - other.margins) for one, other in pairs])  # type: ignore[operator]
    allowed = TOLERANCES[policy.compute_type]
    facts = {}
    for name, value, bound in (
        ("exponent_mean", fit.whole.exponent_mean, allowed.exponent_mean),
        ("mantissa_mean", fit.whole.mantissa_mean, allowed.mantissa_mean),
        ("logprob_gap_mean", logprobs.mean(), allowed.gap_mean),
        ("logprob_gap_max", logprobs.max(), allowed.gap_max),
        ("margin_gap_mean", margins.mean(), allowed.gap_mean),
        ("margin_gap_max", margins.max(), allowed.gap_max),
        ("top_margin_max", np.concatenate(behind_top).max(), allowed.tie),
    ):
        facts[name] = float(value)
        if not value <= bound:
            raise _failed(f"{name} {value:.3g}, more than {bound:.3g}")
    return facts


def _failed(what: str) -> SelfTestFailed:
    return SelfTestFailed(
        f"this machine's prefill is not the policy's forward pass ({what}), so it would punish honest workers: "
        "no verdict is given. Set model.compute_type to float32, update torch and its driver, or use another machine"
    )


def _probe(vocab_size: int) -> tuple[Rollout, ...]:
    """The same hashed token ids for every policy with that vocabulary."""
    stream = hashlib.shake_128(b"intellect-node/self-test/1").digest(4 * PROMPTS * (PROMPT_TOKENS + sum(LENGTHS)))
    ids = iter((np.frombuffer(stream, dtype="<u4") % vocab_size).tolist())
    rollouts = []
    for group in range(PROMPTS):
        prompt = tuple(next(ids) for _ in range(PROMPT_TOKENS))
        for sample in range(SAMPLES):
            completion = tuple(next(ids) for _ in range(LENGTHS[sample]))
            rollouts.append(_rollout(group, sample, prompt, completion))
    return tuple(rollouts)


def _rollout(group: int, sample: int, prompt: tuple[int, ...], completion: tuple[int, ...]) -> Rollout:
    return Rollout(
        step=0,
        policy_version=0,
        counter=0,
        group=group,
        sample=sample,
        problem_id="self-test",
        prompt_ids=prompt,
        completion_ids=completion,
        text="",
        logprobs=(),
        finish_reason="length",
        reward=0.0,
        proofs=(),
    )


@torch.inference_mode()
def _plain(
    policy: TransformersPolicy, folder: Path, rollouts: Sequence[Rollout], keys: Sequence[bytes]
) -> tuple[list[Prefilled], tuple[Rollout, ...]]:
    """The textbook's results, and for each completion its first tokens followed by the top token after them."""
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.bfloat16, local_files_only=True, attn_implementation="eager"
    )
    model = model.to(device=policy.device, dtype=torch.float32).eval()
    results = list(_plain_results(model, policy, rollouts, keys))
    tops = tuple(
        _rollout(r.group, r.sample, r.prompt_ids, (*r.completion_ids[:-1], top))
        for r, (_, top) in zip(rollouts, results, strict=True)
    )
    return [prefilled for prefilled, _ in results], tops


def _plain_results(
    model: torch.nn.Module, policy: TransformersPolicy, rollouts: Sequence[Rollout], keys: Sequence[bytes]
) -> Iterator[tuple[Prefilled, int]]:
    for rollout, key in zip(rollouts, keys, strict=True):
        start, tokens = len(rollout.prompt_ids), len(rollout.completion_ids)
        ids = torch.tensor([rollout.prompt_ids + rollout.completion_ids], device=policy.device)
        states = model.base_model(ids, use_cache=False).last_hidden_state[0, start - 1 : -1]
        logits = model.get_output_embeddings()(states)
        logprobs = logits.log_softmax(-1)
        own = ids[0, start:]
        yield (
            Prefilled(
                states=states.to(torch.bfloat16).cpu().view(torch.uint16).numpy(),
                logprobs=logprobs.gather(-1, own[:, None])[:, 0].cpu().numpy(),
                eos_probs=logprobs[:, policy.tokenizer.eos_token_id].exp().cpu().numpy(),
                margins=seeded.margins(logits, own, [key] * tokens, range(tokens), Sampling()),
            ),
            int(logits[-1].argmax()),
        )
