"""The ledger of a run: from the config's [ledger] section to a checked connection, and back.

Decides what makes that section usable, and what a person is told where chain, deployment or pool are not what it says.
It sends nothing and holds no key.
"""

from __future__ import annotations

from pathlib import Path

from eth_account.signers.local import LocalAccount

from dht.signing import RecordDomain
from ledger.client import Ledger
from ledger.deployment import Deployment
from ledger.errors import ChainUnavailable, DatabaseTooNew, LedgerError, Reverted, WrongChain
from ledger.types import Pool
from node.config import RunConfig
from node.errors import UserError

MIN_GAS_WEI = 10**15
"""Ether below which no node is started: it could not pay for its transactions."""


def deployment_of(config: RunConfig) -> Deployment:
    """The contracts that the config names. Raises UserError for an address that is none."""
    section = config.ledger
    if not int(section.root, 16):
        raise UserError("no run is configured: ledger.root is zero", fix="name the run's file with --config run.toml")
    fields = {"chain_id": section.chain_id, "salt": section.salt, "token": section.token, "pools": section.root}
    fields |= {name: getattr(section, name) for name in ("registry", "treasury", "runs", "court")}
    try:
        return Deployment.from_dict(fields)
    except LedgerError as error:
        raise UserError(f"the [ledger] section is unusable: {error}", fix="use the run.toml of the run") from error


def with_ledger(config: RunConfig, deployment: Deployment, *, rpc: str, pool_id: int) -> RunConfig:
    """The config with its [ledger] section describing that pool; the inverse of `deployment_of`."""
    fields = deployment.to_dict()
    fields.pop("block")
    fields["root"] = fields.pop("pools")
    section = config.ledger.model_copy(update=fields | {"rpc": rpc, "pool_id": pool_id})
    return config.model_copy(update={"ledger": section})


def open_ledger(config: RunConfig, account: LocalAccount | None, queue_path: Path | None) -> tuple[Ledger, Pool]:
    """The ledger, checked to be the configured one, and this run's pool. Raises UserError."""
    try:
        ledger = Ledger(config.ledger.rpc, deployment_of(config), account, queue_path)
        ledger.check()
        return ledger, ledger.pool(config.ledger.pool_id)
    except ChainUnavailable as error:
        raise UserError(str(error), fix="start the chain, or name its address with --rpc URL") from error
    except WrongChain as error:
        raise UserError(str(error), fix="check --rpc and the [ledger] section of the run's config") from error
    except DatabaseTooNew as error:
        raise UserError(str(error), fix="start the newer program, or name another --data-dir") from error
    except Reverted as error:
        raise UserError(
            f"pool {config.ledger.pool_id} cannot be read: {error}", fix="check ledger.pool_id in the run's config"
        ) from error


def domain_of(ledger: Ledger, pool_id: int) -> RecordDomain:
    """Where signatures of this run hold."""
    at = ledger.deployment
    return RecordDomain(chain_id=at.chain_id, contract=at.pools, salt=at.salt, run_id=ledger.run_id(pool_id))
