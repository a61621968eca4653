"""Training runs: the world of ranks, the loop, the log, and what was measured."""
