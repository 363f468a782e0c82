"""Checkpoints and submissions in batches (`RunLedger`)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from ledger.rules.call import Call, refuse_if
from ledger.rules.members import Members
from ledger.rules.pools import Pools
from ledger.runs import submission_id_of
from ledger.types import PoolState, Role

MAX_BATCH = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A file that was submitted."""

    pool_id: int
    node: str
    file_hash: bytes
    block: int
    time_s: int
    validators: int


class Runs:
    """Of every pool."""

    def __init__(self, pools: Pools, members: Members) -> None:
        self._pools, self._members = pools, members
        self.checkpoints: defaultdict[int, list[tuple[bytes, int]]] = defaultdict(list)
        self.next_counter: Counter[tuple[int, str, int]] = Counter()
        self.submissions: dict[bytes, Recorded] = {}

    def announce_checkpoint(self, call: Call, pool_id: int, version: int, manifest_hash: bytes) -> None:
        self._pools.require_manager(call, pool_id)
        refuse_if(not any(manifest_hash), "ZeroHash")
        refuse_if(version != len(self.checkpoints[pool_id]), "WrongVersion")
        self.checkpoints[pool_id].append((manifest_hash, self._pools.pool(pool_id).epoch))

    def submit(self, call: Call, pool_id: int, step: int, first_counter: int, file_hashes: Sequence[bytes]) -> None:
        """The worker's next files; its address is part of each id, so that nobody can claim them."""
        refuse_if(self._pools.pool(pool_id).state is not PoolState.ACTIVE, "PoolNotActive")
        self._members.require_member(pool_id, call.sender, Role.WORKER)
        refuse_if(not 0 < len(file_hashes) <= MAX_BATCH, "BadBatchSize")
        key = (pool_id, call.sender, step)
        refuse_if(first_counter != self.next_counter[key], "WrongCounter")
        refuse_if(not all(map(any, file_hashes)), "ZeroHash")
        for number, file_hash in enumerate(file_hashes):
            submission_id = submission_id_of(pool_id, step, first_counter + number, call.sender)
            self.submissions[submission_id] = Recorded(
                pool_id=pool_id, node=call.sender, file_hash=file_hash, block=call.block, time_s=call.now_s,
                validators=self._members.count(pool_id, Role.VALIDATOR),
            )  # fmt: skip
        self.next_counter[key] += len(file_hashes)

    def require_submitted(self, submission_id: bytes, file_hash: bytes) -> Recorded:
        recorded = self.submissions.get(submission_id)
        refuse_if(recorded is None or recorded.file_hash != file_hash, "NotSubmitted")
        return recorded
