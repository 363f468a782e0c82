"""The reasons for which a submission can fail, each with the sentence that a person is told.

A rejection is a value. It never says that a check could not be made: that is `verify.verdict.CheckFailed`.
"""

from __future__ import annotations

from dataclasses import dataclass

SENTENCES = {
    "size": "The file is empty or larger than the pool allows.",
    "hash": "The file is not the one whose hash the ledger records.",
    "schema": "The file is not a Parquet file with exactly the agreed columns.",
    "row-count": "The file does not hold exactly one row for each completion that was asked for.",
    "bounds": "A value in the file lies outside what is possible.",
    "version": "The file names a policy that had not been announced, or more than one.",
    "problems": "The problems are not the ones that the step, the worker and the counter dictate.",
    "prompt": "The prompt's tokens are not the canonical rendering of the problem.",
    "target-length": "The prompt asks for another length than the one that the seed dictates.",
    "text": "The answer's text is not what its tokens say.",
    "reward": "A reported reward is not what the answer is worth.",
    "ending": "A completion goes on after its end, or was cut before the maximum length.",
    "termination": "Completions ended where this model would not have ended them.",
    "duplicates": "Completions repeat each other far more often than this model would.",
    "proof-count": "Activation proofs are missing, superfluous or malformed.",
    "proof-mismatch": "The activations are not those of the claimed policy: other weights generated these tokens.",
    "copy": "Completions repeat earlier work on the same problem further than chance explains.",
    "sampling": "The tokens are not the ones that the seed forces this policy to choose.",
    "distribution": "The tokens' probabilities are not those of samples from the claimed policy.",
    "logprobs": "The reported log-probabilities are not the claimed policy's.",
    "stale": "The policy that generated the rollouts is too old for this step. No credit, no punishment.",
    "late": "The submission came after its step had closed. No credit, no punishment.",
    "unavailable": "Nobody serves the file that was recorded. No credit, no punishment.",
}
"""One sentence for each code. Codes are ASCII, at most 32 bytes: they are recorded on the ledger as bytes32."""

UNPUNISHED = frozenset({"stale", "late", "unavailable"})
"""Codes that earn no credit and cost no stake."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """One failed check."""

    code: str
    """A key of `SENTENCES`."""
    detail: str
    """What was seen and what was expected, for the log and the evidence."""

    def __post_init__(self) -> None:
        if self.code not in SENTENCES:
            raise ValueError(f"unknown rejection code {self.code!r}")

    @property
    def sentence(self) -> str:
        """The reason in words, without the particulars."""
        return SENTENCES[self.code]
