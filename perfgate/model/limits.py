"""How large what perfgate writes may be: its writers keep to that, so that its readers refuse only
what others made."""

from __future__ import annotations

from typing import Final

LONGEST_TEXT: Final = 20_000
"""Characters of one text in a document, such as a reason that quotes the end of a log."""
LONGEST_ID: Final = 2_000
"""Characters of a workload's id."""
MOST_ENTRIES: Final = 10_000
"""Of one list or mapping in a document."""
MOST_WORKLOADS: Final = 2_000
"""Of one document."""
LARGEST_DOCUMENT: Final = 64_000_000
"""Bytes of a document, and of what a page is made of."""
LARGEST_RESULT: Final = 64_000_000
"""Bytes of a kept result."""
LARGEST_BASELINE: Final = 4 << 20
"""Bytes of a baseline; one has a few KB."""
