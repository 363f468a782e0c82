"""What a model's folder says of itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from node.errors import UserError
from node.model import vocabulary_of


@pytest.mark.parametrize("text", ['{"vocab_size": 32}', '{"vocab_size": 7, "text_config": {"vocab_size": 32}}'])
def test_the_vocabulary_is_the_language_models(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    assert vocabulary_of(tmp_path) == 32


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "7", '{"vocab_size": "32"}', '{"vocab_size": 0}', '{"text_config": 1}']
)
def test_a_folder_that_names_none_is_told_with_what_to_do(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(UserError, match="names no vocab_size") as error:
        vocabulary_of(tmp_path)
    assert "model.path" in error.value.fix
    with pytest.raises(UserError):
        vocabulary_of(tmp_path / "missing")
