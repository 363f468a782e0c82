"""Generates groups of completions with vLLM and proves which activations they came from.

One engine lives in one process (settings must be in the environment before this module is imported, see
`rl.hardware`). It knows nothing of the network: prompts, weights folders and the proof builder are given to it.
vLLM schedules and computes; which token is taken is decided by `rl.seeded`, in `rl.capture`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from vllm import LLM, SamplingParams, TokensPrompt

from rl.engine import ROWS, Completion, EngineFault, OwnSeeds, read_weights
from rl.growing import Grower, ProofBuilder
from rl.hardware import ComputeType
from rl.seeded import Sampling, completion_key


class VllmEngine:
    """See `rl.engine.Engine`."""

    def __init__(
        self, folder: Path, *, compute_type: ComputeType, max_model_len: int, prove: ProofBuilder, seed: int
    ) -> None:
        """Load the HF folder and start. Needs VLLM_ENABLE_V1_MULTIPROCESSING=0 in the environment.

        Args:
            seed: where a call names none; keeps two workers on one machine from sampling alike.
        """
        self._llm = LLM(
            model=str(folder),
            dtype=compute_type,
            enforce_eager=True,
            max_model_len=max_model_len,
            max_num_seqs=ROWS,
            # KV blocks of 32 let the completions of one group share most of their prompt's prefill.
            block_size=32,
            enable_prefix_caching=True,
            async_scheduling=False,
            disable_log_stats=True,
            # The tokenizer's EOS alone ends a completion: validators know no other stop tokens.
            generation_config="vllm",
            worker_extension_cls="rl.capture.StateCapture",
        )
        self.swap_moved_probe = True
        self._type = getattr(torch, compute_type)
        self._grower, self._own_seeds = Grower(prove), OwnSeeds(seed)
        self._eos_token_id: int = self._llm.get_tokenizer().eos_token_id
        self._llm.collective_rpc("install_capture", args=(self._grower,))
        self._probe = self._probe_states()

    def load(self, folder: Path) -> None:
        self.load_tensors(read_weights(folder))

    def load_tensors(self, weights: dict[str, torch.Tensor]) -> None:
        converted = [(name, tensor.to(self._type)) for name, tensor in weights.items()]
        self._llm.collective_rpc("load_policy", args=(converted,))
        # Cached prompts hold keys and values of the old weights.
        self._llm.reset_prefix_cache()
        probe = self._probe_states()
        if not torch.isfinite(probe).all():
            raise EngineFault("after the swap the model's activations are not finite")
        self.swap_moved_probe = not torch.equal(probe, self._probe)
        self._probe = probe

    def generate(
        self,
        prompts: Sequence[tuple[int, ...]],
        *,
        samples: int,
        max_tokens: int,
        sampling: Sampling,
        seed: bytes | None,
    ) -> list[list[Completion]]:
        draw_seed = self._own_seeds.next() if seed is None else seed
        self._grower.sampling = sampling
        places = [(group, sample) for group in range(len(prompts)) for sample in range(samples)]
        outputs = self._llm.generate(
            [TokensPrompt(prompt_token_ids=list(prompts[group])) for group, _ in places],
            [_parameters(completion_key(draw_seed, *place), max_tokens) for place in places],
            use_tqdm=False,
        )
        grown = self._llm.collective_rpc("take_grown")[0]
        given_out = [(grown[output.request_id], list(output.outputs[0].token_ids)) for output in outputs]
        if any(one.tokens != tokens for one, tokens in given_out):
            raise EngineFault("vLLM gave out other tokens than the noise forces: does another plug-in sample in it?")
        ordered = [one for one, _ in given_out]
        pairs = zip(ordered, self._grower.finish(ordered), strict=True)
        flat = [Completion.of(one, proofs, eos_token_id=self._eos_token_id) for one, proofs in pairs]
        return [flat[start : start + samples] for start in range(0, len(flat), samples)]

    def _probe_states(self) -> torch.Tensor:
        parameters = SamplingParams(temperature=0.0, max_tokens=1, detokenize=False)
        self._llm.generate([TokensPrompt(prompt_token_ids=[1, 2, 3, 4])], parameters, use_tqdm=False)
        return self._llm.collective_rpc("last_states")[0]


def _parameters(key: bytes, max_tokens: int) -> SamplingParams:
    # Greedy and without log-probs: there is nothing for vLLM's own sampler to prepare.
    return SamplingParams(temperature=0.0, max_tokens=max_tokens, detokenize=False, extra_args={"key": key})
