"""One forward pass over a packed row: what a policy makes of its completion tokens.

The same for the policy that is trained and for the frozen reference, so that equal weights give equal numbers.
"""

from __future__ import annotations

import torch
from transformers import PreTrainedModel

from rl.attention import attention_for
from rl.head import token_statistics
from rl.packing import Packed


def statistics(
    model: PreTrainedModel, packed: Packed, *, device: torch.device, autocast: bool, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probs and entropies of the row's targets under softmax(logits / temperature), float32 [targets], nats.

    Args:
        model: loaded with `rl.attention.implementation_for(device)`; its head is a plain product.
        autocast: products in bfloat16 with float32 weights and results; else all in the weights' type.
    """
    ids, positions, rows, targets = (
        torch.from_numpy(array).to(device)
        for array in (packed.ids, packed.positions, packed.source_rows, packed.targets)
    )
    with torch.autocast(device.type, torch.bfloat16, enabled=autocast):
        hidden = model.model(
            input_ids=ids[None], position_ids=positions[None], use_cache=False, **attention_for(packed, device)
        ).last_hidden_state[0]
        return token_statistics(hidden[rows], model.lm_head.weight, targets, temperature=temperature)


def demand_plain_head(model: PreTrainedModel) -> None:
    """Refuse a model whose logits are more than hidden @ weight.T; raises ValueError that names what it adds."""
    odd = [
        name
        for name in ("final_logit_softcapping", "logits_scaling", "logit_scale")
        if getattr(model.config, name, None) not in (None, 1, 1.0)
    ]
    if getattr(model.lm_head, "bias", None) is not None:
        odd.append("a bias")
    if odd:
        raise ValueError(
            f"the head of {model.config.model_type} has {', '.join(odd)}, which the trainer would leave out: "
            "choose a model whose logits are a plain product, such as Llama, Qwen or SmolLM2"
        )
