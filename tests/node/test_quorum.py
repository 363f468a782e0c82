"""Two of three validators before a real court: bribed, killed at any moment, away, late, at odds.

The checks themselves are a function here; everything else is the real part.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio

from ledger import Deployment, Ledger, deploy
from ledger.anvil import Anvil
from ledger.errors import Reverted
from ledger.events import VerdictRevealed
from ledger.types import Bar, CaseState, Outcome, Role
from node.bribed_verifier import BribedVerifier
from node.evidence import read
from node.explain import explain_address, explain_docket
from tests.ledger.conftest import ETHER, TERMS, World
from tests.node.court_room import FILE, FakeNetwork, FakeVerifier, court_of, judging, make_quick, until, with_quorum

TWO_OF_THREE = with_quorum(TERMS, 2, 3, round_s=400)
"""Nobody is called because of a round that is over."""


@pytest.fixture(scope="module")
def deployment(chain: Anvil) -> Deployment:
    return deploy(chain.url, chain.account(0))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    make_quick(monkeypatch)


class Bribed:
    """The demo's bribed verifier, without its process."""

    def __init__(self, friend: str) -> None:
        self._real, self.asked = BribedVerifier(frozenset({friend})), list[Any]()

    async def call(self, kind: str, **arguments: Any) -> dict[str, Any]:
        self.asked.append(arguments["claim"])
        return self._real.judge(path=None, claim=arguments["claim"])


def events_of(ledger: Ledger) -> list[Any]:
    cursor, found = ledger.cursor(None, "test"), []
    while cursor.next_block <= ledger.block_number:
        found += ledger.events(cursor)
        if found:
            cursor.commit(found[-1].block)
    return found


def said_by(ledger: Ledger, docket_id: bytes) -> dict[str, Outcome]:
    """Validator → what it revealed; each at most once."""
    revealed = [e for e in events_of(ledger) if isinstance(e, VerdictRevealed) and e.docket_id == docket_id]
    said = {event.validator: event.outcome for event in revealed}
    assert len(said) == len(revealed)
    return said


async def test_attack_a_bribed_validators_votes_change_nothing(
    chain: Anvil, deployment: Deployment, tmp_path: Path
) -> None:
    world = court_of(chain, deployment, TWO_OF_THREE)
    honest, cheat = world.member(Role.WORKER), world.member(Role.WORKER)
    judges = [world.member(Role.VALIDATOR) for _ in range(3)]
    one, _, bought = judges
    bribed = bought.account.address
    good = [honest.submit(world.pool_id, step, 0, [FILE]) for step in range(4)]
    bad = [cheat.submit(world.pool_id, 0, 0, [FILE])]
    verifiers = [FakeVerifier(cheats=frozenset({cheat.account.address})) for _ in range(2)]
    verifiers.append(Bribed(cheat.account.address))
    networks = [FakeNetwork() for _ in judges]
    async with contextlib.AsyncExitStack() as stack:
        for ledger, verifier, network in zip(judges, verifiers, networks, strict=True):
            folder = tmp_path / ledger.account.address
            await stack.enter_async_context(judging(world, ledger, folder, verifier, network=network))
        await until(lambda: all((d := one.docket(i)) and d.outcome is Outcome.ACCEPTED for i in good))
        await until(lambda: one.case(bad[0]))
        world.wait(TERMS.challenge_s + 1)
        await until(lambda: one.case(bad[0]).state is CaseState.BURNT)
        await until(lambda: sum(len(network.given) for network in networks) == len(said_of_all(one, good + bad)))

    pool_id, address = world.pool_id, honest.account.address
    assert one.units_of(pool_id, address) == 4 * 70, "the honest are paid in full"
    assert one.stake_of(address) == 10 * ETHER
    assert one.member(pool_id, cheat.account.address).bar is Bar.BY_VERDICT
    assert (one.stake_of(cheat.account.address), one.units_of(pool_id, cheat.account.address)) == (6 * ETHER, 0)
    assert one.stake_of(bribed) == 10 * ETHER, "to be outvoted costs nothing"

    dissents = 0
    for docket_id in good + bad:
        said = said_by(one, docket_id)
        honest_said = [outcome for validator, outcome in said.items() if validator != bribed]
        # As many as must agree have checked the file, and nobody else.
        assert honest_said == [one.docket(docket_id).outcome] * 2
        lie = said.get(bribed)
        dissents += lie is not None
        told = explain_docket(docket_id, events_of(one), docket=one.docket(docket_id), case=one.case(docket_id))
        if lie is not None:
            assert f"Validator {bribed} said {lie.name.lower()}, which changed nothing." in told.summary
    assert dissents == len(bribed_asked := verifiers[2].asked), bribed_asked
    assert len(verifiers[0].asked) + len(verifiers[1].asked) == 2 * len(good + bad)
    told = explain_address(
        bribed, events_of(one), pool_id=pool_id, node=one.node(bribed), member=one.member(pool_id, bribed), credit_wei=0
    )
    if dissents:
        assert (
            f"Verdicts: {dissents}, of which {dissents} were against the outcome and changed nothing." in told.summary
        )
    assert all(read(data).claim["worker"] for network in networks for data in network.given)


def said_of_all(ledger: Ledger, docket_ids: list[bytes]) -> list[Any]:
    return [e for e in events_of(ledger) if isinstance(e, VerdictRevealed) and e.docket_id in docket_ids]


class Killed(Exception):
    """The process ended here."""


class Mortal:
    """Passes everything on; at one call the process ends, before or after it is made."""

    def __init__(self, target: Any, fatal: str, when: str) -> None:
        self._target, self._fatal, self._when = target, fatal, when

    def __getattr__(self, name: str) -> Any:
        if name == "content":
            return self
        real = getattr(self._target, name)
        if name != self._fatal:
            return real

        def die(*arguments: Any, **named: Any) -> Any:
            if self._when == "after":
                real(*arguments, **named)
            raise Killed(name)

        async def die_later(*arguments: Any, **named: Any) -> Any:
            if self._when == "after":
                await real(*arguments, **named)
            raise Killed(name)

        return die_later if name in ("fetch_blob", "call") else die


@dataclass(frozen=True, slots=True, kw_only=True)
class Court:
    """Two validators that must both agree, and a worker."""

    world: World
    worker: Ledger
    one: Ledger
    two: Ledger


@pytest.fixture(scope="module")
def court(chain: Anvil, deployment: Deployment) -> Court:
    world = court_of(chain, deployment, with_quorum(TERMS, 2, 2))
    worker, one, two = (world.member(role) for role in (Role.WORKER, Role.VALIDATOR, Role.VALIDATOR))
    return Court(world=world, worker=worker, one=one, two=two)


MOMENTS = [
    ("network", "fetch_blob", "after"),
    ("dockets", "begin_try", "after"),
    ("verifier", "call", "before"),
    ("verifier", "call", "after"),
    ("dockets", "found", "after"),
    ("ledger", "commit", "before"),
    ("ledger", "commit", "after"),
    ("dockets", "commit", "after"),
    ("ledger", "reveal", "before"),
    ("ledger", "reveal", "after"),
    ("dockets", "revealed", "before"),
    ("dockets", "revealed", "after"),
    ("dockets", "sent", "before"),
]


@pytest.mark.parametrize(("part", "fatal", "when"), MOMENTS)
async def test_a_validator_that_is_killed_at_any_moment_gives_exactly_one_verdict(
    court: Court, tmp_path: Path, part: str, fatal: str, when: str
) -> None:
    world, one, two = court.world, court.one, court.two
    step = MOMENTS.index((part, fatal, when))
    submission_id = court.worker.submit(world.pool_id, step, 0, [FILE])
    verifier, network = FakeVerifier(), FakeNetwork()
    # What came before is the other tests'; its folder is new, its place in the ledger's order is not.
    one.cursor(cursor_path(tmp_path / "1"), "validator").commit(one.recorded(submission_id).block - 1)
    two.cursor(cursor_path(tmp_path / "2"), "validator").commit(one.recorded(submission_id).block - 1)

    def mortal(name: str, target: Any) -> Any:
        return Mortal(target, fatal, when) if name == part else target

    async with judging(world, two, tmp_path / "2", FakeVerifier()):
        with pytest.raises(ExceptionGroup) as ended, trio.fail_after(30):
            async with judging(
                world, mortal("ledger", one), tmp_path / "1", mortal("verifier", verifier),
                network=mortal("network", network), wrap=lambda dockets: mortal("dockets", dockets),
            ):  # fmt: skip
                await trio.sleep_forever()
        assert ended.group_contains(Killed)
        async with judging(world, one, tmp_path / "1", verifier, network=network) as dockets:
            await until(lambda: (d := one.docket(submission_id)) and d.outcome is Outcome.ACCEPTED)
            await until(lambda: len(set(network.given)) == 1 and not dockets.unsent() and not dockets.committed())
    assert said_by(one, submission_id) == {
        one.account.address: Outcome.ACCEPTED, two.account.address: Outcome.ACCEPTED
    }  # fmt: skip
    again = (part, when) == ("verifier", "after") or (fatal in ("begin_try",) and False)
    assert len(verifier.asked) == 1 + again, "what was found is not checked again"


def cursor_path(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder / "ledger.sqlite"


async def test_half_an_hour_away_is_caught_up_from_the_event_cursor(
    chain: Anvil, deployment: Deployment, tmp_path: Path
) -> None:
    """Decided meanwhile, too old, and still open: only the last is judged, and nobody's stake is touched."""
    world = court_of(chain, deployment, with_quorum(TERMS, 2, 3, verdict_s=1_700))
    worker = world.member(Role.WORKER)
    one, two, away = (world.member(Role.VALIDATOR) for _ in range(3))
    verifier = FakeVerifier()
    async with judging(world, away, tmp_path / "away", verifier):
        cursor = away.cursor(tmp_path / "away" / "ledger.sqlite", "validator")
        await until(lambda: cursor.next_block > away.block_number)
    too_old = worker.submit(world.pool_id, 0, 0, [FILE])
    world.wait(100)
    decided = worker.submit(world.pool_id, 1, 0, [FILE])
    world.wait(TERMS.round_s)  # whoever is called before them is not there
    files = [cursor_path(tmp_path / name) for name in ("one", "two")]
    for ledger, path in zip((one, two), files, strict=True):  # they never hear of the first
        ledger.cursor(path, "validator").commit(one.recorded(decided).block - 1)
    async with (
        judging(world, one, tmp_path / "one", FakeVerifier()),
        judging(world, two, tmp_path / "two", FakeVerifier()),
    ):
        await until(lambda: (d := one.docket(decided)) and d.outcome is Outcome.ACCEPTED)
    world.wait(100)
    still_open = worker.submit(world.pool_id, 2, 0, [FILE])
    world.wait(1_600)
    async with (
        judging(world, one, tmp_path / "one", FakeVerifier()),
        judging(world, away, tmp_path / "away", verifier) as dockets,
    ):
        await until(lambda: (d := one.docket(still_open)) and d.outcome is Outcome.ACCEPTED)
        await until(lambda: dockets.waiting(10**12) is None)
    assert [claim["step"] for claim in verifier.asked] == [2]
    assert one.docket(too_old) is None
    assert set(said_by(one, decided)) == {one.account.address, two.account.address}, "who came late lost its turn"
    member = one.member(world.pool_id, away.account.address)
    assert (member.active, one.stake_of(away.account.address)) == (True, 10 * ETHER), "and not its stake"
    assert one.stake_of(worker.account.address) == 10 * ETHER


async def test_those_who_disagree_widen_the_panel(chain: Anvil, deployment: Deployment, tmp_path: Path) -> None:
    """Both of a panel of two have answered, and differently: after a round others are drawn and one of them decides."""
    world = court_of(chain, deployment, with_quorum(TERMS, 2, 2, round_s=100, verdict_s=1_500))
    worker, judges = world.member(Role.WORKER), [world.member(Role.VALIDATOR) for _ in range(6)]
    drawn: list[Ledger] = []
    for step in range(20):
        submission_id = worker.submit(world.pool_id, step, 0, [FILE])
        recorded = worker.recorded(submission_id)
        drawn = [j for j in judges if is_drawn(j, submission_id, worker.file(recorded))]
        if len(drawn) == 2:
            break
    assert len(drawn) == 2
    async with contextlib.AsyncExitStack() as stack:
        for number, ledger in enumerate(judges):
            ledger.cursor(cursor_path(tmp_path / str(number)), "validator").commit(recorded.block - 1)
            verifier = FakeVerifier("rejected" if ledger is drawn[0] else "accepted")
            await stack.enter_async_context(judging(world, ledger, tmp_path / str(number), verifier))
        await until(lambda: len(said_by(worker, submission_id)) == 2)
        assert worker.docket(submission_id).outcome is Outcome.PENDING
        for _ in range(4):
            world.wait(100)
            with contextlib.suppress(trio.TooSlowError), trio.fail_after(3):
                await until(lambda: worker.docket(submission_id).outcome is Outcome.ACCEPTED)
                break
    assert worker.docket(submission_id).outcome is Outcome.ACCEPTED
    said = said_by(worker, submission_id)
    assert list(said.values()).count(Outcome.REJECTED) == 1
    assert worker.units_of(world.pool_id, worker.account.address) == 70


def is_drawn(judge: Ledger, submission_id: bytes, file: Any) -> bool:
    try:
        judge.require_drawn(submission_id, judge.account.address, file=file)
    except Reverted:
        return False
    return True


async def test_who_stands_by_is_called_when_a_round_is_over(
    chain: Anvil, deployment: Deployment, tmp_path: Path
) -> None:
    """One of the first two is away: the third does not wait for it for ever, nor begin before."""
    world = court_of(chain, deployment, TWO_OF_THREE)
    worker, judges = world.member(Role.WORKER), [world.member(Role.VALIDATOR) for _ in range(3)]
    by_address = {judge.account.address: judge for judge in judges}
    submission_id = worker.submit(world.pool_id, 0, 0, [FILE])
    order = worker.draw_order(submission_id, list(by_address), block=worker.recorded(submission_id).block)
    first, third = by_address[order[0]], by_address[order[2]]
    standing_by, look = FakeVerifier(), watched(third)
    async with (
        judging(world, first, tmp_path / "first", FakeVerifier()),
        judging(world, look.ledger, tmp_path / "third", standing_by),
    ):
        await until(lambda: first.has_committed(submission_id, order[0]))
        await until(lambda: look.calls() > 0)
        assert standing_by.asked == []
        world.wait(TWO_OF_THREE.round_s)
        await until(lambda: first.docket(submission_id).outcome is Outcome.ACCEPTED)
    assert len(standing_by.asked) == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    ledger: Any
    calls: Callable[[], int]


def watched(ledger: Ledger) -> Watched:
    """The ledger, and how often it was asked for the draw's order."""
    seen: list[Any] = []

    class Asked:
        def __getattr__(self, name: str) -> Any:
            return getattr(ledger, name)

        def draw_order(self, *arguments: Any, **named: Any) -> Any:
            found = ledger.draw_order(*arguments, **named)
            seen.append(found)
            return found

    return Watched(ledger=Asked(), calls=lambda: len(seen))
