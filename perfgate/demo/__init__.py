"""A gate on recorded captures: what perfgate does, shown on a machine that has neither a GPU nor
nsys."""
