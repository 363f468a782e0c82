"""`intellect-node verify`: whoever has a file, its policy and its claim finds what the validators found, offline."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from node import cli
from node.evidence import Evidence, claim_fields, encode
from node.verify_file import bounds
from rl.rollouts import Rollout, write_rollouts
from tests.verify.conftest import CLAIM, RULES, World
from verify.thresholds import Gaps, Noise, ProofStatistics

SETTINGS = (
    f"rl.groups_per_submission={RULES.groups}", f"rl.group_size={RULES.samples}",
    f"task.max_new_tokens={RULES.max_new_tokens}", "task.name=arithmetic", "model.compute_type=bfloat16",
)  # fmt: skip


def written(folder: Path, rollouts: tuple[Rollout, ...], **claim: Any) -> tuple[Path, Path]:
    """The file, and its evidence by some validator."""
    file = folder / "submission.parquet"
    write_rollouts(file, rollouts)
    digest = hashlib.sha256(file.read_bytes()).digest()
    fields = claim_fields(dataclasses.asdict(dataclasses.replace(CLAIM, file_hash=digest, **claim)))
    evidence = Evidence(
        submission_id=b"s" * 32, block=7, claim=fields, outcome="accepted", code="", detail="", facts={}, checks=()
    )
    (folder / "evidence.json").write_bytes(encode(evidence))
    return file, folder / "evidence.json"


def verify(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    words = [word for setting in SETTINGS for word in ("--set", setting)]
    with pytest.raises(SystemExit) as left:
        cli.main(["verify", *map(str, arguments), *words])
    out, err = capsys.readouterr()
    return int(left.value.code or 0), out, err


def test_an_honest_file_is_accepted_and_every_check_told(
    world: World, honest: tuple[Rollout, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, claim = written(tmp_path, honest)
    code, out, _ = verify(capsys, file, "--policy", world.folder, "--claim", claim, "--explain")
    assert code == 0, out
    assert "REJECTED" not in out
    assert "not run" not in out
    assert "mantissa_mean" in out
    assert "(at most " in out
    assert out.endswith("accepted: every check found nothing wrong\n")
    assert verify(capsys, file, "--policy", world.folder, "--claim", claim)[1].count("\n") == 1


def test_a_file_of_other_weights_is_rejected_with_the_number_and_its_bound(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = world.variant(lambda weights: weights * 1.05)
    file, claim = written(tmp_path, world.generate(policy=other))
    code, out, _ = verify(capsys, file, "--policy", world.folder, "--claim", claim, "--json")
    found = json.loads(out)
    assert (code, found["outcome"], found["rejection"]["code"]) == (1, "rejected", "proof-mismatch")
    broken = [name for name, bound in found["bounds"].items() if found["facts"][name] > bound]
    assert broken
    assert [check["result"] for check in found["checks"]].count("rejected") == 1


@pytest.mark.parametrize("count", [1, 7, 400])
def test_the_bounds_that_are_told_are_those_that_are_applied(count: int) -> None:
    """A value at its bound passes, one above it does not: of each kind, for few and for many."""
    limits, nothing = RULES.thresholds, dict.fromkeys(("exponent_max", "mantissa_max", "median_max"), 0.0)
    means = dict.fromkeys(("exponent_mean", "mantissa_mean", "margin_mean", "logprob_gap_mean"), 0.0)
    facts = nothing | means | {"margin_max": 0.0, "logprob_gap_max": 0.0, "independent_blocks": count, "tokens": count}
    told = bounds(facts, RULES)
    assert told.keys() == facts.keys() - {"independent_blocks", "tokens"}
    for name in ("exponent_max", "mantissa_max", "median_max", "exponent_mean", "mantissa_mean"):
        for value, broken in ((told[name], False), (told[name] * 1.001, True)):
            errors = nothing | {"exponent_mean": 0.0, "mantissa_mean": 0.0} | {name: value}
            seen = ProofStatistics(blocks=count, independent_blocks=count, **errors)
            assert (limits.broken_by(seen) is not None) == broken, name
    for name, of in (("margin", limits.margin), ("logprob_gap", limits.logprob)):
        for mean, most in ((told[f"{name}_mean"], 0.0), (0.0, told[f"{name}_max"])):
            assert of(alone=False).broken_by(Gaps(tokens=count, mean=mean, most=most)) is None, name
            assert of(alone=False).broken_by(Gaps(tokens=count, mean=mean * 1.001, most=most * 1.001)), name
    noise = Noise(exponents=9.0, mantissas=2.4, logprobs=0.01)
    second = {f"second_{name}": value for name, value in facts.items() if name != "tokens"}
    again = bounds(facts | second | {f"noise_{n}": v for n, v in dataclasses.asdict(noise).items()}, RULES)
    widened = bounds(facts, dataclasses.replace(RULES, thresholds=RULES.second_look.widened(noise)))
    assert again == told | {f"second_{name}": bound for name, bound in widened.items()}, "by the policy's own noise"
    half = bounds(facts, dataclasses.replace(RULES, audit_share=0.5))
    assert half.keys() == told.keys() - {"margin_mean", "logprob_gap_mean"}, (
        "the facts do not say how many were audited"
    )


def test_what_came_too_late_is_late_and_nothing_else_is_looked_at(
    world: World, honest: tuple[Rollout, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, claim = written(tmp_path, honest, open_step=CLAIM.step + 1, newest_version=CLAIM.step + 1)
    code, out, _ = verify(capsys, file, "--policy", world.folder, "--claim", claim, "--json")
    results = [check["result"] for check in json.loads(out)["checks"]]
    assert (code, json.loads(out)["outcome"]) == (2, "late")
    assert results[0] == "rejected"
    assert set(results[1:]) == {"not run"}


def test_attack_another_file_than_the_ledgers_is_no_match(
    world: World, honest: tuple[Rollout, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, claim = written(tmp_path, honest)
    file.write_bytes(file.read_bytes() + b"\0")
    code, out, _ = verify(capsys, file, "--policy", world.folder, "--claim", claim, "--json")
    assert (code, json.loads(out)["rejection"]["code"]) == (1, "hash")


def fields(**changes: Any) -> dict[str, Any]:
    return claim_fields(dataclasses.asdict(CLAIM)) | changes


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "no claim"),
        ('{"claim": 7}', "no claim"),
        ("{}", "lacks [counter, file_hash"),
        (json.dumps(fields(more=1)), "unknown [more]"),
        (json.dumps(fields(run_id="zz")), "run_id is not hex"),
        (json.dumps(fields(run_id=7)), "run_id is not hex"),
        (json.dumps(fields(step="3")), "step is no int"),
        (json.dumps(fields(step=True)), "step is no int"),
        (json.dumps(fields(worker=3)), "worker is no str"),
        ("x" * (1 << 20) + "x", "larger than"),
    ],
)
def test_attack_a_claim_is_read_strictly(
    text: str, words: str, world: World, honest: tuple[Rollout, ...], tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    file, claim = written(tmp_path, honest)
    claim.write_text(text)
    code, out, err = verify(capsys, file, "--policy", world.folder, "--claim", claim)
    assert (code, out) == (9, "")
    assert words in err
    assert "Traceback" not in err


@pytest.mark.parametrize("missing", ["file", "policy", "claim", "both"])
def test_what_is_missing_is_said_and_is_no_verdict(
    missing: str, world: World, honest: tuple[Rollout, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, claim = written(tmp_path, honest)
    chosen = ["--claim", tmp_path / "none" if missing == "claim" else claim]
    code, out, err = verify(
        capsys, tmp_path / "none" if missing == "file" else file, "--policy",
        tmp_path if missing == "policy" else world.folder, *([] if missing == "both" else chosen),
    )  # fmt: skip
    assert (code, out) == (9, "")
    assert "fix:" in err


def test_a_claim_is_the_same_wherever_it_is_written(tmp_path: Path) -> None:
    from node.verify_file import read_claim

    for document in (fields(), {"claim": fields()}, {"subject": "ab", "claim": fields(), "story": []}):
        (tmp_path / "claim.json").write_text(json.dumps(document))
        assert read_claim(tmp_path / "claim.json") == CLAIM
