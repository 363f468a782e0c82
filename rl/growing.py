"""Completions while they grow: each step's forced tokens are taken here, and full blocks of states go to be proved.

Both engines decode through it, so that they cannot differ in what they sample, report or prove. Proofs are built by one
background thread while decoding goes on, and states that are proved are given up: a long completion holds the states
of 32 tokens, no more.

The proofs of 4,096 tokens of SmolLM2-135M need 0.012 CPU-seconds, the tokens 5.7 (one thread). Tokens/s against no
proofs at all, eight paired rounds on two busy cores: built at the end 0.97, within the step 0.96, in the thread 1.05,
which is noise. The thread is there for memory, and for models on GPUs, whose cores lie idle; here it costs nothing.

It decides nothing about models or proofs: logits, states and the builder are given to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import torch

from rl.seeded import Sampling, choose

BLOCK_TOKENS = 32
"""Tokens that one proof covers (TOPLOC, INTELLECT-2 report section 2.3.1); `verify.proofs` has the same."""

ProofBuilder = Callable[[Sequence[np.ndarray]], list[list[bytes]]]
"""From bf16 bit patterns of several completions, each uint16 [tokens, hidden], to each one's proofs."""


@dataclass(slots=True, kw_only=True)
class Growing:
    """What was decoded of one completion so far."""

    key: bytes
    """Of its noise, from `rl.seeded.completion_key`."""
    tokens: list[int] = field(default_factory=list)
    """Those that the noise forced."""
    logprobs: list[float] = field(default_factory=list)
    """Natural logs, of the distribution that was sampled from: at its temperature, after its cuts."""
    rows: list[torch.Tensor] = field(default_factory=list)
    """bfloat16 [hidden] each: final-norm states behind the tokens that no proof was ordered for yet."""
    blocks: list[tuple[Future[list[list[bytes]]], int]] = field(default_factory=list)
    """Where the proof of each block will be: in which order's result, and at which place."""


class Grower:
    """Lets completions grow, by one token each a step."""

    def __init__(self, prove: ProofBuilder) -> None:
        self.sampling = Sampling()
        self._prove = prove
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="proofs")

    def step(self, growing: Sequence[Growing], states: torch.Tensor, logits: torch.Tensor) -> list[int]:
        """The next token of each.

        Args:
            states: bfloat16 [rows, hidden]; kept, so nobody may write to it again.
            logits: [rows, vocabulary], computed from those states.
        """
        positions = [len(one.tokens) for one in growing]
        tokens, logprobs = choose(logits, [one.key for one in growing], positions, self.sampling)
        for one, state, token, logprob in zip(growing, states, tokens, logprobs, strict=True):
            one.rows.append(state)
            one.tokens.append(token)
            one.logprobs.append(logprob)
        self._order([one for one in growing if len(one.rows) == BLOCK_TOKENS])
        return tokens

    def finish(self, growing: Sequence[Growing]) -> list[tuple[bytes, ...]]:
        """All proofs of each completion; raises what the builder raised."""
        self._order([one for one in growing if one.rows])
        return [tuple(proof for order, place in one.blocks for proof in order.result()[place]) for one in growing]

    def _order(self, growing: Sequence[Growing]) -> None:
        """Have the states of each proved as one block."""
        if not growing:
            return
        blocks = [torch.stack(one.rows).cpu().view(torch.uint16).numpy() for one in growing]
        ordered = self._thread.submit(self._prove, blocks)
        for number, one in enumerate(growing):
            one.rows = []
            one.blocks.append((ordered, number))
