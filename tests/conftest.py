"""What several packages' tests share. Heavy imports happen inside the fixtures, so that light tests stay light."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bf16 HF folder that vLLM and transformers load; it answers every question with a random digit. Read only."""
    from tests.functional.tiny_model import make_tiny_model

    folder = tmp_path_factory.mktemp("model") / "tiny"
    make_tiny_model(folder)
    return folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long ones first, so that of two processes none is left with them at the end."""
    items.sort(key=lambda item: (item.path.name != "test_network.py", item.path.parent.name != "functional"))
