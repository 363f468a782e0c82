"""Group-relative advantages (GRPO), pure numpy.

It refuses to divide by nothing: a group whose rewards are all equal carries no signal and gets exactly zero.
"""

from __future__ import annotations

import numpy as np


def group_advantages(rewards: np.ndarray, *, std: bool = True) -> np.ndarray:
    """(r - mean) / std with the unbiased std over one group (GRPO, arXiv 2402.03300).

    Args:
        rewards: float array [group size], finite.
        std: False leaves the division out (Dr. GRPO, arXiv 2503.20783): it favours groups that nearly agree.

    Returns:
        Float64 array [group size]; zeros if all rewards are equal or the group has one member.
    """
    rewards = np.asarray(rewards, dtype=np.float64)
    if rewards.ndim != 1 or not np.isfinite(rewards).all():
        raise ValueError("rewards of one group are a vector of finite numbers")
    if rewards.size < 2 or np.ptp(rewards) == 0.0:
        return np.zeros_like(rewards)
    centred = rewards - rewards.mean()
    return centred / rewards.std(ddof=1) if std else centred
