"""What an engine is: prompts in, groups of completions out, each with log-probs and proofs.

Two exist, `rl.vllm_engine` and `rl.plain_engine`; they take the same noise from `rl.seeded` and pass the same tests.
Nothing here imports vLLM. It decides only how a completion is put together, and that every engine must have sampled
the tokens that the noise forces. Where prompts and weights come from, and what proofs are, it refuses to know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import torch
from eth_utils import keccak
from safetensors.torch import load_file

from rl.growing import Growing
from rl.seeded import Sampling

ROWS = 64
"""Completions that are decoded at the same time."""


class EngineFault(RuntimeError):
    """The engine broke its own contract; nothing that it made since may be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One sampled answer."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish_reason: Literal["eos", "length"]
    proofs: tuple[bytes, ...]

    @classmethod
    def of(cls, grown: Growing, proofs: tuple[bytes, ...], *, eos_token_id: int) -> Completion:
        """From what has grown to its end."""
        ended = grown.tokens[-1] == eos_token_id
        return cls(
            token_ids=tuple(grown.tokens),
            logprobs=tuple(grown.logprobs),
            finish_reason="eos" if ended else "length",
            proofs=proofs,
        )


class Engine(Protocol):
    """A running engine with hot-swappable weights."""

    swap_moved_probe: bool
    """Whether the last swap changed what the model computes; False after loading equal weights."""

    def load(self, folder: Path) -> None:
        """Swap to the weights in `folder` (safetensors, already verified by the caller).

        Raises:
            EngineFault: the swapped model computes no finite activations.
        """
        ...

    def load_tensors(self, weights: dict[str, torch.Tensor]) -> None:
        """Swap to `weights`, checkpoint names → tensors; otherwise as `load`."""
        ...

    def generate(
        self,
        prompts: Sequence[tuple[int, ...]],
        *,
        samples: int,
        max_tokens: int,
        sampling: Sampling,
        seed: bytes | None,
    ) -> list[list[Completion]]:
        """`samples` completions for each prompt, in order.

        Args:
            seed: the submission's draw seed (`rl.draw`), from which every token follows; None: one of the engine's own.

        Raises:
            EngineFault: a token was not the forced one, or states are missing.
        """
        ...


class OwnSeeds:
    """Draw seeds for pools that dictate none: another for each call, and for each engine."""

    def __init__(self, seed: int) -> None:
        self._seed, self._calls = seed, 0

    def next(self) -> bytes:
        self._calls += 1
        return keccak(b"intellect-node/own/1" + self._seed.to_bytes(8, "big") + self._calls.to_bytes(8, "big"))


def read_weights(folder: Path) -> dict[str, torch.Tensor]:
    """All tensors of an HF folder's safetensors files. Raises FileNotFoundError if there is none."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise FileNotFoundError(f"no safetensors file in {folder}")
    return {name: tensor for file in files for name, tensor in load_file(file).items()}
