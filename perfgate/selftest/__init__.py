"""A gate tried on the runner it stands on: an unchanged loop must pass, planted slips must fail by
the right metric."""
