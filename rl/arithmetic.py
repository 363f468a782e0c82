"""In which arithmetic a loaded model computes. Its weights are cast; what it derived from its config is not.

The frequencies of rotary positions are such a table. Rounded to bfloat16, as `model.to` would, they are off by up to
0.4 %, and an angle by that times the position: SmolLM2's second frequency by 0.2 %, which is 0.14 rad at the hundredth
token and 1.4 rad at the thousandth. vLLM keeps them in float32, and so do models as they are loaded.
"""

from __future__ import annotations

from typing import TypeVar

import torch

from rl.hardware import ComputeType

Model = TypeVar("Model", bound=torch.nn.Module)


def cast(model: Model, compute_type: ComputeType) -> Model:
    """The same model, its parameters in that type; weights that are tied stay so."""
    for parameter in model.parameters():
        parameter.data = parameter.data.to(getattr(torch, compute_type))
    return model
