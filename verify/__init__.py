"""May these rollouts be trusted: activation proofs, checks, and the verdict that follows from them."""
