"""Turns a GGUF file into a plain bfloat16 Hugging Face folder: `python -m rl.unpack MODEL.gguf FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def unpack(gguf: Path, folder: Path) -> None:
    """Write weights and tokenizer of `gguf` to `folder`; quantised tensors are expanded."""
    source, name = str(gguf.parent), gguf.name
    packed = AutoModelForCausalLM.from_pretrained(source, gguf_file=name, dtype=torch.float32)
    config = packed.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    # A model made from the bare config is an ordinary one; the loaded one remembers its quantisation.
    plain = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    plain.load_state_dict(packed.state_dict())
    plain.tie_weights()
    plain.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source, gguf_file=name).save_pretrained(folder)


if __name__ == "__main__":
    unpack(Path(sys.argv[1]), Path(sys.argv[2]))
