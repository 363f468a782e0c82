"""The trainer's states on this machine: which there are, who gets them, and which are fetched from the manager.

States travel like policies, as chunks by hash, but only between those who may manage the pool: a trainer serves its
newest while a standby is in the network, and names it in its signed run state; a standby fetches what is named, up to
the size that the policy allows, and serves it too. It reads no state (see `rl.trainer_state`) and trusts none: who
loads one compares it with the policy that it goes with.
"""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import trio

from dht.checkpoint import CheckpointWrong
from dht.manifest import TRAINER_STATE, ManifestInvalid
from dht.plan import ContentUnavailable
from dht.records import NodeRecord
from dht.store import KEEP_STATES, StoreError
from node.child import ChildError
from node.dhtd_link import NetworkDown
from node.network import Network
from node.policies import Policies
from rl.state_files import largest_state_bytes

log = logging.getLogger(__name__)
LOOK_S = 1.0
FETCH_TIMEOUT_S = 600.0
_NAME = re.compile(r"state-([0-9]{1,18})")


class States:
    """The states of one pool's trainer that lie on this disk; own ones are `state-<version>` in `folder`."""

    def __init__(self, network: Network, folder: Path, *, me: str) -> None:
        self._network, self._folder, self._me = network, folder, me
        self._used = trio.Event()
        self._current = -1
        self.folders: dict[int, Path] = {}
        """Version → folder; read only."""
        self.shared = b""
        """Manifest id of the newest state that this trainer serves; empty before the first."""

    async def find(self) -> None:
        """Take up what lies here: own states of earlier processes, and those of other trainers that came whole.

        Of the same version the fetched one counts: the manager of then had named it.
        """
        self.folders = dict(self._own())
        for checkpoint in (await self._network.status())["checkpoints"]:
            if checkpoint["kind"] == TRAINER_STATE and checkpoint["complete"]:
                self.folders[checkpoint["version"]] = Path(checkpoint["folder"])

    def path(self, version: int) -> Path:
        """Where to write the own state that goes with a policy version."""
        return self._folder / f"state-{version}"

    def use(self, version: int) -> None:
        """This state is the training process's now."""
        self._current = version
        self._used.set()

    def made(self, version: int) -> None:
        """The own state of this version is written, and in use; older ones than the one before it go."""
        self.folders[version] = self.path(version)
        for old, path in sorted(self._own())[:-KEEP_STATES]:
            if self.folders.get(old) == path:
                del self.folders[old]
            shutil.rmtree(path, ignore_errors=True)
        self.use(version)

    def drop(self, version: int) -> None:
        """This one does not fit."""
        self.folders.pop(version, None)

    async def share(self, announce: Callable[[], None]) -> NoReturn:
        """Serve the state in use while a standby is there; `announce` says that `shared` is another one."""
        done = -1
        while True:
            await self._used.wait()
            newest = self._current
            if newest == done:
                self._used = trio.Event()
                continue
            try:
                if await self._standby_is_there():
                    self.shared = await self._network.content.publish_checkpoint(
                        self.folders[newest], newest, kind=TRAINER_STATE, link=True
                    )
                    announce()
                    log.info("the trainer's state of policy %d is served to standbys", newest)
                    done = newest
                    continue
            except (NetworkDown, ChildError, StoreError) as fault:
                log.warning("the trainer's state of policy %d is not served yet: %s", newest, fault)
            await trio.sleep(LOOK_S)

    async def follow(self, policies: Policies) -> NoReturn:
        """Fetch each state that the manager's run state names, for ever."""
        seen = b""
        while True:
            try:
                named = await self._network.run_state()
                if named and named.state_hash not in (b"", seen) and policies.folders:
                    await self._fetch(named.state_hash, policies)
                    seen = named.state_hash
            except (ManifestInvalid, CheckpointWrong) as fault:
                log.error("the manager's trainer state is unusable, waiting for the next: %s", fault)
                seen = named.state_hash if named else b""
            except (ContentUnavailable, NetworkDown, ChildError) as fault:
                log.warning("the manager's trainer state is not here yet: %s", fault)
            await trio.sleep(LOOK_S)

    async def _fetch(self, state_hash: bytes, policies: Policies) -> None:
        policy_bytes = sum(path.stat().st_size for path in policies.folders[policies.newest].iterdir())
        await self._network.content.fetch_checkpoint(
            state_hash, timeout_s=FETCH_TIMEOUT_S, kind=TRAINER_STATE, max_bytes=largest_state_bytes(policy_bytes)
        )
        await self.find()
        log.info("the trainer's state of policy %d is here", max(self.folders))

    def _own(self) -> list[tuple[int, Path]]:
        named = [(name, path) for path in self._folder.glob("state-*") if (name := _NAME.fullmatch(path.name))]
        return [(int(name[1]), path) for name, path in named]

    async def _standby_is_there(self) -> bool:
        nodes = [record.content for record in await self._network.nodes()]
        return any(isinstance(n, NodeRecord) and "trainer" in n.roles and n.address != self._me for n in nodes)
