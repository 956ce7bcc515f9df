"""Kept results become baselines: bless, calibrate, merge."""
