"""A baseline's commit beside the candidate: checked out, made ready, and proven to be what ran. Measures nothing."""
