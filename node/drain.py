"""`intellect-node drain`: have a node leave its pool, or pause it, from the folder that it runs in.

Decides whom to ask: a running node finishes what it has and leaves by itself; where none runs, the command leaves on
the ledger in its place. It refuses to end a process, and to leave a pool of which the wallet is no member.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from eth_account.signers.local import LocalAccount

from ledger.errors import LedgerError
from node.config import RunConfig
from node.errors import UserError
from node.folder_lock import alone_in
from node.intent import Wish, read_wish, write_wish
from node.run_ledger import open_ledger
from node.show import moment, tokens
from node.state import FILE as STATE_FILE
from node.state import NodeState

LOOK_S = 0.5


def set_pause(data_dir: Path, *, paused: bool) -> str:
    """Have the node take no new work, or go on; what to tell its owner. Raises UserError.

    One that ended before it had left goes on as well: a running node alone does not return from draining.
    """
    _check(data_dir)
    with alone_in(data_dir) as alone:
        if read_wish(data_dir) is Wish.DRAIN and (paused or not alone):
            fix = "have it go on, with --resume" if alone else "wait until it has left, then start it again"
            raise UserError(f"the node in {data_dir} is to drain", fix=fix)
        write_wish(data_dir, Wish.PAUSE if paused else Wish.WORK)
        word = "takes no new work" if paused else "takes work again"
        return f"the node in {data_dir} {word}" + (" once it is started; none runs there now" if alone else "")


def drain(
    data_dir: Path,
    open_account: Callable[[], tuple[RunConfig, LocalAccount]],
    *,
    timeout_s: float,
    tell: Callable[[str], None],
) -> None:
    """Returns once the node in `data_dir` has left its pool. Raises UserError.

    `open_account` gives config and wallet; it is called only where no node runs that could leave by itself.
    """
    _check(data_dir)
    with alone_in(data_dir) as alone:
        if not alone:
            write_wish(data_dir, Wish.DRAIN)
    if not alone:
        tell("asked the node to finish its work, hand it in and leave")
        _wait_for_end(data_dir, timeout_s)
        if read_wish(data_dir) is Wish.WORK:
            tell("it has left the pool")
            return
        tell("the node ended before it had left; leaving in its place")
    with alone_in(data_dir) as alone:
        if not alone:
            raise UserError(f"a node was started in {data_dir} meanwhile", fix="run drain again")
        tell(_leave(data_dir, *open_account()))
        write_wish(data_dir, Wish.WORK)


def unbond_all(config: RunConfig, account: LocalAccount) -> str:
    """Start taking out everything that is at work for the wallet's own node; what to tell. Raises UserError."""
    ledger, _ = open_ledger(config, account, None)
    try:
        node = ledger.node(account.address)
        if not node.stake_wei:
            return f"{account.address} has nothing at stake"
        ledger.unbond(account.address, node.stake_wei)
        matures = ledger.node(account.address).matures_unix_s
    except LedgerError as error:
        raise UserError(
            f"the stake stays where it is: {error}", fix="use its staker's wallet: intellect-node stake withdraw"
        ) from error
    finally:
        ledger.close()
    return f"{tokens(node.stake_wei)} tokens can be withdrawn from {moment(matures)} on"


def _check(data_dir: Path) -> None:
    if not data_dir.is_dir():
        raise UserError(f"{data_dir} is no node's folder", fix="name it with --data-dir, as for the node itself")


def _wait_for_end(data_dir: Path, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while True:
        with alone_in(data_dir) as alone:
            if alone:
                return
        if time.monotonic() > deadline:
            raise UserError(
                f"the node has not left within {timeout_s:.0f} s",
                fix="it still drains, see its log; run drain again to wait on",
            )
        time.sleep(LOOK_S)


def _leave(data_dir: Path, config: RunConfig, account: LocalAccount) -> str:
    ledger, pool = open_ledger(config, account, data_dir / "ledger.sqlite")
    try:
        if not ledger.member(pool.pool_id, account.address).active:
            return f"{account.address} is no member of pool {pool.pool_id}; nothing is left to do"
        ledger.leave(pool.pool_id)
    except LedgerError as error:
        raise UserError(f"could not leave pool {pool.pool_id}: {error}", fix="cure what it says, try again") from error
    finally:
        ledger.close()
    return f"{account.address} has left pool {pool.pool_id}{_unsent(data_dir)}"


def _unsent(data_dir: Path) -> str:
    if not (data_dir / STATE_FILE).exists():
        return ""
    with closing(NodeState(data_dir)) as state:
        (count,) = state.connection.execute("SELECT count(*) FROM outbox WHERE stage != 'recorded'").fetchone()
    return f"; {count} finished submissions were never handed in and earn nothing" if count else ""
