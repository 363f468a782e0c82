"""What happened in a pool's run: checkpoints, and submissions in batches.

Decides which of a batch's files the ledger still lacks, and a file's Merkle proof. `RunLedger` decides the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

import eth_abi
from eth_utils import keccak

from ledger.abi import topic_of
from ledger.account import Account
from ledger.chain import MAX_BLOCKS_PER_READ, Chain
from ledger.errors import LedgerError, Reverted
from ledger.events import SubmissionRecorded
from ledger.merkle import leaf_of, proof_of
from ledger.types import Checkpoint, File, Submission


def submission_id_of(pool_id: int, step: int, counter: int, node: str) -> bytes:
    """Equal to `RunLedger.submissionIdOf`."""
    return keccak(eth_abi.encode(["uint256", "uint64", "uint32", "address"], [pool_id, step, counter, node]))


class RunReader(Chain):
    """Checkpoints and submissions as they were recorded."""

    def latest_checkpoint(self, pool_id: int) -> Checkpoint | None:
        count = self._read("RunLedger", "checkpointCount", pool_id)
        return self.checkpoint(pool_id, count - 1) if count else None

    def checkpoint(self, pool_id: int, version: int) -> Checkpoint | None:
        try:
            manifest_hash, block, epoch = self._read("RunLedger", "getCheckpoint", pool_id, version)
        except Reverted as error:
            if error.error_name == "UnknownCheckpoint":
                return None
            raise
        return Checkpoint(version=version, manifest_hash=manifest_hash, block=block, epoch=epoch)

    def submission_id(self, pool_id: int, step: int, counter: int, node: str) -> bytes:
        return submission_id_of(pool_id, step, counter, node)

    def next_counter(self, pool_id: int, node: str, step: int) -> int:
        """The only counter that `node` may submit next for `step`; all below it are recorded."""
        return self._read("RunLedger", "nextCounter", pool_id, node, step)

    def recorded(self, submission_id: bytes, *, block: int | None = None) -> SubmissionRecorded | None:
        """The submission's event. Found at once where its block is known, else searched from the newest backwards."""
        topics = (topic_of("RunLedger", "SubmissionRecorded"), None, f"0x{submission_id.hex()}")
        if block is not None:
            return next(iter(self._events(block, block, "RunLedger", *topics)), None)
        end = self.block_number
        while end >= self.deployment.block:
            start = max(self.deployment.block, end - MAX_BLOCKS_PER_READ + 1)
            if found := self._events(start, end, "RunLedger", *topics):
                return found[0]
            end = start - 1
        return None

    def file(self, recorded: SubmissionRecorded | Submission) -> File:
        """The submission with its proof, made from the events of its batch."""
        node, step, block = recorded.node, recorded.step, recorded.block
        topics = (topic_of("RunLedger", "SubmissionRecorded"), f"0x{recorded.pool_id:064x}", None, _padded(node))
        beside = [event for event in self._events(block, block, "RunLedger", *topics) if event.step == step]
        while beside:
            batch = self._batch(beside[0])
            leaves = [leaf_of(event.submission_id, event.file_hash) for event in beside[: batch or 1]]
            index = recorded.counter - beside[0].counter
            if batch and index < batch:
                return File(
                    pool_id=recorded.pool_id, node=node, step=step, first_counter=beside[0].counter,
                    counter=recorded.counter, file_hash=recorded.file_hash, proof=proof_of(leaves, index),
                )  # fmt: skip
            beside = beside[batch or 1 :]
        raise LedgerError(f"submission {recorded.submission_id.hex()} is in no batch of block {block}")

    def _batch(self, first: SubmissionRecorded) -> int:
        """How many files the batch that begins with this one has."""
        return self._read("RunLedger", "getBatch", first.submission_id)[3]


class RunWriter(RunReader, Account):
    """Checkpoints by the manager, submissions by workers."""

    def announce_checkpoint(self, pool_id: int, version: int, manifest_hash: bytes) -> int:
        """By the manager; returns the block. Announcing the same version and hash again is no error."""
        try:
            return self._write("RunLedger", "announceCheckpoint", pool_id, version, manifest_hash).block
        except Reverted as error:
            done = self.checkpoint(pool_id, version) if error.error_name == "WrongVersion" else None
            if done and done.manifest_hash == manifest_hash:
                return done.block
            raise

    def submit(self, pool_id: int, step: int, first_counter: int, file_hashes: Sequence[bytes]) -> bytes:
        """By a worker: the SHA-256 of its next files for this step. Returns the first one's submission id.

        What the ledger already has under these counters is not submitted again. Raises `Reverted("WrongCounter")` where
        it has something else there, or lacks an earlier counter; NotActiveMember, PoolNotActive and so on.
        """
        node = self._sender.address
        ids = [submission_id_of(pool_id, step, first_counter + i, node) for i in range(len(file_hashes))]
        expected = self.next_counter(pool_id, node, step)
        done = min(max(0, expected - first_counter), len(ids))
        for submission_id, file_hash in zip(ids[:done], file_hashes[:done], strict=True):
            recorded = self.recorded(submission_id)
            if recorded is None or recorded.file_hash != file_hash:
                raise Reverted("WrongCounter", (first_counter, expected))
        if done < len(ids) or not ids:
            self._write("RunLedger", "submit", pool_id, step, first_counter + done, list(file_hashes[done:]))
        return submission_id_of(pool_id, step, first_counter, node)


def _padded(address: str) -> str:
    return f"0x{int(address, 16):064x}"
