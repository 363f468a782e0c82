"""The queue under concurrency, crashes, lost answers and stuck transactions; see also test_outages."""

from __future__ import annotations

import threading

import pytest
from eth_account import Account

from ledger.abi import interface
from ledger.errors import ChainUnavailable, NotMined
from ledger.rpc import Rpc
from ledger.transactions import TransactionQueue
from ledger.types import Role

ETHER = 10**18
FILE = b"\7" * 32


class FlakyRpc(Rpc):
    """Loses the answer of, or never sends, the named calls."""

    lose: frozenset[str] = frozenset()
    drop: frozenset[str] = frozenset()
    blind = 0  # so many receipts are not there yet

    def call(self, method: str, *params: object) -> object:
        if method == "eth_getTransactionReceipt" and self.blind:
            self.blind -= 1
            return None
        if method in self.drop:
            raise ChainUnavailable(self.url, "cable cut")
        answer = super().call(method, *params)
        if method in self.lose:
            raise ChainUnavailable(self.url, "answer lost")
        return answer


@pytest.fixture
def funded(world):
    account = Account.create()
    world.owner.transfer_eth(account.address, ETHER)
    return account


def make_queue(world, account, path, **options):
    rpc = FlakyRpc(world.chain.url)
    deployment = world.deployment
    options = {"timeout_s": 0.3} | options
    queue = TransactionQueue(
        rpc, account, chain_id=deployment.chain_id, scope=deployment.salt.hex(), path=path, **options
    )
    return rpc, queue


def domain(name: str) -> bytes:
    return interface("ComputePools").encode("createDomain", name)


def nonce_of(world, account) -> int:
    return int(Rpc(world.chain.url).call("eth_getTransactionCount", account.address, "pending"), 16)


def test_threads_share_one_key(world, in_threads):
    worker = world.member(Role.WORKER)
    calls = [lambda i=i: worker.submit(world.pool_id, i, 0, [FILE]) for i in range(12)]
    ids = in_threads(calls)
    assert len(set(ids)) == 12
    assert all(worker.submission(i) for i in ids)


def test_two_queues_on_one_file_take_turns(world, funded, tmp_path, in_threads):
    queues = [make_queue(world, funded, tmp_path / "q.sqlite", timeout_s=30)[1] for _ in range(3)]
    calls = [lambda q=q, i=i: q.send(world.deployment.pools, domain(f"d{i}")) for i, q in enumerate(queues * 3)]
    in_threads(calls)
    assert nonce_of(world, funded) == 9


def test_a_lost_answer_is_not_sent_twice(world, funded, tmp_path):
    rpc, queue = make_queue(world, funded, tmp_path / "q.sqlite")
    rpc.lose = frozenset({"eth_sendRawTransaction"})
    assert queue.send(world.deployment.pools, domain("once")).block > 0
    assert nonce_of(world, funded) == 1


def test_a_receipt_that_comes_after_its_nonce_is_waited_for(world, funded, tmp_path):
    rpc, queue = make_queue(world, funded, tmp_path / "q.sqlite")
    rpc.blind = 3
    queue.send(world.deployment.pools, domain("lagging"))
    assert rpc.blind == 0
    assert nonce_of(world, funded) == 1


def test_after_a_crash_the_open_transaction_is_adopted(world, funded, tmp_path):
    path = tmp_path / "q.sqlite"
    rpc, queue = make_queue(world, funded, path)
    rpc.drop = frozenset({"eth_sendRawTransaction", "eth_getTransactionReceipt", "eth_chainId"})
    with pytest.raises(ChainUnavailable):
        queue.send(world.deployment.pools, domain("survivor"))
    queue.close()
    assert nonce_of(world, funded) == 0
    _, again = make_queue(world, funded, path)
    again.send(world.deployment.pools, domain("survivor"))
    assert nonce_of(world, funded) == 1
    again.send(world.deployment.pools, domain("survivor"))  # the first is finished: this is a new wish
    assert nonce_of(world, funded) == 2


def test_settle_closes_the_gap_before_anything_else(world, funded, tmp_path):
    rpc, queue = make_queue(world, funded, tmp_path / "q.sqlite")
    rpc.drop = frozenset({"eth_sendRawTransaction", "eth_chainId"})
    with pytest.raises(ChainUnavailable):
        queue.send(world.deployment.pools, domain("first"))
    rpc.drop = frozenset()
    queue.send(world.deployment.pools, domain("second"))
    assert nonce_of(world, funded) == 2


def test_a_nonce_used_by_another_program_is_replaced(world, funded, tmp_path):
    path = tmp_path / "q.sqlite"
    rpc, queue = make_queue(world, funded, path)
    rpc.drop = frozenset({"eth_sendRawTransaction", "eth_chainId"})
    with pytest.raises(ChainUnavailable):
        queue.send(world.deployment.pools, domain("late"))
    make_queue(world, funded, None)[1].send(world.deployment.pools, domain("thief"))
    rpc.drop = frozenset()
    assert queue.send(world.deployment.pools, domain("late")).block > 0
    assert nonce_of(world, funded) == 2


def test_rows_of_another_deployment_are_left_alone(world, funded, tmp_path):
    path = tmp_path / "q.sqlite"
    rpc, queue = make_queue(world, funded, path)
    rpc.drop = frozenset({"eth_sendRawTransaction", "eth_chainId"})
    with pytest.raises(ChainUnavailable):
        queue.send(world.deployment.pools, domain("elsewhere"))
    fresh = TransactionQueue(
        Rpc(world.chain.url), funded, chain_id=world.deployment.chain_id, scope="other salt", path=path
    )
    fresh.settle()
    assert nonce_of(world, funded) == 0


def test_a_stuck_transaction_is_sent_again_with_a_higher_fee(world, funded, tmp_path):
    rpc, queue = make_queue(world, funded, tmp_path / "q.sqlite", timeout_s=30, bump_after_s=0.1)
    control = Rpc(world.chain.url)
    control.call("evm_setAutomine", False)
    bumped, sent = threading.Event(), []

    class Watching(FlakyRpc):
        def call(self, method: str, *params: object) -> object:
            answer = super().call(method, *params)
            if method == "eth_sendRawTransaction":
                sent.append(answer)
                if len(sent) == 2:
                    bumped.set()
            return answer

    queue._rpc = Watching(rpc.url)
    receipts = []
    thread = threading.Thread(
        target=lambda: receipts.append(queue.send(world.deployment.pools, domain("slow"))), daemon=True
    )
    try:
        thread.start()
        assert bumped.wait(20)
    finally:
        control.call("evm_setAutomine", True)
        control.call("evm_mine")
    thread.join(20)
    assert receipts
    assert receipts[0].block > 0
    assert len(set(sent)) >= 2
    assert nonce_of(world, funded) == 1


def test_unmined_in_time_is_said_and_settled_later(world, funded, tmp_path):
    _, queue = make_queue(world, funded, tmp_path / "q.sqlite")
    control = Rpc(world.chain.url)
    control.call("evm_setAutomine", False)
    try:
        with pytest.raises(NotMined):
            queue.send(world.deployment.pools, domain("patience"))
    finally:
        control.call("evm_setAutomine", True)
        control.call("evm_mine")
    queue.settle()
    assert nonce_of(world, funded) == 1
