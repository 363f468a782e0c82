"""What a pool demands of a submission, and what the ledger says of one: the terms of every check.

Nothing is decided here; both are arguments of the checks.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rl.draw import MAX_SUBMISSIONS
from rl.rollouts import MAX_FILE_BYTES
from verify.thresholds import Thresholds


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The pool's settings that a validator enforces."""

    groups: int
    """Problems in a submission."""
    samples: int
    """Completions of each problem."""
    max_new_tokens: int
    temperature: float = 1.0
    system_prompt: str | None = None
    """As in `rl.prompts.render_prompt`."""
    max_policy_lag: int = 2
    """Asynchrony: rollouts for step s may come from policy s - max_policy_lag or newer (INTELLECT-2, section 2.1)."""
    max_submissions: int = MAX_SUBMISSIONS
    max_file_bytes: int = MAX_FILE_BYTES
    reward_range: tuple[float, float] = (0.0, 1.0)
    eos_probability: float = 0.1
    """Endings by an EOS less likely than this are counted (INTELLECT-2, section 2.3.2); see `verify.chance`."""
    thresholds: Thresholds = field(default_factory=Thresholds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What the ledger says about one submission, as of the block that recorded it."""

    run_id: bytes
    worker: str
    """Account that submitted, 0x-prefixed."""
    step: int
    counter: int
    file_hash: bytes
    """SHA-256, 32 bytes."""
    open_step: int
    """The step that was open at that block."""
    newest_version: int
    """The newest policy version announced by that block."""
