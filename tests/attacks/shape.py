"""Files of the agreed layout whose rows or values cannot be: counts, ranges, lengths, endings, versions."""

from __future__ import annotations

from dataclasses import replace

from tests.attacks.attack import Family, Offer
from tests.attacks.stage import Stage

SHAPE = Family("Rows, values and endings")

# --- rows


@SHAPE.by("greedy", "row-count")
def a_row_missing(stage: Stage) -> Offer:
    """Leaves out the completion that came out worst."""
    return Offer(content=stage.honest[:-1])


@SHAPE.by("greedy", "row-count")
def no_rows_at_all(stage: Stage) -> Offer:
    """Hands in nothing in a faultless file: all checks of all rows would hold."""
    return Offer(content=())


@SHAPE.by("saboteur", "row-count")
def rows_in_another_order(stage: Stage) -> Offer:
    """Shuffles rows, so that advantages are taken over mixed groups."""
    return Offer(content=stage.honest[::-1])


@SHAPE.by("greedy", "row-count")
def one_sample_twice(stage: Stage) -> Offer:
    """Reports a good sample under its own number twice and another one not at all."""
    return Offer(content=(stage.honest[0], *stage.honest[:1], *stage.honest[2:]))


@SHAPE.by("saboteur", "row-count")
def a_negative_group(stage: Stage) -> Offer:
    """Numbers a group -1, the last one for whoever indexes with it."""
    return Offer(content=stage.edit(0, group=-1))


# --- versions


def _of_version(stage: Stage, version: int) -> Offer:
    return Offer(content=stage.edit_all(lambda r: {"policy_version": version}))


@SHAPE.by("saboteur", "version")
def a_policy_to_come(stage: Stage) -> Offer:
    """Names a version that nobody has announced, which validators would look for in vain."""
    return _of_version(stage, 6)


@SHAPE.by("saboteur", "version")
def a_negative_policy(stage: Stage) -> Offer:
    """Names version -1, the newest for whoever indexes with it."""
    return _of_version(stage, -1)


@SHAPE.by("saboteur", "version")
def a_policy_beyond_all_numbers(stage: Stage) -> Offer:
    """Names a version near 2 to the 62, so that somebody's arithmetic runs over."""
    return _of_version(stage, 2**62)


@SHAPE.by("lazy", "version")
def several_policies_in_one_file(stage: Stage) -> Offer:
    """Goes on with half a file that it began under the version before."""
    return Offer(content=stage.edit(1, policy_version=4))


# --- tokens and log-probabilities


def _first_token(stage: Stage, token: int) -> Offer:
    return Offer(content=stage.edit(2, completion_ids=(token, *stage.honest[2].completion_ids[1:])))


for _token in (-1, 98, 2**31 - 1):
    SHAPE.add(
        f"token id {_token}",
        "saboteur",
        "bounds",
        "Names a token outside the vocabulary of 98, so that an embedding is read out of bounds.",
        lambda stage, token=_token: _first_token(stage, token),
    )


@SHAPE.by("lazy", "bounds")
def a_completion_without_tokens(stage: Stage) -> Offer:
    """Generates nothing, proves nothing, and has nothing wrong in it."""
    return Offer(content=stage.edit(1, completion_ids=(), logprobs=(), proofs=(), text=""))


@SHAPE.by("greedy", "bounds")
def a_completion_that_is_too_long(stage: Stage) -> Offer:
    """Goes on beyond the maximum until the answer comes."""
    row = stage.honest[stage.longest]
    longer = replace(row, completion_ids=(*row.completion_ids, 5), logprobs=(*row.logprobs, -1.0))
    return Offer(content=(*stage.honest[: stage.longest], longer, *stage.honest[stage.longest + 1 :]))


@SHAPE.by("lazy", "bounds")
def no_log_probabilities(stage: Stage) -> Offer:
    """Leaves the log-probabilities out, since the trainer has its own."""
    return Offer(content=stage.edit_all(lambda r: {"logprobs": ()}))


for _value, _word in ((float("nan"), "not a number"), (float("-inf"), "minus infinity"), (0.5, "above zero")):
    SHAPE.add(
        f"a log-probability {_word}",
        "saboteur",
        "bounds",
        "Reports one impossible log-probability, which would make the trainer's loss worthless.",
        lambda stage, value=_value: Offer(
            content=stage.edit(2, logprobs=(value, *stage.honest[2].logprobs[1:])),
        ),
    )


@SHAPE.by("saboteur", "bounds")
def a_finish_reason_of_its_own(stage: Stage) -> Offer:
    """Says that a completion finished by 'stop', which is neither an EOS nor the limit."""
    return Offer(content=stage.edit(0, finish_reason="stop"))


# --- endings


@SHAPE.by("greedy", "ending")
def going_on_after_the_end(stage: Stage) -> Offer:
    """Hides an EOS in the middle and writes a better answer behind it."""
    ids = stage.honest[stage.longest].completion_ids
    return Offer(content=stage.edit(stage.longest, completion_ids=(*ids[:9], 0, *ids[10:])))


@SHAPE.by("greedy", "ending")
def cut_but_sold_as_finished(stage: Stage) -> Offer:
    """Calls a completion finished that ran into the limit, since only finished ones may be worth something."""
    return Offer(content=stage.edit(stage.longest, finish_reason="eos"))


@SHAPE.by("lazy", "ending")
def cut_short(stage: Stage) -> Offer:
    """Stops every completion a few tokens before the limit."""
    row = stage.honest[stage.longest]
    return Offer(content=stage.edit(stage.longest, completion_ids=row.completion_ids[:36], logprobs=row.logprobs[:36]))


@SHAPE.by("saboteur", "ending")
def finished_but_sold_as_cut(stage: Stage) -> Offer:
    """Calls a finished completion cut, so that a right answer counts for nothing."""
    return Offer(content=stage.edit(stage.ended, finish_reason="length"))
