"""Decides how signed records live in hivemind's Kademlia.

One dictionary per key, one subkey per subject, validated both ways. The node's validator runs on every store that a
peer asks for and on every value a peer returns; of a dictionary the valid entries are taken. It refuses to sign, to
publish again by itself, and to stay alone: while the routing table is empty and bootstrap peers are known, it dials
them again. All times are the network's (`DHT_CLOCK`): while it is alone it takes that time from the bootstrap peers,
afterwards from its owner only.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
from collections.abc import Container, Sequence
from pathlib import Path

from dht.admission import EVERYBODY
from dht.clock import AGREE_S, ClockSample, ClockVerdict, clock_sample, judge_clock
from dht.directory import PublishRefused, newest
from dht.lean_hivemind import (
    DHT_CLOCK,
    DHTID,
    P2P,
    ControlFailure,
    DHTNode,
    DHTRecord,
    DictionaryDHTValue,
    MSGPackSerializer,
    Multiaddr,
    PeerID,
    PingRequest,
    RecordValidatorBase,
    ValidationError,
)
from dht.records import Authority, RecordInvalid, SignedRecord, encode_record, open_record, storage_time
from dht.signing import RecordDomain

STARTUP_TIMEOUT_S = 60  # P2P.md: slow under load
RPC_TIMEOUT_S = 3.0
BOOTSTRAP_RETRY_FIRST_S, BOOTSTRAP_RETRY_LAST_S = 1.0, 30.0
TABLE_CHECK_S = 10.0
IDENTITY_FILE = "dht-identity.key"

log = logging.getLogger(__name__)


class RecordValidator(RecordValidatorBase):
    """hivemind's hook: whether a (key, subkey, value, expiration) may be stored or believed.

    `authority` may be replaced, and who is `admitted` may change, at any time.
    """

    def __init__(self, *, domain: RecordDomain, authority: Authority, admitted: Container[str]) -> None:
        self._domain, self.authority, self.admitted = domain, authority, admitted

    def validate(self, record: DHTRecord) -> bool:
        """True only for a valid record under its own key and subject, with the expiration its signature fixes."""
        try:
            value = MSGPackSerializer.loads(record.value) if len(record.value) < 2**16 else None
            if not isinstance(value, bytes):
                return False
            now_s = DHT_CLOCK.now_s()
            signed = open_record(
                value, domain=self._domain, authority=self.authority, admitted=self.admitted, now_unix_s=now_s
            )
        except RecordInvalid as error:
            log.info("refused a record: %s", error.reason)
            return False
        except Exception as error:  # decode edge: msgpack's many types on a hostile value
            log.info("refused an unreadable value: %r", error)
            return False
        return (
            record.key == DHTID.generate(source=signed.key).to_bytes()
            and record.subkey == MSGPackSerializer.dumps(signed.subject)
            and record.expiration_time == storage_time(signed)
        )

    def sift(self, key: bytes, dictionary: DictionaryDHTValue) -> bool:
        """In place of hivemind's rule, by which one bad entry makes its dictionary unseen: here only the entry is.

        Two nodes read the ledger seconds apart, and so do not admit the same addresses at every moment.
        """
        with dictionary.freeze():
            for subkey, (value, expiration_time) in list(dictionary.items()):
                if not self.validate(DHTRecord(key, MSGPackSerializer.dumps(subkey), value, expiration_time)):
                    del dictionary[subkey]
        return True


class KademliaDirectory:
    """Directory over a running hivemind node; create with `open`, end with `close`. One asyncio loop only."""

    def __init__(
        self, node: DHTNode, *, domain: RecordDomain, validator: RecordValidator, bootstrap: Sequence[str],
        chain_clock: ClockSample | None = None,
    ) -> None:  # fmt: skip
        self._node, self._domain, self._validator = node, domain, validator
        self._bootstrap = [Multiaddr(address) for address in bootstrap]
        self._chain_clock = chain_clock
        self.clock_verdict: ClockVerdict | None = None
        self._keeper = asyncio.create_task(self._keep_company()) if bootstrap else None

    @classmethod
    async def open(
        cls, *, domain: RecordDomain, authority: Authority, host: str, port: int, bootstrap: Sequence[str],
        data_dir: Path, chain_clock: ClockSample | None = None, time_is_known: bool = False, client: bool = False,
        admitted: Container[str] = EVERYBODY,
    ) -> KademliaDirectory:  # fmt: skip
        """Starts p2pd on `host`:`port` (0: any).

        The DHT's own key is made once in `data_dir`; dead bootstrap peers do not fail it. `chain_clock` is the
        chain's time minus this machine's: the second opinion on what the bootstrap peers say, and where nobody
        answers and no time is known from before, the only one. A `client` stores and reads but serves no part of the
        table and listens nowhere: no other node has it in its table or can learn its address.
        """
        identity = data_dir / IDENTITY_FILE
        if not identity.exists():
            temporary = identity.with_suffix(".new")
            temporary.unlink(missing_ok=True)
            P2P.generate_identity(str(temporary))
            os.replace(temporary, identity)
        p2p = await P2P.create(
            host_maddrs=None if client else [f"/ip4/{host}/tcp/{port}"], no_listen=client,
            dht_mode="client" if client else "server", identity_path=str(identity), check_if_identity_free=False,
            startup_timeout=STARTUP_TIMEOUT_S, auto_nat=False, nat_port_map=False, use_relay=False,
        )  # fmt: skip
        validator = RecordValidator(domain=domain, authority=authority, admitted=admitted)
        node = await DHTNode.create(
            p2p=p2p, node_id=DHTID.generate(source=p2p.peer_id.to_bytes()), wait_timeout=RPC_TIMEOUT_S,
            cache_locally=False, cache_on_store=False, cache_nearest=0, reuse_get_requests=False,
            record_validator=validator, client_mode=client,
        )  # fmt: skip
        node.protocol._validate_dictionary = validator.sift
        self = cls(node, domain=domain, validator=validator, bootstrap=bootstrap, chain_clock=chain_clock)
        if not time_is_known:
            self._take_time(())
        if bootstrap and not await self._join():
            log.warning("no bootstrap peer answered (%s); retrying with back-off", ", ".join(bootstrap))
        return self

    @property
    def peers(self) -> int:
        """Other nodes in the routing table."""
        return len(self._node.protocol.routing_table.uid_to_peer_id)

    @property
    def table(self) -> list[str]:
        """The peer ids in the routing table, which is what this node tells others of."""
        return sorted(str(peer_id) for peer_id in self._node.protocol.routing_table.peer_id_to_uid)

    @property
    def peer_id(self) -> str:
        """Of the DHT's own key, which no record names."""
        return str(self._node.peer_id)

    @property
    def authority(self) -> Authority:
        """Whose run state is stored and believed."""
        return self._validator.authority

    @authority.setter
    def authority(self, authority: Authority) -> None:
        self._validator.authority = authority

    async def multiaddrs(self) -> list[str]:
        """Addresses that others may give as bootstrap peers; none of a client."""
        if self._node.protocol.client_mode:
            return []
        return [str(address) for address in await self._node.get_visible_maddrs()]

    async def publish(self, record: SignedRecord) -> None:
        """See Directory; raises RecordInvalid, PublishRefused."""
        data = encode_record(record)
        now_s = DHT_CLOCK.now_s()
        record = open_record(
            data, domain=self._domain, authority=self.authority, admitted=self._validator.admitted, now_unix_s=now_s
        )
        until = storage_time(record)
        taken = await self._node.store(record.key, data, until, subkey=record.subject, exclude_self=True)
        if not taken and self.peers:
            # hivemind answers with the last replica's word, and a replica that already got this very record says no
            kept = {found.subject: found.sequence for found in await self.lookup(record.key)}.get(record.subject, -1)
            if kept > record.sequence:
                raise PublishRefused(f"a newer {record.kind} record of {record.subject} is kept")
            taken = kept == record.sequence
        # A client is asked by nobody: what it kept itself would tell nothing.
        if not self._node.protocol.client_mode:
            place, value = DHTID.generate(source=record.key), MSGPackSerializer.dumps(data)
            kept_here = self._node.protocol.storage.store(place, value, until, subkey=record.subject)
            taken = taken or kept_here
        if not taken:
            raise PublishRefused(f"no node would store the {record.kind} record of {record.subject}")

    async def lookup(self, *keys: str) -> tuple[SignedRecord, ...]:
        """See Directory; asks the nearest nodes, never a cache."""
        found = await asyncio.gather(*map(self._under, keys))
        return tuple(record for records in found for record in records)

    async def _under(self, key: str) -> tuple[SignedRecord, ...]:
        # One key a question, since all that answers one has to fit in one message. And never is an answer good enough
        # to ask nobody else (nothing reaches NaN): how long its dictionary lives is a peer's own claim.
        found = (await self._node.get_many([key], sufficient_expiration_time=math.nan))[key]
        if found is None or not isinstance(found.value, dict):
            return ()
        values = [item.value for item in found.value.values()]
        now_s = DHT_CLOCK.now_s()
        return newest(
            key, values, domain=self._domain, authority=self.authority, admitted=self._validator.admitted,
            now_unix_s=now_s,
        )  # fmt: skip

    async def close(self) -> None:
        """Stops the node and its p2pd."""
        if self._keeper is not None:
            self._keeper.cancel()
        await self._node.shutdown()
        await self._node.p2p.shutdown()

    async def _join(self) -> bool:
        """Dials the bootstrap peers missing from the table; True when none is missing (two groups never stay apart)."""
        table = self._node.protocol.routing_table
        missing = [address for address in self._bootstrap if PeerID.from_base58(address["p2p"]) not in table]
        if not self.peers:
            samples = await asyncio.gather(*map(self._ask_clock, missing))
            if told := [sample for sample in samples if sample is not None]:
                self._take_time(told)
        dialled = await asyncio.gather(*(self._dial(address) for address in missing))
        if any(dialled):
            await self._node.find_nearest_nodes([self._node.node_id])
        return all(dialled)

    async def _dial(self, address: Multiaddr) -> bool:
        peer_id = PeerID.from_base58(address["p2p"])
        if peer_id == self._node.peer_id:
            return True
        try:
            await self._connect(address)
            return await self._node.protocol.call_ping(peer_id, validate=True, strict=True) is not None
        except (ControlFailure, TimeoutError, ValidationError) as error:
            log.info("bootstrap peer %s: %r", address, error)
            return False

    async def _connect(self, address: Multiaddr) -> None:
        transport = Multiaddr(str(address).rsplit("/p2p/", 1)[0])
        connect = self._node.protocol.p2p._client.connect(PeerID.from_base58(address["p2p"]), [transport])
        await asyncio.wait_for(connect, RPC_TIMEOUT_S)

    async def _ask_clock(self, address: Multiaddr) -> ClockSample | None:
        """By a ping that names nobody: who asks is not yet to be found."""
        peer_id = PeerID.from_base58(address["p2p"])
        if peer_id == self._node.peer_id:
            return None
        try:
            await self._connect(address)
            sent_unix_s = DHT_CLOCK.wall_s()
            reply = await self._node.protocol.get_stub(peer_id).rpc_ping(PingRequest(), timeout=RPC_TIMEOUT_S)
        except Exception as error:  # hivemind's calls to peers raise unrelated types; the dial after this one names it
            log.info("bootstrap peer %s does not tell its time: %r", address, error)
            return None
        if not reply.dht_time > 0:
            return None
        return clock_sample(sent_unix_s=sent_unix_s, theirs_unix_s=reply.dht_time, received_unix_s=DHT_CLOCK.wall_s())

    def _take_time(self, samples: Sequence[ClockSample]) -> None:
        self.clock_verdict = verdict = judge_clock(samples, self._chain_clock)
        if abs(verdict.offset_s - DHT_CLOCK.offset_s) > AGREE_S / 2:
            log.warning("this machine's clock is corrected by %+.2f s (%s)", verdict.offset_s, verdict.source)
            DHT_CLOCK.correct(verdict.offset_s)

    async def _keep_company(self) -> None:
        delay_s = BOOTSTRAP_RETRY_FIRST_S
        while True:
            await asyncio.sleep(delay_s)
            if await self._join():
                delay_s = TABLE_CHECK_S
                continue
            delay_s = min(2 * delay_s, BOOTSTRAP_RETRY_LAST_S)
            if not self.peers:
                log.warning("alone in the directory: no bootstrap peer answers; next attempt in %.0f s", delay_s)
