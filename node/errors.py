"""Errors that end a command: what went wrong, what to do about it, and the exit code.

Decides nothing else. Every error a person can cause or cure derives from `UserError`; anything else is a fault of ours
and keeps its traceback.
"""

from __future__ import annotations

import errno
import os


class UserError(Exception):
    """A fault that the person at the keyboard can cure.

    `message` says what is wrong in one line, `fix` what to do, `exit_code` (1–125) what the process returns.
    """

    exit_code = 1

    def __init__(self, message: str, *, fix: str, exit_code: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
        if exit_code is not None:
            self.exit_code = exit_code

    def __str__(self) -> str:
        return f"error: {self.message}\nfix: {self.fix}"


class ConfigError(UserError):
    """An unknown key or a value outside its legal range. Names key, value and range."""

    exit_code = 2


class WalletMissing(UserError):
    """No usable key file at the path: absent, unreadable to us, or readable to others."""

    exit_code = 3


class WrongPassword(UserError):
    """The password does not open the key file."""

    exit_code = 3


class PeerKeyLost(UserError):
    """The data folder says that a peer key existed, and it is gone or damaged."""

    exit_code = 3


class DiskFull(UserError):
    """Nothing more can be written where the node keeps its data; starting it again would not help."""

    exit_code = 7

    @staticmethod
    def is_cause_of(fault: BaseException) -> bool:
        """Whether the fault, perhaps of a child process and so only a text, says that the disk is full."""
        return any(os.strerror(code) in str(fault) for code in (errno.ENOSPC, errno.EDQUOT))
