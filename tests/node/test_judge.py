"""Validators before a real court: drawn or not, one or a quorum, restarted in the middle, appealed, executed.

The checks themselves are a function here; everything else is the real part.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from ledger import Deployment, Ledger, deploy
from ledger.anvil import Anvil
from ledger.court import Answer
from ledger.errors import Reverted
from ledger.types import Bar, CaseState, File, Kind, Outcome, Role, Verdict
from node.judge import TRIES
from node.membership import Blacklisted
from node.metrics import MetricsTail
from tests.ledger.conftest import TERMS, World
from tests.node.court_room import FILE, FakeVerifier, court_of, judging, make_quick, until, with_quorum


@pytest.fixture(scope="module")
def deployment(chain: Anvil) -> Deployment:
    return deploy(chain.url, chain.account(0))


@pytest.fixture
def world(chain: Anvil, deployment: Deployment, request: pytest.FixtureRequest) -> World:
    quorum = getattr(request, "param", 1)
    return court_of(chain, deployment, with_quorum(TERMS, quorum, quorum))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    make_quick(monkeypatch)


def verdicts(path: Path) -> list[dict[str, Any]]:
    """Lines of the validator's metrics, but for what it spent its time on."""
    return [line for line in MetricsTail(path).read() if line["kind"] != "span"]


async def test_one_validator_accepts_and_the_worker_is_credited(world: World, tmp_path: Path) -> None:
    worker, judge, verifier = world.member(Role.WORKER), world.member(Role.VALIDATOR), FakeVerifier()
    ids = [
        worker.submit(world.pool_id, 0, 0, [FILE, FILE]),
        worker.submission_id(world.pool_id, 0, 1, worker.account.address),
    ]
    async with judging(world, judge, tmp_path / "v", verifier):
        await until(lambda: all((d := judge.docket(i)) and d.outcome is Outcome.ACCEPTED for i in ids))
        await until(lambda: len(verdicts(tmp_path / "v" / "metrics.jsonl")) == 2)
    assert judge.units_of(world.pool_id, worker.account.address) == 140
    assert [claim["counter"] for claim in verifier.asked] == [0, 1]
    line = verdicts(tmp_path / "v" / "metrics.jsonl")[0]
    assert (line["kind"], line["outcome"], line["submission_id"]) == ("verdict", "accepted", ids[0].hex())


async def test_a_cheat_is_rejected_and_burnt_when_the_window_is_over(world: World, tmp_path: Path) -> None:
    cheat, judge = world.member(Role.WORKER), world.member(Role.VALIDATOR)
    bad = cheat.submit(world.pool_id, 0, 0, [FILE])
    async with judging(world, judge, tmp_path / "v", FakeVerifier("rejected")):
        await until(lambda: judge.case(bad))
        assert judge.case(bad).state is CaseState.OPEN
        world.wait(TERMS.challenge_s + 1)
        await until(lambda: judge.case(bad).state is CaseState.BURNT)
    assert judge.member(world.pool_id, cheat.account.address).bar is Bar.BY_VERDICT
    assert judge.stake_of(cheat.account.address) == 6 * 10**18


async def test_a_verdict_that_the_appeal_overturns(world: World, tmp_path: Path) -> None:
    worker, judge, verifier = world.member(Role.WORKER), world.member(Role.VALIDATOR), FakeVerifier("rejected")
    bad = worker.submit(world.pool_id, 0, 0, [FILE])
    async with judging(world, judge, tmp_path / "v", verifier):
        await until(lambda: judge.case(bad))
        verifier.outcome = "accepted"
        await trio.to_thread.run_sync(worker.appeal, bad)
        await until(lambda: judge.case(bad).state is CaseState.OVERTURNED)
    assert judge.submission(bad).outcome is Outcome.ACCEPTED
    assert judge.units_of(world.pool_id, worker.account.address) == 70


@pytest.mark.parametrize("world", [2], indirect=True)
async def test_a_quorum_commits_and_reveals_also_across_a_restart(world: World, tmp_path: Path) -> None:
    worker, one, two = (world.member(role) for role in (Role.WORKER, Role.VALIDATOR, Role.VALIDATOR))
    submission_id = worker.submit(world.pool_id, 0, 0, [FILE])
    verifiers = FakeVerifier(), FakeVerifier()
    async with judging(world, one, tmp_path / "1", verifiers[0]):
        await until(lambda: one.has_committed(submission_id, one.account.address))
    # It is away while the other commits, and comes back with what it has on disk.
    async with judging(world, two, tmp_path / "2", verifiers[1]):
        await until(lambda: two.has_revealed(submission_id, two.account.address))
        assert two.docket(submission_id).outcome is Outcome.PENDING
        async with judging(world, one, tmp_path / "1", verifiers[0]):
            await until(lambda: two.docket(submission_id).outcome is Outcome.ACCEPTED)
    assert [len(verifier.asked) for verifier in verifiers] == [1, 1], "nothing is judged twice"


async def test_who_joined_after_the_work_stays_silent(world: World, tmp_path: Path) -> None:
    worker = world.member(Role.WORKER)
    world.member(Role.VALIDATOR)
    submission_id = worker.submit(world.pool_id, 0, 0, [FILE])
    world.wait(2)
    late, verifier = world.member(Role.VALIDATOR), FakeVerifier("rejected")
    async with judging(world, late, tmp_path / "v", verifier) as dockets:
        await until(lambda: late.cursor(tmp_path / "v" / "ledger.sqlite", "validator").next_block > late.block_number)
        await until(lambda: dockets.waiting(10**12) is None)
    assert verifier.asked == []
    assert late.docket(submission_id) is None


async def test_a_validator_that_is_not_drawn_answers_when_the_panel_widens(world: World, tmp_path: Path) -> None:
    worker, judges = world.member(Role.WORKER), [world.member(Role.VALIDATOR) for _ in range(6)]
    submission_id = worker.submit(world.pool_id, 0, 0, [FILE])
    file = worker.file(worker.recorded(submission_id))
    drawn = [judge for judge in judges if _is_drawn(judge, submission_id, file)]
    outsider, verifier = next(judge for judge in judges if judge not in drawn), FakeVerifier()
    async with judging(world, outsider, tmp_path / "v", verifier) as dockets:
        await until(lambda: dockets.waiting(10**12) and dockets.waiting(0) is None)
        assert verifier.asked == []
        world.wait(4 * TERMS.round_s)
        await until(lambda: (d := outsider.docket(submission_id)) and d.outcome is Outcome.ACCEPTED)


async def test_a_file_that_ends_the_checks_is_given_up_and_slashes_nobody(world: World, tmp_path: Path) -> None:
    worker, judge = world.member(Role.WORKER), world.member(Role.VALIDATOR)
    submission_id = worker.submit(world.pool_id, 0, 0, [FILE])

    class Broken(FakeVerifier):
        async def call(self, kind: str, **arguments: Any) -> dict[str, Any]:
            self.asked.append(kind)
            raise ConnectionError("the verifier died")

    broken = Broken()
    for _ in range(TRIES):
        with pytest.raises(ExceptionGroup):
            async with judging(world, judge, tmp_path / "v", broken):
                await trio.sleep(30)
    async with judging(world, judge, tmp_path / "v", broken) as dockets:
        await until(lambda: dockets.waiting(10**12) is None)
    assert len(broken.asked) == TRIES
    assert judge.docket(submission_id) is None


@pytest.mark.parametrize(("away_s", "outcome", "units"), [(930, Outcome.ACCEPTED, 70), (1001, Outcome.PENDING, 0)])
async def test_after_a_long_outage_work_is_still_judged_and_what_is_too_old_is_never_paid(
    world: World, tmp_path: Path, away_s: int, outcome: Outcome, units: int
) -> None:
    worker, judge, verifier = world.member(Role.WORKER), world.member(Role.VALIDATOR), FakeVerifier()
    async with judging(world, judge, tmp_path / "v", FakeVerifier()) as dockets:
        await until(lambda: judge.cursor(tmp_path / "v" / "ledger.sqlite", "validator").next_block > judge.block_number)
    submission_id = worker.submit(world.pool_id, 0, 0, [FILE])
    world.wait(away_s)  # more than a quarter of an hour; verdicts close after 1,000 s
    async with judging(world, judge, tmp_path / "v", verifier) as dockets:
        await until(lambda: judge.cursor(tmp_path / "v" / "ledger.sqlite", "validator").next_block > judge.block_number)
        await until(lambda: dockets.waiting(10**12) is None)
    docket = judge.docket(submission_id)
    assert (docket.outcome if docket else Outcome.PENDING) is outcome
    assert judge.units_of(world.pool_id, worker.account.address) == units
    assert judge.member(world.pool_id, worker.account.address).bar is Bar.NONE


async def test_attack_work_that_nobody_recorded_is_not_judged(world: World, tmp_path: Path) -> None:
    """An unknown submission has no hash, and a hash of zero is none: neither is anything to accept."""
    worker, judge, verifier = world.member(Role.WORKER), world.member(Role.VALIDATOR), FakeVerifier()
    unknown = worker.submission_id(world.pool_id, 7, 0, worker.account.address)
    with pytest.raises(Reverted, match="ZeroHash"):
        worker.submit(world.pool_id, 7, 0, [bytes(32)])
    async with judging(world, judge, tmp_path / "v", verifier) as dockets:
        dockets.add(unknown, Kind.SUBMISSION, judge.block_number)
        await until(lambda: dockets.waiting(10**12) is None)
    assert verifier.asked == []
    zero = File(pool_id=world.pool_id, node=worker.account.address, step=7, first_counter=0, counter=0,
                file_hash=bytes(32), proof=())  # fmt: skip
    with pytest.raises(Reverted, match="NotSubmitted"):
        judge.reveal(Answer(docket_id=unknown, verdict=Verdict(outcome=Outcome.ACCEPTED, units=1), file=zero))
    assert judge.docket(unknown) is None
    assert judge.units_of(world.pool_id, worker.account.address) == 0


async def test_a_blacklisted_validator_ends(world: World, tmp_path: Path) -> None:
    worker, judge = world.member(Role.WORKER), world.member(Role.VALIDATOR)
    worker.submit(world.pool_id, 0, 0, [FILE])
    world.owner.blacklist(world.pool_id, judge.account.address, "bribed")
    with pytest.raises(ExceptionGroup) as ended:
        async with judging(world, judge, tmp_path / "v", FakeVerifier()):
            await trio.sleep(30)
    assert ended.group_contains(Blacklisted)


def _is_drawn(judge: Ledger, submission_id: bytes, file: File) -> bool:
    try:
        judge.require_drawn(submission_id, judge.account.address, file=file)
    except Reverted:
        return False
    return True
