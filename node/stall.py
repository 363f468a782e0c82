"""Which stage of a step is stuck, if one is, from what was seen of it. Pure.

A step moves when its batch grows, and when its trainer passes from waiting to training to publishing. Patience is a
multiple of how long such a move usually takes in this run, so that a slow run is not told every minute that it is
slow. What is missing tells the stage: it is the first in the way of a rollout that nothing came out of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from node.spans import Activity

MULTIPLE = 5.0
"""Of the usual time between two moves, a median: gaps are as uneven as the workers."""
LEAST_S, MOST_S = 60.0, 1800.0
FIRST_S = 300.0
"""Patience before anything was measured: engines start, members come in."""


class Stage(StrEnum):
    """Where nothing comes out."""

    NO_SUBMISSIONS = "no submissions"
    NO_VERDICTS = "submissions without verdicts"
    ALL_REJECTED = "every submission is rejected"
    ALL_LATE = "every submission is late"
    UNREAD = "accepted submissions cannot be read"
    NO_SIGNAL = "accepted groups without signal"
    TRAINING = "the training process is silent"
    PUBLISHING = "the policy is not published"


FIXES = {
    Stage.NO_SUBMISSIONS: "see with `intellect-node peers` whether workers are there, and in their logs what they "
    "wait for",
    Stage.NO_VERDICTS: "see with `intellect-node peers` whether a quorum of validators is there; trainer.validators "
    "must name them",
    Stage.ALL_REJECTED: "ask `intellect-node explain SUBMISSION` why; workers and validators need the same model, "
    "task and settings",
    Stage.ALL_LATE: "workers or validators are slower than training: see why verdicts take so long, or start a run "
    "with a higher rl.asynchrony",
    Stage.UNREAD: "start the relays again that took them; `cannot be used` in this log says why",
    Stage.NO_SIGNAL: "all answers to a problem are worth the same: take easier or harder problems (task.name), or a "
    "larger rl.group_size",
    Stage.TRAINING: "see trainer.log; if nothing computes any more end this trainer and start it again, it goes on "
    "where it stopped",
    Stage.PUBLISHING: "see whether the chain answers (ledger.rpc), the wallet can pay for gas, and the lease is held",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """What was seen of a step since it last moved."""

    phase: Activity
    """What the trainer does: WAITING_FOR_ROLLOUTS, TRAINING or PUBLISHING."""
    step: int
    quiet_s: float
    pending: int = 0
    """Submissions for this step or a later one without an outcome, whenever they came."""
    accepted: int = 0
    rejected: int = 0
    late: int = 0
    """Outcomes since."""
    read_groups: int = 0
    """Groups that were read from accepted files since; those with signal would be a move."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """A stage that is stuck."""

    stage: Stage
    step: int
    quiet_s: float
    usual_s: float | None

    @property
    def told(self) -> str:
        """In words, with what to do."""
        usual = "nothing was measured yet" if self.usual_s is None else f"usual are {self.usual_s:.0f} s"
        return f"step {self.step} is stuck for {self.quiet_s:.0f} s ({usual}): {self.stage}; {FIXES[self.stage]}"


def patience_s(usual_s: float | None) -> float:
    """For how long nothing may move."""
    return FIRST_S if usual_s is None else min(max(MULTIPLE * usual_s, LEAST_S), MOST_S)


def usual_of(gaps_s: Sequence[float]) -> float | None:
    """What is usual, from the last gaps between moves; None of none."""
    return median(gaps_s) if gaps_s else None


def judge(moves: Moves, usual_s: float | None) -> Stall | None:
    """The stage that is stuck; None while there is patience."""
    if moves.quiet_s < patience_s(usual_s):
        return None
    return Stall(stage=_stage(moves), step=moves.step, quiet_s=moves.quiet_s, usual_s=usual_s)


def _stage(moves: Moves) -> Stage:
    if moves.phase is Activity.TRAINING:
        return Stage.TRAINING
    if moves.phase is Activity.PUBLISHING:
        return Stage.PUBLISHING
    if moves.read_groups:
        return Stage.NO_SIGNAL
    if moves.accepted:
        return Stage.UNREAD
    if moves.rejected or moves.late:
        return Stage.ALL_REJECTED if moves.rejected >= moves.late else Stage.ALL_LATE
    return Stage.NO_VERDICTS if moves.pending else Stage.NO_SUBMISSIONS
