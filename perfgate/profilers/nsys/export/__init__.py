"""A capture's SQLite export: what it is, what of it is read, and how; it is never changed."""
