"""What log-probs, entropies and their gradients cost at SmolLM2's head, from whole logits and by blocks.

`python -m benchmarks.learning.head_cost float32|bfloat16 whole|blocks` measures one way in a process of its own, since
memory is told by its peak, and prints one JSON object.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

from rl.hardware import thread_environment
from rl.head import token_statistics

ROOT = Path(__file__).resolve().parents[2]
TOKENS, HIDDEN, VOCABULARY = 1024, 576, 49_152
KINDS, WAYS = ("float32", "bfloat16"), ("whole", "blocks")


def whole_logits(
    hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """As plain torch has it: every logit of every token at once."""
    logs = torch.log_softmax((hidden @ weight.T).float(), dim=-1)
    return logs.gather(-1, targets[:, None])[:, 0], -(logs.exp() * logs).sum(-1)


def peak_mb() -> float:
    """The most memory that this process has had, 10^6 bytes."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024 / 1e6


def cost(kind: str, way: str, repeats: int) -> dict[str, float]:
    """Least CPU seconds of a forward and backward pass on this thread, and memory beyond inputs and gradients.

    Gradients are there already, so the one that is added to the weight's (113 MB) is in it.
    """
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(TOKENS, HIDDEN, generator=generator, requires_grad=True)
    weight = (0.1 * torch.randn(VOCABULARY, HIDDEN, generator=generator)).requires_grad_()
    targets = torch.randint(0, VOCABULARY, (TOKENS,), generator=generator)
    hidden.grad, weight.grad = torch.ones_like(hidden), torch.ones_like(weight)
    function = whole_logits if way == "whole" else token_statistics
    before, seconds = peak_mb(), []
    for _ in range(repeats):
        began = time.process_time()
        with torch.autocast("cpu", torch.bfloat16, enabled=kind == "bfloat16"):
            logprobs, entropy = function(hidden, weight, targets)
        (logprobs + 0.01 * entropy).sum().backward()
        seconds.append(time.process_time() - began)
    return {"cpu_s": min(seconds), "memory_mb": peak_mb() - before}


def measure(kind: str, way: str, *, repeats: int) -> dict[str, float]:
    """`cost` in a process of its own, on one thread."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.learning.head_cost", kind, way, str(repeats)],
        cwd=ROOT, check=True, capture_output=True, text=True, env=thread_environment(1),
    )  # fmt: skip
    told: dict[str, Any] = json.loads(done.stdout)
    return told


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(cost(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
