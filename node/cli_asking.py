"""Options of the commands that ask a policy a task's problems, and what is made of them: folder, task and question.

Decides their spelling: each overrides the key of the config that a run would generate by.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from node.cli_options import config_of, config_options, options

asking_options = options(
    click.option("--samples", type=click.IntRange(1, 1024), default=8, show_default=True, help="Answers per problem."),
    click.option("--temperature", type=click.FloatRange(0, 2, min_open=True), help="Overrides rl.temperature."),
    click.option("--max-new-tokens", type=click.IntRange(1, 32_768), help="Overrides task.max_new_tokens."),
    click.option(
        "--seed",
        type=click.IntRange(0, 2**63 - 1),
        default=0,
        show_default=True,
        help="Of the noise behind each token.",
    ),
    click.option(
        "--backend",
        type=click.Choice(("auto", "vllm", "transformers")),
        help="Overrides worker.backend: vLLM, or transformers, which is slower.",
    ),
    config_options,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What the options name."""

    samples: int
    temperature: float | None
    max_new_tokens: int | None
    seed: int
    backend: str | None
    config_path: Path | None
    overrides: tuple[str, ...]

    def asking(self, task_name: str | None, limit: int | None = None) -> tuple[Any, Any]:
        """The task and what is asked of it; no name leaves the task to the config. Raises UserError."""
        from node.asking import Asking, chosen, usable_task

        named = {
            "task.name": task_name,
            "task.max_new_tokens": self.max_new_tokens,
            "rl.temperature": self.temperature,
            "worker.backend": self.backend,
        }
        words = [f"{key}={value}" for key, value in named.items() if value is not None]
        if self.max_new_tokens is not None:
            # The engine gets as much room as prompts and completions need, whatever the run's workers have.
            words.append("model.max_model_len=131072")
        config = config_of(self.config_path, (*self.overrides, *words), None)
        task = usable_task(config.task.name)
        indices = chosen(task, limit, self.seed)
        return task, Asking(config=config, samples=self.samples, seed=self.seed, indices=indices)


def with_asking(command: Callable[..., Any]) -> Callable[..., Any]:
    """Those options, given to the command as one `choice: Choice`."""

    @functools.wraps(command)
    def run(
        *, samples: int, temperature: float | None, max_new_tokens: int | None, seed: int, backend: str | None,
        config_path: Path | None, overrides: tuple[str, ...], **others: Any,
    ) -> Any:  # fmt: skip
        choice = Choice(
            samples=samples,
            temperature=temperature,
            max_new_tokens=max_new_tokens,
            seed=seed,
            backend=backend,
            config_path=config_path,
            overrides=overrides,
        )
        return command(choice=choice, **others)

    return asking_options(run)


def model_folder(path: str) -> Path:
    """The policy's folder; empty: the packaged model. Raises UserError."""
    from node.errors import UserError
    from node.model import base_model

    if path and not Path(path).is_dir():
        raise UserError(f"there is no folder {path}", fix="name a Hugging Face folder with safetensors weights")
    return base_model(path)
