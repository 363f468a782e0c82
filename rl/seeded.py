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
ROWS_AT_ONCE = 8
"""Rows whose exponentials exist at one time: 1.5 MiB for 49,152 tokens, which stays in a core's cache."""
LIKELY = 1024
"""How many of the likeliest tokens are sorted first for top-p; a row for which they do not suffice is sorted whole."""


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


def gumbel(keys: Sequence[bytes], positions: Sequence[int], count: int) -> np.ndarray:
    """float64 [rows, count]: standard Gumbel noise for the token at a row's position of the completion with its key.

    SHAKE-128 over key and position is the counter-based generator: 32 bits a number, little-endian, taken at the middle
    of their interval, so that none is infinite.
    """
    stream = b"".join(
        hashlib.shake_128(key + position.to_bytes(8, "big")).digest(4 * count)
        for key, position in zip(keys, positions, strict=True)
    )
    uniform = (np.frombuffer(stream, dtype="<u4").reshape(-1, count) + 0.5) / 2.0**32
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
    heats = _Heats(logits, keys, positions, sampling, slack=0.0)
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

    Where a rule cuts tokens off, those within `SLACK` of the cut may have been on either side of it for the worker:
    each may be claimed, and beats nobody; one that lies further off loses by what it lacks, too.

    Args:
        logits: [rows, vocabulary], finite.
        tokens: int64 [rows].
    """
    lost = _Heats(logits, keys, positions, sampling, slack=SLACK).losses(tokens.cpu().numpy())
    return (lost * sampling.temperature).astype(np.float32)


class _Heats:
    """Both heats of some rows' races. Scores are natural logs; tokens are int64 [rows]."""

    def __init__(
        self,
        logits: torch.Tensor,
        keys: Sequence[bytes],
        positions: Sequence[int],
        sampling: Sampling,
        *,
        slack: float,
    ) -> None:
        """`slack`: logits above the cut from which on a token takes part for certain."""
        self._logits, self._temperature = logits, sampling.temperature
        vocabulary = logits.shape[1]
        self._width = isqrt(vocabulary - 1) + 1
        blocks = -(-vocabulary // self._width)
        parts = [self._survey(part, sampling, slack) for part in logits.split(ROWS_AT_ONCE)]
        mass, top, cut = (np.concatenate(kind) for kind in zip(*parts, strict=True))
        self._lenient, self._strict = cut - slack / self._temperature, cut + slack / self._temperature
        noise = gumbel(keys, positions, blocks + self._width)
        self._blocks_noise, self._members_noise = noise[:, :blocks], noise[:, blocks:]
        with np.errstate(divide="ignore"):  # a block of which no token takes part
            self._blocks = np.log(mass) + top[:, None] + self._blocks_noise
            self._total = np.log(mass.sum(-1)) + top

    def winners(self) -> np.ndarray:
        blocks = self._blocks.argmax(-1)
        scores = _above(self._members(blocks), self._strict) + self._members_noise
        return blocks * self._width + scores.argmax(-1)

    def losses(self, tokens: np.ndarray) -> np.ndarray:
        """float64 [rows], scaled. The claimed token gets all the leniency of the cut, its rivals none."""
        blocks, members = np.divmod(tokens, self._width)
        rows, locations = np.arange(len(blocks)), self._members(blocks)
        own = locations[rows, members]
        lacks = np.maximum(self._lenient - own, 0.0)
        likely = _above(locations, self._lenient)
        likely[rows, members] = own
        peak = likely.max(-1)
        mass = np.log(np.exp(likely - peak[:, None]).sum(-1)) + peak
        mine = np.maximum(mass + self._blocks_noise[rows, blocks], self._blocks[rows, blocks])
        rivals = np.where(np.arange(self._blocks.shape[1]) == blocks[:, None], -np.inf, self._blocks)
        between = np.maximum(rivals.max(-1, initial=-np.inf) - mine, 0.0)
        scores = _above(locations, self._strict) + self._members_noise
        within = np.maximum(scores.max(-1) - (own + self._members_noise[rows, members]), 0.0)
        return between + within + lacks

    def logprobs(self, tokens: np.ndarray) -> np.ndarray:
        return self._scaled(tokens[:, None])[:, 0] - self._total

    def _survey(self, logits: torch.Tensor, sampling: Sampling, slack: float) -> tuple[np.ndarray, ...]:
        """Of a few rows: mass of each block [rows, blocks] relative to the top's, the top [rows], the cut [rows]."""
        scaled = logits.float()
        if self._temperature != 1.0:
            scaled = scaled / self._temperature
        top = scaled.amax(-1, keepdim=True)
        cut = _cut(scaled, sampling) if sampling.cuts else torch.full_like(top[:, 0], -torch.inf)
        weights = (scaled - top).exp_()
        if sampling.cuts:
            weights.masked_fill_(scaled < (cut + slack / self._temperature)[:, None], 0.0)
        whole = weights.shape[1] // self._width
        mass = [weights[:, : whole * self._width].unflatten(-1, (whole, self._width)).sum(-1)]
        if whole * self._width < weights.shape[1]:
            mass.append(weights[:, whole * self._width :].sum(-1, keepdim=True))
        return tuple(kind.cpu().double().numpy() for kind in (torch.cat(mass, dim=1), top[:, 0], cut))

    def _members(self, blocks: np.ndarray) -> np.ndarray:
        """float64 [rows, width]: scaled logits of one block a row; beyond the vocabulary minus infinity."""
        ids = blocks[:, None] * self._width + np.arange(self._width)
        beyond = ids >= self._logits.shape[1]
        return np.where(beyond, -np.inf, self._scaled(np.where(beyond, 0, ids)))

    def _scaled(self, ids: np.ndarray) -> np.ndarray:
        """float64 [rows, ids]: the scaled logits of some tokens, rounded as in `_survey`."""
        picked = self._logits.gather(-1, torch.from_numpy(ids).to(self._logits.device)).float()
        return (picked / self._temperature).cpu().double().numpy()


def _above(locations: np.ndarray, least: np.ndarray) -> np.ndarray:
    return np.where(locations < least[:, None], -np.inf, locations)


def _cut(scaled: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """float32 [rows]: the least scaled logit that the rule lets pass."""
    vocabulary = scaled.shape[-1]
    if 0 < sampling.top_k < vocabulary:
        ordered = scaled.topk(sampling.top_k, dim=-1).values
        if sampling.top_p == 1.0:
            return ordered[:, -1]
        return _nucleus(ordered, ordered.logsumexp(-1, keepdim=True), sampling.top_p)[0]
    if sampling.top_p == 1.0:
        return scaled.amin(-1)
    total = scaled.logsumexp(-1, keepdim=True)
    least, reached = _nucleus(scaled.topk(min(LIKELY, vocabulary), dim=-1).values, total, sampling.top_p)
    if not reached.all():
        flat = scaled[~reached].sort(-1, descending=True).values
        least[~reached] = _nucleus(flat, total[~reached], sampling.top_p)[0]
    return least


def _nucleus(ordered: torch.Tensor, total: torch.Tensor, top_p: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The last of `ordered` [rows, some] that top-p needs, and whether they have that probability together."""
    probabilities = (ordered - total).double().exp()
    upto = probabilities.cumsum(-1)
    last = ((upto - probabilities) < top_p).sum(-1) - 1
    return ordered.gather(-1, last[:, None])[:, 0], upto[:, -1] >= top_p
