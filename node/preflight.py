"""The checks of this machine as `doctor` and every start make them, and the test of the network before a download.

A start ends with the first problem before anything is fetched; warnings are logged and it goes on. What is wrong is for
`node.doctor` to say; here it is only asked for, in the order of cost.
"""

from __future__ import annotations

import logging
from pathlib import Path

from dht.manifest import ManifestInvalid
from dht.plan import ContentUnavailable
from ledger.client import Ledger
from node import doctor
from node.chain import on_chain
from node.child import ChildError
from node.config import RunConfig
from node.dhtd_link import NetworkDown
from node.doctor import Finding
from node.doctor_network import check_bandwidth
from node.errors import UserError
from node.facts import Download
from node.handover import relay_urls
from node.network import Network
from node.probes import probe_cpu, probe_disk, probe_gpus, probe_memory, probe_ports, probe_software
from node.role_sections import Requirements

log = logging.getLogger(__name__)
LEVELS = {"ok": logging.INFO, "warning": logging.WARNING, "problem": logging.ERROR}
SPEED_TIMEOUT_S = 60.0


class Unfit(UserError):
    """This machine cannot run the node as it is asked to."""

    exit_code = 5


def machine_findings(
    role: str | None, config: RunConfig, *, wanted: Requirements, data_dir: Path, port: int, with_ports: bool = True
) -> list[Finding]:
    """Everything that needs nobody else. `port` as on the command line: the first of three, or 0."""
    software, gpus = probe_software(doctor.ALL_PACKAGES), probe_gpus()
    threads = getattr(config, role).threads if role in ("worker", "validator", "trainer") else 1
    findings = [
        doctor.check_python(software),
        doctor.check_packages(software, role, backend=config.worker.backend),
        doctor.check_cpu(
            probe_cpu(), gpus, threads=threads, compute_type=config.model.compute_type, wanted=wanted
        ),
        doctor.check_memory(probe_memory(), wanted),
        doctor.check_gpu(gpus, wanted),
        doctor.check_disk(probe_disk(data_dir), wanted),
    ]  # fmt: skip
    if with_ports:
        numbers = (port, port + 1, port + 2) if port else (0, 0, 0)
        findings.append(doctor.check_ports(probe_ports(config.network.host, numbers)))
    return findings


def check_at_start(role: str, config: RunConfig, *, data_dir: Path, port: int) -> None:
    """Log each finding in one line. Raises Unfit for the first problem."""
    findings = machine_findings(role, config, wanted=config.requirements, data_dir=data_dir, port=port)
    for finding in findings:
        log_finding(finding)
    problems = [finding for finding in findings if finding.status == "problem"]
    if problems:
        more = f" (and {len(problems) - 1} more in the log)" if len(problems) > 1 else ""
        raise Unfit(f"{problems[0].check}: {problems[0].line}{more}", fix=problems[0].fix)


def log_finding(finding: Finding) -> None:
    """One line in the log, the fix included."""
    fix = f"; fix: {finding.fix}" if finding.fix else ""
    log.log(LEVELS[finding.status], "%s: %s: %s%s", finding.status, finding.check, finding.line, fix)


async def probe_download(ledger: Ledger, network: Network, pool_id: int) -> Download | None:
    """One chunk of the newest policy, fetched from a relay (or who else serves it) and timed; None before the first."""
    newest = await on_chain(ledger.latest_checkpoint, pool_id)
    if newest is None:
        return None
    try:
        serving = [*await relay_urls(ledger, network, pool_id), *await network.content.providers(newest.manifest_hash)]
        others = [url for url in dict.fromkeys(serving) if url != network.bulk_url]
        got = await network.content.measure_chunk(newest.manifest_hash, others, timeout_s=SPEED_TIMEOUT_S)
    except (ContentUnavailable, ManifestInvalid, NetworkDown, ChildError) as fault:
        return Download(fault=str(fault))
    return Download(chunk_bytes=got["chunk_bytes"], seconds=got["seconds"], policy_bytes=got["total_bytes"])


async def check_before_download(config: RunConfig, ledger: Ledger, network: Network) -> None:
    """Log how fast the policy will come; a node then fetches it in any case, and again until it has it."""
    download = await probe_download(ledger, network, config.ledger.pool_id)
    if download is None:
        log.info("no policy is announced yet; the download is not tested")
    else:
        log_finding(check_bandwidth(download, config.requirements))
