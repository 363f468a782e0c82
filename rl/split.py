"""Which problems of a task are held out: by a hash of their name, so that each stays on its side whatever is added.

Decides the side alone. Problems with the same prompt go together, with the first of them: none is trained on that is
asked in the test under another name. It writes no file.
"""

from __future__ import annotations

from collections.abc import Iterable

from eth_utils import keccak

from rl.tasks import Problem


def split(problems: Iterable[Problem], *, test: float, seed: int) -> tuple[list[Problem], list[Problem]]:
    """Training and test problems, both in their order.

    Args:
        test: share of the test, 0 to 1 exclusive; what is reached varies about it as by chance.
        seed: another gives another split.

    Raises ValueError where a side would be empty.
    """
    if not 0.0 < test < 1.0:
        raise ValueError(f"the test's share is above 0 and below 1, not {test}")
    first: dict[str, str] = {}
    sides: tuple[list[Problem], list[Problem]] = ([], [])
    for problem in problems:
        name = first.setdefault(" ".join(problem.prompt.split()), problem.problem_id)
        sides[_is_held_out(name, test, seed)].append(problem)
    if not all(sides):
        raise ValueError(
            f"of {sum(map(len, sides))} problems {len(sides[1])} would be held out, so that one side is empty; choose "
            "another share or seed"
        )
    return sides


def _is_held_out(problem_id: str, test: float, seed: int) -> bool:
    digest = keccak(b"intellect-node/split/1" + seed.to_bytes(8, "big") + problem_id.encode())
    return int.from_bytes(digest[:8], "big") < test * 2**64
