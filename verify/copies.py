"""Is this earlier work, copied? A bet that the next token is the next one of an earlier completion.

Two honest workers who answer "12" have copied nothing: the policy made both say so. Copying shows only where tokens
agree although the policy left a choice. So the evidence is a bet against honest sampling. A bettor who stakes all on
token y, to be paid 1 / p(y) if it comes, has on average what he had before; any mixture of such bettors, each of whom
may begin, stop and stake as he likes before the token is known, has too. Here they follow the tokens of earlier
completions of the same problem: from their beginnings, or from any place, with a share kept back so that an edited
token costs 2.3 nats and not all. An honest worker's noise is independent of earlier work, so the capital of all
bettors exceeds 1 / a with probability at most a (Ville), however alike and short the answers are; a copier of n tokens
with -log p = s pays out about e^s, less the price of finding the place.

It accuses the later entry of the ledger only, never the one that was there before. Pure; what was earlier is
`verify.earlier`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from typing import Protocol

import numpy as np

from rl.rollouts import Rollout
from verify import chance
from verify.rejection import Rejection

BEGIN, ENTER, LEAVE = 1 / 8, 1 / 128, 1 / 128
"""Shares of the capital: staked on beginnings, on any place at each token, and taken back from each who follows. A
completion that copies nothing loses 0.13 nats by the first and 0.008 a token by the second."""
STAKE = 0.9
"""Share of a follower's capital that is staked on each token."""
DRIFT = 0.05
"""Nats by which the worker's arithmetic may have made a token likelier, given away at each hit."""
MOST_PAID = 100.0
"""Nats that one hit pays at most. Paid less than its odds the bet still proves what it proves; unbounded, a token of
-log p = 710, as low temperatures have, is beyond all floats, and the check would not be made."""


class Earlier(Protocol):
    """Completions that came before."""

    def completions(self, run_id: bytes, problem_id: str, *, before: int) -> Sequence[tuple[int, ...]]:
        """Token ids of accepted completions of that problem, of entries at ledger positions below `before`."""
        ...


class NoEarlier:
    """Nothing came before."""

    def completions(self, run_id: bytes, problem_id: str, *, before: int) -> Sequence[tuple[int, ...]]:
        return ()


NO_EARLIER = NoEarlier()


def copy_surprise(
    rollouts: Sequence[Rollout], logprobs: Sequence[np.ndarray], earlier: Sequence[Sequence[tuple[int, ...]]]
) -> tuple[float, ...]:
    """Natural log of the bettors' capital after each completion, having begun with 1.

    Args:
        logprobs: per completion, float32 [tokens] of the validator's own prefill.
        earlier: per completion, earlier ones of its problem.
    """
    triples = zip(rollouts, logprobs, earlier, strict=True)
    return tuple(_capital(rollout.completion_ids, own, before) for rollout, own, before in triples)


def check_copy(rollouts: Sequence[Rollout], surprises: Sequence[float]) -> Rejection | None:
    """The completions follow earlier ones no further than chance explains, all of them together."""
    total = sum(surprises)
    if total <= -log(chance.FALSE_ALARM):
        return None
    worst = max(range(len(surprises)), key=surprises.__getitem__)
    where = f"most of it in group {rollouts[worst].group}, sample {rollouts[worst].sample}"
    return Rejection(code="copy", detail=f"the odds against so much agreement are e^{total:.1f} to 1, {where}")


def _capital(tokens: Sequence[int], logprobs: np.ndarray, earlier: Sequence[tuple[int, ...]]) -> float:
    earlier = [other for other in earlier if other]
    if not earlier:
        return 0.0
    followed = np.concatenate([np.asarray(other) for other in earlier])
    ends = np.cumsum([len(other) for other in earlier])
    starts = np.concatenate([[0], ends[:-1]])
    followers = np.zeros(len(followed))
    """Capital of those who stake on each earlier token next."""
    followers[starts] = BEGIN / len(starts)
    idle, gained = 1.0 - BEGIN, 0.0
    for token, logprob in zip(tokens, logprobs.astype(np.float64).tolist(), strict=True):
        paid = exp(min(MOST_PAID, max(0.0, -logprob - DRIFT)))
        followers *= np.where(followed == token, 1.0 - STAKE + STAKE * paid, 1.0 - STAKE)
        whole = idle + followers.sum()
        gained += log(whole)
        followers *= (1.0 - LEAVE) / whole
        followers = np.concatenate([[0.0], followers[:-1]])
        followers[starts] = 0.0  # those who came to an end
        idle = 1.0 - followers.sum()
        followers += idle * ENTER / len(followers)
        idle *= 1.0 - ENTER
    return gained
