"""Work on other problems, after other prompts, or for another entry of the ledger than it was recorded for."""

from __future__ import annotations

from dataclasses import replace

from rl.prompts import render_prompt
from rl.tasks import load_task
from tests.attacks.attack import Family, Offer
from tests.attacks.stage import Stage
from tests.verify.conftest import CLAIM

PROBLEMS = Family("Problems and prompts")
EASY = "1 + 1"


def _under(stage: Stage, **changes: object) -> Offer:
    return Offer(content=stage.honest, claim=replace(CLAIM, **changes))


@PROBLEMS.by("greedy", "problems")
def an_easy_problem(stage: Stage) -> Offer:
    """Solves the easiest problem instead of the dictated ones, honestly."""
    task = stage.world.task
    easy = replace(task, make_problem=lambda index: task.problem(0))
    return Offer(content=replace(stage.world, task=easy).generate())


@PROBLEMS.by("greedy", "problems")
def an_easy_problem_for_one_group(stage: Stage) -> Offer:
    """Relabels one group with the easiest problem."""
    easy = stage.world.task.problem(0).problem_id
    return Offer(content=stage.edit_all(lambda r: {"problem_id": easy} if r.group == 1 else {}))


@PROBLEMS.by("greedy", "problems")
def one_problem_for_all_groups(stage: Stage) -> Offer:
    """Solves the first dictated problem in every group, honestly."""
    task, first = stage.world.task, stage.problems[0]
    return Offer(content=replace(stage.world, task=replace(task, make_problem=lambda index: first)).generate())


@PROBLEMS.by("greedy", "problems")
def the_same_number_in_another_environment(stage: Stage) -> Offer:
    """Solves problems of an easier environment that have the dictated numbers."""
    return Offer(content=replace(stage.world, task=replace(load_task("digits"), size=stage.world.task.size)).generate())


@PROBLEMS.by("greedy", "problems")
def the_dictated_problems_in_another_order(stage: Stage) -> Offer:
    """Solves the right problems, but the ones that it has answers for first."""
    moved = stage.edit_all(lambda r: {"group": r.group ^ 1} if r.group < 2 else {})
    return Offer(content=sorted(moved, key=lambda r: (r.group, r.sample)))


@PROBLEMS.by("saboteur", "problems")
def a_problem_id_of_a_megabyte(stage: Stage) -> Offer:
    """Fills a problem's name until logs and evidence burst."""
    return Offer(content=stage.edit(0, problem_id="arithmetic/" + "9" * 2**20))


@PROBLEMS.by("greedy", "problems")
def a_picked_counter(stage: Stage) -> Offer:
    """Tries counters until one draws easy problems, and submits under number 64."""
    far = replace(CLAIM, counter=64)
    return Offer(content=stage.world.generate(claim=far), claim=far)


@PROBLEMS.by("greedy", "problems")
def the_work_of_another_counter(stage: Stage) -> Offer:
    """Does the work of its second submission, whose problems are easier, and hands it in as its first."""
    work = stage.world.generate(claim=replace(CLAIM, counter=1))
    return Offer(content=[replace(r, counter=0) for r in work])


@PROBLEMS.by("copier", "problems")
def a_file_of_another_worker(stage: Stage) -> Offer:
    """Downloads a file from a relay and records its hash as its own."""
    return _under(stage, worker="0x" + "b2" * 20)


@PROBLEMS.by("copier", "problems")
def a_file_of_another_run(stage: Stage) -> Offer:
    """Hands in what it was paid for in another run."""
    return _under(stage, run_id=b"q" * 32)


@PROBLEMS.by("copier", "problems")
def its_own_file_of_the_last_step(stage: Stage) -> Offer:
    """Hands in yesterday's file again, unchanged."""
    return _under(stage, step=6)


@PROBLEMS.by("copier", "problems")
def its_own_file_relabelled(stage: Stage) -> Offer:
    """Hands in the last step's file with the new step's number in it."""
    return Offer(content=stage.edit_all(lambda r: {"step": 6}), claim=replace(CLAIM, step=6))


@PROBLEMS.by("copier", "problems")
def its_own_file_under_the_next_counter(stage: Stage) -> Offer:
    """Hands in one file twice within a step, and changes the counter in it."""
    return Offer(content=stage.edit_all(lambda r: {"counter": 1}), claim=replace(CLAIM, counter=1))


# --- prompts


@PROBLEMS.by("saboteur", "prompt")
def an_extra_first_token(stage: Stage) -> Offer:
    """Begins every prompt with a second turn marker, as a double BOS would."""
    return Offer(content=stage.world.generate(prompt_prefix=(1,)))


def _prompted(stage: Stage, words: str | None, *, system: str | None = None) -> Offer:
    """Honest work after prompts of other words; None: the problem's own."""
    tokenizer = stage.world.policy.tokenizer
    prompts = [render_prompt(tokenizer, replace(p, prompt=words or p.prompt), system) for p in stage.problems]
    return Offer(content=stage.world.prove(stage.edit_all(lambda r: {"prompt_ids": prompts[r.group]})))


@PROBLEMS.by("greedy", "prompt")
def an_easier_question_under_the_right_name(stage: Stage) -> Offer:
    """Names the dictated problem and asks the model an easier one."""
    return _prompted(stage, f"What is {EASY}?")


@PROBLEMS.by("greedy", "prompt")
def a_system_prompt_that_helps(stage: Stage) -> Offer:
    """Puts a system prompt before the problem that tells the model how to answer well."""
    return _prompted(stage, None, system="You are good at sums.")


@PROBLEMS.by("greedy", "prompt")
def the_answer_in_the_prompt(stage: Stage) -> Offer:
    """Writes the solution behind the question."""
    solved = {p.problem_id: f"{p.prompt} (It is {p.gold_standard_solution}.)" for p in stage.problems}
    tokenizer = stage.world.policy.tokenizer
    prompts = [render_prompt(tokenizer, replace(p, prompt=solved[p.problem_id]), None) for p in stage.problems]
    return Offer(content=stage.world.prove(stage.edit_all(lambda r: {"prompt_ids": prompts[r.group]})))


@PROBLEMS.by("saboteur", "prompt")
def no_chat_template(stage: Stage) -> Offer:
    """Leaves the turn markers out, so that the trainer learns from prompts that it never asks."""
    return Offer(content=stage.world.prove(stage.edit_all(lambda r: {"prompt_ids": r.prompt_ids[1:-1]})))


@PROBLEMS.by("saboteur", "prompt")
def a_prompt_outside_the_vocabulary(stage: Stage) -> Offer:
    """Puts token 2 to the 31 into a prompt, so that the validator's own prefill reads out of bounds."""
    return Offer(content=stage.edit(0, prompt_ids=(2**31 - 1,)))


@PROBLEMS.by("saboteur", "prompt")
def an_empty_prompt(stage: Stage) -> Offer:
    """Leaves a prompt empty, so that there is no state to begin with."""
    return Offer(content=stage.edit(0, prompt_ids=()))
