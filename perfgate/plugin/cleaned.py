"""What pytest, a conftest or a collected file writes while a gate runs, without secrets; knows
neither of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from typing import TextIO, cast

from perfgate.model.secrets import Cleaner


class CleanedStream:
    """A stream without secrets: also of warnings, which are no one's report, and of what is printed
    under `-s`."""

    def __init__(self, stream: TextIO, clean: Callable[[str], str]) -> None:
        self._stream, self._clean = stream, clean

    def write(self, text: str) -> int:
        """Write what is left of a text."""
        return self._stream.write(self._clean(text))

    def writelines(self, texts: Iterable[str]) -> None:
        """Write what is left of texts."""
        self.write("".join(texts))

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


def clean_standard_streams() -> None:
    """Clean what is written to this process's standard streams from now on. pytest's capture gets
    what is written."""
    clean = Cleaner(os.environ).clean
    for name in ("stdout", "stderr"):
        if (stream := getattr(sys, name)) is not None:
            setattr(sys, name, cast("TextIO", CleanedStream(stream, clean)))
