"""reasoning-gym's own check of an answer, as it runs inside the grading process. Never imported by a node's process.

Some of its checks evaluate the answer as an expression, so it is only ever called confined (`rl.grading.confine`).
"""

from __future__ import annotations

import json

import reasoning_gym


def score(generator: str, entry: str, answer: str) -> float:
    """Marks from 0 to 1 for `answer`. `generator` and `entry` are JSON, as `rl.sources` wrote them."""
    spec = json.loads(generator)
    dataset = reasoning_gym.create_dataset(spec["name"], **spec["options"])
    return float(dataset.score_answer(answer, dataset[json.loads(entry)["index"]]))
