"""More of `intellect-node pool …`: what the pool's owner and its manager may do.

Every change goes through the contract, which judges who may; a pool owner alone can slash nobody.
"""

from __future__ import annotations

import click

from node.cli_options import ADDRESS, TOKENS, ChainChoice, WalletChoice, json_option, with_chain, with_wallet
from node.cli_writes import offered, short_code, told, writing
from node.show import done, rows, tokens

REASON = click.option(
    "--reason",
    required=True,
    metavar="CODE",
    help="A short code in ASCII, at most 32 characters; it stays on the ledger.",
)


@click.command("members")
@with_chain
@json_option
def members(chain: ChainChoice, as_json: bool) -> None:
    """List the pool's active members: role, address, stake, verified units.

    \b
    Example:
      intellect-node pool members --config run.toml
    """
    ledger, pool = chain.reader()
    with told():
        found = [
            {
                "role": member.role,
                "address": member.address,
                "staker": (node := ledger.node(member.address)).staker,
                "stake": tokens(node.stake_wei),
                "stake_wei": node.stake_wei,
                "units": ledger.units_of(pool.pool_id, member.address),
                "since_unix_s": member.since_unix_s,
            }
            for member in sorted(ledger.members(pool.pool_id), key=lambda m: (m.role, m.address))
        ]
    rows(found, ("role", "address", "stake", "units"), as_json=as_json, empty="no members yet")


@click.command("eject")
@click.argument("node", type=ADDRESS)
@REASON
@with_chain
@with_wallet
@json_option
def eject(node: str, reason: str, chain: ChainChoice, wallet: WalletChoice, as_json: bool) -> None:
    """Put NODE out of the pool, by the manager. Its stake is untouched, open invites are void; it may be invited again.

    \b
    Example:
      intellect-node pool eject 0x52… --reason too-slow --config run.toml --wallet manager.json
    """
    with writing(chain, wallet) as (ledger, pool):
        was_member = ledger.member(pool.pool_id, node).active
        block = ledger.eject(pool.pool_id, node, short_code(reason))
    sentence = "is out of" if was_member else "was no member; what invites it holds are void in"
    done(f"{node} {sentence} pool {pool.pool_id}", as_json=as_json, block=block)


@click.command("blacklist")
@click.argument("account", type=ADDRESS)
@REASON
@click.option("--undo", is_flag=True, help="Let the account be invited again.")
@with_chain
@with_wallet
@json_option
def blacklist(account: str, reason: str, undo: bool, chain: ChainChoice, wallet: WalletChoice, as_json: bool) -> None:
    """Keep ACCOUNT, a node or a staker, out of the pool, by the manager; or undo that, also after a verdict.

    \b
    Examples:
      intellect-node pool blacklist 0x52… --reason spam --config run.toml --wallet manager.json
      intellect-node pool blacklist 0x52… --reason settled --undo --config run.toml --wallet manager.json
    """
    with writing(chain, wallet) as (ledger, pool):
        if undo:
            block = ledger.unblacklist(pool.pool_id, account)
        else:
            block = ledger.blacklist(pool.pool_id, account, short_code(reason))
    done(f"{account} {'may be invited again' if undo else 'is kept out'}", as_json=as_json, block=block)


@click.command("transfer")
@click.argument("to", type=ADDRESS)
@with_chain
@with_wallet
@json_option
def transfer(to: str, chain: ChainChoice, wallet: WalletChoice, as_json: bool) -> None:
    """Offer the pool to the account TO, which owns it once it accepts.

    \b
    Example:
      intellect-node pool transfer 0x52… --config run.toml --wallet owner.json
    """
    with writing(chain, wallet) as (ledger, pool):
        block = ledger.offer_pool(pool.pool_id, to)
    done(offered(to), as_json=as_json, block=block)


@click.command("accept")
@with_chain
@with_wallet
@json_option
def accept(chain: ChainChoice, wallet: WalletChoice, as_json: bool) -> None:
    """Become the owner of the pool that was offered to your wallet.

    \b
    Example:
      intellect-node pool accept --config run.toml --wallet new-owner.json
    """
    with writing(chain, wallet) as (ledger, pool):
        block = ledger.accept_pool(pool.pool_id)
    done(f"pool {pool.pool_id} is yours", as_json=as_json, block=block)


@click.command("set-manager")
@click.argument("manager", type=ADDRESS)
@click.option(
    "--remove", is_flag=True, help="Take the right away; if that key holds the lease, the lease ends at once."
)
@with_chain
@with_wallet
@json_option
def set_manager(manager: str, remove: bool, chain: ChainChoice, wallet: WalletChoice, as_json: bool) -> None:
    """Let the key MANAGER manage the pool (as a standby, until the lease is free), or forbid it. By the owner.

    \b
    Examples:
      intellect-node pool set-manager 0x52… --config run.toml --wallet owner.json
      intellect-node pool set-manager 0x52… --remove --config run.toml --wallet owner.json
    """
    with writing(chain, wallet) as (ledger, pool):
        block = ledger.set_manager(pool.pool_id, manager, not remove)
    done(f"{manager} may {'not ' if remove else ''}manage pool {pool.pool_id}", as_json=as_json, block=block)


@click.command("start")
@with_chain
@with_wallet
@json_option
def start(chain: ChainChoice, wallet: WalletChoice, as_json: bool) -> None:
    """Open a pending pool: members can join from now on. By the owner.

    \b
    Example:
      intellect-node pool start --config run.toml --wallet owner.json
    """
    with writing(chain, wallet) as (ledger, pool):
        block = ledger.start_pool(pool.pool_id)
    done(f"pool {pool.pool_id} is active", as_json=as_json, block=block)


@click.command("end")
@click.confirmation_option(prompt="A pool that has ended never starts again. End it?")
@with_chain
@with_wallet
@json_option
def end(chain: ChainChoice, wallet: WalletChoice, as_json: bool) -> None:
    """End the pool for good, by the owner: no joins, no submissions. Verdicts, appeals and payouts go on.

    \b
    Example:
      intellect-node pool end --yes --config run.toml --wallet owner.json
    """
    with writing(chain, wallet) as (ledger, pool):
        block = ledger.end_pool(pool.pool_id)
    done(f"pool {pool.pool_id} has ended", as_json=as_json, block=block)


@click.command("pause")
@click.option("--resume", is_flag=True, help="Let members join again.")
@with_chain
@with_wallet
@json_option
def pause(resume: bool, chain: ChainChoice, wallet: WalletChoice, as_json: bool) -> None:
    """Pause new joins, by the owner or the manager. Nothing else can be paused: work, leaving and payouts go on.

    \b
    Examples:
      intellect-node pool pause --config run.toml --wallet owner.json
      intellect-node pool pause --resume --config run.toml --wallet owner.json
    """
    with writing(chain, wallet) as (ledger, pool):
        block = ledger.pause_joins(pool.pool_id, not resume)
    done(f"joining is {'open again' if resume else 'paused'}", as_json=as_json, block=block)


@click.command("fund")
@click.argument("amount", type=TOKENS)
@with_chain
@with_wallet
@json_option
def fund(amount: int, chain: ChainChoice, wallet: WalletChoice, as_json: bool) -> None:
    """Give AMOUNT tokens to the pool, from which verified work is paid. Anyone can.

    \b
    Example:
      intellect-node pool fund 1000 --config run.toml --wallet owner.json
    """
    with writing(chain, wallet) as (ledger, pool):
        ledger.fund(pool.pool_id, amount)
        funds = ledger.funds_of(pool.pool_id)
    done(f"pool {pool.pool_id} holds {tokens(funds)} tokens for work", as_json=as_json, funds_wei=funds)


@click.command("reclaim")
@with_chain
@with_wallet
@json_option
def reclaim(chain: ChainChoice, wallet: WalletChoice, as_json: bool) -> None:
    """Take back what an ended pool has left, by its owner, once nothing can be judged any more.

    \b
    Example:
      intellect-node pool reclaim --config run.toml --wallet owner.json
    """
    with writing(chain, wallet) as (ledger, pool):
        funds = ledger.funds_of(pool.pool_id)
        ledger.reclaim(pool.pool_id)
    done(f"{tokens(funds)} tokens came back", as_json=as_json, paid_wei=funds)


COMMANDS = (members, eject, blacklist, transfer, accept, set_manager, start, end, pause, fund, reclaim)
