"""`perfgate init`: reads what a repository says of itself, and copies, compares and shows its first
files."""
