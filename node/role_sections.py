"""The tables of a run's settings that concern one role each, and what a machine needs to take part.

As in `node.sections`: each key with its default, its legal range and what it means, and nothing else.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from node.sections import Address, Section


class Worker(Section):
    """[worker] the generating node."""

    threads: int = Field(
        1,
        ge=1,
        le=1024,
        description="CPU threads of its engine; all roles' threads together should not exceed the cores",
    )
    engine: str = Field(
        "node.engine_child",
        pattern=r"^[A-Za-z_][A-Za-z0-9_.]*$",
        description="Python module that runs as the engine process; the demo's cheat names another",
    )
    backend: Literal["auto", "vllm", "transformers"] = Field(
        "auto", description="what computes: vLLM, or transformers, which is slower; auto: vLLM where it is installed"
    )
    max_unjudged: int = Field(
        1, ge=0, le=64, description="own submissions that may wait for a verdict while the engine makes the next one"
    )
    kv_cache_gib: int = Field(1, ge=1, le=1024, description="the engine's key-value cache, GiB")
    serve: bool = Field(
        False, description="serve weights to others; everybody then sees this machine's address, else only the manager"
    )


class Validator(Section):
    """[validator] what it tolerates; a bound of 0 is the one measured for the arithmetic (verify/thresholds.py)."""

    threads: int = Field(1, ge=1, le=1024, description="CPU threads of its prefill")
    verifier: str = Field(
        "node.verifier_child",
        pattern=r"^[A-Za-z_][A-Za-z0-9_.]*$",
        description="Python module that runs as the verifier process; the demo's bribed validator names another",
    )
    verifier_arguments: tuple[str, ...] = Field(
        (), max_length=16, description="words that the verifier module is given on its command line; ours takes none"
    )
    block_exponents: float = Field(
        0.0, ge=0, le=128, description="of one block's 128 top values, how many exponents may differ; 0: as measured"
    )
    block_mantissa_mean: float = Field(
        0.0, ge=0, le=128, description="mean mantissa error allowed in one block; 0: as measured"
    )
    block_mantissa_median: float = Field(
        0.0, ge=0, le=128, description="median mantissa error allowed in one block; 0: as measured"
    )
    exponent_mean: float = Field(
        0.0,
        ge=0,
        le=128,
        description="mean exponent mismatches allowed over a submission, scaled for length; 0: as measured",
    )
    mantissa_mean: float = Field(
        0.0,
        ge=0,
        le=128,
        description="mean mantissa error allowed over a submission, scaled for length; 0: as measured",
    )
    margin_most: float = Field(
        0.0,
        ge=0,
        le=100,
        description="logits by which one token may lose to the one that the seed forces; 0: as measured",
    )
    margin_mean: float = Field(0.0, ge=0, le=100, description="the same on average over many tokens; 0: as measured")
    mismatch_share: float = Field(
        0.0, ge=0, le=1, description="share of tokens that may differ from the forced ones; 0: as measured"
    )
    logprob_most: float = Field(
        0.0, ge=0, le=100, description="nats by which one reported log-probability may be off; 0: as measured"
    )
    logprob_mean: float = Field(0.0, ge=0, le=100, description="the same on average over many tokens; 0: as measured")
    eos_probability: float = Field(
        0.1,
        ge=0,
        le=1,
        description="endings by an EOS less likely than this are counted; too many are a rejection (the report: 0.1)",
    )
    count_endings: bool = Field(
        False, description="count them in a seeded pool too, where the seed forces the end like any other token"
    )
    audit_share: float = Field(
        1.0,
        gt=0,
        le=1,
        description="share of a submission's groups on which the policy is run, drawn by a block's hash; at least one",
    )


class Trainer(Section):
    """[trainer] the training node, manager of the pool."""

    threads: int = Field(1, ge=1, le=1024, description="CPU threads of its optimiser")
    micro_batch_tokens: int = Field(
        256,
        ge=64,
        le=2**20,
        description="packed tokens forwarded at once: memory grows with them; a longer sample goes alone, uncut",
    )
    ranks: int = Field(
        1,
        ge=1,
        le=64,
        description="processes of this machine that share the training, one a GPU where there are any; "
        "each holds a part of weights, gradients and moments, and takes `threads` CPU threads",
    )
    recompute_activations: bool = Field(
        False,
        description="keep only each layer's input and compute the rest again for the gradient: less memory, "
        "about a third more arithmetic",
    )
    compile: bool = Field(
        False,
        description="compile the model's layers (needs a C++ compiler or a GPU); the report's runs collapsed with it",
    )
    validators: tuple[Address, ...] = Field(
        (), max_length=256, description="addresses that the trainer invites as validators; no others are"
    )


class Relay(Section):
    """[relay] the serving node."""

    max_submission_bytes: int = Field(
        8 << 20, ge=1024, le=8 << 20, description="largest submission file it stores, bytes"
    )
    max_submissions: int = Field(
        1000, ge=1, le=1_000_000, description="how many files it keeps of each worker; the oldest go first"
    )
    max_evidence: int = Field(
        2000,
        ge=1,
        le=1_000_000,
        description="how many verdicts' evidence it keeps of each validator, 64 kB at most each",
    )


class Requirements(Section):
    """[requirements] what a machine needs to take part: `doctor` and every start compare; 0 asks for nothing."""

    cores: int = Field(0, ge=0, le=4096, description="CPU cores that the node may use")
    memory_gb: float = Field(0.0, ge=0, le=1e6, description="memory that is free at the start, 10^9 bytes")
    disk_gb: float = Field(0.0, ge=0, le=1e6, description="free space at the data folder, 10^9 bytes")
    gpu_memory_gb: float = Field(
        0.0, ge=0, le=1e5, description="memory of the largest GPU, 10^9 bytes; 0: no GPU needed"
    )
    bandwidth_mb_s: float = Field(0.0, ge=0, le=1e5, description="download from a relay, 10^6 bytes a second")
