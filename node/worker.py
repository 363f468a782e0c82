"""The worker: read the run state, solve the dictated problems with the newest policy, hand in, record, repeat.

What it has generated (see `node.generation`) is handed in and recorded exactly once, also across restarts: the outbox
keeps it until its outcome is known, the ledger knows the next counter and takes no other. What was made before an
ejection waits for the next invite.
"""

from __future__ import annotations

import logging
from pathlib import Path

import trio

from ledger.client import Ledger
from ledger.errors import Reverted
from node.chain import on_chain
from node.child import ChildDied, ChildError, ChildTimeout
from node.errors import UserError
from node.generation import Generation
from node.handover import hand_over
from node.intent import Intent
from node.keeper import keep_running
from node.membership import Admission, raise_if_blacklisted
from node.order_desk import OrderDesk
from node.outbox import Item, Outbox
from node.place import Place
from node.policies import Policies
from node.pulse import Pulse
from node.show import tokens
from node.spans import Activity, span

log = logging.getLogger(__name__)
LOOK_S = 1.0


async def run(
    place: Place, policies: Policies, admission: Admission, intent: Intent, pulse: Pulse, desk: OrderDesk
) -> None:
    """Work until cancelled, or until told to drain and everything is handed in. Raises Blacklisted."""
    outbox = Outbox(place.state, place.data_dir / "submissions")
    generation = Generation(place, policies, outbox, intent, pulse)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: policies.follow(behind=0))
        nursery.start_soon(_hand_in, place, admission, outbox)
        await _generate(generation, intent, desk)
        while outbox.unsent():
            await outbox.changed()
        nursery.cancel_scope.cancel()


async def _generate(generation: Generation, intent: Intent, desk: OrderDesk) -> None:
    """Keep an engine at work, started again whenever it failed or the manager asks for it, until told to drain."""
    async with trio.open_nursery() as nursery:

        async def stop_between_submissions() -> None:
            await intent.wait_draining()
            while generation.solving:
                await trio.sleep(LOOK_S)
            nursery.cancel_scope.cancel()

        nursery.start_soon(stop_between_submissions)
        faults = (ChildDied, ChildError, ChildTimeout)
        await keep_running(generation.run, desk, faults=faults, told="the engine failed, starting it again")


async def _hand_in(place: Place, admission: Admission, outbox: Outbox) -> None:
    """Hand each finished file to a relay, then record it; a file whose step has passed is still recorded (late)."""
    ledger, pool_id, address = place.ledger, place.pool_id, place.address

    async def to_relay(path: Path) -> bytes:
        return await hand_over(
            ledger, place.peer, place.network, path,
            pool_id=pool_id, address=address, timeout_s=place.config.network.request_timeout_s,
        )  # fmt: skip

    async def record(item: Item) -> bool:
        if not await _record(ledger, admission, pool_id, item, address):
            return False
        log.info("handed in submission %d of step %d", item.counter, item.step)
        place.metrics.write("submitted", step=item.step, counter=item.counter, file_hash=item.sha256.hex())
        return True

    while True:
        for item in outbox.unsent():
            with span(place.metrics, Activity.UPLOADING, item.step):
                await outbox.send(item, hand_over=to_relay, record=record)
        if not outbox.unsent():
            await outbox.changed()


async def _record(ledger: Ledger, admission: Admission, pool_id: int, item: Item, address: str) -> bool:
    """Put the file on the ledger, as soon as this node is a member; False if it is refused.

    Raises Blacklisted, and UserError where its stake does not suffice: its staker has taken out some of it.
    """
    while True:
        try:
            await on_chain(ledger.submit, pool_id, item.step, item.counter, [item.sha256])
        except Reverted as fault:
            raise_if_blacklisted(await on_chain(ledger.member, pool_id, address), pool_id)
            if fault.error_name == "StakeTooLow":
                _, at_work_wei, needed_wei = fault.arguments
                missing = tokens(needed_wei - at_work_wei).replace(",", "")
                raise UserError(
                    f"the ledger takes no work of {address}: {tokens(at_work_wei)} tokens are at stake for it, where "
                    f"{tokens(needed_wei)} have to be; what is finished waits on the disk",
                    fix=f"put tokens to work with `intellect-node stake deposit {missing} --node {address}`, "
                    "then start again",
                ) from fault
            if fault.error_name != "NotActiveMember":
                log.error("the ledger refused submission %d of step %d: %s", item.counter, item.step, fault)
                return False
            log.warning("this node is no member at the moment: its work waits until it is invited again")
            await admission.wait()
        else:
            return True
