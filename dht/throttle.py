"""Decides how long a sender must wait to stay under a bandwidth cap: a token bucket, pure, with the clock injected."""

from __future__ import annotations


class Throttle:
    """Spends `bytes_per_s`, with bursts of at most `burst_bytes`; no cap when `bytes_per_s` is None."""

    def __init__(self, bytes_per_s: float | None, *, burst_bytes: int, now_s: float) -> None:
        if bytes_per_s is not None and bytes_per_s <= 0:
            raise ValueError("a bandwidth cap is above 0 bytes/s")
        self._rate, self._burst, self._tokens, self._at_s = bytes_per_s, float(burst_bytes), float(burst_bytes), now_s

    def reserve(self, size_bytes: int, now_s: float) -> float:
        """Books `size_bytes` and returns the seconds to wait before sending them."""
        if self._rate is None:
            return 0.0
        self._tokens = min(self._burst, self._tokens + (now_s - self._at_s) * self._rate) - size_bytes
        self._at_s = now_s
        return max(0.0, -self._tokens / self._rate)
