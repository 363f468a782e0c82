"""A policy as changes of another: the same bytes come out, whatever changed, or nothing is used."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from dht import delta
from dht.delta import DeltaInvalid, Version, apply_delta, write_delta
from dht.manifest import POLICY, Manifest, cut, encode_manifest, manifest_id

RUN_ID = bytes(32)


def _version(folder: Path, number: int = 1) -> Version:
    files = tuple(cut(path.name, [path.read_bytes()]) for path in sorted(folder.iterdir()))
    manifest = Manifest(run_id=RUN_ID, kind=POLICY, version=number, chunk_size_bytes=1 << 24, files=files)
    return Version(content=manifest_id(encode_manifest(manifest)), manifest=manifest, folder=folder)


def _policy(folder: Path, tensors: dict[str, np.ndarray], config: str = "{}") -> Version:
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(config)
    (folder / "empty").write_bytes(b"")
    return _version(folder)


def _weights(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "a": rng.normal(0, 0.02, (300, 70)).astype(np.float16),
        "b": rng.normal(0, 0.02, (50, 333)).astype(np.float32),
        "c": rng.integers(0, 255, 77, dtype=np.uint8),
        "d": rng.normal(0, 1, 9).astype(np.float64),
    }


def _moved(tensors: dict[str, np.ndarray], seed: int = 1) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {n: (t + 1e-4 * rng.normal(0, 1, t.shape)).astype(t.dtype) if n != "c" else t for n, t in tensors.items()}


def _made(base: Version, result: Version, folder: Path) -> Path:
    path = folder / "delta"
    size = write_delta(path, base=base, result=result)
    assert path.stat().st_size == size
    return path


def _applied(path: Path, base: Version, result: Version, target: Path) -> dict[str, bytes]:
    target.mkdir(exist_ok=True)
    apply_delta(path, base=base, content=result.content, manifest=result.manifest, target=target)
    return {file.name: file.read_bytes() for file in target.iterdir()}


def _bytes_of(version: Version) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in version.folder.iterdir()}


CHANGES = {
    "an update": (_moved(_weights()), "{}"),
    "nothing": (_weights(), "{}"),
    "another config": (_moved(_weights()), '{"a": 1}'),
    "a new tensor": (_weights() | {"e": np.ones(3, dtype=np.float32)}, "{}"),
    "a tensor less": ({"a": _weights()["a"]}, "{}"),
    "another shape": (_weights() | {"a": np.ones((70, 300), dtype=np.float16)}, "{}"),
    "another type": (_weights() | {"a": np.ones((300, 70), dtype=np.int16)}, "{}"),
    "odd numbers": (
        _weights() | {"b": np.tile(np.array([0.0, -0.0, np.inf, -np.inf, np.nan], np.float32), 3330).reshape(50, 333)},
        "{}",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("run", [1 << 21, 1000])
def test_the_result_is_the_same_to_the_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, run: int
) -> None:
    monkeypatch.setattr(delta, "RUN", run)
    base = _policy(tmp_path / "base", _weights())
    result = _policy(tmp_path / "result", *CHANGES[change])
    path = _made(base, result, tmp_path)
    assert _applied(path, base, result, tmp_path / "out") == _bytes_of(result)


def test_an_update_is_far_smaller_than_the_policy_and_an_equal_one_takes_nothing(tmp_path: Path) -> None:
    base = _policy(tmp_path / "base", _weights())
    small = {n: t.copy() for n, t in _weights().items()}
    small["b"][3] += 1e-4
    result = _policy(tmp_path / "result", small)
    same = _policy(tmp_path / "same", _weights())
    assert _made(base, result, tmp_path).stat().st_size < sum(f.size_bytes for f in result.manifest.files) / 50
    (tmp_path / "delta").unlink()
    assert _made(base, same, tmp_path).stat().st_size < 200


def test_files_that_went_are_not_made(tmp_path: Path) -> None:
    base = _policy(tmp_path / "base", _weights())
    (base.folder / "old.json").write_text("{}")
    base = _version(base.folder)
    result = _policy(tmp_path / "result", _moved(_weights()))
    assert "old.json" not in _applied(_made(base, result, tmp_path), base, result, tmp_path / "out")


def test_on_another_base_for_another_result_and_twice_it_is_refused(tmp_path: Path) -> None:
    base, other = _policy(tmp_path / "base", _weights()), _policy(tmp_path / "other", _weights(7))
    result, third = _policy(tmp_path / "result", _moved(_weights())), _policy(tmp_path / "third", _moved(_weights(), 9))
    path = _made(base, result, tmp_path)
    for wrong in (other, result):  # applied twice is applied to its own result
        with pytest.raises(DeltaInvalid, match="it changes"):
            _applied(path, wrong, result, tmp_path / "out")
    with pytest.raises(DeltaInvalid, match="it makes"):
        _applied(path, base, third, tmp_path / "out")


def test_a_base_that_changed_on_the_disk_is_found_out(tmp_path: Path) -> None:
    base = _policy(tmp_path / "base", _weights())
    result = _policy(tmp_path / "result", _moved(_weights()))
    path = _made(base, result, tmp_path)
    data = bytearray((base.folder / "model.safetensors").read_bytes())
    data[-5000] ^= 1
    (base.folder / "model.safetensors").write_bytes(data)
    with pytest.raises(DeltaInvalid):
        _applied(path, base, result, tmp_path / "out")


def test_every_truncation_and_every_flipped_bit_is_found_before_use(tmp_path: Path) -> None:
    tensors = {"a": np.random.default_rng(3).normal(0, 0.02, 600).astype(np.float16)}
    base = _policy(tmp_path / "base", tensors)
    result = _policy(tmp_path / "result", {"a": (tensors["a"] * np.float16(1.001)).astype(np.float16)}, '{"a": 1}')
    whole = _made(base, result, tmp_path).read_bytes()
    path = tmp_path / "bad"
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(DeltaInvalid):
            _applied(path, base, result, tmp_path / "out")
    for place in range(8 * len(whole)):
        data = bytearray(whole)
        data[place // 8] ^= 1 << place % 8
        path.write_bytes(data)
        with pytest.raises(DeltaInvalid):
            _applied(path, base, result, tmp_path / "out")
    path.write_bytes(whole + b"\0")
    with pytest.raises(DeltaInvalid, match="more follows"):
        _applied(path, base, result, tmp_path / "out")


@pytest.mark.parametrize("seed", range(20))
def test_tensor_tables_that_lie_still_give_the_same_bytes(tmp_path: Path, seed: int) -> None:
    """Both sides read the base's table; whatever it says, they must come to the same runs."""
    rng = random.Random(seed)
    offsets = [rng.choice([-5, 0, 3, 8, 64, 1000, 10**12, "x", None, 2.5]) for _ in range(2)]
    dtype = rng.choice(["BF16", "F32", "F7", 3])
    table = (f'{{"t": {{"dtype": {dtype!r}, "data_offsets": {offsets!r}}}}}').replace("'", '"').replace("None", "null")
    files = []
    for name in ("base", "result"):
        folder = tmp_path / name
        folder.mkdir()
        numbers = np.random.default_rng(seed + len(files)).integers(0, 256, 700, dtype=np.uint8).tobytes()
        (folder / "model.safetensors").write_bytes(len(table).to_bytes(8, "little") + table.encode() + numbers)
        files.append(_version(folder))
    base, result = files
    assert _applied(_made(base, result, tmp_path), base, result, tmp_path / "out") == _bytes_of(result), f"seed {seed}"
