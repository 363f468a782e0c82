"""How well the checks part honest work from cheats, and at what cost: `scripts/bench_verify`, docs/verification.md."""
