"""The commands `intellect-node domain …`: compute domains on the ledger, the roof over pools."""

from __future__ import annotations

import click

from node.cli_options import ADDRESS, ChainChoice, WalletChoice, json_option, with_chain, with_wallet
from node.cli_writes import offered, short_code, told, writing, writing_without_pool
from node.show import done, facts, plain

DOMAIN = click.option(
    "--domain", "domain_id", type=click.IntRange(1), help="Its id.  [default: that of the run's pool]"
)


@click.group()
def domain() -> None:
    """Compute domains on the ledger: a name and an owner, who creates pools and keeps whom out of all of them.

    \b
    Example:
      intellect-node domain show --config run.toml
    """


@domain.command("create")
@click.argument("name")
@with_chain
@with_wallet
@json_option
def create(name: str, chain: ChainChoice, wallet: WalletChoice, as_json: bool) -> None:
    """Create a domain called NAME that your wallet owns, on the contracts that the config names.

    \b
    Example:
      intellect-node domain create maths --config run.toml --wallet owner.json
    """
    with writing_without_pool(chain, wallet) as ledger:
        domain_id = ledger.create_domain(name)
    done(f"domain {domain_id}", as_json=as_json, domain_id=domain_id)


@domain.command("show")
@DOMAIN
@with_chain
@json_option
def show(domain_id: int | None, chain: ChainChoice, as_json: bool) -> None:
    """Show a domain: its name, its owner, and to whom it is offered.

    \b
    Example:
      intellect-node domain show --config run.toml --domain 1
    """
    ledger, pool = chain.reader()
    with told():
        facts_ = ledger.domain(domain_id or pool.domain_id)
    told_as = {"domain": str(facts_.domain_id), "name": facts_.name, "owner": facts_.owner}
    if int(facts_.pending_owner, 16):
        told_as["offered to"] = facts_.pending_owner
    facts(plain(facts_), as_json=as_json, told=told_as)


@domain.command("transfer")
@click.argument("to", type=ADDRESS)
@DOMAIN
@with_chain
@with_wallet
@json_option
def transfer(to: str, domain_id: int | None, chain: ChainChoice, wallet: WalletChoice, as_json: bool) -> None:
    """Offer a domain to the account TO, which owns it once it accepts.

    \b
    Example:
      intellect-node domain transfer 0x52… --config run.toml --wallet owner.json
    """
    with writing(chain, wallet) as (ledger, pool):
        block = ledger.offer_domain(domain_id or pool.domain_id, to)
    done(offered(to), as_json=as_json, block=block)


@domain.command("accept")
@DOMAIN
@with_chain
@with_wallet
@json_option
def accept(domain_id: int | None, chain: ChainChoice, wallet: WalletChoice, as_json: bool) -> None:
    """Become the owner of a domain that was offered to your wallet.

    \b
    Example:
      intellect-node domain accept --config run.toml --wallet new-owner.json
    """
    with writing(chain, wallet) as (ledger, pool):
        block = ledger.accept_domain(domain_id or pool.domain_id)
    done("the domain is yours", as_json=as_json, block=block)


@domain.command("blacklist")
@click.argument("account", type=ADDRESS)
@click.option("--reason", required=True, help="A short code in ASCII, at most 32 characters; it stays on the ledger.")
@click.option("--undo", is_flag=True, help="Let the account in again.")
@DOMAIN
@with_chain
@with_wallet
@json_option
def blacklist(
    account: str,
    reason: str,
    undo: bool,
    domain_id: int | None,
    chain: ChainChoice,
    wallet: WalletChoice,
    as_json: bool,
) -> None:
    """Keep ACCOUNT, a node or a staker, out of every pool of a domain; or let it in again.

    It can always leave, withdraw its stake and claim its credit.

    \b
    Examples:
      intellect-node domain blacklist 0x52… --reason spam --config run.toml --wallet owner.json
      intellect-node domain blacklist 0x52… --reason sorry --undo --config run.toml --wallet owner.json
    """
    with writing(chain, wallet) as (ledger, pool):
        target = domain_id or pool.domain_id
        if undo:
            block = ledger.unblacklist_in_domain(target, account)
        else:
            block = ledger.blacklist_in_domain(target, account, short_code(reason))
    done(f"{account} is {'welcome again' if undo else 'kept out'}", as_json=as_json, block=block)
