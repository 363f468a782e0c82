"""Studies whose figures stand in docs/; nothing that a node runs."""
