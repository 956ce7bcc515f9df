"""Names that both the workflows, as `perfgate init` writes them, and the commands that they run go
by."""

from __future__ import annotations

from typing import Final

APPROVAL: Final = "perfgate-approved"
"""The label by which a maintainer lets a fork's commit run on the GPU runner."""
ARTIFACT: Final = "perfgate"
"""The artifact that the comment shows, and the one that the action publishes unless it is given a
name."""
