"""Descriptions of deployments, reason codes, and starting a chain."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

from ledger.anvil import anvil, anvil_binary
from ledger.client import Ledger
from ledger.deployment import Deployment, deploy
from ledger.errors import AnvilFailed, ChainUnavailable, DeploymentInvalid
from ledger.rpc import Rpc
from ledger.types import reason_bytes, reason_text

CONTRACTS = Path(__file__).resolve().parents[2] / "contracts"


def test_a_deployment_survives_being_written_down(deployment):
    assert Deployment.from_dict(deployment.to_dict()) == deployment


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"salt": "0x12"}, "salt has 1 bytes"),
        ({"salt": 5}, "salt is not hexadecimal"),
        ({"pools": "0x12"}, "pools is not a checksum address"),
        ({"chain_id": "31337"}, "chain_id is not a whole number"),
        ({"colour": 1}, "has the fields"),
    ],
)
def test_malformed_descriptions_are_refused_by_field(deployment, change, message):
    with pytest.raises(DeploymentInvalid, match=message):
        Deployment.from_dict(deployment.to_dict() | change)


def test_a_missing_field_is_refused(deployment):
    values = deployment.to_dict()
    del values["court"]
    with pytest.raises(DeploymentInvalid):
        Deployment.from_dict(values)


def test_the_unbonding_time_is_the_deployers_choice(chain):
    short = deploy(chain.url, chain.account(1), unbonding_s=60)
    assert Ledger(chain.url, short).unbonding_s() == 60


def test_reason_codes_fit_32_ascii_bytes():
    assert reason_text(reason_bytes("proof-mismatch")) == "proof-mismatch"
    assert reason_text(b"\xff" + bytes(31)) == "\\xff"
    with pytest.raises(ValueError, match="longer than 32"):
        reason_bytes("x" * 33)


def test_anvil_is_gone_afterwards():
    with anvil(anvil_binary(CONTRACTS)) as running:
        assert Rpc(running.url).call("eth_chainId") == "0x7a69"
    with pytest.raises(ProcessLookupError):
        os.kill(running.pid, 0)
    with pytest.raises(ChainUnavailable):
        Rpc(running.url).call("eth_chainId")


def test_anvil_says_why_it_did_not_start(tmp_path):
    with pytest.raises(AnvilFailed, match="npm ci"):
        anvil_binary(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(AnvilFailed, match=str(port)), anvil(anvil_binary(CONTRACTS), port=port):
            pass


def test_a_url_that_is_none_is_said_at_once():
    with pytest.raises(ChainUnavailable, match="not an http"):
        Rpc("ftp://127.0.0.1")


def test_a_connection_that_died_is_opened_again_and_an_endpoint_that_died_is_named():
    with anvil(anvil_binary(CONTRACTS)) as first:
        rpc = Rpc(first.url)
        assert rpc.call("eth_blockNumber") == "0x0"
        port = int(first.url.rpartition(":")[2])
    with pytest.raises(ChainUnavailable, match=str(port)):
        rpc.call("eth_blockNumber")
    with anvil(anvil_binary(CONTRACTS), port=port):
        assert rpc.call("eth_blockNumber") == "0x0"


def test_an_endpoint_that_is_silent_is_a_transport_fault():
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(ChainUnavailable, match="TimeoutError"):
        Rpc(f"http://127.0.0.1:{server.getsockname()[1]}", timeout_s=0.1).call("eth_chainId")


def test_an_endpoint_that_talks_nonsense_is_a_transport_fault():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 4\r\n\r\noops")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        with pytest.raises(ChainUnavailable, match="not JSON"):
            Rpc(f"http://127.0.0.1:{server.getsockname()[1]}", timeout_s=5).call("eth_chainId")
        thread.join(5)
