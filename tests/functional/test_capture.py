"""A packet capture of a worker's wire: relays, manager and chain, and the stranger that was let in on purpose."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "capture_addresses"
NAMESPACES = subprocess.run(["unshare", "-rn", "true"], capture_output=True, check=False).returncode == 0


if NAMESPACES:

    def test_nobody_but_relays_manager_and_chain_learns_the_workers_address() -> None:
        done = subprocess.run(
            [sys.executable, str(SCRIPT), "--stranger"], capture_output=True, text=True, timeout=560, check=False
        )
        rows = {line.split()[0]: line for line in done.stdout.splitlines()[1:-1]}
        assert {name for name, row in rows.items() if row.endswith("yes")} == {"chain", "relay", "trainer"}, done.stderr
        unseen = {name for name, row in rows.items() if row.endswith("unseen, as it must be")}
        assert unseen == {"validator", "worker-2"}
        assert [name for name, row in rows.items() if row.endswith("NO")] == ["stranger"], "and the capture sees it"
        assert done.returncode == 1
        for name in ("chain", "relay", "trainer"):
            assert all(int(count) > 0 for count in rows[name].split()[2:4]), "both ways"

else:

    def test_without_network_namespaces_it_ends_and_names_them() -> None:
        done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode != 0
        assert "unshare" in done.stderr
