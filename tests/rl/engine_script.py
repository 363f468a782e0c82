"""What a real engine does, for test_engine.py: `python engine_script.py BACKEND FOLDER OTHER_FOLDER REQUESTS OUT`.

vLLM reads its settings when it is imported and owns its process, hence the script. REQUESTS is JSON: prompts, samples,
max_tokens, sampling, crowd (more prompts). OUT becomes JSON: for each stage what was generated, and the states behind
it as bf16 bits.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from rl.engine import Engine
from rl.seeded import Sampling
from verify.proofs import build_many

SEED, OTHER_SEED = bytes(range(32)), bytes(range(1, 33))


class Recorder:
    """A proof builder that also keeps what each proof was built from."""

    def __init__(self) -> None:
        self.blocks: dict[bytes, list[list[int]]] = {}

    def prove(self, sequences: Sequence[np.ndarray]) -> list[list[bytes]]:
        proofs = build_many(sequences)
        for bits, (proof,) in zip(sequences, proofs, strict=True):
            self.blocks[proof] = bits.tolist()
        return proofs


def main(backend: str, folder: Path, other: Path, requests: Path, out: Path) -> None:
    if backend == "vllm":
        from rl.vllm_engine import VllmEngine as engine_class
    else:
        from rl.plain_engine import TransformersEngine as engine_class
    wanted = json.loads(requests.read_text())
    prompts, crowd = ([tuple(prompt) for prompt in wanted[name]] for name in ("prompts", "crowd"))
    sampling = Sampling(**wanted["sampling"])
    recorder = Recorder()

    def stage(engine: Engine, seed: bytes | None, **changes: Any) -> dict[str, Any]:
        options = {"samples": wanted["samples"], "max_tokens": wanted["max_tokens"], "sampling": sampling}
        options |= {"prompts": prompts} | changes
        groups = engine.generate(**options, seed=seed)
        made = [[asdict(completion) for completion in group] for group in groups]
        for completion in (completion for group in made for completion in group):
            completion["states"] = [row for proof in completion["proofs"] for row in recorder.blocks[proof]]
            completion["proofs"] = [proof.hex() for proof in completion["proofs"]]
        return {"groups": made, "moved": engine.swap_moved_probe}

    engine = engine_class(folder, compute_type="float32", max_model_len=256, prove=recorder.prove, seed=1)
    stages = {"first": stage(engine, SEED)}
    stages["alone"] = stage(engine, SEED, prompts=prompts[:1])
    stages["crowd"] = stage(engine, SEED, prompts=[*prompts, *crowd])
    stages["cut"] = stage(engine, SEED, sampling=Sampling(temperature=0.8, top_k=9, top_p=0.9))
    stages["other seed"] = stage(engine, OTHER_SEED)
    stages["unseeded"] = stage(engine, None)
    stages["unseeded again"] = stage(engine, None)
    engine.load(folder)
    stages["reloaded"] = stage(engine, SEED)
    engine.load(other)
    stages["swapped"] = stage(engine, SEED)
    out.write_text(json.dumps(stages))


if __name__ == "__main__":
    main(sys.argv[1], *map(Path, sys.argv[2:]))
