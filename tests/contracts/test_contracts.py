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
CALLS_MEASURED = 9


@pytest.fixture(scope="module")
def forge() -> Path:
    found = sorted(CONTRACTS.glob("node_modules/@foundry-rs/forge-*/bin/forge*"))
    assert found, f"forge is missing: run `npm ci` in {CONTRACTS}"
    return found[0]


@pytest.fixture(scope="module")
def tested(forge: Path) -> subprocess.CompletedProcess[str]:
    """One run of all forge tests, with what they print."""
    return run(forge, "test", "-vv")


def run(*argv: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, cwd=CONTRACTS, capture_output=True, text=True, timeout=900, check=False)


def sources(folder: str) -> str:
    return "\n".join(path.read_text() for path in sorted((CONTRACTS / folder).rglob("*.sol")))


def test_checked_in_artifacts_are_what_the_sources_compile_to(forge):
    done = run(sys.executable, ROOT / "scripts" / "build_contracts", "--check")
    assert done.returncode == 0, done.stderr


def test_forge_tests_pass(tested):
    assert tested.returncode == 0, tested.stdout + tested.stderr
    summary = re.search(r"(\d+) tests passed, (\d+) failed, (\d+) skip", tested.stdout)
    passed, failed, skipped = map(int, summary.groups())
    assert passed >= 164
    assert failed == skipped == 0


def test_random_histories_are_long_and_revert_nowhere(tested):
    runs, calls, reverts = map(int, re.search(r"runs: (\d+), calls: (\d+), reverts: (\d+)", tested.stdout).groups())
    assert runs >= 256
    assert calls >= 256 * 500
    assert reverts == 0


def test_every_error_is_expected_by_a_test():
    declared = set(re.findall(r"\berror (\w+)\(", sources("src")))
    expected = set(re.findall(r"\b\w+\.(\w+)\.selector\b", sources("test")))
    assert len(declared) > 60
    assert not declared - expected


def test_gas_table_in_the_documentation_is_what_forge_measures(tested):
    measured = re.findall(r"^  (\| .+ \|)$", tested.stdout, re.MULTILINE)
    assert len(measured) == CALLS_MEASURED
    documented = (ROOT / "docs" / "protocol.md").read_text()
    assert [row for row in measured if f"\n{row}\n" not in documented] == []


def test_every_contract_fits_on_a_public_chain():
    for path in (ROOT / "ledger" / "artifacts").glob("*.json"):
        assert len(json.loads(path.read_text())["bytecode"]) // 2 < 24_576, path.name


def test_the_lock_names_no_registry_host():
    lock = json.loads((CONTRACTS / "package-lock.json").read_text())
    assert all("resolved" not in package for package in lock["packages"].values())
    pinned = json.loads((CONTRACTS / "package.json").read_text())["dependencies"]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in pinned.values())
