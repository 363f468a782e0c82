"""Sampling with noise that everybody can recompute: given the logits, a token is forced, not chosen.

The noise of a completion's token is a pure function of the submission's seed, the completion's place in it and the
token's position. By the Gumbel-max trick the token is sampled exactly from softmax(logits / temperature), yet whoever
has the logits knows which one it had to be, and by how much any other would have lost (Token-DiFR, arXiv 2511.20621).

The race is run in two heats, since a Gumbel number for each of 49,152 tokens would cost more than the softmax: first
between blocks of neighbouring token ids, each with the log of its whole probability, then between the members of the
block that won. The maximum of independent Gumbel variables with locations x_i is itself Gumbel with location
log(sum(exp(x_i))), so the distribution is the same and about 2 * sqrt(vocabulary) numbers suffice.

It decides which token and how far away another one is. It refuses to judge (`verify.thresholds`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt

import numpy as np
import torch
from eth_utils import keccak

KEY_BYTES = 32
SLACK = 0.5
"""Logits by which a token may lie on either side of a top-k or top-p cut without being held to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """The rule by which a pool samples; top-k is applied before top-p, as engines do."""

    temperature: float = 1.0
    top_k: int = 0
    """Only so many of the likeliest tokens; 0: all."""
    top_p: float = 1.0
    """Only the fewest likeliest tokens that together have this probability; 1: all."""

    @property
    def cuts(self) -> bool:
        return self.top_k > 0 or self.top_p < 1.0


def completion_key(draw_seed: bytes, group: int, sample: int) -> bytes:
    """32-byte key of one completion's noise.

    Args:
        draw_seed: of the submission, from `rl.draw.draw_seed`, which binds run, step, address and counter.
        group: index of the problem within the submission.
        sample: index of the completion within its group.
    """
    if len(draw_seed) != KEY_BYTES:
        raise ValueError(f"a draw seed has {KEY_BYTES} bytes, not {len(draw_seed)}")
    return keccak(b"intellect-node/noise/1" + draw_seed + group.to_bytes(4, "big") + sample.to_bytes(4, "big"))


def gumbel(key: bytes, position: int, count: int) -> np.ndarray:
    """float64 [count]: standard Gumbel noise for the token at `position` of the completion with `key`.

    SHAKE-128 over key and position is the counter-based generator: 32 bits a number, taken at the middle of their
    interval, so that none is infinite.
    """
    stream = hashlib.shake_128(key + position.to_bytes(8, "big")).digest(4 * count)
    uniform = (np.frombuffer(stream, dtype="<u4") + 0.5) / 2.0**32
    return -np.log(-np.log(uniform))


def choose(
    logits: torch.Tensor, keys: Sequence[bytes], positions: Sequence[int], sampling: Sampling
) -> tuple[list[int], list[float]]:
    """The forced tokens and their log-probabilities under the distribution that is sampled from.

    Args:
        logits: [rows, vocabulary], finite.
        keys: one a row, from `completion_key`.
        positions: one a row, the token's index within its completion.
    """
    scaled = _scaled(logits, sampling)
    if sampling.cuts:
        scaled = scaled.masked_fill(scaled < _cut(scaled, sampling)[:, None], -torch.inf)
    heats = _Heats(scaled, keys, positions)
    tokens = heats.winners()
    return tokens.tolist(), heats.logprobs(tokens).tolist()


def margins(
    logits: torch.Tensor,
    tokens: torch.Tensor,
    keys: Sequence[bytes],
    positions: Sequence[int],
    sampling: Sampling,
) -> np.ndarray:
    """float32 [rows]: by how many logits each claimed token lost, 0 where it is the forced one.

    Where a rule cuts tokens off, one within `SLACK` of the cut may have been on either side of it for the worker: it
    may be claimed, and it beats nobody; one further off loses by what it lacks, too.

    Args:
        logits: [rows, vocabulary], finite.
        tokens: int64 [rows].
    """
    scaled = _scaled(logits, sampling)
    lacks = 0.0
    if sampling.cuts:
        cut, slack = _cut(scaled, sampling), SLACK / sampling.temperature
        own = scaled.gather(-1, tokens[:, None])
        lacks = (cut - slack - own[:, 0]).clamp(min=0.0).cpu().double().numpy()
        scaled = scaled.masked_fill(scaled < cut[:, None] + slack, -torch.inf).scatter(-1, tokens[:, None], own)
    lost = _Heats(scaled, keys, positions).losses(tokens)
    return ((lost + lacks) * sampling.temperature).astype(np.float32)


class _Heats:
    """Both heats of some rows' races. Scores are natural logs."""

    def __init__(self, scaled: torch.Tensor, keys: Sequence[bytes], positions: Sequence[int]) -> None:
        rows, vocabulary = scaled.shape
        self._width = isqrt(vocabulary - 1) + 1
        blocks = -(-vocabulary // self._width)
        self._scaled, self._vocabulary = scaled, vocabulary
        self._top = scaled.amax(-1, keepdim=True)
        weights = (scaled - self._top).exp_()
        whole = vocabulary // self._width
        mass = weights[:, : whole * self._width].view(rows, whole, self._width).sum(-1)
        if whole < blocks:
            mass = torch.cat([mass, weights[:, whole * self._width :].sum(-1, keepdim=True)], dim=1)
        self._mass = mass.cpu().double().numpy()
        pairs = zip(keys, positions, strict=True)
        noise = np.stack([gumbel(key, position, blocks + self._width) for key, position in pairs])
        self._members_noise = noise[:, blocks:]
        with np.errstate(divide="ignore"):  # a block without a member that is allowed
            self._blocks = np.log(self._mass) + noise[:, :blocks]

    def winners(self) -> np.ndarray:
        blocks = self._blocks.argmax(-1)
        return blocks * self._width + self._members(blocks).argmax(-1)

    def losses(self, tokens: torch.Tensor) -> np.ndarray:
        blocks, members = np.divmod(tokens.cpu().numpy(), self._width)
        row, scores = np.arange(len(blocks)), self._members(blocks)
        within = scores.max(-1) - scores[row, members]
        return self._blocks.max(-1) - self._blocks[row, blocks] + within

    def logprobs(self, tokens: np.ndarray) -> np.ndarray:
        chosen = self._scaled.gather(-1, torch.from_numpy(tokens)[:, None].to(self._scaled.device))
        return (chosen - self._top)[:, 0].cpu().double().numpy() - np.log(self._mass.sum(-1))

    def _members(self, blocks: np.ndarray) -> np.ndarray:
        """float64 [rows, width]: scores within one block a row; beyond the vocabulary minus infinity."""
        ids = blocks[:, None] * self._width + np.arange(self._width)
        beyond = ids >= self._vocabulary
        index = torch.from_numpy(np.where(beyond, 0, ids)).to(self._scaled.device)
        scores = self._scaled.gather(-1, index).cpu().double().numpy() + self._members_noise
        return np.where(beyond, -np.inf, scores)


def _scaled(logits: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    logits = logits.float()
    return logits if sampling.temperature == 1.0 else logits / sampling.temperature


def _cut(scaled: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """float32 [rows]: the least scaled logit that the rule lets pass."""
    ordered = scaled.sort(-1, descending=True).values
    least = ordered[:, -1]
    if 0 < sampling.top_k < ordered.shape[-1]:
        least = ordered[:, sampling.top_k - 1]
        ordered = ordered.masked_fill(ordered < least[:, None], -torch.inf)
    if sampling.top_p < 1.0:
        before = ordered.softmax(-1).cumsum(-1).roll(1, -1)
        before[:, 0] = 0.0
        last = (before < sampling.top_p).sum(-1) - 1
        least = torch.maximum(least, ordered.gather(-1, last[:, None])[:, 0])
    return least
