"""The import rules of pyproject.toml hold: node → verify → rl | dht | ledger, siblings apart."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINT = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
"""In a process of its own: it silences every logger there is, and with them the tests that read a log."""


def test_the_import_rules_hold() -> None:
    done = subprocess.run([sys.executable, "-c", LINT], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
