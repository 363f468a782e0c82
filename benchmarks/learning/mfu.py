"""Floating-point operations of a training step, and what share of a device's peak they are. Pure.

Model FLOPs utilisation as PaLM defines it (arXiv 2204.02311, appendix B): what the model's products need, forward and
backward, and nothing that is computed twice to save memory. Products with the weights: 2 a weight and token forward,
twice that backward. Attention is counted causal, half of the square, as the tokens of a row see one another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

PEAK_FLOPS = {"H100": 989e12, "H200": 989e12, "A100": 312e12}
"""Dense bfloat16 a second, of the vendor's data sheets (SXM), by a part of the device's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What of a Llama-like model decides its arithmetic."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    key_value_heads: int
    head_dim: int
    vocabulary: int

    @property
    def layer_weights(self) -> int:
        """Weights of one layer that take part in products."""
        attention = 2 * self.hidden * self.head_dim * (self.heads + self.key_value_heads)
        return attention + 3 * self.hidden * self.intermediate

    @property
    def weights(self) -> int:
        """Of all layers and of the head; looking an embedding up is no product."""
        return self.layers * self.layer_weights + self.hidden * self.vocabulary


def step_flops(shape: Shape, segments: Sequence[int], *, head_tokens: int) -> float:
    """Of forward and backward over rows of separate sequences.

    Args:
        segments: tokens of each sequence; none sees another.
        head_tokens: for how many of them logits are needed.
    """
    tokens = sum(segments)
    layers = 2 * shape.layers * shape.layer_weights * tokens
    head = 2 * shape.hidden * shape.vocabulary * head_tokens
    # Scores and weighted sum: 2 products of 2 * head_dim operations a pair and head; pairs are n²/2.
    attention = sum(2 * shape.layers * shape.heads * shape.head_dim * length**2 for length in segments)
    return 3.0 * (layers + head + attention)


def peak_flops(device: str) -> float:
    """Of the device with this name. Raises KeyError that names the known."""
    for part, flops in PEAK_FLOPS.items():
        if part in device:
            return flops
    raise KeyError(f"the peak of {device!r} is not known here; add it to PEAK_FLOPS ({', '.join(PEAK_FLOPS)})")
