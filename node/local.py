"""`intellect-node run local`: a whole network on this machine, on a chain of its own, and a report of what happened.

Every participant is a real node in a real process, started by the same command line that anybody would use. What is
special here: throw-away wallets with play money, a chain that ends with the run, and two adversaries that everybody
else must find out by themselves: a worker that cheats, and a validator that it has bribed. Everything that is started
here is stopped here.
"""

from __future__ import annotations

import dataclasses
import json
import os
import secrets
import time
from pathlib import Path

import trio
from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_utils import keccak
from rich.console import Console

from ledger.anvil import AnvilFailed, anvil, anvil_binary
from ledger.client import Ledger
from ledger.deployment import deploy
from ledger.types import Terms
from node.config import RunConfig, load_config
from node.errors import UserError
from node.local_run import LocalRun, Participant
from node.model import base_model
from node.run_ledger import deployment_of, with_ledger
from node.show import ETHER_WEI, TOKEN_WEI
from node.terms import terms_told
from node.wallet import create_wallet

CONTRACTS = Path(__file__).resolve().parent.parent / "contracts"
STAKE_WEI, FUND_WEI = 100 * TOKEN_WEI, 10_000 * TOKEN_WEI
TERMS = Terms(
    min_stake_wei=STAKE_WEI,
    slash_wei=STAKE_WEI,
    unit_price_wei=TOKEN_WEI // 1000,
    round_s=20,
    verdict_s=600,
    challenge_s=5,
    lease_s=600,
)
"""Whoever is rejected has five seconds to appeal; a validator on stand-by is called after twenty without an outcome."""
MIN_BRIBED = 3
"""Validators of whom one may be bribed: of fewer, the honest are no quorum."""
UNBONDING_S = 900
GAS_WEI = 10 * ETHER_WEI
WALLET_SCRYPT_N = 2
"""Play money: a wallet that opens at once."""


def terms_of(validators: int) -> Terms:
    """The pool's terms: all of so many validators are drawn, and more than half of them must agree."""
    return dataclasses.replace(TERMS, quorum=validators // 2 + 1, panel=validators)


def cast(*, workers: int, cheat: bool, seed: int, validators: int = 1, bribe: bool = False) -> tuple[Participant, ...]:
    """Who takes part. The same seed gives the same wallets, hence the same problems.

    With `bribe` the last of three or more validators is the cheat's friend, if there is a cheat.
    """

    def participant(name: str, role: str, **more: object) -> Participant:
        key = keccak(b"intellect-node/local/" + seed.to_bytes(8, "big") + name.encode())
        return Participant(name=name, role=role, account=Account.from_key(key), **more)  # type: ignore[arg-type]

    liar = participant("cheat", "worker", settings=("worker.engine=node.cheat_engine",), honest=False)
    friends = json.dumps([liar.account.address])
    bought = ("validator.verifier=node.bribed_verifier", f"validator.verifier_arguments={friends}")
    bribed = (participant("bribed", "validator", settings=bought, honest=False),)
    bribed = bribed if cheat and bribe and validators >= MIN_BRIBED else ()
    honest = [f"validator-{number}" for number in range(1, validators - len(bribed) + 1)]
    return (
        participant("relay", "relay"),
        participant("trainer", "trainer"),
        *(participant(name, "validator") for name in (honest if validators > 1 else ("validator",))),
        *bribed,
        *(participant(f"worker-{number}", "worker") for number in range(1, workers + 1)),
        *((liar,) if cheat else ()),
    )


def main(
    *,
    config_path: Path | None,
    overrides: tuple[str, ...],
    steps: int | None,
    minutes: float,
    workers: int,
    validators: int,
    cheat: bool,
    bribe: bool,
    model: str | None,
    task: str | None,
    seed: int | None,
    out: Path | None,
) -> None:
    """Run the network, show it, report on it. Raises UserError."""
    options = {"rl.steps": steps, "model.path": model, "task.name": task}
    named = tuple(f"{key}={value}" for key, value in options.items() if value is not None)
    config = load_config(config_path, overrides=(*overrides, *named))
    seed = secrets.randbits(32) if seed is None else seed
    folder = out or Path("runs") / time.strftime("%Y%m%d-%H%M%S")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UserError(f"{folder} is not empty", fix="name another folder with --out, or empty it")
    except OSError as error:
        raise UserError(f"cannot use {folder}: {error.strerror}", fix="name another folder with --out") from error
    folder = folder.resolve()
    participants = cast(workers=workers, cheat=cheat, seed=seed, validators=validators, bribe=bribe)
    console = Console()
    console.print(f"output in {folder}; seed {seed}")
    if not config.model.path:
        console.print("preparing the model SmolLM2-135M-Instruct (the first time takes about a minute)")
    config = config.model_copy(
        update={"model": config.model.model_copy(update={"path": str(base_model(config.model.path).resolve())})}
    )
    try:
        with anvil(anvil_binary(CONTRACTS)) as chain:
            config = _found(chain.url, chain.account(0), config, participants, seed)
            _write_files(folder, config, participants)
            _tell_terms(console, config)
            run = LocalRun(config, participants, folder, console, minutes)
            trio.run(run.go)
    except AnvilFailed as error:
        raise UserError(str(error), fix="run scripts/setup") from error
    if run.stopped_by is not None:
        raise UserError(f"stopped by {run.stopped_by}", fix=f"what was reached is in {folder}", exit_code=130)
    if run.fault is not None:
        raise run.fault


def _found(
    rpc: str, purse: LocalAccount, config: RunConfig, participants: tuple[Participant, ...], seed: int
) -> RunConfig:
    """Contracts, money, domain and pool on the fresh chain; the config that describes them."""
    salt = keccak(b"intellect-node/local/salt/" + seed.to_bytes(8, "big"))
    deployment = deploy(rpc, purse, salt=salt, unbonding_s=UNBONDING_S)
    ledger = Ledger(rpc, deployment, purse)
    for participant in participants:
        ledger.transfer_eth(participant.account.address, GAS_WEI)
        if participant.role != "trainer":
            ledger.mint(participant.account.address, STAKE_WEI)
    trainer_address = next(p.account.address for p in participants if p.role == "trainer")
    validators = tuple(p.account.address for p in participants if p.role == "validator")
    domain_id = ledger.create_domain(config.task.name)
    pool_id = ledger.create_pool(domain_id, trainer_address, terms_of(max(1, len(validators))))
    ledger.start_pool(pool_id)
    ledger.mint(purse.address, FUND_WEI)
    ledger.fund(pool_id, FUND_WEI)
    ledger.close()
    trainer = config.trainer.model_copy(update={"validators": validators})
    # All share these cores: what a worker makes before its last work was judged takes them from the judge.
    worker = config.worker.model_copy(update={"max_unjudged": 0})
    roles = {"trainer": trainer, "worker": worker}
    return with_ledger(config, deployment, rpc=rpc, pool_id=pool_id).model_copy(update=roles)


def _tell_terms(console: Console, config: RunConfig) -> None:
    ledger = Ledger(config.ledger.rpc, deployment_of(config))
    pool_id = config.ledger.pool_id
    told = terms_told(ledger.pool(pool_id), chain_unix_s=ledger.chain_time_s(), funds_wei=ledger.funds_of(pool_id))
    for name, text in told.items():
        console.print(f"pool {pool_id}, {name}: {text}", markup=False, highlight=False, soft_wrap=True)


def _write_files(folder: Path, config: RunConfig, participants: tuple[Participant, ...]) -> None:
    (folder / "run.toml").write_text(config.to_toml())
    password = secrets.token_urlsafe(16)
    descriptor = os.open(folder / "password", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(password)
    for participant in participants:
        home = folder / participant.name
        home.mkdir(mode=0o700)
        create_wallet(home / "wallet.json", password, iterations=WALLET_SCRYPT_N, key=bytes(participant.account.key))
