"""A fake nsys for these tests."""

from support.fake_nsys import fake, sqlite

__all__ = ["fake", "sqlite"]
