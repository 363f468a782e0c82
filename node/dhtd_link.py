"""Decides how the node keeps its dhtd alive.

Start, restart with back-off and the same ports, and calls that survive one death. It refuses to restart what never
started once (a wrong port or folder does not heal) and to sign or interpret anything.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio

from dht.checkpoint import CheckpointWrong
from dht.delta import DeltaInvalid
from dht.directory import PublishRefused
from dht.manifest import ManifestInvalid
from dht.plan import ContentUnavailable
from dht.records import RecordInvalid
from dht.store import StoreError
from node.child import Child, ChildDied, ChildError, ChildTimeout, open_child

START_TIMEOUT_S = 90.0  # P2P.md: p2pd can be slow under load (60 s), plus imports
CALL_TIMEOUT_S = 30.0
RESTART_FIRST_S, RESTART_LAST_S = 0.5, 30.0
SOURCE_ROOT = Path(__file__).resolve().parent.parent
FEW_THREADS = {  # hivemind imports torch; ENGINE.md: spinning OpenMP teams take the cores of everyone else
    "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "KMP_BLOCKTIME": "0",
    "OMP_WAIT_POLICY": "PASSIVE", "CUDA_VISIBLE_DEVICES": "",
}  # fmt: skip
TYPED = {cls.__name__: cls for cls in (
    RecordInvalid, PublishRefused, ContentUnavailable, CheckpointWrong, DeltaInvalid, ManifestInvalid, StoreError,
)}  # fmt: skip

log = logging.getLogger(__name__)


class NetworkDown(Exception):
    """dhtd is not running and did not come back in time; it is being restarted, so a later try may succeed."""


class NetworkStartFailed(Exception):
    """dhtd could not start the first time.

    Waiting does not help (port taken, data dir not writable, broken installation).
    """


class DhtdLink:
    """The dhtd child of one node.

    `params` are those of dhtd's `start`, `fresh_params()` those that change meanwhile; `on_start` gets its result
    after every (re)start.
    """

    def __init__(
        self, params: dict[str, Any], *, data_dir: Path, on_start: Callable[[dict[str, Any]], None],
        fresh_params: Callable[[], dict[str, Any]] = dict,
    ) -> None:  # fmt: skip
        self._params, self._on_start, self.log_path = dict(params), on_start, data_dir / "dhtd.log"
        self._fresh_params = fresh_params
        self._child: Child | None = None
        self._up = trio.Event()

    @property
    def pid(self) -> int | None:
        """Process id of the running child, or None."""
        return None if self._child is None else self._child.pid

    def remember(self, **params: Any) -> None:
        """Start dhtd with these of `start`'s parameters from its next restart on."""
        self._params |= params

    async def call(self, method: str, *, timeout_s: float = CALL_TIMEOUT_S, **params: Any) -> Any:
        """Calls dhtd.

        Every handler is idempotent, so a call that dies with the child is made once more after the restart.
        Raises the dht package's own errors, ChildError for others, NetworkDown when there is no answer within
        `timeout_s`.
        """
        deadline = trio.current_time() + timeout_s
        for attempt in (1, 2):
            with trio.move_on_at(deadline):
                await self._up.wait()
            if self._child is None:
                raise NetworkDown(f"dhtd did not come up within {timeout_s:.0f} s; see {self.log_path}")
            try:
                return await self._child.call(method, timeout_s=max(0.0, deadline - trio.current_time()), **params)
            except ChildDied as error:
                if attempt == 2:
                    raise NetworkDown(f"dhtd died twice during {method}") from error
                self._down()
            except ChildTimeout as error:
                raise NetworkDown(str(error)) from error
            except ChildError as error:
                if error.kind in TYPED:
                    raise TYPED[error.kind](error.message) from None
                raise
        raise AssertionError("unreachable")

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keeps dhtd running until cancelled. Raises NetworkStartFailed if the first start fails."""
        delay_s, started_once = RESTART_FIRST_S, False
        while True:
            try:
                async with open_child(
                    [sys.executable, "-m", "node.dhtd"], name="dhtd", log_path=self.log_path, env=_environment()
                ) as child:
                    result = await child.call(
                        "start", timeout_s=START_TIMEOUT_S, **self._params, **self._fresh_params()
                    )
                    self._keep_ports(result)
                    self._child = child
                    self._up.set()
                    self._on_start(result)
                    if not started_once:
                        started_once = True
                        task_status.started()
                    delay_s = RESTART_FIRST_S
                    death = await child.wait_died()
                log.warning("%s; restarting in %.1f s", death, delay_s)
            except (ChildDied, ChildError, ChildTimeout, OSError) as error:
                if not started_once:
                    raise NetworkStartFailed(f"dhtd cannot start: {error}") from error
                log.warning("dhtd did not restart: %s; next attempt in %.1f s", error, delay_s)
            self._down()
            await trio.sleep(delay_s)
            delay_s = min(2 * delay_s, RESTART_LAST_S)

    def _down(self) -> None:
        self._child = None
        if self._up.is_set():
            self._up = trio.Event()

    def _keep_ports(self, result: dict[str, Any]) -> None:
        """A restarted dhtd listens where others already look for it."""
        if result["bulk_url"]:
            self._params["bulk_port"] = int(result["bulk_url"].rsplit(":", 1)[1])
        if result["multiaddrs"]:
            self._params["dht_port"] = int(result["multiaddrs"][0].split("/tcp/")[1].split("/")[0])


def _environment() -> dict[str, str]:
    paths = [str(SOURCE_ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**FEW_THREADS, "PYTHONPATH": os.pathsep.join(paths)}
