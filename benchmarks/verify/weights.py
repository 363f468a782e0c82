"""The weights that a cheat runs instead of the policy's: pure functions of a checkpoint's tensors.

Quantised weights are rounded and turned back to bfloat16, as a cheap engine would multiply them; embeddings, which the
head shares, and norms stay whole, as quantisers leave them. A layer whose outputs are zero is the identity, and so
stands for a model that lacks it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import torch

Weights = dict[str, torch.Tensor]
GROUP = 64
"""Neighbouring values of a row that share a scale in 4 bits; it divides 576 and 1536, SmolLM2's widths."""
_LAYER = re.compile(r"layers\.(\d+)\.")


def noise(weights: Mapping[str, torch.Tensor], scale: float) -> Weights:
    """Every matrix with normal noise of standard deviation `scale`."""
    generator = torch.Generator().manual_seed(0)
    return {
        name: value + scale * torch.randn(value.shape, generator=generator).to(value) if value.ndim == 2 else value
        for name, value in weights.items()
    }


def int8(weights: Mapping[str, torch.Tensor]) -> Weights:
    """Every layer's matrices in 8 bits, a scale for each output."""
    return _layers(weights, lambda matrix: _rounded(matrix, levels=127))


def int4(weights: Mapping[str, torch.Tensor]) -> Weights:
    """Every layer's matrices in 4 bits, a scale for each `GROUP` of inputs."""
    return _layers(weights, lambda m: _rounded(m.reshape(-1, GROUP), levels=7).reshape(m.shape))


def fewer_layers(weights: Mapping[str, torch.Tensor], dropped: Callable[[int], bool]) -> Weights:
    """Without the layers whose number is `dropped`."""

    def silent(name: str) -> bool:
        layer = _LAYER.search(name)
        return bool(layer and dropped(int(layer[1])) and ("o_proj" in name or "down_proj" in name))

    return {name: torch.zeros_like(value) if silent(name) else value for name, value in weights.items()}


VARIANTS: Mapping[str, Callable[[Weights], Weights]] = {
    "policy": dict,
    "noise 1e-3": lambda weights: noise(weights, 1e-3),
    "int8": int8,
    "int4": int4,
    "half the layers": lambda weights: fewer_layers(weights, lambda layer: layer % 2 == 1 and layer < 29),
    "two layers fewer": lambda weights: fewer_layers(weights, lambda layer: layer in (14, 20)),
}


def _layers(weights: Mapping[str, torch.Tensor], change: Callable[[torch.Tensor], torch.Tensor]) -> Weights:
    return {
        name: change(value.float()).to(value) if value.ndim == 2 and _LAYER.search(name) else value
        for name, value in weights.items()
    }


def _rounded(rows: torch.Tensor, levels: int) -> torch.Tensor:
    scale = rows.abs().amax(-1, keepdim=True).clamp(min=1e-12) / levels
    return (rows / scale).round() * scale
