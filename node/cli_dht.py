"""The commands `intellect-node dht …`: what the DHT holds for a run, as a passing client sees it."""

from __future__ import annotations

from typing import Any

import click

from node.cli_options import HASH, ChainChoice, join_option, json_option, with_chain
from node.errors import UserError
from node.show import facts, plain, rows


@click.group()
def dht() -> None:
    """Look into the run's DHT: its keys, the records under one, and who serves some content.

    \b
    Example:
      intellect-node dht keys --config run.toml --join /ip4/127.0.0.1/tcp/4002/p2p/Qm…
    """


@dht.command("keys")
@with_chain
@join_option
@json_option
def keys(chain: ChainChoice, join: tuple[str, ...], as_json: bool) -> None:
    """List the run's keys with the number of records under each. A DHT cannot list all keys; these are the known ones.

    Nodes lie under sixteen keys, by the last digit of their address; those that hold some are shown.

    \b
    Example:
      intellect-node dht keys --config run.toml --join /ip4/127.0.0.1/tcp/4002/p2p/Qm…
    """
    found = _ask(chain, join, _keys)
    rows(found, ("what", "records", "key"), as_json=as_json, empty="no keys")


@dht.command("get")
@click.argument("key")
@with_chain
@join_option
@json_option
def get(key: str, chain: ChainChoice, join: tuple[str, ...], as_json: bool) -> None:
    """Print the valid records under KEY: who signed each, what it says, when it expires.

    \b
    Example:
      intellect-node dht get 5f…/run-state --config run.toml --join /ip4/127.0.0.1/tcp/4002/p2p/Qm…
    """

    async def look(ledger: Any, network: Any, pool_id: int) -> list[dict[str, Any]]:
        return [_shown(record) for record in await network.lookup(key)]

    found = _ask(chain, join, look)
    if as_json or not found:
        rows(found, (), as_json=as_json, empty="no records under this key")
        return
    for record in found:
        facts(record, as_json=False)
        click.echo()


@dht.command("providers")
@click.argument("content", type=HASH)
@with_chain
@join_option
@json_option
def providers(content: bytes, chain: ChainChoice, join: tuple[str, ...], as_json: bool) -> None:
    """List who serves CONTENT: the hash of a submission's file, or of a checkpoint's manifest.

    \b
    Example:
      intellect-node dht providers 9c01…e7 --config run.toml --join /ip4/127.0.0.1/tcp/4002/p2p/Qm…
    """

    async def look(ledger: Any, network: Any, pool_id: int) -> list[dict[str, Any]]:
        from dht.keys import provider_key

        return [_shown(record) for record in await network.lookup(provider_key(ledger.run_id(pool_id), content))]

    rows(_ask(chain, join, look), ("subject", "bulk_url", "expires_unix_s"), as_json=as_json, empty="nobody serves it")


async def _keys(ledger: Any, network: Any, pool_id: int) -> list[dict[str, Any]]:
    import trio

    from dht.keys import node_keys, provider_key, run_state_key

    run_id = ledger.run_id(pool_id)
    known = {f"nodes …{key[-1]}": key for key in node_keys(run_id)} | {"run state": run_state_key(run_id)}
    newest = await trio.to_thread.run_sync(ledger.latest_checkpoint, pool_id)
    for version in range(max(0, newest.version - 4), newest.version + 1) if newest else ():
        checkpoint = await trio.to_thread.run_sync(ledger.checkpoint, pool_id, version)
        known[f"providers of policy {version}"] = provider_key(run_id, checkpoint.manifest_hash)
    found = [{"what": what, "key": key, "records": len(await network.lookup(key))} for what, key in known.items()]
    return [row for row in found if row["records"] or not row["what"].startswith("nodes")]


def _shown(record: Any) -> dict[str, Any]:
    body = plain(record.content)
    signed = {"kind": record.kind, "subject": record.subject, "sequence": record.sequence}
    return signed | {"expires_unix_s": record.expires_unix_s} | {name: body[name] for name in body if name != "address"}


def _ask(chain: ChainChoice, join: tuple[str, ...], look: Any) -> Any:
    """What `look(ledger, network, pool_id)` finds, asked by a client that announces nothing."""
    import trio

    from node.peers import passing_client

    if not join:
        raise UserError("no peer to ask", fix="give --join a multiaddr of any node (its data folder has it in `join`)")
    config = chain.config()

    async def run() -> Any:
        async with passing_client(config, join) as (ledger, network):
            return await look(ledger, network, config.ledger.pool_id)

    return trio.run(run)
