"""The metrics room: one capture's timeline in, samples per process out; it must not know nsys,
files or baselines."""
