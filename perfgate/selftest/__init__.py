"""A gate tried on the runner it stands on: an unchanged loop must pass, planted regressions must
fail by the right metric."""
