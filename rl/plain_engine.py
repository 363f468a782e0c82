"""Generates groups of completions with transformers alone: for machines on which vLLM does not run, and for studies.

The same interface, noise and proofs as `rl.vllm_engine`, a few times slower. Prompts are padded on the right and the
gap is masked: so every row of the attention has something to attend to, and no NaN of a padding row can spread.

It refuses models whose logits are more than head times state: it computes them no other way, nor does a validator.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache, PreTrainedModel

from rl.arithmetic import cast
from rl.engine import ROWS, Completion, EngineFault, OwnSeeds, read_weights
from rl.growing import Grower, Growing, ProofBuilder
from rl.hardware import ComputeType
from rl.prompts import PromptTooLong
from rl.seeded import Sampling, completion_key

MORE_THAN_HEAD = ("final_logit_softcapping", "logit_scale", "logits_scaling")
"""Settings of models that change the logits after the head."""


class TransformersEngine:
    """See `rl.engine.Engine`."""

    def __init__(
        self, folder: Path, *, compute_type: ComputeType, max_model_len: int, prove: ProofBuilder, seed: int
    ) -> None:
        """Load the HF folder.

        Args:
            seed: where a call names none; keeps two workers on one machine from sampling alike.

        Raises:
            OSError, ValueError: the folder is no usable checkpoint, or of a model that this engine refuses.
        """
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        # Weights are rounded to bfloat16 first, as the network publishes them and validators load them.
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, local_files_only=True)
        for name in MORE_THAN_HEAD:
            if getattr(model.config, name, None) not in (None, 1, 1.0):
                raise ValueError(f"the model's {name} is not applied by this engine; choose worker.backend = 'vllm'")
        self._model: PreTrainedModel = cast(model.to(device=self._device), compute_type).eval()
        self._eos_token_id: int = AutoTokenizer.from_pretrained(folder, local_files_only=True).eos_token_id
        self._max_model_len = max_model_len
        self._grower, self._own_seeds = Grower(prove), OwnSeeds(seed)
        self.swap_moved_probe = True
        self._probe = self._probe_states()

    def load(self, folder: Path) -> None:
        self.load_tensors(read_weights(folder))

    def load_tensors(self, weights: dict[str, torch.Tensor]) -> None:
        missing, unexpected = self._model.load_state_dict(weights, strict=False)
        tied = set(self._model._tied_weights_keys or ())
        if unexpected or not tied.issuperset(missing):
            raise EngineFault(f"the new weights lack {missing} and have {unexpected} besides: is it another model?")
        probe = self._probe_states()
        if not torch.isfinite(probe).all():
            raise EngineFault("after the swap the model's activations are not finite")
        self.swap_moved_probe = not torch.equal(probe, self._probe)
        self._probe = probe

    @torch.inference_mode()
    def generate(
        self,
        prompts: Sequence[tuple[int, ...]],
        *,
        samples: int,
        max_tokens: int,
        sampling: Sampling,
        seed: bytes | None,
    ) -> list[list[Completion]]:
        longest = max(map(len, prompts)) + max_tokens
        if longest > self._max_model_len:
            raise PromptTooLong(f"max_model_len is {self._max_model_len}; these prompts need {longest}")
        draw_seed = self._own_seeds.next() if seed is None else seed
        self._grower.sampling = sampling
        places = [(group, sample) for group in range(len(prompts)) for sample in range(samples)]
        growing = [Growing(key=completion_key(draw_seed, *place)) for place in places]
        for start in range(0, len(places), ROWS):
            some = slice(start, start + ROWS)
            self._decode([prompts[group] for group, _ in places[some]], growing[some], max_tokens)
        pairs = zip(growing, self._grower.finish(growing), strict=True)
        flat = [Completion.of(one, proofs, eos_token_id=self._eos_token_id) for one, proofs in pairs]
        return [flat[start : start + samples] for start in range(0, len(flat), samples)]

    def _decode(self, prompts: Sequence[tuple[int, ...]], growing: Sequence[Growing], max_tokens: int) -> None:
        batch = _Batch(self._model, prompts)
        alive = list(growing)
        for position in range(max_tokens):
            logits = self._model.get_output_embeddings()(batch.hidden)
            tokens = self._grower.step(alive, batch.hidden.to(torch.bfloat16), logits)
            kept = [slot for slot, token in enumerate(tokens) if token != self._eos_token_id]
            if not kept or position + 1 == max_tokens:
                return
            alive = [alive[slot] for slot in kept]
            batch.step(kept, [tokens[slot] for slot in kept])

    @torch.inference_mode()
    def _probe_states(self) -> torch.Tensor:
        return _Batch(self._model, [(1, 2, 3, 4)]).hidden.to(torch.bfloat16).cpu()


class _Batch:
    """Rows under way with their key-value cache. `hidden`: [rows, hidden], from which the next tokens are sampled."""

    def __init__(self, model: PreTrainedModel, prompts: Sequence[tuple[int, ...]]) -> None:
        """Prefill: each of neighbouring equal prompts is computed once."""
        runs = [(prompt, len(list(same))) for prompt, same in groupby(prompts)]
        self._model, device = model, model.device
        width = max(len(prompt) for prompt, _ in runs)
        ids = torch.tensor([[*prompt, *[0] * (width - len(prompt))] for prompt, _ in runs], device=device)
        lengths = torch.tensor([len(prompt) for prompt, _ in runs], device=device)
        mask = (torch.arange(width, device=device) < lengths[:, None]).long()
        self._cache = DynamicCache(config=model.config)
        out = model.base_model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=torch.arange(width, device=device)[None].expand_as(ids),
            past_key_values=self._cache,
            use_cache=True,
        ).last_hidden_state
        last = out[torch.arange(len(runs), device=device), lengths - 1]
        source = torch.tensor([number for number, (_, count) in enumerate(runs) for _ in range(count)], device=device)
        self._cache.batch_select_indices(source)
        self.hidden, self._mask, self._positions = last[source], mask[source], lengths[source]

    def step(self, kept: Sequence[int], tokens: Sequence[int]) -> None:
        """Go on with the rows `kept`, each by one token; the others are dropped."""
        device = self._mask.device
        if len(kept) < len(self._mask):
            index = torch.tensor(kept, device=device)
            self._cache.batch_select_indices(index)
            self._mask, self._positions = self._mask[index], self._positions[index]
        self._mask = torch.cat([self._mask, self._mask.new_ones(len(kept), 1)], dim=1)
        self.hidden = self._model.base_model(
            input_ids=torch.tensor(tokens, device=device)[:, None],
            attention_mask=self._mask,
            position_ids=self._positions[:, None],
            past_key_values=self._cache,
            use_cache=True,
        ).last_hidden_state[:, 0]
        self._positions = self._positions + 1
