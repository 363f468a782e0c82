"""The trainer's state between two steps as files: what the next step needs beyond the published weights.

Float32 master weights, AdamW's moments and step counts, the number of updates, and torch's random state; one
safetensors file and a small JSON. Which state to believe is not decided here, only that it fits: a state belongs to
one policy version, has exactly the tensors of this model, and its master weights, rounded, are that policy bit by bit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from rl.state_files import TENSORS, StateFacts, StateInvalid, read_facts, write_facts
from rl.whole_folder import whole_folder


def save_state(folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, facts: StateFacts) -> None:
    """Write the state; `folder` appears complete or not at all."""
    tensors = {"random": torch.get_rng_state()}
    for name, parameter in model.named_parameters():
        tensors[f"weight/{name}"] = parameter.detach()
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"{key}/{name}"] = value
    with whole_folder(folder) as partial:
        whole = {name: tensor.contiguous().cpu() for name, tensor in tensors.items()}
        save_file(whole, partial / TENSORS)
        write_facts(partial, facts)


@torch.no_grad()
def load_state(folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, *, version: int) -> StateFacts:
    """Put the state into `model`, which holds policy `version` in float32, and `optimizer`. Raises StateInvalid.

    Nothing is changed before everything was checked but the moments' values, for which there is nothing to compare.
    """
    facts = read_facts(folder)
    if facts.version != version:
        raise StateInvalid(f"it goes with policy {facts.version}, not {version}")
    parameters = dict(model.named_parameters())
    try:
        with safe_open(folder / TENSORS, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as fault:
        raise StateInvalid(f"{TENSORS} cannot be read: {fault}") from fault
    random = tensors.pop("random", None)
    if random is None or random.dtype != torch.uint8 or random.shape != torch.get_rng_state().shape:
        raise StateInvalid("the random state is missing or of another kind")
    _check_shapes(tensors, parameters)
    for name, parameter in parameters.items():
        if not torch.equal(tensors[f"weight/{name}"].bfloat16(), parameter.cpu().bfloat16()):
            raise StateInvalid(f"the weights of {name}, rounded, are not those of policy {version}")
    for name, parameter in parameters.items():
        parameter.copy_(tensors[f"weight/{name}"])
        if f"step/{name}" in tensors:
            # AdamW counts on the CPU, and keeps the moments beside the parameter.
            moments = {key: tensors[f"{key}/{name}"].to(parameter.device) for key in ("exp_avg", "exp_avg_sq")}
            optimizer.state[parameter] = {"step": tensors[f"step/{name}"], **moments}
    torch.set_rng_state(random)
    return facts


def _check_shapes(tensors: dict[str, Any], parameters: dict[str, torch.nn.Parameter]) -> None:
    wanted = {f"weight/{name}": parameter.shape for name, parameter in parameters.items()}
    for name, parameter in parameters.items():
        if f"step/{name}" in tensors:  # a parameter that never had a gradient has no moments
            wanted |= {f"step/{name}": torch.Size([]), f"exp_avg/{name}": parameter.shape}
            wanted[f"exp_avg_sq/{name}"] = parameter.shape
    if tensors.keys() != wanted.keys():
        odd = sorted(tensors.keys() ^ wanted.keys())
        raise StateInvalid(f"its tensors are not this model's: {', '.join(odd[:3])}")
    for name, shape in wanted.items():
        if tensors[name].shape != shape or tensors[name].dtype != torch.float32:
            raise StateInvalid(f"{name} has another shape or type")
