"""From a batch of files to verdicts, credit and burnt stake, on a real chain."""

from __future__ import annotations

import contextlib
import dataclasses
import random

import pytest

from ledger.commitments import commitment_of, commitment_salt
from ledger.court import Answer, accusation_id_of, appeal_id_of
from ledger.errors import LedgerError, Reverted
from ledger.merkle import leaf_of, root_of
from ledger.types import Bar, CaseState, Kind, Outcome, Role, Verdict
from tests.ledger.conftest import TERMS, make_world

ETHER = 10**18
FILE = bytes(range(32))
ACCEPTED = Verdict(outcome=Outcome.ACCEPTED, units=7, evidence_hash=FILE)
REJECTED = Verdict(outcome=Outcome.REJECTED, reason="proof-mismatch", evidence_hash=FILE)


def judged(world, worker, validator, verdict, *, step=3):
    """Submit one file and answer for it; the submission's id."""
    counter = worker.next_counter(world.pool_id, worker.account.address, step)
    submission_id = worker.submit(world.pool_id, step, counter, [FILE])
    file = validator.file(validator.recorded(submission_id))
    validator.require_drawn(submission_id, validator.account.address, file=file)
    validator.reveal(Answer(docket_id=submission_id, verdict=verdict, file=file))
    return submission_id


def test_a_worker_is_credited_and_a_cheat_is_slashed_and_blacklisted(world):
    owner, pool_id = world.owner, world.pool_id
    honest, cheat, validator = (world.member(role) for role in (Role.WORKER, Role.WORKER, Role.VALIDATOR))
    owner.mint(owner.account.address, 1000)
    owner.fund(pool_id, 1000)
    good = judged(world, honest, validator, ACCEPTED)
    bad = judged(world, cheat, validator, REJECTED)
    submission = owner.submission(bad)
    assert (submission.step, submission.counter, submission.node) == (3, 0, cheat.account.address)
    assert (submission.file_hash, submission.outcome) == (FILE, Outcome.REJECTED)
    assert owner.submission(good).outcome is Outcome.ACCEPTED
    assert owner.units_of(pool_id, honest.account.address) == 7
    assert owner.credit_of(honest.account.address) == 7 * TERMS.unit_price_wei
    honest.claim(honest.account.address)
    assert owner.token_balance(honest.account.address) == 70
    assert owner.funds_of(pool_id) == 930

    member = owner.member(pool_id, cheat.account.address)
    assert (member.active, member.bar) == (False, Bar.BY_VERDICT)
    case, supply = owner.case(bad), owner.token_supply()
    assert (case.amount_wei, case.state) == (4 * ETHER, CaseState.OPEN)
    assert owner.node(cheat.account.address).locked_wei == 4 * ETHER
    with pytest.raises(Reverted, match="StillOpen"):
        owner.execute(bad)
    world.wait(TERMS.challenge_s + 1)
    owner.execute(bad)
    assert owner.case(bad).state is CaseState.BURNT
    assert owner.stake_of(cheat.account.address) == 6 * ETHER
    assert owner.token_supply() == supply - 4 * ETHER
    with pytest.raises(Reverted, match="NoOpenCase"):
        owner.execute(bad)
    with pytest.raises(Reverted, match="NotActiveMember"):
        cheat.submit(pool_id, 4, 0, [FILE])


def test_a_quorum_commits_before_it_reveals(chain, deployment, owner):
    world = make_world(chain, deployment, owner, dataclasses.replace(TERMS, quorum=2, panel=2))
    worker = world.member(Role.WORKER)
    one, two = world.member(Role.VALIDATOR), world.member(Role.VALIDATOR)
    submission_id = worker.submit(world.pool_id, 0, 0, [FILE])
    file = one.file(one.recorded(submission_id))
    answer = Answer(docket_id=submission_id, verdict=ACCEPTED)
    one.commit(dataclasses.replace(answer, file=file))
    assert one.has_committed(submission_id, one.account.address)
    with pytest.raises(Reverted, match="TooFewCommits"):
        one.reveal(answer)
    two.commit(answer)
    with pytest.raises(Reverted, match="WrongReveal"):
        one.reveal(Answer(docket_id=submission_id, verdict=REJECTED))
    one.reveal(answer)
    assert one.has_revealed(submission_id, one.account.address)
    assert not one.has_revealed(submission_id, two.account.address)
    assert one.docket(submission_id).outcome is Outcome.PENDING
    two.reveal(answer)
    docket = one.docket(submission_id)
    assert (docket.outcome, docket.kind, docket.commits, docket.quorum) == (Outcome.ACCEPTED, Kind.SUBMISSION, 2, 2)


def test_an_appeal_overturns(world):
    worker, validator = world.member(Role.WORKER), world.member(Role.VALIDATOR)
    bad = judged(world, worker, validator, REJECTED)
    appeal_id = worker.appeal(bad)
    docket = world.owner.docket(appeal_id)
    assert (docket.kind, docket.about, docket.node) == (Kind.APPEAL, bad, worker.account.address)
    validator.require_drawn(appeal_id, validator.account.address)
    validator.reveal(Answer(docket_id=appeal_id, verdict=ACCEPTED))
    assert world.owner.submission(bad).outcome is Outcome.ACCEPTED
    assert world.owner.case(bad).state is CaseState.OVERTURNED
    assert world.owner.member(world.pool_id, worker.account.address).bar is Bar.NONE
    assert world.owner.stake_of(worker.account.address) == 10 * ETHER


def test_an_accusation_goes_through_the_quorum(world):
    worker, validator = world.member(Role.WORKER), world.member(Role.VALIDATOR)
    address = worker.account.address
    with pytest.raises(Reverted, match="MayNotAccuse"):
        worker.accuse(world.pool_id, address, "abuse", FILE)
    docket_id = world.owner.accuse(world.pool_id, address, "abuse", FILE)
    assert world.owner.docket(docket_id).kind is Kind.ACCUSATION
    assert docket_id == accusation_id_of(world.pool_id, address, "abuse", FILE)
    validator.reveal(Answer(docket_id=docket_id, verdict=dataclasses.replace(REJECTED, reason="abuse")))
    assert world.owner.case(docket_id).amount_wei == 4 * ETHER


def test_who_is_not_drawn_is_told_why(world):
    worker, validator = world.member(Role.WORKER), world.member(Role.VALIDATOR)
    submission_id = worker.submit(world.pool_id, 0, 0, [FILE])
    world.wait(2)
    late = world.member(Role.VALIDATOR)
    file = worker.file(worker.recorded(submission_id))
    with pytest.raises(Reverted, match="UnknownDocket"):
        validator.require_drawn(submission_id, validator.account.address)
    with pytest.raises(Reverted, match="WrongRole"):
        worker.require_drawn(submission_id, worker.account.address, file=file)
    with pytest.raises(Reverted, match="JoinedTooLate"):
        late.require_drawn(submission_id, late.account.address, file=file)
    validator.open(file)
    world.wait(TERMS.round_s)  # with two validators for a panel of one, the draw is wide enough then
    validator.require_drawn(submission_id, validator.account.address)
    with pytest.raises(Reverted, match="NotSubmitted"):
        validator.open(dataclasses.replace(file, file_hash=bytes(32)))


def test_submitting_again_is_no_error_and_other_files_are(world):
    worker, pool_id = world.member(Role.WORKER), world.pool_id
    files = [bytes([i + 1]) * 32 for i in range(5)]
    first = worker.submit(pool_id, 0, 0, files[:2])
    assert worker.submit(pool_id, 0, 0, files[:2]) == first
    assert worker.next_counter(pool_id, worker.account.address, 0) == 2
    # Half of these are there already, as after a crash in between.
    second = worker.submit(pool_id, 0, 1, files[1:4])
    assert second == worker.submission_id(pool_id, 0, 1, worker.account.address)
    assert worker.next_counter(pool_id, worker.account.address, 0) == 4
    assert worker.submission(second).file_hash == files[1]
    with pytest.raises(Reverted, match=r"WrongCounter\(1, 4\)"):
        worker.submit(pool_id, 0, 1, [files[0]])
    with pytest.raises(Reverted, match=r"WrongCounter\(5, 4\)"):
        worker.submit(pool_id, 0, 5, [files[4]])
    with pytest.raises(Reverted, match="BadBatchSize"):
        worker.submit(pool_id, 0, 4, [])
    assert worker.submission(bytes(32)) is None


@pytest.mark.parametrize("seed", range(3))
def test_every_files_proof_is_what_the_contract_takes(world, seed):
    rng = random.Random(seed)
    sizes = [rng.randint(1, 40), 1, 2, 3, 256 if seed == 0 else rng.randint(1, 20)]
    print(f"seed {seed}, batches of {sizes}")
    worker, first = world.member(Role.WORKER), 0
    for size in sizes:
        hashes = [rng.randbytes(32) for _ in range(size)]
        submission_id = worker.submit(world.pool_id, seed, first, hashes)
        ids = [worker.submission_id(world.pool_id, seed, first + i, worker.account.address) for i in range(size)]
        leaves = [leaf_of(i, h) for i, h in zip(ids, hashes, strict=True)]
        assert worker._read("RunLedger", "getBatch", submission_id)[0] == root_of(leaves)
        block = worker.recorded(submission_id).block
        for i in sorted(rng.sample(range(size), min(size, 6))):
            file = worker.file(worker.recorded(ids[i], block=block))
            assert (file.first_counter, file.counter, file.file_hash) == (first, first + i, hashes[i])
            args = (file.pool_id, file.node, file.step, file.first_counter, file.counter, file.file_hash)
            found, batch = worker._read("RunLedger", "requireSubmitted", (*args, list(file.proof)))
            assert (found, batch[3]) == (ids[i], size)
        first += size


def test_commitments_and_ids_equal_the_contracts(world):
    account, deployment = world.owner.account, world.deployment
    salt = commitment_salt(FILE, deployment, account)
    assert salt == commitment_salt(FILE, deployment, account)
    assert salt != commitment_salt(bytes(32), deployment, account)
    assert salt != commitment_salt(FILE, dataclasses.replace(deployment, salt=bytes(32)), account)
    verdict = (1, 7, bytes(32), FILE)
    theirs = world.owner._read("Court", "commitmentOf", FILE, account.address, verdict, salt)
    assert commitment_of(FILE, account.address, ACCEPTED, salt) == theirs
    assert appeal_id_of(FILE) != FILE


def test_whoever_is_drawn_comes_first_in_the_draws_order(chain, deployment, owner):
    world = make_world(chain, deployment, owner, dataclasses.replace(TERMS, quorum=2, panel=2))
    worker = world.member(Role.WORKER)
    judges = [world.member(Role.VALIDATOR) for _ in range(7)]
    addresses = [judge.account.address for judge in judges]
    sizes = set()
    for step in range(6):
        submission_id = worker.submit(world.pool_id, step, 0, [FILE])
        recorded = worker.recorded(submission_id)
        file = worker.file(recorded)
        drawn = set()
        for judge in judges:
            with contextlib.suppress(Reverted):  # NotDrawn
                judge.require_drawn(submission_id, judge.account.address, file=file)
                drawn.add(judge.account.address)
        order = worker.draw_order(submission_id, addresses, block=recorded.block)
        assert sorted(order) == sorted(addresses)
        assert set(order[: len(drawn)]) == drawn
        sizes.add(len(drawn))
        first = next((judge for judge in judges if judge.account.address == order[0]), None)
        if drawn:  # the court keeps the seed from the first commitment on
            first.commit(Answer(docket_id=submission_id, verdict=ACCEPTED, file=file))
            assert worker.draw_order(submission_id, addresses, block=recorded.block) == order
    assert len(sizes) > 1
    with pytest.raises(LedgerError, match="no block"):
        worker.draw_order(bytes(32), addresses, block=10**9)
