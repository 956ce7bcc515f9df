"""The hall of `perfgate init`: reads what a repository says of itself, and plans, checks and writes its first files."""
