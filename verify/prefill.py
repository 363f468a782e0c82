"""A policy's forward pass over finished rollouts, by transformers: states, log-probabilities, P(EOS).

Groups are packed (`rl.packing`): each prompt is computed once, and the LM head runs on completion positions only.

It decides nothing about rollouts. It refuses models to which that packing does not apply (a sliding window shorter
than a row, logits that are more than head times state) rather than reject honest work because of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from rl.hardware import choose_compute_type, read_cpu_flags
from rl.packing import Group, Packed, pack, packed_length, split_by_tokens
from rl.prompts import Tokenizer
from rl.rollouts import Rollout
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
        self._model = model.to(device=self.device, dtype=getattr(torch, chosen)).eval()
        self.tokenizer: Tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self.hidden_size: int = model.config.hidden_size
        self.vocab_size: int = model.config.vocab_size

    @torch.inference_mode()
    def prefill(self, rollouts: Sequence[Rollout], *, temperature: float) -> list[Prefilled]:
        """See `verify.policy.Policy`. Token ids must lie inside the vocabulary, completions hold a token or more."""
        groups = list(_groups(rollouts))
        results: list[Prefilled] = []
        for part in split_by_tokens(groups, ROW_TOKENS):
            members = [groups[number] for number in part]
            packed = pack(members)
            states = self._states(packed)
            logprobs, eos = self._probabilities(states, torch.from_numpy(packed.targets), temperature)
            bits = states.to(torch.bfloat16).cpu().view(torch.uint16).numpy()
            ends = np.cumsum([len(completion) for _, completions in members for completion in completions])
            for start, end in zip([0, *ends[:-1]], ends, strict=True):
                results.append(
                    Prefilled(states=bits[start:end], logprobs=logprobs[start:end], eos_probs=eos[start:end])
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

    def _probabilities(
        self, states: torch.Tensor, chosen: torch.Tensor, temperature: float
    ) -> tuple[np.ndarray, np.ndarray]:
        head, eos_token_id = self._model.get_output_embeddings(), self.tokenizer.eos_token_id
        logprobs, eos = [], []
        for some, tokens in zip(states.split(HEAD_TOKENS), chosen.to(self.device).split(HEAD_TOKENS), strict=True):
            logits = head(some).float() / temperature
            total = logits.logsumexp(-1)
            logprobs.append(logits.gather(-1, tokens[:, None])[:, 0] - total)
            eos.append((logits[:, eos_token_id] - total).exp())
        return torch.cat(logprobs).cpu().numpy(), torch.cat(eos).cpu().numpy()


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


def _refuse_unpackable(model: PreTrainedModel) -> None:
    config = model.config
    window = getattr(config, "sliding_window", None)
    if window is not None and window < ROW_TOKENS:
        raise ValueError(f"attention in windows of {window} tokens cannot be packed into rows of {ROW_TOKENS}")
    for name in ("final_logit_softcapping", "logit_scale", "logits_scaling"):
        if getattr(config, name, None) not in (None, 1, 1.0):
            raise ValueError(f"the model's {name} is not applied by this prefill")
