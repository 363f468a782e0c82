"""The trainer's state between two steps as files: what the next step needs beyond the published weights.

Float32 master weights, AdamW's moments and step counts, and the number of updates, from which the learning rate and
the random numbers of the next step follow; one safetensors file and a small JSON, the same for any number of ranks.
Which state to believe is not decided here, only that it fits: a state belongs to one policy version, has exactly the
tensors of this model, and its master weights, rounded, are that policy bit by bit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from rl.ranks import Ranks
from rl.shards import cut_like, whole
from rl.state_files import TENSORS, StateFacts, StateInvalid, read_facts, write_facts
from rl.whole_folder import whole_folder

MOMENTS = ("exp_avg", "exp_avg_sq")


def save_state(
    folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, facts: StateFacts, *, ranks: Ranks
) -> None:
    """Write the state; `folder` appears complete or not at all. Every rank calls, rank 0 writes."""
    tensors = {}
    for name, parameter in model.named_parameters():
        for key, value in {"weight": parameter, **optimizer.state.get(parameter, {})}.items():
            gathered = whole(value)
            if ranks.number == 0:
                tensors[f"{key}/{name}"] = gathered.contiguous().cpu()
    if ranks.number == 0:
        with whole_folder(folder) as partial:
            save_file(tensors, partial / TENSORS)
            write_facts(partial, facts)


@torch.no_grad()
def load_state(folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, *, version: int) -> StateFacts:
    """Put the state into `model`, which holds policy `version` in float32, and `optimizer`. Raises StateInvalid.

    Nothing is changed before everything was checked but the moments' values, for which there is nothing to compare.
    Every rank calls, reads the same files and so comes to the same end; one tensor at a time is held whole.
    """
    facts = read_facts(folder)
    if facts.version != version:
        raise StateInvalid(f"it goes with policy {facts.version}, not {version}")
    parameters = dict(model.named_parameters())
    try:
        with safe_open(folder / TENSORS, framework="pt") as file:
            names = frozenset(file.keys())
            _check_shapes(file, names, parameters)
            for name, parameter in parameters.items():
                if not torch.equal(file.get_tensor(f"weight/{name}").bfloat16(), whole(parameter).cpu().bfloat16()):
                    raise StateInvalid(f"the weights of {name}, rounded, are not those of policy {version}")
            for name, parameter in parameters.items():
                parameter.copy_(cut_like(file.get_tensor(f"weight/{name}"), parameter))
                if f"step/{name}" in names:
                    # Fused AdamW keeps its count, too, where the parameter is.
                    moments = {key: cut_like(file.get_tensor(f"{key}/{name}"), parameter) for key in MOMENTS}
                    count = file.get_tensor(f"step/{name}").to(parameter.device)
                    optimizer.state[parameter] = {"step": count, **moments}
    except (OSError, SafetensorError) as fault:
        raise StateInvalid(f"{TENSORS} cannot be read: {fault}") from fault
    return facts


def _check_shapes(file: Any, names: frozenset[str], parameters: dict[str, torch.nn.Parameter]) -> None:
    wanted = {f"weight/{name}": parameter.shape for name, parameter in parameters.items()}
    for name, parameter in parameters.items():
        if f"step/{name}" in names:  # a parameter that never had a gradient has no moments
            wanted |= {f"step/{name}": torch.Size([])} | {f"{key}/{name}": parameter.shape for key in MOMENTS}
    if names != wanted.keys():
        odd = sorted(names ^ wanted.keys())
        raise StateInvalid(f"its tensors are not this model's: {', '.join(odd[:3])}")
    for name, shape in wanted.items():
        told = file.get_slice(name)
        if tuple(told.get_shape()) != tuple(shape) or told.get_dtype() != "F32":
            raise StateInvalid(f"{name} has another shape or type")
