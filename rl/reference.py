"""The frozen policy that the KL term holds the trained one to: the run's policy 0.

With equal weights it gives the same log-probs, bit by bit, as the policy that is trained, so the KL starts at exactly
0. It costs 2 bytes a parameter where products are in bfloat16 on one rank, 4 otherwise (shared among the ranks).
"""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from rl.attention import implementation_for
from rl.ranks import Ranks


def load_reference(folder: Path, *, autocast: bool, ranks: Ranks, device: torch.device) -> PreTrainedModel:
    """The model in `folder`, without gradients, for `rl.forward.statistics`; on several ranks it is still to be cut."""
    half = autocast and ranks.count == 1
    model = AutoModelForCausalLM.from_pretrained(
        folder,
        dtype=torch.bfloat16 if half else torch.float32,
        attn_implementation=implementation_for(device),
    )
    model.requires_grad_(False).eval()
    if half:
        _keep_sums_exact(model)
    return model.to(device) if ranks.count == 1 else model


def _keep_sums_exact(model: PreTrainedModel) -> None:
    """Bfloat16 for weights of products only, which autocast would round to it anyway; all else as in float32."""
    for module in model.modules():
        if not isinstance(module, torch.nn.Linear | torch.nn.Embedding):
            for parameter in module.parameters(recurse=False):
                parameter.data = parameter.data.float()
    model.get_input_embeddings().register_forward_hook(lambda _module, _inputs, output: output.float())
