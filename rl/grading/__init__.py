"""Reward functions that are not trusted to return, run in a process that can be killed."""
