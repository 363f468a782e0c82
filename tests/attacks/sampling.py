"""Tokens that the right policy did compute, but did not choose: other draws, other rules, other ends, other hands.

Proofs and log-probabilities are the policy's own throughout (a prefill makes them), so that only the choice is false.
Pools with seeds are attacked first, then pools without.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from tests.attacks.attack import Family, Offer
from tests.attacks.stage import Rollouts, Stage, forced, rounded
from tests.verify.conftest import CLAIM, RULES, UNSEEDED
from verify.rules import Rules

SAMPLING = Family("Sampling in seeded pools")
UNSEEDED_SAMPLING = Family("Sampling in pools without seeds")


def _by_rule(stage: Stage, rules: Rules) -> Offer:
    """The right noise under another rule, with the log-probabilities of the right one."""
    return Offer(content=stage.world.prove(stage.world.generate(rules=rules)))


@SAMPLING.by("lazy", "sampling")
def noise_of_its_own(stage: Stage) -> Offer:
    """Samples honestly, but with its engine's own generator."""
    return Offer(content=stage.unseeded)


@SAMPLING.by("greedy", "sampling")
def the_best_of_three(stage: Stage) -> Offer:
    """Generates everything three times and keeps of each completion the best, then the shortest."""
    tries = [stage.world.generate(rules=UNSEEDED, seed=seed) for seed in (11, 12, 13)]
    best = [max(three, key=lambda r: (r.reward, -len(r.completion_ids))) for three in zip(*tries, strict=True)]
    return Offer(content=best)


@SAMPLING.by("greedy", "sampling")
def one_lucky_draw(stage: Stage) -> Offer:
    """Exchanges a single completion for one drawn apart from the seed."""
    row = stage.longest
    lucky = stage.unseeded[row]
    return Offer(content=[*stage.honest[:row], lucky, *stage.honest[row + 1 :]])


@SAMPLING.by("greedy", "duplicates")
def the_solution_instead_of_samples(stage: Stage) -> Offer:
    """Writes the solution into every completion and lets the policy prove that it could have said so."""
    answers = [stage.answer_ids(p.gold_standard_solution) for p in stage.problems]
    return Offer(content=stage.world.prove([stage.with_tokens(r, answers[r.group]) for r in stage.honest]))


@SAMPLING.by("greedy", "sampling")
def the_solution_once(stage: Stage) -> Offer:
    """Writes the solution into one completion, which makes its group worth training on."""
    ids = stage.answer_ids(stage.problems[0].gold_standard_solution)
    return Offer(content=stage.world.prove((stage.with_tokens(stage.honest[0], ids), *stage.honest[1:])))


@SAMPLING.by("saboteur", "sampling")
def a_phrase_planted(stage: Stage) -> Offer:
    """Begins every completion with words that the trained policy shall repeat, and goes on by the seed."""
    words = stage.answer_ids("Buy ")[:-1]
    return Offer(
        content=stage.meddled(
            lambda _logits, due, _group, index: torch.full_like(due, words[index]) if index < 4 else due
        )
    )


@SAMPLING.by("saboteur", "sampling")
def one_token_exchanged(stage: Stage) -> Offer:
    """Exchanges one token for the least likely one, and goes on by the seed."""

    def meddle(logits: torch.Tensor, due: torch.Tensor, group: int, index: int) -> torch.Tensor:
        if (group, index) == (1, 7):
            due[0] = logits[0].argmin()
        return due

    return Offer(content=stage.meddled(meddle))


@SAMPLING.by("saboteur", "sampling")
def two_samples_exchanged(stage: Stage) -> Offer:
    """Reports two completions of a group under each other's numbers."""
    first, second, *rest = stage.honest
    return Offer(content=[replace(second, sample=0), replace(first, sample=1), *rest])


@SAMPLING.by("greedy", "sampling")
def the_noise_of_another_counter(stage: Stage) -> Offer:
    """Draws with the seed of its next submission, which came out better."""
    other = replace(CLAIM, counter=1)
    return Offer(content=stage.meddled(lambda logits, _, group, index: forced(logits, group, index, claim=other)))


@SAMPLING.by("greedy", "sampling")
def the_noise_of_another_address(stage: Stage) -> Offer:
    """Draws with the seed of another of its wallets, which came out better."""
    other = replace(CLAIM, worker="0x" + "b2" * 20)
    return Offer(content=stage.meddled(lambda logits, _, group, index: forced(logits, group, index, claim=other)))


@SAMPLING.by("lazy", "sampling")
def the_noise_of_the_next_token(stage: Stage) -> Offer:
    """Counts positions from 1, so that each token has its neighbour's noise."""
    return Offer(content=stage.meddled(lambda logits, _, group, index: forced(logits, group, index + 1)))


@SAMPLING.by("greedy", "sampling")
def a_lower_temperature(stage: Stage) -> Offer:
    """Samples at 0.7, where answers are better, with the right noise."""
    return _by_rule(stage, replace(RULES, temperature=0.7))


@SAMPLING.by("saboteur", "sampling")
def a_higher_temperature(stage: Stage) -> Offer:
    """Samples at 1.4, where answers are worse, with the right noise."""
    return _by_rule(stage, replace(RULES, temperature=1.4))


@SAMPLING.by("greedy", "sampling")
def only_the_ten_likeliest(stage: Stage) -> Offer:
    """Samples among the 10 likeliest tokens, with the right noise."""
    return _by_rule(stage, replace(RULES, top_k=10))


@SAMPLING.by("greedy", "sampling")
def only_the_likeliest_nine_tenths(stage: Stage) -> Offer:
    """Samples among the tokens that make 90 % of the probability, with the right noise."""
    return _by_rule(stage, replace(RULES, top_p=0.9))


@SAMPLING.by("saboteur", "sampling")
def tokens_that_the_rule_cuts_off(stage: Stage) -> Offer:
    """Samples among all tokens in a pool whose rule allows the 10 likeliest."""
    rules = replace(RULES, top_k=10)
    return Offer(content=stage.world.prove(stage.honest, sampling=rules.sampling), rules=rules)


@SAMPLING.by("lazy", "duplicates")
def greedy_decoding(stage: Stage) -> Offer:
    """Takes the likeliest token everywhere: one completion serves a whole group."""
    return Offer(content=stage.meddled(lambda logits, *_: logits.argmax(-1)))


@SAMPLING.by("lazy", "duplicates")
def one_answer_for_the_whole_group(stage: Stage) -> Offer:
    """Computes one completion a group and hands it in under every number."""
    samples = RULES.samples
    return Offer(content=[replace(stage.honest[n - n % samples], sample=r.sample) for n, r in enumerate(stage.honest)])


@SAMPLING.by("lazy", "sampling")
def one_answer_twice(stage: Stage) -> Offer:
    """Computes all completions but one, for which it repeats its neighbour's."""
    return Offer(content=[stage.honest[0], replace(stage.honest[0], sample=1), *stage.honest[2:]])


@SAMPLING.by("lazy", "sampling")
def a_stop_after_three_tokens(stage: Stage) -> Offer:
    """Ends every completion at its third token with an EOS that the policy would hardly choose."""
    return Offer(content=stage.meddled(lambda _logits, due, _group, index: due * (index != 2)))


@SAMPLING.by("lazy", "sampling")
def a_stop_after_three_tokens_where_endings_are_counted(stage: Stage) -> Offer:
    """Does the same in a pool that also counts improbable endings."""
    return replace(a_stop_after_three_tokens(stage), rules=replace(RULES, count_endings=True))


@SAMPLING.by("lazy", "sampling")
def one_early_stop(stage: Stage) -> Offer:
    """Ends a single completion early."""
    ids = (*stage.honest[stage.longest].completion_ids[:5], 0)
    short = stage.with_tokens(stage.honest[stage.longest], ids)
    rows = [*stage.honest[: stage.longest], short, *stage.honest[stage.longest + 1 :]]
    return Offer(content=stage.world.prove(rows))


@SAMPLING.by("greedy", "sampling")
def never_an_end(stage: Stage) -> Offer:
    """Forbids the EOS, since credit is paid by the token."""

    def meddle(logits: torch.Tensor, due: torch.Tensor, _group: int, _index: int) -> torch.Tensor:
        return torch.where(due == 0, logits[:, 1:].argmax(-1) + 1, due)

    return Offer(content=stage.meddled(meddle))


@SAMPLING.by("greedy", "sampling")
def only_digits(stage: Stage) -> Offer:
    """Allows digits and the EOS only, so that each completion is some number."""
    allowed = torch.tensor([0, *(3 + ord(d) - 32 for d in "0123456789")])

    def meddle(logits: torch.Tensor, due: torch.Tensor, _group: int, _index: int) -> torch.Tensor:
        best = allowed[logits[:, allowed].argmax(-1)]
        return torch.where(torch.isin(due, allowed), due, best)

    return Offer(content=stage.meddled(meddle))


@SAMPLING.by("greedy", "sampling")
def a_penalty_on_repetition(stage: Stage) -> Offer:
    """Takes 1.5 logits from every token that a completion already holds, as chat servers do by default."""
    penalties = torch.empty(0)

    def meddle(logits: torch.Tensor, _: torch.Tensor, group: int, index: int) -> torch.Tensor:
        nonlocal penalties
        if index == 0:
            penalties = torch.zeros_like(logits)
        tokens = forced(logits + penalties, group, index)
        penalties.scatter_(-1, tokens[:, None], -1.5)
        return tokens

    return Offer(content=stage.meddled(meddle))


def _small(stage: Stage, rules: Rules) -> Rollouts:
    """Tokens of 3-bit weights, in the pool's way, prefilled through the policy."""
    small = stage.with_weights(lambda w: rounded(w, 3))
    return stage.world.prove(stage.world.generate(policy=small, rules=rules))


@SAMPLING.by("lazy", "sampling")
def tokens_of_a_small_model(stage: Stage) -> Offer:
    """Generates with a small model and one prefill of the policy, which makes faultless proofs."""
    return Offer(content=_small(stage, RULES))


@SAMPLING.by("lazy", "sampling")
def lax_speculation(stage: Stage) -> Offer:
    """Lets a draft guess, and takes its token whenever it is among the policy's five likeliest."""
    generator = torch.Generator().manual_seed(8)

    def meddle(logits: torch.Tensor, due: torch.Tensor, _group: int, _index: int) -> torch.Tensor:
        guess = torch.randint(0, 5, due.shape, generator=generator)
        drafted = logits.topk(5).indices.gather(-1, guess[:, None])[:, 0]
        return torch.where(torch.rand(due.shape, generator=generator) < 0.5, drafted, due)

    return Offer(content=stage.meddled(meddle))


# --- without seeds


def _picked(stage: Stage, pick) -> Offer:
    return Offer(content=stage.world.generate(rules=UNSEEDED, pick=pick), rules=UNSEEDED)


def _at(stage: Stage, temperature: float) -> Offer:
    made = stage.world.generate(rules=replace(UNSEEDED, temperature=temperature))
    return Offer(content=stage.world.prove(made), rules=UNSEEDED)


@UNSEEDED_SAMPLING.by("lazy", "distribution")
def tokens_of_a_small_model_without_seeds(stage: Stage) -> Offer:
    """Generates with a small model and one prefill of the policy, which makes faultless proofs."""
    return Offer(content=_small(stage, UNSEEDED), rules=UNSEEDED)


@UNSEEDED_SAMPLING.by("greedy", "distribution")
def a_lower_temperature_without_seeds(stage: Stage) -> Offer:
    """Samples at 0.5, where answers are better."""
    return _at(stage, 0.5)


@UNSEEDED_SAMPLING.by("saboteur", "distribution")
def a_higher_temperature_without_seeds(stage: Stage) -> Offer:
    """Samples at 2, where answers are worse."""
    return _at(stage, 2.0)


@UNSEEDED_SAMPLING.by("greedy", "distribution")
def only_the_five_likeliest_without_seeds(stage: Stage) -> Offer:
    """Samples among the 5 likeliest tokens."""
    generator = torch.Generator().manual_seed(9)

    def pick(logits: torch.Tensor, _index: int) -> torch.Tensor:
        best = logits.topk(5)
        drawn = torch.multinomial(best.values.softmax(-1), 1, generator=generator)
        return best.indices.gather(-1, drawn)[:, 0]

    return _picked(stage, pick)


@UNSEEDED_SAMPLING.by("lazy", "distribution")
def random_tokens_without_seeds(stage: Stage) -> Offer:
    """Writes random letters and lets one prefill prove them."""
    generator = torch.Generator().manual_seed(10)
    return _picked(stage, lambda logits, _index: torch.randint(3, 98, (len(logits),), generator=generator))


@UNSEEDED_SAMPLING.by("lazy", "duplicates")
def greedy_decoding_without_seeds(stage: Stage) -> Offer:
    """Takes the likeliest token everywhere: one completion serves a whole group."""
    return _picked(stage, lambda logits, _index: logits.argmax(-1))


@UNSEEDED_SAMPLING.by("lazy", "distribution")
def beams_without_seeds(stage: Stage) -> Offer:
    """Takes the likeliest token after a first one that differs from sample to sample, as beam search does."""

    def pick(logits: torch.Tensor, index: int) -> torch.Tensor:
        return logits.argsort(-1, descending=True)[:, : len(logits)].diagonal() if index == 0 else logits.argmax(-1)

    return _picked(stage, pick)


@UNSEEDED_SAMPLING.by("lazy", "duplicates")
def one_answer_for_the_whole_group_without_seeds(stage: Stage) -> Offer:
    """Computes one completion a group and hands it in under every number."""
    samples = RULES.samples
    rows = [replace(stage.unseeded[n - n % samples], sample=r.sample) for n, r in enumerate(stage.unseeded)]
    return Offer(content=rows, rules=UNSEEDED)


@UNSEEDED_SAMPLING.by("lazy", "termination")
def a_stop_after_three_tokens_without_seeds(stage: Stage) -> Offer:
    """Ends every completion at its third token with an EOS that the policy would hardly choose."""
    generator = torch.Generator().manual_seed(5)

    def pick(logits: torch.Tensor, index: int) -> torch.Tensor:
        return torch.multinomial(logits.softmax(-1), 1, generator=generator)[:, 0] * (index != 2)

    return _picked(stage, pick)
