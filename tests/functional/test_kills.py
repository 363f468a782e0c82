"""Kill -9 of the trainer at any point of a step, and it goes on as if nothing had been: same policies, same state."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from tests.functional.fixed_run import ROOT, STEPS
from tests.functional.mortal import LOG, Death
from tests.rl.tiny_llama import write_llama

UPDATE, SAVE, STATE = "PolicyTrainer._update", "PolicyTrainer.save", "PolicyTrainer.save_state"
FSYNC, RENAME = {"event": "c_call", "name": "fsync"}, {"event": "c_call", "name": "rename"}
DEATHS = [
    # The first step, until its policy is announced:
    Death(who="child", name="PolicyTrainer.step"),
    Death(who="child", inside=UPDATE, name="LlamaDecoderLayer.forward", nth=2),
    Death(who="child", inside=UPDATE, event="c_call", name="run_backward", nth=2),
    Death(who="child", name="Adam.step", nth=2),
    Death(who="child", event="return", name=UPDATE),
    Death(who="child", name=SAVE),
    Death(who="child", inside=SAVE, torn=True, **FSYNC),
    Death(who="child", inside=SAVE, **RENAME),
    Death(who="child", event="return", name=SAVE),
    Death(who="node", name="_Publication.publish"),
    Death(who="node", name="Ledger.announce_checkpoint", nth=1),
    Death(who="child", inside=STATE, torn=True, silent=True, **FSYNC),
    Death(who="child", event="return", name=STATE, silent=True),
    # Announced, and the next step not yet open or begun:
    Death(who="node", event="return", name="Ledger.announce_checkpoint"),
    Death(who="child", inside=STATE, torn=True, once_announced=True, **FSYNC),
    # State 2 is missing: the step is trained again, and that is interrupted, too.
    Death(who="child", inside=SAVE, **RENAME),
    Death(who="node", inside="Resume._train_again", **RENAME),
    Death(who="child", inside=STATE, **RENAME),
    # Taking up a state, and between two steps:
    Death(who="child", name="PolicyTrainer.load_state"),
    Death(who="child", event="return", name="PolicyTrainer.load_state"),
    Death(who="child", event="return", name=STATE, nth=2, once_announced=True),
    Death(who="node", name="States.made"),
    Death(who="node", name="Batches.trained", nth=2),
    Death(who="child", name="PolicyTrainer.step", nth=2),
]  # fmt: skip


def run(folder: Path, model: Path, deaths: list[Death]) -> subprocess.Popen[bytes]:
    folder.mkdir()
    told = json.dumps([asdict(death) for death in deaths])
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.functional.fixed_run", str(folder), str(model), told], cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"}, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def test_killed_at_any_point_of_a_step_it_makes_the_same_policies(tmp_path: Path) -> None:
    model, calm, hard = write_llama(tmp_path / "policy-0"), tmp_path / "calm", tmp_path / "hard"
    for folder, process in [(f, run(f, model, deaths)) for f, deaths in ((calm, []), (hard, DEATHS))]:
        with process:
            assert process.wait(timeout=300) == 0, (folder / "log").read_text()[-5000:]
    assert (hard / LOG).read_text().splitlines() == [str(death) for death in DEATHS], "each point was reached"
    announced = (calm / "ledger").read_text().split()
    assert len(set(announced)) == STEPS + 1, "every step changes the policy"
    assert (hard / "ledger").read_text().split() == announced, "manifests' hashes, version by version"
    for kept in (f"checkpoints/policy-{STEPS}", f"states/state-{STEPS}"):
        assert digests(hard / kept) == digests(calm / kept)
    log = (hard / "log").read_text()
    assert "NO TRAINER STATE IS LEFT" not in log
    assert log.count("as announced, bit by bit") >= 3, "steps were trained again"
