"""What is wrong between this machine and the others: chain, money, clock, DHT, reachability, speed, model.

Pure, like `node.doctor`: what the others said comes in, a finding goes out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import ip_address

from dht.clock import CHAIN_TOLERANCE_S, ClockSample, ClockVerdict, off, offset_in_words
from node.doctor import Finding, ok, problem, warning
from node.errors import UserError
from node.facts import Account, DialBackAnswer, Download
from node.role_sections import Requirements
from node.show import ETHER_WEI, tokens

LONG_FETCH_S = 600.0
"""A policy that takes longer is old when it is here: a step of the report takes about 22 minutes."""
MB = 10**6
LEAST_TIMED_BYTES = MB
"""Of less, the round trip is what one measures."""


def check_chain(
    fault: UserError | None, *, rpc: str, pool_id: int, block: int, ended: bool = False, paused: bool = False
) -> Finding:
    """`fault`: what kept the pool from being read; `paused`: whether the pool takes no new members now."""
    if fault is not None:
        return problem("chain", fault.message, fault.fix)
    line = f"{rpc} serves the run's deployment and pool {pool_id} at block {block}"
    if ended:
        return problem("chain", f"{line}, but that pool has ended", "use the config of a pool that goes on")
    if paused:
        return warning("chain", f"{line}, but that pool takes no new members now", "ask the pool's owner")
    return ok("chain", line)


def check_funds(account: Account, *, least_wei: int) -> Finding:
    """Ether, of which every transaction takes a little."""
    line = f"{account.address} holds {account.ether_wei / ETHER_WEI:.4g} ether"
    if account.ether_wei < least_wei:
        return problem(
            "funds",
            f"{line}, too little for gas",
            f"send some ether to {account.address}",
        )
    return ok("funds", f"{line} for gas")


def check_stake(account: Account, *, role: str | None, min_stake_wei: int, manager: str, pool_id: int) -> Finding:
    """Whether the ledger lets the address play the role: manager for a trainer, stake for all others."""
    if role == "trainer":
        if account.address == manager:
            return ok("stake", f"{account.address} manages pool {pool_id}; no stake is needed")
        return problem(
            "stake",
            f"the manager of pool {pool_id} is {manager}, not {account.address}",
            "start the trainer with the manager's wallet",
        )
    if account.barred:
        return problem(
            "stake",
            f"pool {pool_id} has blacklisted {account.address}",
            "`intellect-node explain ADDRESS` says why; an appeal or the pool's manager can let it in again",
        )
    free_wei = account.stake_wei - account.locked_wei
    staked = tokens(free_wei)
    wanted = f"pool {pool_id} asks for {tokens(min_stake_wei)}"
    missing_wei = min_stake_wei - free_wei
    if missing_wei <= 0:
        member = ", and it is a member" if account.active else ""
        return ok("stake", f"{staked} tokens are at stake; {wanted}{member}")
    if account.tokens_wei >= missing_wei:
        return ok("stake", f"{tokens(missing_wei)} tokens will be staked at the start; {wanted}")
    return problem(
        "stake",
        f"{tokens(account.stake_wei)} tokens at stake and {tokens(account.tokens_wei)} in hand; {wanted}",
        f"send {tokens(missing_wei - account.tokens_wei)} stake tokens to {account.address}",
    )


def check_clock(verdict: ClockVerdict) -> Finding:
    """A wrong clock stops no node: it corrects its own idea of time. What else runs on the machine does not."""
    said = []
    if verdict.peers is not None:
        peers = "a peer" if verdict.asked == 1 else f"{verdict.asked} peers"
        said.append(f"{_against(verdict.peers, peers)} (± {verdict.peers.error_s:.2f} s)")
    if verdict.chain is not None:
        said.append(f"{_against(verdict.chain, 'the chain')} (± {verdict.chain.error_s:.1f} s)")
    line = f"this machine's clock is {' and '.join(said)}"
    if verdict.doubted:
        return warning(
            "clock",
            f"{line}: the peers are the odd ones out and not followed",
            "check --join and the clocks of those nodes",
        )
    if verdict.source != "own":
        return warning(
            "clock",
            f"{line}; a node corrects its own idea of time by that",
            "set the machine's clock: timedatectl set-ntp true",
        )
    if verdict.chain is not None and verdict.peers is not None and off(verdict.chain, CHAIN_TOLERANCE_S):
        return warning(
            "clock",
            f"{line}: the chain's time is the odd one out; invites expire by it",
            "tell the chain's operator; nothing is to be done here",
        )
    return ok("clock", line)


def check_network(roles: Mapping[str, int], *, join: Sequence[str], relays: int) -> Finding:
    """`roles`: how many live nodes play each; `relays`: those of them that are members of the pool."""
    if not roles:
        return problem(
            "network",
            f"no node is found through {', '.join(join)}",
            "check --join (the file `join` in a running node's data folder), and that outgoing TCP is allowed",
        )
    line = "live nodes: " + ", ".join(
        f"{count} {role}{'s' if count > 1 else ''}" for role, count in sorted(roles.items())
    )
    if not relays:
        return warning(
            "network",
            f"{line}; none of them is a relay of the pool",
            "start a relay, or wait for one: without it no submission can be handed in",
        )
    return ok("network", line)


def check_reachability(
    answers: Sequence[DialBackAnswer], faults: Sequence[str], *, role: str | None, host: str, port: int
) -> Finding:
    """public: a relay got through; relayed only: relays answer but cannot dial; unreachable: no relay answers.

    `host` is where the node says that it listens.
    """
    if not answers:
        why = f": {faults[0]}" if faults else ""
        return problem(
            "reachability",
            f"unreachable: no relay answers{why}",
            "allow outgoing TCP from this machine; if others reach the relays, ask their operators",
        )
    seen = answers[0].host
    if not any(answer.reached for answer in answers):
        dialled = "a relay" if len(answers) == 1 else f"{len(answers)} relays"
        consequence = (
            "a worker can do with that while it keeps a connection to its manager"
            if role == "worker"
            else "others must be able to dial this node"
        )
        judge = warning if role == "worker" else problem
        return judge(
            "reachability",
            f"relayed only: {dialled} could not dial {seen} port {port}; {consequence}",
            f"let TCP port {port} through the firewall, or forward it in the router to this machine",
        )
    reached = next(answer.host for answer in answers if answer.reached)
    if reached != host:
        return warning(
            "reachability",
            f"public at {reached} port {port}, but the node would announce {host}",
            f"give network.host an address that others can dial (they see {reached})",
        )
    public = ip_address(reached).is_global
    where = "public" if public else "reachable, at an address that is not public"
    return ok("reachability", f"{where}: a relay dialled back to {reached} port {port}")


def check_bandwidth(download: Download, wanted: Requirements) -> Finding:
    """From the time that one chunk took to how long the whole policy would."""
    if download.fault or download.seconds <= 0:
        return problem(
            "bandwidth",
            f"nobody serves the current policy: {download.fault}",
            "start a relay, or wait until one has the policy",
        )
    size = f"{download.policy_bytes / MB:.3g} MB"
    if download.chunk_bytes < LEAST_TIMED_BYTES:
        return ok("bandwidth", f"a peer serves the policy; its {size} are too few to tell the speed")
    mb_s = download.chunk_bytes / MB / download.seconds
    whole_s = download.policy_bytes / MB / mb_s
    line = f"{mb_s:.3g} MB/s from a peer; the policy of {size} takes about {whole_s:.0f} s"
    if mb_s < wanted.bandwidth_mb_s:
        return problem(
            "bandwidth",
            f"{line}, but {wanted.bandwidth_mb_s:g} MB/s are required",
            "use a faster line, or end what else uses this one",
        )
    if whole_s > LONG_FETCH_S:
        return warning(
            "bandwidth",
            f"{line}: it may be old when it is here",
            "use a faster line, or end what else uses this one",
        )
    return ok("bandwidth", line)


def check_model(here: Mapping[str, bytes], base: Mapping[str, bytes] | None, *, folder: str) -> Finding:
    """File name → SHA-256 of the folder and of policy 0 as its manifest lists it; None where nobody serves that."""
    if base is None:
        return ok("model", f"{folder} is complete; nobody serves policy 0 to compare with")
    wrong = sorted(name for name in base if here.get(name) != base[name])
    extra = sorted(set(here) - set(base))
    if wrong or extra:
        named = [*(f"{name} is missing" if name not in here else f"{name} differs" for name in wrong)]
        named += [f"{name} is not of it" for name in extra]
        return problem(
            "model",
            f"{folder} is not the run's base policy: {', '.join(named[:4])}",
            "set model.path to the folder that the run began with",
        )
    return ok("model", f"{folder} is the run's base policy, file by file")


def _against(sample: ClockSample, whom: str) -> str:
    words = offset_in_words(-sample.offset_s)
    return f"{words} of {whom}" if words.endswith("ahead") else f"{words} {whom}"
