"""Generates groups of completions with vLLM and proves which activations they came from.

One engine lives in one process (settings must be in the environment before this module is imported, see
`rl.hardware`). It knows nothing of the network: prompts, weights folders and the proof builder are given to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from safetensors.torch import load_file
from vllm import LLM, CompletionOutput, SamplingParams, TokensPrompt

from rl.hardware import ComputeType

ProofBuilder = Callable[[Sequence[np.ndarray]], list[list[bytes]]]
"""From bf16 bit patterns of several completions, each uint16 [tokens, hidden], to each one's proofs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One sampled answer."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish_reason: Literal["eos", "length"]
    proofs: tuple[bytes, ...]


class EngineFault(RuntimeError):
    """The engine broke its own contract; nothing that it made since may be used."""


class VllmEngine:
    """A running vLLM engine with hot-swappable weights."""

    def __init__(
        self, folder: Path, *, compute_type: ComputeType, max_model_len: int, prove: ProofBuilder, seed: int
    ) -> None:
        """Load the HF folder and start. Needs VLLM_ENABLE_V1_MULTIPROCESSING=0 in the environment.

        Args:
            seed: of the sampler; keeps two workers on one machine from sampling alike.
        """
        self._llm = LLM(
            model=str(folder),
            dtype=compute_type,
            enforce_eager=True,
            max_model_len=max_model_len,
            max_num_seqs=64,
            # KV blocks of 32 let the completions of one group share most of their prompt's prefill.
            block_size=32,
            enable_prefix_caching=True,
            async_scheduling=False,
            disable_log_stats=True,
            # Of the distribution that is sampled from, at its temperature; vLLM's default is that at temperature 1.
            logprobs_mode="processed_logprobs",
            # The tokenizer's EOS alone ends a completion: validators know no other stop tokens.
            generation_config="vllm",
            worker_extension_cls="rl.capture.StateCapture",
            seed=seed,
        )
        self.swap_moved_probe = True
        """Whether the last swap changed what the model computes; False after loading equal weights."""
        self._type = getattr(torch, compute_type)
        self._prove = prove
        self._llm.collective_rpc("install_capture")
        self._probe = self._probe_states()

    def load(self, folder: Path) -> None:
        """Swap to the weights in `folder` (safetensors, already verified by the caller).

        Raises:
            EngineFault: the swapped model computes no finite activations.
        """
        self.load_tensors(read_weights(folder))

    def load_tensors(self, weights: dict[str, torch.Tensor]) -> None:
        """Swap to `weights`, checkpoint names → tensors."""
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
        self, prompts: list[tuple[int, ...]], *, samples: int, max_tokens: int, temperature: float
    ) -> list[list[Completion]]:
        """`samples` completions for each prompt, in order, each with log-probs and proofs."""
        parameters = SamplingParams(temperature=temperature, max_tokens=max_tokens, logprobs=0, detokenize=False)
        requests = [TokensPrompt(prompt_token_ids=list(p)) for p in prompts for _ in range(samples)]
        outputs = self._llm.generate(requests, parameters, use_tqdm=False)
        states = self._llm.collective_rpc("take_states")[0]
        bits = [self._bits(out.outputs[0], states[out.request_id]) for out in outputs]
        proofs = self._prove(bits)
        flat = [self._completion(out.outputs[0], proof) for out, proof in zip(outputs, proofs, strict=True)]
        return [flat[i : i + samples] for i in range(0, len(flat), samples)]

    @staticmethod
    def _bits(output: CompletionOutput, states: torch.Tensor) -> np.ndarray:
        if len(states) < len(output.token_ids):
            raise EngineFault(f"{len(states)} captured rows for {len(output.token_ids)} tokens")
        # The scheduler may run one step past the end; rows beyond the accepted length belong to no token.
        return states[: len(output.token_ids)].contiguous().view(torch.uint16).numpy()

    @staticmethod
    def _completion(output: CompletionOutput, proofs: list[bytes]) -> Completion:
        token_ids = tuple(output.token_ids)
        return Completion(
            token_ids=token_ids,
            logprobs=tuple(step[token].logprob for step, token in zip(output.logprobs, token_ids, strict=True)),
            finish_reason="eos" if output.finish_reason == "stop" else "length",
            proofs=tuple(proofs),
        )

    def _probe_states(self) -> torch.Tensor:
        parameters = SamplingParams(temperature=0.0, max_tokens=1, detokenize=False)
        [output] = self._llm.generate([TokensPrompt(prompt_token_ids=[1, 2, 3, 4])], parameters, use_tqdm=False)
        return self._llm.collective_rpc("take_states")[0][output.request_id]


def read_weights(folder: Path) -> dict[str, torch.Tensor]:
    """All tensors of an HF folder's safetensors files. Raises FileNotFoundError if there is none."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise FileNotFoundError(f"no safetensors file in {folder}")
    return {name: tensor for file in files for name, tensor in load_file(file).items()}
