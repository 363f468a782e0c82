"""The rarer edges of a node's life on real processes: relays that fall silent, drain, are barred, lose the chain.

A relay is the lightest node. Seven of them walk at the same time, under the eyes of one trainer: first through an
outage of its line to the chain, which most of them need, then each its own way. The last test says which edges they
have walked; `test_life` walks the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from eth_account import Account
from eth_utils import keccak

from node import local
from node.local_run import Participant
from tests.functional.life_stage import Stage, open_stage
from tests.functional.life_subject import Person, Subject
from tests.functional.life_walks import BY_RELAYS

HEARTBEAT_S = 1.5
SETTINGS = (f"network.heartbeat_s={HEARTBEAT_S}", "network.record_lifetime_s=9", "network.request_timeout_s=3")
LASTING = ("network.record_lifetime_s=300",)
"""Of a node that is to be found in the directory although it has been silent for long."""
FLEETING = ("network.record_lifetime_s=6",)
"""Of one that is to be gone from it soon."""
TWIN = "kept-twin"
SUBJECTS = {
    "leaver": LASTING, "fading": FLEETING, "relay": LASTING, "lapsing": FLEETING, "dead": LASTING,
    "kept": LASTING, "restarted": LASTING, TWIN: LASTING,
}  # fmt: skip


def _cast() -> dict[str, Participant]:
    cast = {p.name: p for p in local.cast(workers=0, cheat=False, seed=29)}
    for name, settings in SUBJECTS.items():
        account = Account.from_key(keccak(b"life edges/" + name.encode()))
        cast[name] = Participant(name=name, role="relay", account=account, settings=settings)
    cast[TWIN] = replace(cast[TWIN], account=cast["kept"].account)
    return cast


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    started = ("trainer", *(name for name in SUBJECTS if name not in ("relay", TWIN)))
    folder = tmp_path_factory.mktemp("edges")
    with open_stage(folder, cast=_cast(), settings=SETTINGS, started=started, lines=("trainer", *SUBJECTS)) as made:
        yield made


@pytest.fixture(scope="module")
def person(stage: Stage) -> Person:
    return Person(stage)


@pytest.fixture(scope="module")
def subjects(stage: Stage) -> dict[str, Subject]:
    found = {name: Subject(stage, name) for name in SUBJECTS}
    for name, subject in found.items():
        if name != TWIN:
            subject.is_let_in()
    return found


def test_what_the_manager_cannot_see_while_the_chain_is_away(
    stage: Stage, person: Person, subjects: dict[str, Subject]
) -> None:
    dead, kept = subjects["dead"], subjects["kept"]
    newcomers = [subjects[name] for name in ("leaver", "fading", "relay", "lapsing")]

    # Four are invited anew, and join in a block that the manager does not get to see.
    with person.out_of_the_managers_sight():
        for subject in newcomers:
            subject.leaves()
        person.stops_mining()
    stage.until("all have taken their invites", lambda: all(map(person.has_sent, newcomers)))
    stage.lines["trainer"].cut()
    for subject in (dead, kept):
        subject.falls_silent(directory=True)
    person.mines_again()
    for subject in newcomers:
        subject.walks("waiting", "handed-over", "invited")
    leaver, fading, relay, lapsing = newcomers
    leaver.is_to_drain()
    for subject in (fading, lapsing):
        subject.leaves()
        subject.takes_its_stake_out()  # so that nobody invites it again
    fading.falls_silent()
    person.bars(relay)
    leaver.walks("invited", "drains", "left")

    # Two die meanwhile, and cannot be taken off the ledger.
    for subject in (dead, kept):
        subject.walks("suspect", "silent", "dead")
    dead.leaves()
    kept.wakes()
    kept.walks("dead", "kept", "active")
    assert stage.is_member("kept")
    stage.lines["trainer"].mend()


def test_each_goes_its_own_way(person: Person, subjects: dict[str, Subject]) -> None:
    walks = {"leaver": _leaver, "fading": _fading, "relay": _relay, "lapsing": _lapsing, "dead": _dead,
             "kept": _kept, "restarted": _restarted}  # fmt: skip

    def to_its_end(name: str) -> None:
        walks[name](person, subjects[name])
        if name != "relay":  # by which those who are started again join
            subjects[name].ends()

    with ThreadPoolExecutor(len(walks)) as pool:
        done = [pool.submit(to_its_end, name) for name in walks]
    for walk in done:
        walk.result()


def _leaver(person: Person, node: Subject) -> None:
    """Says since the outage that it leaves, and cannot; whatever is done with it, it says so again."""
    node.walks("left", "joined", "active")  # as the ledger has it, where its leaving has not arrived
    node.walks("active", "drains", "draining")
    person.ejects(node)
    node.walks("draining", "ejected", "ejected")
    node.joins()
    node.walks("ejected", "joined", "active")
    node.walks("active", "drains", "draining")
    node.falls_silent()
    node.walks("draining", "silent", "dead")
    node.is_taken_out()
    node.wakes()
    node.walks("dead", "drains", "left")
    node.joins()
    node.walks("left", "joined", "active")
    node.walks("active", "drains", "draining")
    person.bars(node)
    node.walks("draining", "barred", "blacklisted")


def _fading(person: Person, node: Subject) -> None:
    """Silent since it took its invite; its record in the directory runs out, and does so once more."""
    node.walks("invited", "gone", "unknown")
    person.bars(node)
    node.wakes()
    node.walks("unknown", "barred", "blacklisted")
    person.pardons(node)
    node.walks("blacklisted", "pardoned", "waiting")
    node.falls_silent()
    node.walks("waiting", "gone", "unknown")


def _relay(person: Person, node: Subject) -> None:
    """Barred since the outage, then in each of the states that a silent member can be in; and let in again."""
    node.walks("invited", "barred", "blacklisted")
    person.pardons_and_lets_in(node)
    node.falls_silent()
    node.walks("active", "late", "suspect")
    node.leaves()
    node.walks("suspect", "left", "left")
    person.bars(node)
    node.walks("left", "barred", "blacklisted")
    person.pardons_and_lets_in(node)
    node.walks("active", "late", "suspect")
    person.ejects(node)
    node.walks("suspect", "ejected", "ejected")
    person.bars(node)
    node.walks("ejected", "barred", "blacklisted")
    person.pardons_and_lets_in(node)
    node.walks("active", "late", "suspect")
    person.bars(node)
    node.walks("suspect", "barred", "blacklisted")


def _lapsing(person: Person, node: Subject) -> None:
    """Joined during the outage and left before anybody saw it: the manager waits for it in vain."""
    node.walks("invited", "lapsed", "waiting")
    person.bars(node)
    node.walks("waiting", "barred", "blacklisted")
    person.pardons(node)
    node.walks("blacklisted", "pardoned", "waiting")
    node.is_to_drain()
    node.walks("waiting", "drains", "left")
    node.falls_silent()
    node.walks("left", "gone", "unknown")


def _dead(person: Person, node: Subject) -> None:
    """Left while it was dead; wakes, then dies twice more, and a person lets it in while it is dead."""
    node.walks("dead", "left", "left")
    node.wakes(directory=False)
    node.walks("left", "beat", "waiting")
    node.wakes()
    node.is_let_in()
    node.falls_silent()
    node.walks("suspect", "silent", "dead")
    node.is_taken_out()
    node.joins()
    node.walks("dead", "joined", "active")
    node.walks("suspect", "silent", "dead")
    node.is_taken_out()
    person.bars(node)
    node.walks("dead", "barred", "blacklisted")


def _kept(person: Person, node: Subject) -> None:
    """Comes back from the dead by its heartbeat alone; then drains, and its owner starts it on another machine."""
    stage = node.stage
    node.falls_silent(directory=True)
    node.walks("suspect", "silent", "dead")
    node.is_taken_out()
    node.wakes(directory=False)
    node.walks("dead", "beat", "waiting")
    node.wakes()
    node.is_let_in()
    node.falls_silent()
    node.walks("active", "late", "suspect")
    node.is_to_drain()
    node.wakes()
    node.walks("suspect", "drains", "draining")
    stage.start(TWIN)
    stage.until("one of them at a time", lambda: "another node of this wallet is alive" in stage.log(TWIN))
    stage.kill(node.name)
    node.walks("draining", "beat", "active")
    stage.until("the twin hears so", lambda: "to its manager this node is active" in stage.log(TWIN))


def _restarted(person: Person, node: Subject) -> None:
    """Killed and started again, it is seen in the directory before it can beat: once dead, once after it has left."""
    node.stage.kill(node.name)
    node.walks("suspect", "silent", "dead")
    node.is_taken_out()
    node.starts_unheard()
    node.walks("dead", "announced", "waiting")
    node.has_the_chain_again()
    node.is_let_in()
    node.stage.kill(node.name)
    node.leaves()
    node.walks("active", "left", "left")
    node.starts_unheard()
    node.walks("left", "announced", "waiting")


def test_the_edges_that_relays_walked(stage: Stage) -> None:
    edges = stage.edges()
    print("\n".join(" ".join(edge) for edge in sorted(edges)))
    assert edges >= BY_RELAYS
