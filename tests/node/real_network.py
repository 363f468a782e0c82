"""Opens the real thing: Networks over dhtd children, on loopback. Fixtures of it are in `conftest`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from pathlib import Path

from eth_account.signers.local import LocalAccount

from dht.records import Authority
from dht.signing import RecordDomain
from node.network import Network, NetworkConfig, open_network
from node.state import NodeState
from tests.dht.directory_contract import EPOCH

Opener = Callable[..., AbstractAsyncContextManager[Network]]


def opener_of(accounts: Sequence[LocalAccount], domain: RecordDomain, root: Path) -> Opener:
    """Opens the network of `accounts[number]` in a folder below `root`; the first account's is the manager."""

    @asynccontextmanager
    async def opened(
        number: int, *bootstrap: str, admitted: frozenset[str] | None = None, **options: object
    ) -> AsyncIterator[Network]:
        config = NetworkConfig(bootstrap=bootstrap, chunk_size_bytes=4096, **options)
        (folder := root / str(number)).mkdir(exist_ok=True)
        authority = Authority(manager=accounts[0].address, epoch=EPOCH)
        with closing(NodeState(folder)) as state:
            async with open_network(
                config, account=accounts[number], domain=domain, authority=authority, data_dir=folder, state=state,
                admitted=admitted,
            ) as network:  # fmt: skip
                yield network

    return opened
