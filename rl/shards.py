"""One policy's weights spread over ranks by FSDP2: each holds a part of every weight, gradient and moment.

Decides how a model is cut (a unit a layer, one for the rest) and how a tensor is made whole again or cut like another;
files hold whole tensors only, so that a state may be taken up by any number of ranks. On one rank nothing is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from rl.ranks import Ranks


class OnePass(torch.nn.Module):
    """A function of a model's weights as one forward pass: sharded weights are whole during such a pass only."""

    def __init__(self, model: torch.nn.Module, function: Callable[..., Any]) -> None:
        super().__init__()
        self.model, self._function = model, function

    def forward(self, *arguments: Any) -> Any:
        return self._function(*arguments)


def shard(
    net: torch.nn.Module, layers: Iterable[torch.nn.Module], *, ranks: Ranks, device: torch.device, half: bool
) -> None:
    """Spread `net`, which every rank has loaded whole, in place; its forward pass is one of all ranks from now on.

    Gradients are added up over ranks, not averaged: the loss is divided by the tokens of all ranks already.

    Args:
        layers: modules of `net` whose weights are gathered when their turn comes, and let go again.
        half: gathered in bfloat16, as float32 autocast would compute; sums of gradients stay in float32.
    """
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) if half else None
    options = {"mesh": init_device_mesh(device.type, (ranks.count,)), **({"mp_policy": policy} if policy else {})}
    for module in (*layers, net):
        fully_shard(module, **options)
        assert isinstance(module, FSDPModule)
        module.set_gradient_divide_factor(1.0)
        module.set_force_sum_reduction_for_comms(True)  # gloo knows no scaled sum


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with all ranks' parts; every rank must ask."""
    tensor = tensor.detach()
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def own_part(tensor: torch.Tensor) -> torch.Tensor:
    """What this rank holds of the tensor."""
    tensor = tensor.detach()
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def cut_like(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """This rank's part of a whole tensor that every rank has, beside `like` and cut as it is."""
    tensor = tensor.to(like.device)
    if not isinstance(like, DTensor):
        return tensor
    return distribute_tensor(tensor, like.device_mesh, like.placements, src_data_rank=None)
