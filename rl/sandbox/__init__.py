"""Programs of strangers: run apart from everything, within limits, and judged by their output from outside."""
