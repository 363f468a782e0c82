"""The table, the line and the report of a run, from made-up observations: none, one and many steps."""

from __future__ import annotations

import io
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ledger.types import Outcome
from node import live_table, report
from node.observation import NodeView, Observation
from verify.rejection import SENTENCES

TOKEN = 10**18
FIGURES = {
    "reward_first", "reward_last", "steps", "minutes", "peak_memory_gb", "cheats_ejected", "honest_rejected",
    "submissions", "tokens_per_s", "validators", "dissents", "unjudged", "verdict_p50_s", "verdict_max_s",
    "weights_fetched_mb", "weights_saved_mb", "deltas",
}  # fmt: skip
FILES = ["report.html", "report.json", "reward.png", "timeline.png"]
REWARDS = [0.1, 0.2, 0.5, 0.7, 0.8, 0.9]
EVIL = "<script>alert('&')</script>"
DETAIL = f"mean exponent mismatches: 4.7, more than 3.6 (64 blocks) {EVIL}"


def address(number: int) -> str:
    return "0x" + f"{number:02x}" * 20


def step_metric(number: int, reward: float) -> dict[str, Any]:
    return {
        "kind": "step", "step": number, "policy_version": number + 1, "reward": reward,
        "length_mean": 9.0 - number / 9, "grad_norm": 1.5, "entropy": 0.9,
        "kl_behaviour": None if number == 1 else 0.01, "wait_s": 8.0, "train_s": 11.0, "save_s": 0.5, "publish_s": 1.0,
    }  # fmt: skip


def verdict(number: int, outcome: str, mismatches: float) -> dict[str, Any]:
    rejection = {"code": "proof-mismatch", "detail": DETAIL} if outcome == "rejected" else None
    facts = {"exponent_mean": mismatches, "tokens": 512}
    return {
        "kind": "verdict", "node": address(number), "step": 1, "outcome": outcome,
        "submission_id": f"{number:02x}" * 32, "validator": "validator",
        "reason": rejection["code"] if rejection else "", "evidence_hash": "cd" * 32,
        "evidence": json.dumps({"rejection": rejection, "facts": facts}),
    }  # fmt: skip


def observe(steps: int) -> Observation:
    def view(number: int, name: str, role: str, **more: Any) -> NodeView:
        known = {"honest": True, "member": role != "trainer", "stake_wei": 100 * TOKEN, "staked_wei": 100 * TOKEN}
        return NodeView(name=name, role=role, address=address(number), **known | more)

    views = (
        view(1, "relay", "relay"),
        view(2, "trainer", "trainer", stake_wei=0, staked_wei=0, activity=f"trained step {steps - 1}"),
        view(3, "validator", "validator", activity="rejected cheat", verdicts=3),
        view(6, "bribed", "validator", honest=False, verdicts=3, dissents=2),
        view(
            4, "worker-1", "worker", submissions=5, accepted=4, late=1, tokens=6000, generating_s=60, policy_version=5,
            units=2000, credit_wei=2 * TOKEN, fetched_bytes=272_000_000, whole_bytes=540_000_000, deltas=1,
        ),
        view(
            5, "cheat", "worker", honest=False, member=False, ejected=True, submissions=2, rejected=1, stake_wei=0,
            burnt_wei=100 * TOKEN,
            ejection_reason=SENTENCES["proof-mismatch"], tokens=600, generating_s=6,
        ),
    )  # fmt: skip
    seen = Observation(wanted_steps=6, nodes={view.name: view for view in views}, policy_version=steps)
    for number, reward in enumerate(REWARDS[:steps]):
        seen.steps.append(step_metric(number, reward))
    seen.verdicts += [verdict(4, "accepted", 2.4), verdict(4, "accepted", 2.5), verdict(5, "rejected", 4.7)]
    lie = json.dumps({"rejection": {"code": "proof-mismatch", "detail": "made up"}, "facts": {"exponent_mean": 99.0}})
    seen.verdicts.append(verdict(4, "rejected", 99.0) | {"validator": "bribed", "evidence": lie})
    seen.outcomes |= {bytes([4]) * 32: Outcome.ACCEPTED, bytes([5]) * 32: Outcome.REJECTED}
    seen.latencies_s += [3.0, 5.0, 12.0]
    return seen


def written(seen: Observation, out: Path, **more: Any) -> dict[str, Any]:
    settings = {"rl": {"learning_rate": 3e-5}, "task": {"name": EVIL}}
    arguments = {"minutes": 2.0, "peak_memory_gb": 5.678, "settings": settings, "final_policy": None}
    report.write_report(seen, out, **arguments | more)
    return json.loads((out / "report.json").read_text())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output folder of a run of six steps."""
    out = tmp_path_factory.mktemp("run")
    written(observe(6), out, final_policy=Path("<model>"))
    return out


def test_the_figures_of_a_run(run: Path) -> None:
    document = json.loads((run / "report.json").read_text())
    assert set(document) == FIGURES | {"rewards", "warnings", "waits", "settings", "nodes"}
    assert document["reward_first"] == pytest.approx(0.15)
    assert document["reward_last"] == pytest.approx(0.8)
    assert (document["steps"], document["minutes"], document["peak_memory_gb"]) == (6, 2.0, 5.68)
    assert (document["cheats_ejected"], document["honest_rejected"], document["submissions"]) == (1, 0, 7)
    assert document["tokens_per_s"] == 55.0
    assert document["rewards"] == REWARDS
    assert document["nodes"][5]["fate"].startswith("Ejected.")
    assert (document["validators"], document["dissents"], document["unjudged"]) == (2, 2, 1)
    assert (document["verdict_p50_s"], document["verdict_max_s"]) == (5.0, 12.0)
    assert (document["weights_fetched_mb"], document["weights_saved_mb"], document["deltas"]) == (272.0, 268.0, 1)
    assert report.weights_told(observe(6)) == ["weights 272 MB fetched for 540 MB of policies (50% saved by 1 deltas)"]
    assert [node["dissents"] for node in document["nodes"]] == [0, 0, 0, 2, 0, 0]


def test_what_changed_nothing_is_told_apart_from_what_did(run: Path) -> None:
    text = (run / "report.html").read_text()
    rejections, dissents = text.split("Verdicts against the outcome")
    assert "made up" not in text
    assert "99" not in rejections.split("Rejections")[1]
    assert "<td>bribed</td><td>worker-1</td><td>rejected</td><td>proof-mismatch</td><td>1</td>" in dissents
    assert "2 of 3 verdicts were against the outcome and changed nothing." in text


def test_warnings_and_waits_are_in_table_line_and_report(tmp_path: Path) -> None:
    seen = observe(6)
    told = f"entropy rose from 0.5 to 1.2 since step 3; lower rl.learning_rate {EVIL}"
    seen.see_metric("trainer", {"kind": "warning", "sign": "entropy", "step": 4, "began": 3, "told": told})
    stuck = {"kind": "stuck", "stage": "no submissions", "step": 5, "told": "step 5 is stuck for 90 s: no submissions"}
    seen.see_metric("trainer", stuck)
    span = {"kind": "span", "activity": "publishing", "step": 4, "seconds": 2.0, "unix_s": 1000.0}
    seen.see_metric("trainer", span)
    waiting = {"kind": "span", "activity": "waiting for a policy", "step": None, "seconds": 1.5, "unix_s": 999.5}
    seen.see_metric("worker-1", waiting)
    assert "step 5: step 5 is stuck for 90 s" in shown(seen, 200)
    assert "stuck: no submissions | 2 warnings, the last: step 5 is stuck" in live_table.plain_line(seen, 1.0)
    seen.see_metric("trainer", {"kind": "unstuck", "stage": "no submissions", "step": 5, "quiet_s": 95.0})
    assert "is stuck" not in shown(seen, 200)
    assert "entropy rose from 0.5 to 1.2" in shown(seen, 200)
    assert "stuck: no" not in live_table.plain_line(seen, 1.0)
    document = written(seen, tmp_path)
    assert [warning["told"] for warning in document["warnings"]] == [told, stuck["told"]]
    assert [(w["step"], w["workers_s"]) for w in document["waits"]] == [(4, 1.5)]
    page = (tmp_path / "report.html").read_text()
    assert "<td>entropy</td><td>entropy rose from 0.5" in page
    assert "<script>" not in page
    assert told in report.summary_text(seen, tmp_path)


def test_a_stake_that_is_locked_is_said_to_be() -> None:
    seen = observe(2)
    worker = seen.nodes["worker-1"]
    worker.open_cases = 1
    assert "locked until the time to appeal is over" in report.fate(worker, seen)


def test_an_honest_node_rejected_is_counted() -> None:
    seen = observe(2)
    seen.nodes["worker-1"].rejected = 1
    assert report.key_figures(seen, minutes=1.0, peak_memory_gb=1.0)["honest_rejected"] == 1


@pytest.mark.parametrize("steps", [0, 1])
def test_a_run_of_any_length_has_four_whole_files(tmp_path: Path, steps: int) -> None:
    document = written(observe(steps), tmp_path)
    assert (document["reward_first"] is None) == (steps == 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES
    assert (tmp_path / "reward.png").read_bytes().startswith(b"\x89PNG")


def test_a_run_in_which_nothing_happened(tmp_path: Path) -> None:
    seen = Observation(wanted_steps=3, nodes={})
    assert written(seen, tmp_path, minutes=0.0)["tokens_per_s"] == 0.0
    assert "0 of 3 steps" in report.summary_text(seen, tmp_path)


def test_writing_again_replaces_and_a_failure_leaves_nothing_half(tmp_path: Path) -> None:
    for name in ("report.json", "reward.png"):
        (tmp_path / name).write_text("old")
    (tmp_path / "report.html").mkdir()
    with pytest.raises(IsADirectoryError):
        written(observe(1), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES
    assert json.loads((tmp_path / "report.json").read_text())["steps"] == 1


class Page(HTMLParser):
    """Tags that were opened, and those left open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_stands_alone_and_lets_no_foreign_tag_through(run: Path) -> None:
    text = (run / "report.html").read_text()
    page = Page(text)
    assert page.open == []
    assert not any(tag == "script" for tag, _ in page.seen)
    sources = [value for _, attributes in page.seen for name, value in attributes.items() if name in ("src", "href")]
    assert [source[:22] for source in sources] == ["data:image/png;base64,"] * 2
    assert "&lt;script&gt;" in text


def test_the_page_says_why_and_with_which_measurement(run: Path) -> None:
    text = (run / "report.html").read_text()
    assert SENTENCES["proof-mismatch"] in text
    assert "mean exponent mismatches: 4.7, more than 3.6 (64 blocks)" in text
    assert "2.4 to 2.5" in text
    assert "100 of 100 staked tokens were burnt" in text
    assert "learning_rate" in text


def test_the_closing_lines_name_everybody_s_fate(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    text = report.summary_text(observe(6), tmp_path)
    assert "0.15 → 0.80 (+65 points)" in text
    assert (
        "4 accepted, 0 rejected, 1 late, 0 without a verdict. Earned 2 tokens for 2000 units of verified work." in text
    )
    assert str(tmp_path / "report.html") in text
    assert str(tmp_path / "model") in text


def shown(seen: Observation, width: int) -> str:
    sink = io.StringIO()
    Console(file=sink, width=width).print(live_table.render(seen, elapsed_s=125))
    return sink.getvalue()


@pytest.mark.parametrize("steps", [0, 1, 6])
def test_the_table_fits_100_columns(steps: int) -> None:
    text = shown(observe(steps), 100)
    assert max(map(len, text.splitlines())) <= 100
    for words in (
        "worker-1",
        "validator",
        "bribed: 2 of 3 verdicts",
        "0x04…0404",
        "rejected cheat",
        "ejected",
        f"step {steps}/6",
        "2:05",
    ):
        assert words in text
    assert SENTENCES["proof-mismatch"][:40] in text


def test_markup_in_names_and_reasons_is_shown_as_it_is() -> None:
    seen = observe(1)
    seen.nodes["worker-1"].activity = "[red]x[/red]"
    assert "[red]x[/red]" in shown(seen, 100)


def test_the_plain_line_changes_only_when_something_happened() -> None:
    seen = observe(3)
    assert live_table.plain_line(seen, 61.0) == live_table.plain_line(seen, 118.0)
    before = live_table.plain_line(seen, 61.0)
    assert "step 3 of 6" in before
    assert "cheat ejected" in before
    assert "bribed outvoted 2 times" in before
    seen.nodes["worker-1"].accepted += 1
    assert live_table.plain_line(seen, 61.0) != before


def test_the_spark_line_spans_its_range_and_bears_values_outside() -> None:
    assert live_table.spark_line([0.0, 0.5, 1.0, -1.0, 2.0]) == "▁▅█▁█"
    assert live_table.spark_line([]) == ""
