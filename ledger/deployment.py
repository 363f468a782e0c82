"""Which contracts make up one ledger, and how they are put on a chain.

Decides the order of creation and wiring. Refuses descriptions with missing or malformed fields. A random salt tells two
deployments apart where chain id and addresses repeat, as on a restarted Anvil.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from eth_account.signers.local import LocalAccount
from eth_utils import is_checksum_address

from ledger.abi import interface
from ledger.errors import DeploymentInvalid
from ledger.rpc import Rpc
from ledger.transactions import TransactionQueue

UNBONDING_S = 7 * 86_400
CONTRACT_FIELDS = ("token", "registry", "pools", "treasury", "runs", "court")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """Chain id, salt (32 bytes), the contracts' addresses, and the block from which they exist."""

    chain_id: int
    salt: bytes
    token: str
    registry: str
    pools: str
    treasury: str
    runs: str
    court: str
    block: int = 0

    def to_dict(self) -> dict[str, int | str]:
        """Plain values, fit for TOML or JSON."""
        return asdict(self) | {"salt": f"0x{self.salt.hex()}"}

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> Deployment:
        """The inverse of `to_dict`; raises `DeploymentInvalid` naming the field."""
        expected = set(cls.__slots__)
        if set(values) - expected or expected - set(values) - {"block"}:
            raise DeploymentInvalid(f"a deployment has the fields {sorted(expected)}, found {sorted(values)}")
        for name in CONTRACT_FIELDS:
            if not is_checksum_address(values[name]):
                raise DeploymentInvalid(f"{name} is not a checksum address: {values[name]!r}")
        for name in ("chain_id", "block"):
            if type(values.get(name, 0)) is not int or values.get(name, 0) < 0:
                raise DeploymentInvalid(f"{name} is not a whole number: {values[name]!r}")
        text = values["salt"]
        try:
            salt = bytes.fromhex(text.removeprefix("0x"))
        except (AttributeError, ValueError) as error:
            raise DeploymentInvalid(f"salt is not hexadecimal: {text!r}") from error
        if len(salt) != 32:
            raise DeploymentInvalid(f"salt has {len(salt)} bytes instead of 32")
        return cls(**{**values, "salt": salt})


def deploy(
    rpc_url: str, account: LocalAccount, *, salt: bytes | None = None, unbonding_s: int = UNBONDING_S
) -> Deployment:
    """Create and wire the contracts; `account` pays, and owns the stake token. Errors as of `TransactionQueue.send`.

    Args:
        salt: 32 bytes; None draws them at random. Only a run that must be repeated exactly (same run id, hence same
            problems) names its own, and only on a chain of its own.
        unbonding_s: seconds that stake on its way out stays within reach of a case; no pool may judge for longer.
    """
    rpc, salt = Rpc(rpc_url), salt or secrets.token_bytes(32)
    chain_id = int(rpc.call("eth_chainId"), 16)
    queue = TransactionQueue(rpc, account, chain_id=chain_id, scope=salt.hex())

    def create(name: str, *arguments: object) -> str:
        return queue.send(None, interface(name).creation(*arguments)).contract

    token = create("StakeToken", account.address)
    registry = create("NodeRegistry", token, salt, unbonding_s)
    pools = create("ComputePools", registry, salt)
    runs = create("RunLedger", pools)
    treasury = create("Treasury", token, registry, pools)
    court = create("Court", pools, registry, runs, treasury)
    for name, address in (("NodeRegistry", registry), ("ComputePools", pools), ("Treasury", treasury)):
        block = queue.send(address, interface(name).encode("wire", [court])).block
    queue.close()
    return Deployment(
        chain_id=chain_id, salt=salt, token=token, registry=registry, pools=pools, treasury=treasury, runs=runs,
        court=court, block=block,
    )  # fmt: skip
