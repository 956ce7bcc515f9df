"""Runs of either side: worker, captures, pairs, worktrees, and the proof of which code ran."""
