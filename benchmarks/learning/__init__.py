"""How the trainer learns, by experiments that anybody repeats: `scripts/bench_learning`, docs/learning.md."""
