"""Processes, files, locks, signals and git: one of each."""
