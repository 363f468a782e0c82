"""A node's life on real processes: chain, relay, trainer and two workers, with the owner's and the manager's commands.

The tests play on one stage, one after the other; the last one says which edges of the table they have walked.
"""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Iterator

import pytest

from node.intent import Wish, write_wish
from tests.functional.life_stage import CAST, HEARTBEAT_S, MOVED_CLOCK, Stage, free_port, open_stage
from tests.functional.life_walks import BY_WORKERS

EITHER = [
    {("dead", "beat", "waiting"), ("dead", "announced", "waiting")},
    {("left", "beat", "waiting"), ("left", "announced", "waiting")},
]
"""Which way back into the pool a node takes hangs on whether it beats or is seen first."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with open_stage(tmp_path_factory.mktemp("life")) as made:
        yield made


def test_a_worker_lives_unseen_obeys_pauses_and_leaves(stage: Stage) -> None:
    stage.until("the worker hands in", lambda: len(stage.metrics("worker-1", "submitted")) >= 2)
    assert stage.states("worker-1")[-1] == "active"
    worker, manager = CAST["worker-1"].account.address, stage.common("trainer")
    assert "at stake for this node: 100 tokens, this wallet's" in stage.log("worker-1")
    for name in ("relay", "trainer", "worker-1"):
        assert "pool 1, stake: 100 tokens to join; a rejection burns 100" in stage.log(name)

    # Nobody reads its address, and its manager reaches it all the same.
    listed = json.loads(stage.run("peers", "--config", manager[1], "--join", stage.join(), "--json"))
    assert [peer["multiaddrs"] for peer in listed if peer["address"] == worker] == [[]]
    shown = stage.run("pool", "logs", *manager, "--join", stage.join(), "--lines", "200", worker)
    assert "handed in submission" in shown
    assert not re.search(r"[0-9a-f]{64}", shown)
    stage.run("pool", "restart-engine", *manager, "--join", stage.join(), worker)
    audit = [json.loads(line) for line in (stage.folder / "worker-1" / "audit.jsonl").read_text().splitlines()]
    assert [(line["order"], line["outcome"]) for line in audit] == [("logs", "obeyed"), ("restart-engine", "obeyed")]
    stage.until("a second engine runs", lambda: len(stage.metrics("worker-1", "engine")) == 2)

    # kill -9: what was made and not recorded is handed in by the next process.
    stage.kill("worker-1")
    before = len(stage.metrics("worker-1", "submitted"))
    stage.start("worker-1")
    stage.until("it goes on", lambda: len(stage.metrics("worker-1", "submitted")) > before)
    recorded = stage.work("worker-1", "submitted")
    assert len(recorded) == len(set(recorded)), "each exactly once"

    # Its owner pauses it, lets it go on, and has it leave.
    data = ["--data-dir", str(stage.folder / "worker-1")]
    stage.run("drain", *data, "--pause")
    stage.until("it is paused", lambda: "to pause" in stage.log("worker-1"))
    stage.run("drain", *data, "--resume")
    stage.run("drain", *data)
    assert stage.nodes["worker-1"].wait(30) == 0
    assert not stage.is_member("worker-1")
    assert set(stage.work("worker-1", "generated")) == set(stage.work("worker-1", "submitted")), (
        "everything that was finished was handed in before it left"
    )
    stage.until_state("worker-1", "left", "unknown")
    assert "draining" in stage.states("worker-1")

    # Started again it is invited again, without hand work; and so it is when its wallet left while it runs.
    stage.start("worker-1")
    stage.until_state("worker-1", "active")
    lived = len(stage.states("worker-1"))
    stage.leave_by_another_tool("worker-1")
    stage.until("its manager sees it", lambda: stage.states("worker-1")[lived : lived + 2] == ["left", "waiting"])
    stage.until_state("worker-1", "active")
    stage.nodes["worker-1"].send_signal(signal.SIGTERM)
    stage.nodes["worker-1"].wait(30)
    assert stage.is_member("worker-1"), "who is only stopped stays a member for a while"
    stage.run("drain", *data, *stage.common("worker-1"))
    assert not stage.is_member("worker-1"), "the command leaves in its place"


def test_an_outage_of_chain_directory_and_relay_while_a_worker_generates_loses_nothing(stage: Stage) -> None:
    def unsent() -> set[tuple[int, int]]:
        return set(stage.work("worker-2", "generated")) - set(stage.work("worker-2", "submitted"))

    stage.until_state("worker-2", "active")
    assert stage.metrics("worker-2", "generated") == [], "it was started paused"
    write_wish(stage.folder / "worker-2", Wish.WORK)
    stage.until("it works", lambda: len(stage.metrics("worker-2", "submitted")) >= 2)
    read = len(stage.log("worker-2"))
    for _ in range(10):  # until the outage falls into a generation
        done = len(stage.work("worker-2", "generated"))
        stage.until("one more is made", lambda done=done: len(stage.work("worker-2", "generated")) > done)  # type: ignore[misc]
        stage.until("all is handed in", lambda: not unsent())
        stage.line.cut()
        stage.suspend("relay")
        stage.kill_dhtd("worker-2")
        deadline = time.monotonic() + 3.0
        while not unsent() and time.monotonic() < deadline:
            time.sleep(0.05)
        if unsent():
            break
        stage.line.mend()
        stage.resume("relay")
    made = unsent()
    assert made, "finished although nobody could be asked"
    stage.until("the chain is missed", lambda: "trying again in" in stage.log("worker-2")[read:])
    stage.until("the directory is", lambda: "dhtd ended with status -9" in stage.log("worker-2")[read:])
    stage.line.mend()
    missed = re.compile(r"cannot look for relays|no relay of \d+ took|did not take a submission")
    stage.until("the relay is missed", lambda: bool(missed.search(stage.log("worker-2")[read:])))
    assert made <= unsent(), "not recorded before a relay has it"
    stage.resume("relay")
    stage.until("all is handed in", lambda: made <= set(stage.work("worker-2", "submitted")))
    recorded = stage.work("worker-2", "submitted")
    assert len(recorded) == len(set(recorded)), "each exactly once"
    for step in {step for step, _ in recorded}:
        counters = {counter for at, counter in recorded if at == step}
        assert stage.ledger.next_counter(1, CAST["worker-2"].account.address, step) >= len(counters)
        assert counters == set(range(len(counters))), "no counter is left out"


def test_the_manager_puts_out_lets_in_bars_and_pardons(stage: Stage) -> None:
    address, invite = CAST["worker-2"].account.address, ["--join", stage.join(), "--role", "worker"]
    stage.until_state("worker-2", "active")
    stage.manage("eject", address, "--reason", "too-slow")
    stage.until_state("worker-2", "ejected")
    stage.until("it hears so", lambda: "to its manager this node is ejected" in stage.log("worker-2"))
    assert stage.nodes["worker-2"].poll() is None, "it waits"
    assert not stage.is_member("worker-2"), "and is not invited by itself"
    stage.manage("invite", address, *invite)
    stage.until_state("worker-2", "active")
    stage.manage("blacklist", address, "--reason", "spam")
    stage.until_state("worker-2", "blacklisted")
    assert stage.nodes["worker-2"].wait(60) != 0
    assert "has blacklisted this node" in stage.log("worker-2")
    stage.manage("blacklist", address, "--reason", "settled", "--undo")
    before = len(stage.metrics("worker-2", "submitted"))
    stage.start("worker-2")
    stage.until_state("worker-2", "active")
    stage.until("it works again", lambda: len(stage.metrics("worker-2", "submitted")) > before)


def test_who_fell_silent_is_taken_out_and_comes_back_by_itself_with_another_clock_and_port(stage: Stage) -> None:
    stage.until_state("relay", "active")
    stage.suspend("relay")
    stage.until_state("relay", "suspect")
    stage.resume("relay")
    stage.until_state("relay", "active")

    # The clock of a running worker's machine jumps by an hour: nobody minds.
    before, lived = len(stage.metrics(MOVED_CLOCK, "submitted")), len(stage.states(MOVED_CLOCK))
    stage.move_clock(3600)
    stage.until("it goes on", lambda: len(stage.metrics(MOVED_CLOCK, "submitted")) >= before + 2)
    assert not {"dead", "ejected"} & set(stage.states(MOVED_CLOCK)[lived:])

    stage.suspend("relay")
    stage.kill(MOVED_CLOCK)
    gone = ("relay", MOVED_CLOCK)
    for name in gone:
        stage.until_state(name, "dead")
        stage.until(f"{name} is off the ledger", lambda name=name: not stage.is_member(name))  # type: ignore[misc]
    stage.resume("relay")
    stage.move_clock(-600)
    before = len(stage.metrics(MOVED_CLOCK, "submitted"))
    stage.start(MOVED_CLOCK, "--port", str(free_port()))
    for name in gone:
        stage.until(f"{name} is back", lambda name=name: stage.is_member(name))  # type: ignore[misc]
        stage.until_state(name, "active")
    stage.until("it works again", lambda: len(stage.metrics(MOVED_CLOCK, "submitted")) > before)
    assert "this machine's clock is" in stage.log(MOVED_CLOCK)
    recorded = stage.work(MOVED_CLOCK, "submitted")
    assert len(recorded) == len(set(recorded)), "each exactly once"


def test_a_trainer_that_was_suspended_or_restarted_declares_nobody_dead(stage: Stage) -> None:
    stage.until_state("relay", "active")
    before = len(stage.states("relay"))
    stage.suspend("trainer")
    time.sleep(7 * HEARTBEAT_S)  # longer than it takes to die; the one wait that has no event to wait for
    stage.resume("trainer")
    stage.nodes["trainer"].send_signal(signal.SIGTERM)
    stage.nodes["trainer"].wait(60)
    stage.start("trainer")
    stage.until("it knows its members", lambda: ("unknown", "joined", "active") in stage.edges())
    stage.until_state("relay", "active")
    assert "dead" not in stage.states("relay")[before:]
    assert stage.is_member("relay")


def test_the_edges_that_real_processes_walked(stage: Stage) -> None:
    edges = stage.edges()
    print("\n".join(" ".join(edge) for edge in sorted(edges)))
    assert edges >= BY_WORKERS
    assert [sorted(ways) for ways in EITHER if not ways & edges] == []
