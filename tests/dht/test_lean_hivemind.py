"""The directory child must not pay for torch: 240 MB and several seconds for every node of a machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_kademlia_without_torch() -> None:
    code = "import sys, dht.kademlia; print(sorted({'torch', 'hivemind.averaging', 'libp2p'} & set(sys.modules)))"
    root = Path(__file__).resolve().parents[2]
    result = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
