"""A policy's forward pass over finished rollouts, by transformers: states, log-probabilities, P(EOS).

The prompt of a group is computed once: a row holds the prompt and then completions one after another, each with
positions that start after the prompt and a mask by which it sees the prompt and itself only. That is the same
function as one row per completion, with about a third of the tokens. The LM head runs on completion positions only.

It decides nothing about rollouts. It refuses models to which that packing does not apply (a sliding window shorter
than a row, logits that are more than head times state) rather than reject honest work because of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from rl.prompts import Tokenizer
from rl.rollouts import Rollout
from verify.policy import Prefilled

ROW_TOKENS = 1024
"""A row takes further completions of its group up to this length; the mask grows with its square."""
BATCH_TOKENS = 2048
"""Tokens, padding included, of one forward pass."""
HEAD_TOKENS = 512
"""Positions for which logits exist at one time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """One prompt and some of its completions, by their numbers in the call."""

    prompt: tuple[int, ...]
    completions: tuple[tuple[int, tuple[int, ...]], ...]

    @property
    def length(self) -> int:
        """Tokens fed; the last token of a completion only needs predicting."""
        return len(self.prompt) + sum(len(ids) - 1 for _, ids in self.completions)


class TransformersPolicy:
    """One policy version: a checksum-verified Hugging Face folder, loaded for prefill."""

    def __init__(self, folder: Path, *, compute_dtype: Literal["auto", "float32", "bfloat16"] = "auto") -> None:
        """Load weights and tokenizer; raises OSError or ValueError if the folder is not a usable checkpoint.

        Args:
            compute_dtype: "auto" takes bfloat16 where the processor has units for it and float32 elsewhere: bf16
                arithmetic emulated on AVX2 is some 30 times slower, and float32 lies within the honest range of
                proofs. Weights are rounded to bfloat16 first either way, as engines do.
        """
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        if compute_dtype == "auto":
            compute_dtype = "bfloat16" if self.device.type == "cuda" or _cpu_has_bfloat16() else "float32"
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, local_files_only=True)
        _refuse_unpackable(model)
        self._model = model.to(device=self.device, dtype=getattr(torch, compute_dtype)).eval()
        self.tokenizer: Tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self.hidden_size: int = model.config.hidden_size
        self.vocab_size: int = model.config.vocab_size

    @torch.inference_mode()
    def prefill(self, rollouts: Sequence[Rollout], *, temperature: float) -> list[Prefilled]:
        """See `verify.policy.Policy`. Token ids must lie inside the vocabulary, completions hold a token or more."""
        results: dict[int, Prefilled] = {}
        for rows in _batches(_pack(rollouts)):
            hidden = self._states(rows)
            for states, row in zip(hidden, rows, strict=True):
                results |= self._read_row(states, row, temperature)
        return [results[number] for number in range(len(rollouts))]

    def _states(self, rows: Sequence[_Row]) -> torch.Tensor:
        """Final-norm hidden states [rows, tokens, hidden]."""
        width = max(row.length for row in rows)
        ids = torch.zeros(len(rows), width, dtype=torch.long)
        positions = torch.zeros(len(rows), width, dtype=torch.long)
        segments = torch.full((len(rows), width), -1)
        for number, row in enumerate(rows):
            start = len(row.prompt)
            ids[number, :start] = torch.tensor(row.prompt)
            positions[number, :start] = torch.arange(start)
            segments[number, :start] = 0
            for segment, (_, completion) in enumerate(row.completions, start=1):
                end = start + len(completion) - 1
                ids[number, start:end] = torch.tensor(completion[:-1], dtype=torch.long)
                positions[number, start:end] = torch.arange(len(row.prompt), len(row.prompt) + end - start)
                segments[number, start:end] = segment
                start = end
        same = (segments[:, :, None] == segments[:, None, :]) | (segments[:, None, :] == 0)
        mask = same & torch.ones(width, width, dtype=torch.bool).tril()
        return self._model.base_model(
            input_ids=ids.to(self.device),
            attention_mask=mask[:, None].to(self.device),
            position_ids=positions.to(self.device),
            use_cache=False,
        ).last_hidden_state

    def _read_row(self, states: torch.Tensor, row: _Row, temperature: float) -> dict[int, Prefilled]:
        last_of_prompt, start = len(row.prompt) - 1, len(row.prompt)
        sources: list[int] = []
        for _, completion in row.completions:
            sources += [last_of_prompt, *range(start, start + len(completion) - 1)]
            start += len(completion) - 1
        chosen = torch.tensor([token for _, completion in row.completions for token in completion])
        states = states[torch.tensor(sources, device=self.device)]
        logprobs, eos = self._probabilities(states, chosen.to(self.device), temperature)
        bits = states.to(torch.bfloat16).cpu().view(torch.uint16).numpy()
        results, start = {}, 0
        for number, completion in row.completions:
            span = slice(start, start + len(completion))
            results[number] = Prefilled(states=bits[span], logprobs=logprobs[span], eos_probs=eos[span])
            start = span.stop
        return results

    def _probabilities(
        self, states: torch.Tensor, chosen: torch.Tensor, temperature: float
    ) -> tuple[np.ndarray, np.ndarray]:
        head, eos_token_id = self._model.get_output_embeddings(), self.tokenizer.eos_token_id
        logprobs, eos = [], []
        for some, tokens in zip(states.split(HEAD_TOKENS), chosen.split(HEAD_TOKENS), strict=True):
            logits = head(some).float() / temperature
            total = logits.logsumexp(-1)
            logprobs.append(logits.gather(-1, tokens[:, None])[:, 0] - total)
            eos.append((logits[:, eos_token_id] - total).exp())
        return torch.cat(logprobs).cpu().numpy(), torch.cat(eos).cpu().numpy()


def _pack(rollouts: Sequence[Rollout]) -> Iterator[_Row]:
    """Rows of neighbours with one prompt, cut where a row would exceed `ROW_TOKENS`."""
    for prompt, group in groupby(enumerate(rollouts), key=lambda pair: pair[1].prompt_ids):
        members: list[tuple[int, tuple[int, ...]]] = []
        length = len(prompt)
        for number, rollout in group:
            added = len(rollout.completion_ids) - 1
            if members and length + added > ROW_TOKENS:
                yield _Row(prompt=prompt, completions=tuple(members))
                members, length = [], len(prompt)
            members.append((number, rollout.completion_ids))
            length += added
        yield _Row(prompt=prompt, completions=tuple(members))


def _batches(rows: Iterator[_Row]) -> Iterator[list[_Row]]:
    """Rows of similar length together, as many as `BATCH_TOKENS` holds, one at least."""
    batch: list[_Row] = []
    for row in sorted(rows, key=lambda row: row.length, reverse=True):
        if batch and (len(batch) + 1) * batch[0].length > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def _refuse_unpackable(model: PreTrainedModel) -> None:
    config = model.config
    window = getattr(config, "sliding_window", None)
    if window is not None and window < ROW_TOKENS:
        raise ValueError(f"attention in windows of {window} tokens cannot be packed into rows of {ROW_TOKENS}")
    for name in ("final_logit_softcapping", "logit_scale", "logits_scaling"):
        if getattr(config, name, None) not in (None, 1, 1.0):
            raise ValueError(f"the model's {name} is not applied by this prefill")


def _cpu_has_bfloat16() -> bool:
    """Whether the processor multiplies bfloat16 itself (AVX512-BF16 or AMX on x86, bf16 on ARM); Linux only."""
    info = Path("/proc/cpuinfo")
    words = set(info.read_text().split()) if info.exists() else set()
    return bool(words & {"avx512_bf16", "amx_bf16", "bf16"})
