from __future__ import annotations

import pytest

from benchmarks.tiny_model import make_tokenizer
from rl.prompts import decode_completion, render_prompt
from rl.tasks import Problem

PROBLEM = Problem(
    problem_id="t/1", source="t", task_type="number", prompt="Say 1 + 1 – exactly.", gold_standard_solution="2"
)


def text(ids: tuple[int, ...]) -> str:
    return make_tokenizer().decode(list(ids), skip_special_tokens=False)


def test_a_prompt_is_the_templates_turns() -> None:
    ids = render_prompt(make_tokenizer(), PROBLEM, None)
    assert text(ids) == "<|user|>Say 1 + 1 – exactly.<|assistant|>"
    assert {type(token) for token in ids} == {int}
    assert ids == render_prompt(make_tokenizer(), PROBLEM, None)


def test_a_system_prompt_is_a_turn_of_its_own_even_if_empty() -> None:
    rendered = [text(render_prompt(make_tokenizer(), PROBLEM, system)) for system in ("Be brief.", "")]
    assert rendered[0].startswith("<|system|>Be brief.<|user|>Say")
    assert rendered[1].startswith("<|system|><|user|>Say")


def test_a_checkpoint_without_a_template_is_refused() -> None:
    tokenizer = make_tokenizer()
    tokenizer.chat_template = None
    with pytest.raises(ValueError, match="no chat template"):
        render_prompt(tokenizer, PROBLEM, None)


def test_completions_are_decoded_without_special_tokens() -> None:
    tokenizer = make_tokenizer()
    ids = tokenizer.encode("12 – ok", add_special_tokens=False)
    assert decode_completion(tokenizer, (*ids, tokenizer.eos_token_id)) == "12 – ok"
    assert decode_completion(tokenizer, (tokenizer.eos_token_id,)) == ""
    assert decode_completion(tokenizer, tuple(ids[:4])) == "12 �", "half a character is shown, not dropped"
