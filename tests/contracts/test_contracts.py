"""The contracts pass their own tests, and the checked-in ABI and bytecode are what the sources compile to."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONTRACTS = ROOT / "contracts"


@pytest.fixture(scope="module")
def forge() -> Path:
    found = sorted(CONTRACTS.glob("node_modules/@foundry-rs/forge-*/bin/forge*"))
    assert found, f"forge is missing: run `npm ci` in {CONTRACTS}"
    return found[0]


def run(*argv: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, cwd=CONTRACTS, capture_output=True, text=True, timeout=400, check=False)


def test_checked_in_artifacts_are_what_the_sources_compile_to(forge):
    done = run(sys.executable, ROOT / "scripts" / "build_contracts", "--check")
    assert done.returncode == 0, done.stderr


def test_forge_tests_pass(forge):
    done = run(forge, "test")
    assert done.returncode == 0, done.stdout + done.stderr
    passed, failed, skipped = map(int, re.search(r"(\d+) tests passed, (\d+) failed, (\d+) skip", done.stdout).groups())
    assert passed >= 39
    assert failed == skipped == 0


def test_every_contract_fits_on_a_public_chain():
    for path in (ROOT / "ledger" / "artifacts").glob("*.json"):
        assert len(json.loads(path.read_text())["bytecode"]) // 2 < 24_576, path.name


def test_the_lock_names_no_registry_host():
    lock = json.loads((CONTRACTS / "package-lock.json").read_text())
    assert all("resolved" not in package for package in lock["packages"].values())
    pinned = json.loads((CONTRACTS / "package.json").read_text())["dependencies"]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in pinned.values())
