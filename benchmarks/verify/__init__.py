"""How well the checks part honest work from cheats, and what they cost: `scripts/bench_verify`, docs/verification.md."""
