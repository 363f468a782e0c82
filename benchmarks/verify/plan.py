"""What the study runs: honest workers of several engines, and each cheat, as plain data.

A case is some submissions of one kind. Those with a `source` are other cases' rollouts, altered afterwards; all others
are generated. Nothing is run here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from eth_utils import keccak

from benchmarks.verify.settings import SETTINGS, Setting
from rl.draw import draw_seed
from rl.hardware import ComputeType
from rl.seeded import Sampling, completion_key

RUN_ID = keccak(b"intellect-node/bench-verify")
RATES = ("1e-6", "3e-6")
"""Learning rates of the older policies."""
AGES = (1, 4)
"""Steps by which they are older."""
LEARNED: Mapping[str, tuple[int, ...]] = {"1.5e-5": (8, 24, 32), "1e-4": (4, 6)}
"""Learning rate → steps after which a policy that learns the demo's task is kept: the demo's own rate, by which nearly
every answer is right in the end, and one by which a policy goes too far too fast."""
JUDGED: Mapping[str, tuple[str, ...]] = {
    "learned 1.5e-5 8": (),
    "learned 1.5e-5 32": ("learned 1.5e-5 24",),
    "learned 1e-4 6": ("learned 1e-4 4",),
}
"""Those whose work is judged, honest and not, and the older ones that a cheat runs instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineKind:
    """What decodes."""

    backend: Literal["vllm", "transformers"] = "vllm"
    compute_type: ComputeType = "bfloat16"
    threads: int = 1

    def __str__(self) -> str:
        return f"{self.backend} {self.compute_type}, {self.threads} thread{'s' * (self.threads > 1)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Submissions of one kind."""

    name: str
    setting: str = "long"
    engine: EngineKind = field(default_factory=EngineKind)
    submissions: int
    groups: int
    """Of a submission; times the setting's samples it is how many completions are decoded together."""
    policy: str = ""
    """What the validator runs, and the worker says it does: the base model, or "learned RATE STEP"."""
    weights: str = "policy"
    """What the worker runs: of `benchmarks.verify.weights.VARIANTS`, which alter the policy; "trained RATE AGE", or
    another "learned RATE STEP"."""
    sampling: Sampling = field(default_factory=Sampling)
    """What the worker samples by; the pool's is the default."""
    trick: Literal["", "other prompt", "best of 2"] = ""
    source: str = ""
    """The case whose rollouts are altered."""
    alteration: Literal["", "early stop", "edited token", "replay"] = ""
    honest: bool = False
    reproved: bool = False
    """Whether the cheat has the right policy compute proofs and log-probabilities of its tokens, by a prefill."""

    @property
    def terms(self) -> Setting:
        return SETTINGS[self.setting]

    @property
    def file_name(self) -> str:
        return self.name.replace(" ", "-").replace(",", "")

    def seed(self, counter: int) -> bytes:
        """Draw seed of a submission; replayed ones keep their source's problems, and have noise of their own."""
        return draw_seed(RUN_ID, 0, "0x" + keccak(self.name.encode())[:20].hex(), counter)

    def keys(self, places: list[tuple[int, int, int]]) -> list[bytes]:
        """Of the noise at each (counter, group, sample): an altered case has its source's unless it is a replay."""
        owner = replace(self, name=self.source) if self.source and self.alteration != "replay" else self
        return [completion_key(owner.seed(counter), group, sample) for counter, group, sample in places]


def plan(*, quick: bool = False) -> tuple[Case, ...]:
    """Every case, sources before what is made of them. A quick study trains nothing and has one submission a case."""
    cases = (*_honest(), *_cheats(), *_short(), *_learned())
    if not quick:
        return cases
    return tuple(_smaller(case) for case in cases if not (case.policy or case.weights.startswith("trained")))


def find(name: str, *, quick: bool) -> Case:
    """The case of that name."""
    return next(case for case in plan(quick=quick) if case.name == name)


def _smaller(case: Case) -> Case:
    return replace(case, submissions=1, groups=min(case.groups, 4))


def _honest() -> tuple[Case, ...]:
    """512 completions."""
    kinds = (
        (EngineKind(), 16, 2),
        (EngineKind(), 4, 4),
        (EngineKind(), 1, 8),
        (EngineKind(threads=2), 4, 4),
        (EngineKind(compute_type="float32"), 16, 2),
        (EngineKind(backend="transformers"), 8, 2),
        (EngineKind(backend="transformers", compute_type="float32"), 8, 1),
    )
    return tuple(
        Case(name=f"honest {engine}, batch {4 * groups}", engine=engine, groups=groups, submissions=many, honest=True)
        for engine, groups, many in kinds
    )


def _cheats() -> tuple[Case, ...]:
    """112 completions each."""

    def case(name: str, **options: object) -> Case:
        return Case(name=name, groups=14, submissions=2, **options)  # type: ignore[arg-type]

    source = "honest vllm bfloat16, 1 thread, batch 64"
    altered = {"source": source, "reproved": True}
    return (
        *(case(name, weights=name) for name in ("noise 1e-3", "int8", "int4")),
        *(
            case(f"{_steps(age)} older at {rate}{words}", weights=f"trained {rate} {age}", **options)
            for words, options in (("", {}), (", all in float32", {"engine": EngineKind(compute_type="float32")}))
            for rate in RATES
            for age in AGES
        ),
        *(case(name, weights=name, reproved=True) for name in ("half the layers", "two layers fewer")),
        case("temperature 0.7", sampling=Sampling(temperature=0.7)),
        case("temperature 0.9", sampling=Sampling(temperature=0.9)),
        case("top-k 20", sampling=Sampling(top_k=20)),
        case("best of 2", trick="best of 2"),
        case("other prompt", trick="other prompt"),
        case("early stop", **altered, alteration="early stop"),
        case("edited token", **altered, alteration="edited token"),
        case("replay", **altered, alteration="replay"),
    )


def _steps(count: int) -> str:
    return f"{count} step{'s' * (count > 1)}"


def _short() -> tuple[Case, ...]:
    """The demo's setting: 256 honest completions, 128 of each cheat."""

    def case(name: str, **options: object) -> Case:
        return Case(name=f"demo {name}", setting="demo", groups=8, submissions=2, **options)  # type: ignore[arg-type]

    honest = "honest vllm bfloat16"
    return (
        case(honest, honest=True),
        case("honest vllm float32", engine=EngineKind(compute_type="float32"), honest=True),
        *(case(name, weights=name) for name in ("noise 1e-3", "int8", "int4")),
        case("two layers fewer", weights="two layers fewer", reproved=True),
        case("temperature 0.7", sampling=Sampling(temperature=0.7)),
        case("other prompt", trick="other prompt"),
        case("edited token", source=f"demo {honest}", alteration="edited token", reproved=True),
        case("replay", source=f"demo {honest}", alteration="replay", reproved=True),
    )


def _learned() -> tuple[Case, ...]:
    """Work of policies that have learnt the demo's task: honest, and by weights that are not theirs."""
    long = {"groups": 14, "submissions": 1}
    demo = {"setting": "demo", "groups": 8, "submissions": 2}
    cases = []
    for policy, older in JUDGED.items():
        for kind, size in (("", long), (" demo", demo)):
            name = f"{policy}{kind}"
            cases.append(Case(name=f"{name} honest", policy=policy, honest=True, **size))  # type: ignore[arg-type]
            cases += [
                Case(name=f"{name} {weights}", policy=policy, weights=weights, **size)  # type: ignore[arg-type]
                for weights in ("noise 1e-3", "int8", *(("int4", *older) if kind else ()))
            ]
    return tuple(cases)
