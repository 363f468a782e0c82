"""What the grading process is asked to call in its tests: good, bad and endless functions."""

from __future__ import annotations

import os
import signal
import sys
import time

_remembered: list[int] = []


def misbehave(how: str, number: int = 0) -> object:
    if how == "double":
        return 2 * number
    if how == "remember":
        _remembered.append(number)
        return len(_remembered)
    if how == "raise":
        raise ValueError("no such answer")
    if how == "exit":
        sys.exit(3)
    if how == "vanish":
        os._exit(0)
    if how == "killed":
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "spin":
        while True:
            pass
    if how == "calls":
        while True:
            try:
                len("")
            except Exception:  # what a library does to stay alive must not keep it alive
                continue
    if how == "sleep":
        time.sleep(3600)
    if how == "memory":
        return len(bytearray(1 << 40))
    if how == "print":
        print('{"value": 7}', flush=True)
        return os.write(1, b'{"value": 7}\n')
    if how == "environment":
        return sorted(os.environ)
    return object()
