"""The commands `intellect-node stake …` and `credit …`: what is at work for a node, and what it has earned.

A node's key works; the wallet that registered it, its staker, pays its stake and is paid. Both may be the same.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from node.cli_options import ADDRESS, FILE, TOKENS, ChainChoice, WalletChoice, json_option, with_chain, with_wallet
from node.cli_writes import told, writing
from node.errors import UserError
from node.show import done, facts, moment, plain, tokens

BINDING_LIFETIME_S = 86_400
MAX_BINDING_BYTES = 4096
NODE = click.option("--node", type=ADDRESS, help="The node.  [default: the wallet itself]")


@click.group()
def stake() -> None:
    """Stake: tokens at work for a node, burnt if it is found dishonest.

    \b
    Example:
      intellect-node stake show --config run.toml --node 0x52…
    """


@stake.command("deposit")
@click.argument("amount", type=TOKENS)
@NODE
@click.option(
    "--binding", type=FILE, help="The node's agreement (`wallet bind`), to register it; your wallet becomes its staker."
)
@with_chain
@with_wallet
@json_option
def deposit(
    amount: int, node: str | None, binding: Path | None, chain: ChainChoice, wallet: WalletChoice, as_json: bool
) -> None:
    """Put AMOUNT tokens to work for a node, and register the node if it is new.

    Your own wallet registers itself. Another node must agree first, with `wallet bind`.

    \b
    Examples:
      intellect-node stake deposit 100 --config run.toml --wallet key.json
      intellect-node stake deposit 100 --binding binding.json --config run.toml --wallet cold.json
    """
    from ledger.bindings import sign_binding

    with writing(chain, wallet) as (ledger, _):
        own = ledger.account.address
        if binding is not None:
            agreed, signature = read_binding(binding)
            ledger.register(agreed, signature, amount)
        elif ledger.node(node or own).registered:
            ledger.add_stake(node or own, amount)
        elif node in (None, own):
            agreed = ledger.new_binding(own, own, BINDING_LIFETIME_S)
            ledger.register(agreed, sign_binding(agreed, ledger.deployment, ledger.account), amount)
        else:
            raise UserError(f"{node} is not registered", fix="let it agree: intellect-node wallet bind; then --binding")
        target = agreed.node if binding is not None else node or own
        held = ledger.stake_of(target)
    done(f"{target} has {tokens(held)} tokens at stake", as_json=as_json, node=target, stake_wei=held)


@stake.command("withdraw")
@click.argument("amount", type=TOKENS, required=False)
@NODE
@with_chain
@with_wallet
@json_option
def withdraw(amount: int | None, node: str | None, chain: ChainChoice, wallet: WalletChoice, as_json: bool) -> None:
    """Take stake out: with AMOUNT start unbonding that much, without it collect what has been unbonded and is due.

    \b
    Examples:
      intellect-node stake withdraw 40 --config run.toml --wallet key.json
      intellect-node stake withdraw --config run.toml --wallet key.json
    """
    with writing(chain, wallet) as (ledger, _):
        target = node or ledger.account.address
        if amount is not None:
            ledger.unbond(target, amount)
            matures = ledger.node(target).matures_unix_s
            sentence = f"{tokens(amount)} tokens of {target} can be withdrawn from {moment(matures)} on"
            done(sentence, as_json=as_json, node=target, unbonding_wei=amount, matures_unix_s=matures)
            return
        before = ledger.node(target).unbonding_wei
        ledger.withdraw(target)
        paid = before - ledger.node(target).unbonding_wei
    done(f"{tokens(paid)} tokens of {target} were paid out", as_json=as_json, node=target, paid_wei=paid)


@stake.command("show")
@NODE
@with_chain
@with_wallet
@json_option
def show(node: str | None, chain: ChainChoice, wallet: WalletChoice, as_json: bool) -> None:
    """Show a node's stake: at work, on its way out, under a case; and who is its staker. Needs no password.

    \b
    Example:
      intellect-node stake show --config run.toml --node 0x52…
    """
    target = named(node, wallet)
    ledger, pool = chain.reader()
    with told():
        found, needed = ledger.node(target), pool.terms.min_stake_wei
    lines = {"node": target}
    if not found.registered:
        lines["stake"] = "not registered"
    else:
        lines |= {
            "staker": found.staker,
            "at work": f"{tokens(found.at_work_wei)} tokens; this pool asks for {tokens(needed)}",
            "unbonding": tokens(found.unbonding_wei)
            + (f", due {moment(found.matures_unix_s)}" if found.unbonding_wei else ""),
            "under a case": tokens(found.locked_wei) + (", as far as there is any" if found.locked_wei else ""),
        }
    facts(plain(found) | {"registered": found.registered}, as_json=as_json, told=lines)


@click.group()
def credit() -> None:
    """Credit: what a node has earned with verified work, paid to its staker.

    \b
    Example:
      intellect-node credit show --config run.toml --node 0x52…
    """


@credit.command("show")
@NODE
@with_chain
@with_wallet
@json_option
def credit_show(node: str | None, chain: ChainChoice, wallet: WalletChoice, as_json: bool) -> None:
    """Show a node's verified units of work in this pool and what it can claim. Needs no password.

    \b
    Example:
      intellect-node credit show --config run.toml --node 0x52…
    """
    target = named(node, wallet)
    ledger, pool = chain.reader()
    with told():
        units, due = ledger.units_of(pool.pool_id, target), ledger.credit_of(target)
        funds = ledger.funds_of(pool.pool_id)
    lines = {
        "node": target,
        "verified units": f"{units:,} in pool {pool.pool_id}, at {tokens(pool.terms.unit_price_wei)} tokens each",
        "can be claimed": f"{tokens(due)} tokens",
        "pool's funds": f"{tokens(funds)} tokens",
    }
    values = {"node": target, "units": units, "credit_wei": due, "pool_funds_wei": funds}
    facts(values, as_json=as_json, told=lines)


@credit.command("claim")
@NODE
@with_chain
@with_wallet
@json_option
def credit_claim(node: str | None, chain: ChainChoice, wallet: WalletChoice, as_json: bool) -> None:
    """Pay all that a node has earned to its staker. Any wallet may ask for it, and pays the gas.

    \b
    Example:
      intellect-node credit claim --config run.toml --wallet key.json
    """
    with writing(chain, wallet) as (ledger, _):
        target = node or ledger.account.address
        due, staker = ledger.credit_of(target), ledger.node(target).staker
        ledger.claim(target)
    done(f"{tokens(due)} tokens went to {staker}", as_json=as_json, node=target, staker=staker, paid_wei=due)


@click.command("bind")
@click.option("--staker", type=ADDRESS, required=True, help="The wallet that will pay the stake and be paid.")
@click.option("--out", type=FILE, default=Path("binding.json"), show_default=True, help="New file for the agreement.")
@with_chain
@with_wallet
@json_option
def bind(staker: str, out: Path, chain: ChainChoice, wallet: WalletChoice, as_json: bool) -> None:
    """Let the node's wallet agree to a staker: a signed file, good for a day, for `stake deposit --binding`.

    \b
    Example:
      intellect-node wallet bind --staker 0x52… --config run.toml --wallet node.json --out binding.json
    """
    from ledger.bindings import sign_binding
    from node.secret_file import write_new_secret

    if out.exists():
        raise UserError(f"{out} exists and is not overwritten", fix="name another file with --out", exit_code=2)
    account = wallet.account()
    ledger, _ = chain.reader()
    with told():
        binding = ledger.new_binding(account.address, staker, BINDING_LIFETIME_S)
    signature = sign_binding(binding, ledger.deployment, account)
    write_new_secret(out, json.dumps(plain(binding) | {"signature": f"0x{signature.hex()}"}, indent=2).encode())
    done(f"{account.address} agrees to {staker}; the agreement is in {out}", as_json=as_json, **plain(binding))


def named(node: str | None, wallet: WalletChoice) -> str:
    """The node asked about. Raises UserError where none is named."""
    if (target := node or wallet.address) is None:
        raise UserError("no node is named", fix="give --node ADDRESS, or --wallet", exit_code=2)
    return target


def read_binding(path: Path) -> tuple[Any, bytes]:
    """The agreement and its signature in a file of `wallet bind`. Raises UserError."""
    from ledger.types import Binding

    fix = "let the node write it again: intellect-node wallet bind"
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BINDING_BYTES + 1)
        if len(raw) > MAX_BINDING_BYTES:
            raise ValueError("too long")
        values = json.loads(raw)
        signature = bytes.fromhex(values.pop("signature").removeprefix("0x"))
        kinds = {"staker": str, "node": str, "nonce": int, "expires_unix_s": int}
        if {name: type(value) for name, value in values.items()} != kinds:
            raise ValueError("other fields than an agreement has")
        for name in ("staker", "node"):
            values[name] = ADDRESS.convert(values[name], None, None)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}", fix=fix) from error
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise UserError(f"{path} is no agreement: {error}", fix=fix) from error
    return Binding(**values), signature
