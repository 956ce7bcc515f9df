"""What `perfgate selftest` says where it cannot begin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from perfgate.words.text import Text

TEXT: Final[Mapping[str, Text]] = {
    "selftest-folder-not-made": Text(
        "{folder:quote}: the selftest's folder cannot be made ({reason})",
        "A folder that is not there yet",
        "Give --keep another name.",
    ),
    "selftest-gpu-not-measured": Text(
        "this GPU cannot be measured: {reason:quote}",
        "The selftest's loop needs a torch that sees the GPU",
        "See what is missing: perfgate doctor",
    ),
}
