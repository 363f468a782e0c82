"""Makes TRL's own environment: the pinned TRL beside the very torch, transformers and numpy that this project runs on.

TRL is no dependency of the project; the comparison alone needs it. pip takes what it is configured to take.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from benchmarks.learning.items import NotRun

TRL = "1.16.0"
SHARED = ("torch", "transformers", "accelerate", "numpy")
"""Packages whose versions must be those of this environment, or the comparison would be one of them."""
INSTALL_TIMEOUT_S = 1800.0


def pins() -> tuple[str, ...]:
    """What is installed, as pip's requirements; local labels such as +cpu are left to pip."""
    return (f"trl=={TRL}", *(f"{name}=={version(name).partition('+')[0]}" for name in SHARED))


def prepare(folder: Path, say: Callable[[str], None]) -> Path:
    """The environment's python, made on first use. Raises NotRun where it cannot be made; the message says why."""
    python, stamp = folder / "bin" / "python", folder / "installed.txt"
    wanted = "\n".join(pins()) + "\n"
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    say(f"installing {', '.join(pins())} into {folder}, about 2 GB")
    _run([sys.executable, "-m", "venv", "--clear", str(folder)])
    _run([str(python), "-m", "pip", "install", "-q", *pins()])
    stamp.write_text(wanted)
    return python


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as fault:
        raise NotRun(f"{' '.join(command)} took more than {INSTALL_TIMEOUT_S:.0f} s; is the network slow?") from fault
    if done.returncode != 0:
        cause = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("WARNING")]
        raise NotRun(
            f"TRL {TRL} cannot be installed: {' | '.join(cause[-3:]) or 'no reason given'}. Fix: give pip an index "
            f"that has {', '.join(pins())} (PIP_INDEX_URL, PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS), then start again"
        )
