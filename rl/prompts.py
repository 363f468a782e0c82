"""From a problem to token ids: the one canonical rendering that worker and validator must share.

It refuses to guess: the chat template is the checkpoint's own, and a checkpoint without one is an error.
"""

from __future__ import annotations

from typing import Protocol

from rl.tasks import Problem


class PromptTooLong(ValueError):
    """A prompt leaves no room for an answer of the length that the task allows; nothing may be cut to make some."""


class Tokenizer(Protocol):
    """What of a Hugging Face tokenizer is used here."""

    chat_template: str | None
    eos_token_id: int

    def apply_chat_template(self, conversation: list[dict[str, str]], **options: object) -> list[int]: ...

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool) -> str: ...


def render_prompt(tokenizer: Tokenizer, problem: Problem, system_prompt: str | None) -> tuple[int, ...]:
    """Token ids of `problem` as one chat turn, ready for the assistant's reply.

    Args:
        system_prompt: None leaves the choice to the chat template; a string, also an empty one, replaces it.
    """
    if tokenizer.chat_template is None:
        raise ValueError("the checkpoint's tokenizer has no chat template; add chat_template.jinja to its folder")
    system = [] if system_prompt is None else [{"role": "system", "content": system_prompt}]
    messages = [*system, {"role": "user", "content": problem.prompt}]
    rendered = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=False)
    return tuple(int(token) for token in rendered)


def decode_completion(tokenizer: Tokenizer, completion_ids: tuple[int, ...]) -> str:
    """The text that the reward function sees; special tokens are left out."""
    return tokenizer.decode(list(completion_ids), skip_special_tokens=True)
