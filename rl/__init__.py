"""From problem to gradient: tasks, dictated problems, rollouts, the engine, and the trainer."""
