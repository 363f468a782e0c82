"""Calls one function of a program inside the sandbox and prints what it returns as JSON, and nothing else.

    python runner.py FUNCTION < arguments.json

The program shares this process and can therefore print whatever it likes in place of it: that gains it nothing, since
what is expected is not here. `FUNCTION` is a function of the program, or a method of its class `Solution`.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def find(names: dict[str, Any], function: str) -> Any:
    """The function, or the method of a new Solution."""
    if function in names:
        return names[function]
    return getattr(names["Solution"](), function)


def main() -> None:
    arguments = json.load(sys.stdin)
    answer = os.dup(1)
    os.dup2(os.open("/dev/null", os.O_WRONLY), 1)  # what the program prints is no result
    names: dict[str, Any] = {"__name__": "solution"}
    with open("/box/solution.py", encoding="utf-8") as file:
        exec(compile(file.read(), "solution.py", "exec"), names)
    with os.fdopen(answer, "w", encoding="utf-8") as out:
        json.dump(find(names, sys.argv[1])(*arguments), out)


if __name__ == "__main__":
    main()
