"""Wallet and peer key: made once, private, never replaced, clear about what is wrong."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path

import pytest

from node.errors import PeerKeyLost, UserError, WalletMissing, WrongPassword
from node.peer_key import load_peer_key, make_peer_key
from node.secret_file import write_new_secret
from node.wallet import create_wallet, open_wallet, read_password, wallet_address


def test_a_new_wallet_is_private_encrypted_and_opens(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "wallet.json"
    address = create_wallet(path, "correct horse", iterations=2)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert os.listdir(path.parent) == ["wallet.json"]
    keystore = json.loads(path.read_text())
    assert keystore["version"] == 3
    assert keystore["crypto"]["kdf"] == "scrypt"
    account = open_wallet(path, "correct horse")
    assert account.address == address == wallet_address(path)
    assert account.key.hex() not in path.read_text()


def test_a_wallet_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "wallet.json"
    create_wallet(path, "a", iterations=2)
    before = path.read_bytes()
    with pytest.raises(UserError, match="never overwritten"):
        create_wallet(path, "b", iterations=2)
    with pytest.raises(FileExistsError):
        write_new_secret(path, b"other")
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["wallet.json"]


def test_what_a_bad_wallet_says(tmp_path: Path) -> None:
    path = tmp_path / "wallet.json"
    with pytest.raises(WalletMissing, match="wallet new"):
        open_wallet(path, "")
    create_wallet(path, "right", iterations=2)
    with pytest.raises(WrongPassword):
        open_wallet(path, "wrong")
    path.chmod(0o640)
    with pytest.raises(WalletMissing, match="chmod 600"):
        open_wallet(path, "right")
    for text in ("{", "[]", '{"version": 3}', '{"version": 1}', "x" * 20_000, '{"version": 3, "crypto": 7}'):
        damaged = tmp_path / f"damaged{len(text)}.json"
        write_new_secret(damaged, text.encode())
        with pytest.raises(WalletMissing, match="not an Ethereum keystore"):
            open_wallet(damaged, "right")
        with pytest.raises(WalletMissing, match="not an Ethereum keystore"):
            wallet_address(damaged)
        damaged.unlink()


@pytest.mark.parametrize(("mode", "warned"), [(0o600, False), (0o400, False), (0o640, True), (0o604, True)])
def test_a_password_file_that_others_can_read_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, warned: bool
) -> None:
    path = tmp_path / "password"
    path.write_text("secret\n")
    path.chmod(mode)
    assert read_password(file=path) == "secret"
    assert ("chmod 600" in caplog.text) is warned
    assert "secret" not in caplog.text


def test_passwords_come_from_a_file_or_a_descriptor(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("two words \r\n")
    assert read_password(file=tmp_path / "password") == "two words "
    reader, writer = os.pipe()
    feeder = threading.Thread(target=lambda: (os.write(writer, b"by pipe\n"), os.close(writer)))
    feeder.start()
    assert read_password(fd=reader) == "by pipe"
    feeder.join()
    os.close(reader)
    with pytest.raises(UserError, match="cannot read the password"):
        read_password(file=tmp_path / "none")
    with pytest.raises(UserError, match="both"):
        read_password(file=tmp_path / "password", fd=0)
    (tmp_path / "long").write_bytes(b"x" * 5000)
    with pytest.raises(UserError, match="longer than"):
        read_password(file=tmp_path / "long")


def test_the_peer_key_is_made_once_and_kept(tmp_path: Path) -> None:
    key = load_peer_key(tmp_path / "data")
    assert load_peer_key(tmp_path / "data") == key
    assert key.peer_id.startswith("12D3KooW")
    assert key.seed.hex() not in repr(key)
    assert stat.S_IMODE((tmp_path / "data" / "peer.key").stat().st_mode) == 0o600
    assert load_peer_key(tmp_path / "other") != key


def test_a_start_that_ended_between_the_two_files_is_completed(tmp_path: Path) -> None:
    key = load_peer_key(tmp_path)
    (tmp_path / "peer.id").unlink()
    assert load_peer_key(tmp_path) == key
    assert (tmp_path / "peer.id").read_text().strip() == key.peer_id


def test_a_lost_or_damaged_peer_key_is_an_error(tmp_path: Path) -> None:
    load_peer_key(tmp_path)
    path = tmp_path / "peer.key"
    path.chmod(0o644)
    with pytest.raises(PeerKeyLost, match="not private"):
        load_peer_key(tmp_path)
    path.unlink()
    with pytest.raises(PeerKeyLost, match="existed and is gone"):
        load_peer_key(tmp_path)
    assert not path.exists()
    for raw in (b"short", b"\0" * 68, make_peer_key(b"\1" * 32).to_bytes(), b"x" * 100):
        write_new_secret(path, raw)
        with pytest.raises(PeerKeyLost, match=r"damaged|not the key"):
            load_peer_key(tmp_path)
        path.unlink()
