"""What the grading process is asked to call in its tests: good, bad and endless functions."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
import tempfile
import time

WRITTEN = os.path.join(tempfile.gettempdir(), "written_by_a_reward")
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
        ctypes.string_at(0)
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
    if how == "forge replies":
        for descriptor in range(64):
            try:
                os.write(descriptor, b'{"value": 7, "calls": 0}\n')
            except OSError:
                continue
        return 1
    if how == "flood":
        for descriptor in range(3, 64):
            try:
                while True:
                    os.write(descriptor, bytes(1 << 20))
            except OSError:
                continue
        return 1
    if how == "write a file":
        return os.open(WRITTEN, os.O_CREAT | os.O_WRONLY)
    if how == "open a socket":
        return socket.socket().fileno()
    if how == "start a program":
        return subprocess.call(["true"])
    if how == "signal its parent":
        return os.kill(os.getppid(), 9)
    if how == "read a file":
        with open(__file__) as file:
            return len(file.read()) > 0
    if how == "environment":
        return sorted(os.environ)
    return object()
