"""A policy's forward pass over finished rollouts, by transformers: states, and what the head says of the tokens.

Groups are packed (`rl.packing`): each prompt is computed once, and the LM head runs on completion positions only.

It decides nothing about rollouts. It refuses models to which that packing does not apply (a sliding window shorter
than a row, logits that are more than head times state) rather than reject honest work because of them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from rl.arithmetic import cast
from rl.hardware import ComputeType, choose_compute_type, read_cpu_flags
from rl.packing import Group, Packed, pack, packed_length, split_by_tokens
from rl.plain_engine import MORE_THAN_HEAD
from rl.prompts import Tokenizer
from rl.rollouts import Rollout
from rl.seeded import Sampling
from verify.head import Reading, join, read
from verify.policy import Prefilled

ROW_TOKENS = 512
"""A row takes further completions and groups up to this length; the mask grows with its square."""
HEAD_TOKENS = 512
"""Positions for which logits exist at one time."""


class TransformersPolicy:
    """One policy version: a checksum-verified Hugging Face folder, loaded for prefill."""

    def __init__(self, folder: Path, *, compute_dtype: Literal["auto", "float32", "bfloat16"] = "auto") -> None:
        """Load weights and tokenizer; raises OSError or ValueError if the folder is not a usable checkpoint.

        Args:
            compute_dtype: see `rl.hardware`. Weights are rounded to bfloat16 first either way, as engines do.
        """
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        chosen = choose_compute_type(compute_dtype, read_cpu_flags(), self.device.type == "cuda")
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, local_files_only=True)
        _refuse_unpackable(model)
        _refuse_broken(model)
        self.compute_type: ComputeType = chosen
        self._model = cast(model.to(device=self.device), chosen).eval()
        self.tokenizer: Tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self.hidden_size: int = model.config.hidden_size
        self.vocab_size: int = model.config.vocab_size

    @torch.inference_mode()
    def prefill(
        self,
        rollouts: Sequence[Rollout],
        *,
        sampling: Sampling,
        keys: Sequence[bytes] | None,
        compute_type: ComputeType | None = None,
    ) -> list[Prefilled]:
        """See `verify.policy.Policy`. Token ids must lie inside the vocabulary, completions hold a token or more.

        In another arithmetic than its own it takes the memory of the weights in that one while it runs: they are
        bfloat16's values in either.

        Raises:
            ValueError: the policy computes no finite numbers here, whence nothing follows about the rollouts.
        """
        if compute_type not in (None, self.compute_type):
            other = copy.copy(self)
            other.compute_type = compute_type
            other._model = cast(copy.deepcopy(self._model), compute_type)
            return other.prefill(rollouts, sampling=sampling, keys=keys)
        groups = list(_groups(rollouts))
        remaining = None if keys is None else iter(keys)
        results: list[Prefilled] = []
        for part in split_by_tokens(groups, ROW_TOKENS):
            members = [groups[number] for number in part]
            packed = pack(members)
            lengths = [len(completion) for _, completions in members for completion in completions]
            token_keys = remaining and [key for size in lengths for key in [next(remaining)] * size]
            positions = [position for size in lengths for position in range(size)]
            states = self._states(packed)
            reading = self._read(states, torch.from_numpy(packed.targets), sampling, token_keys, positions)
            bits = states.to(torch.bfloat16).cpu().view(torch.uint16).numpy()
            ends = np.cumsum(lengths)
            for start, end in zip([0, *ends[:-1]], ends, strict=True):
                own = reading.part(slice(start, end))
                results.append(
                    Prefilled(
                        states=bits[start:end],
                        logprobs=own.logprobs,
                        eos_probs=own.eos_probs,
                        margins=own.margins,
                        spread=own.spread,
                    )
                )
        return results

    def _states(self, packed: Packed) -> torch.Tensor:
        """Final-norm hidden states [completion tokens, hidden] from which each completion token was sampled."""
        hidden = self._model.base_model(
            input_ids=torch.from_numpy(packed.ids)[None].to(self.device),
            attention_mask=torch.from_numpy(packed.allowed)[None, None].to(self.device),
            position_ids=torch.from_numpy(packed.positions)[None].to(self.device),
            use_cache=False,
        ).last_hidden_state[0]
        return hidden[torch.from_numpy(packed.source_rows).to(self.device)]

    def _read(
        self,
        states: torch.Tensor,
        chosen: torch.Tensor,
        sampling: Sampling,
        keys: Sequence[bytes] | None,
        positions: Sequence[int],
    ) -> Reading:
        """What the head says at each position, `HEAD_TOKENS` at a time."""
        head, chosen = self._model.get_output_embeddings(), chosen.to(self.device)
        readings = []
        for start in range(0, len(states), HEAD_TOKENS):
            part = slice(start, start + HEAD_TOKENS)
            logits = head(states[part])
            if not bool(torch.isfinite(logits).all()):
                raise ValueError(
                    "the policy computes logits that are not finite: its weights or this machine are broken"
                )
            reading = read(
                logits,
                chosen[part],
                eos_token_id=self.tokenizer.eos_token_id,
                sampling=sampling,
                keys=keys and keys[part],
                positions=positions[part],
            )
            readings.append(reading)
        return join(readings)


def _groups(rollouts: Sequence[Rollout]) -> Iterator[Group]:
    """Neighbours with one prompt, cut where a row would exceed `ROW_TOKENS`."""
    for prompt, members in groupby(rollouts, key=lambda rollout: rollout.prompt_ids):
        taken: list[tuple[int, ...]] = []
        for rollout in members:
            if taken and packed_length(prompt, [*taken, rollout.completion_ids]) > ROW_TOKENS:
                yield prompt, tuple(taken)
                taken = []
            taken.append(rollout.completion_ids)
        yield prompt, tuple(taken)


def _refuse_broken(model: PreTrainedModel) -> None:
    for name, weight in model.named_parameters():
        if not bool(torch.isfinite(weight).all()):
            raise ValueError(f"weight {name} is not finite: the trainer published a broken policy")


def _refuse_unpackable(model: PreTrainedModel) -> None:
    config = model.config
    window = getattr(config, "sliding_window", None)
    if window is not None and window < ROW_TOKENS:
        raise ValueError(f"attention in windows of {window} tokens cannot be packed into rows of {ROW_TOKENS}")
    for name in MORE_THAN_HEAD:
        if getattr(config, name, None) not in (None, 1, 1.0):
            raise ValueError(f"the model's {name} is not applied by this prefill")
