"""What `perfgate selftest` and `perfgate demo` say where they cannot begin."""

from __future__ import annotations

from typing import Final

from perfgate.words.text import Rows

TEXT: Final[Rows] = {
    "folder-not-made": (
        "{folder:quote}: the folder cannot be made ({reason})",
        "A folder that is not there yet",
        "Give --keep another name.",
    ),
    "selftest-gpu-not-measured": (
        "this GPU cannot be measured: {reason:quote}",
        "The selftest's loop needs a torch that sees the GPU",
        "See what is missing: perfgate doctor",
    ),
}
