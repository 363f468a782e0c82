"""What a pool demands of a submission, and what the ledger says of one: the terms of every check.

Nothing is decided here; both are arguments of the checks.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rl.draw import MAX_SUBMISSIONS
from rl.lengths import ALPHA, LengthReward
from rl.rollouts import MAX_FILE_BYTES
from rl.seeded import Sampling
from verify.thresholds import Thresholds, thresholds_for


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The pool's settings that a validator enforces."""

    groups: int
    """Problems in a submission."""
    samples: int
    """Completions of each problem."""
    max_new_tokens: int
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    """As in `rl.seeded.Sampling`."""
    seeded: bool = True
    """Whether each token is forced by the submission's seed (`rl.seeded`). Where it is not, the checks can only say
    that tokens look sampled from the policy."""
    system_prompt: str | None = None
    """As in `rl.prompts.render_prompt`."""
    max_policy_lag: int = 2
    """Asynchrony: rollouts for step s may come from policy s - max_policy_lag or newer (INTELLECT-2, section 2.1)."""
    max_submissions: int = MAX_SUBMISSIONS
    max_file_bytes: int = MAX_FILE_BYTES
    length_targets: tuple[int, ...] = ()
    """As in `rl.lengths.LengthReward`; none: no length reward."""
    length_alpha: float = ALPHA
    eos_probability: float = 0.1
    """Endings by an EOS less likely than this are counted (INTELLECT-2, section 2.3.2); see `verify.chance`."""
    count_endings: bool = False
    """Whether that is done in a seeded pool too, where the EOS is forced like any other token."""
    audit_share: float = 1.0
    """Share of the groups on which the policy is run; see `verify.audit`."""
    thresholds: Thresholds = field(default_factory=Thresholds)
    """Of the first look (`verify.look`), in the validator's arithmetic."""
    second_look: Thresholds = field(default_factory=lambda: thresholds_for("bfloat16", "float32"))
    """Of the second, before they are widened by the policy's own noise."""

    def __post_init__(self) -> None:
        if self.sampling.cuts and not self.seeded:
            raise ValueError("top-k and top-p can be checked in seeded pools only: set rl.seeded, or neither of them")
        if not 0.0 < self.audit_share <= 1.0:
            raise ValueError(f"an audit checks a share above 0 and up to 1, not {self.audit_share}")

    @property
    def sampling(self) -> Sampling:
        return Sampling(temperature=self.temperature, top_k=self.top_k, top_p=self.top_p)

    @property
    def lengths(self) -> LengthReward | None:
        return LengthReward.of(self.length_targets, self.length_alpha)

    @property
    def reward_range(self) -> tuple[float, float]:
        """Lowest and highest reward of a completion of 1 to `max_new_tokens` tokens."""
        return (0.0, 1.0) if self.lengths is None else self.lengths.range(self.max_new_tokens)

    @property
    def counts_endings(self) -> bool:
        return self.count_endings or not self.seeded


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
    audit_seed: bytes = b""
    """Of a block that nobody knew at submission; it says which groups are audited. Empty: all."""
    position: int = 0
    """Of the entry in the ledger's order: its block. Work of one block is simultaneous."""
