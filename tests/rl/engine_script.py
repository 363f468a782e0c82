"""What a real vLLM engine does, for test_engine.py: `python engine_script.py FOLDER OTHER_FOLDER REQUESTS OUT`.

vLLM reads its settings when it is imported and owns its process, hence the script. REQUESTS is JSON: prompts, samples,
max_tokens, temperature. OUT becomes JSON: for each stage what was generated, and the states behind it as bf16 bits.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from rl.engine import VllmEngine
from verify.proofs import build_many


class Recorder:
    """A proof builder that also keeps what it was given."""

    def __init__(self) -> None:
        self.states: list[list[list[int]]] = []

    def prove(self, sequences: Sequence[np.ndarray]) -> list[list[bytes]]:
        self.states = [bits.tolist() for bits in sequences]
        return build_many(sequences)


def main(folder: Path, other: Path, requests: Path, out: Path) -> None:
    wanted = json.loads(requests.read_text())
    prompts = [tuple(prompt) for prompt in wanted["prompts"]]
    recorder = Recorder()

    def start(seed: int) -> VllmEngine:
        return VllmEngine(folder, compute_type="float32", max_model_len=256, prove=recorder.prove, seed=seed)

    def stage(engine: VllmEngine) -> dict[str, Any]:
        groups = engine.generate(
            prompts, samples=wanted["samples"], max_tokens=wanted["max_tokens"], temperature=wanted["temperature"]
        )
        made = [
            [asdict(completion) | {"proofs": [proof.hex() for proof in completion.proofs]} for completion in group]
            for group in groups
        ]
        return {"groups": made, "states": recorder.states, "moved": engine.swap_moved_probe}

    engine = start(1)
    stages = {"first": stage(engine)}
    engine.load(folder)
    stages["reloaded"] = stage(engine)
    engine.load(other)
    stages["swapped"] = stage(engine)
    del engine
    stages["other seed"] = stage(start(2))
    out.write_text(json.dumps(stages))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
