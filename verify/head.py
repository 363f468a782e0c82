"""What the logits of some positions say about the tokens that were chosen there.

Each number comes from one pass of exponentials over the vocabulary, save the seeded choice, which has its own
(`rl.seeded`). It decides nothing, and knows neither models nor rollouts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch

from rl import seeded
from rl.seeded import Sampling
from verify.policy import RARE, Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """float32 [positions] each; what it means stands in `verify.policy.Prefilled`."""

    logprobs: np.ndarray
    eos_probs: np.ndarray
    margins: np.ndarray | None
    spread: Spread | None

    def part(self, positions: slice) -> Reading:
        """Some of the positions."""
        spread = self.spread and Spread(**{f.name: getattr(self.spread, f.name)[positions] for f in fields(Spread)})
        margins = None if self.margins is None else self.margins[positions]
        return Reading(
            logprobs=self.logprobs[positions], eos_probs=self.eos_probs[positions], margins=margins, spread=spread
        )


def join(readings: Sequence[Reading]) -> Reading:
    """The positions of one or more readings of the same kind, one after another."""
    margins = [r.margins for r in readings if r.margins is not None]
    spreads = [r.spread for r in readings if r.spread is not None]
    names = [f.name for f in fields(Spread)]
    return Reading(
        logprobs=np.concatenate([r.logprobs for r in readings]),
        eos_probs=np.concatenate([r.eos_probs for r in readings]),
        margins=np.concatenate(margins) if margins else None,
        spread=Spread(**{n: np.concatenate([getattr(s, n) for s in spreads]) for n in names}) if spreads else None,
    )


def read(
    logits: torch.Tensor,
    tokens: torch.Tensor,
    *,
    eos_token_id: int,
    sampling: Sampling,
    keys: Sequence[bytes] | None,
    positions: Sequence[int],
) -> Reading:
    """Read one position a row.

    Args:
        logits: [rows, vocabulary], finite.
        tokens: int64 [rows], the chosen tokens.
        keys: one a row, None in an unseeded pool, which has no cuts.
        positions: one a row, the token's index within its completion.
    """
    logits = logits.float()
    scaled = logits if sampling.temperature == 1.0 else logits / sampling.temperature
    own, eos = scaled.gather(-1, tokens[:, None])[:, 0], scaled[:, eos_token_id]
    if keys is None:
        total, spread = _spread(scaled)
        return Reading(
            logprobs=_floats(own - total), eos_probs=_floats((eos - total).exp()), margins=None, spread=spread
        )
    total = _allowed_total(logits, scaled, sampling, keys, positions)
    margins = seeded.margins(logits, tokens, keys, positions, sampling)
    return Reading(logprobs=_floats(own - total), eos_probs=_floats((eos - total).exp()), margins=margins, spread=None)


def _allowed_total(
    logits: torch.Tensor, scaled: torch.Tensor, sampling: Sampling, keys: Sequence[bytes], positions: Sequence[int]
) -> torch.Tensor:
    """float32 [rows]: log of the mass among which the rule lets the noise choose."""
    if not sampling.cuts:
        return scaled.logsumexp(-1)
    # The forced token's log-probability is relative to that mass, so it gives the mass away.
    forced, logprobs = seeded.choose(logits, keys, positions, sampling)
    index = torch.tensor(forced, device=scaled.device)
    return scaled.gather(-1, index[:, None])[:, 0] - torch.tensor(logprobs, dtype=torch.float32, device=scaled.device)


def _spread(scaled: torch.Tensor) -> tuple[torch.Tensor, Spread]:
    """The log of the whole mass [rows], and the moments of -log p under p."""
    top = scaled.amax(-1, keepdim=True)
    below = scaled - top
    weights = below.exp()
    mass = weights.sum(-1)
    log_mass = mass.log()
    below.mul_(weights)  # weight times relative logit
    mean = below.sum(-1) / mass
    square = (below * (scaled - top)).sum(-1) / mass
    rare = torch.where(weights < RARE * mass[:, None], weights, 0.0).sum(-1) / mass
    root = weights.sqrt()
    up = root.sum(-1).log() - 0.5 * log_mass
    down = root.mul_(weights).sum(-1).log() - 1.5 * log_mass
    spread = Spread(
        entropies=_floats(log_mass - mean),
        variances=_floats((square - mean * mean).clamp(min=0.0)),
        rare=_floats(rare),
        up=_floats(up),
        down=_floats(down),
    )
    return top[:, 0] + log_mass, spread


def _floats(values: torch.Tensor) -> np.ndarray:
    return values.float().cpu().numpy()
