"""The demo's adversary: an engine process whose weights are not the policy's. Nothing in the network knows of it.

It does everything else honestly (dictated problems, real sampling, real proofs of what it ran), as somebody would who
serves a cheaper model and hopes that nobody looks. Run as `worker.engine = "node.cheat_engine"`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from node.engine_child import main

RELATIVE_NOISE = 0.15
"""Standard deviation of the noise on each weight, as a share of its tensor's; the model still answers."""


class NoisyEngine:
    """An engine that runs each policy with noise on its matrices."""

    def __init__(self, engine: Any, folder: Path) -> None:
        self._engine = engine
        self.load(folder)

    def load(self, folder: Path) -> None:
        import torch

        from rl.engine import read_weights

        torch.manual_seed(0)
        weights = {name: tensor.float() for name, tensor in read_weights(folder).items()}
        for tensor in weights.values():
            if tensor.ndim == 2:
                tensor += torch.randn_like(tensor) * tensor.std() * RELATIVE_NOISE
        self._engine.load_tensors(weights)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


if __name__ == "__main__":
    main(NoisyEngine)
