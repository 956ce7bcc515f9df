"""Markdown for a job's summary and for comments, no longer than GitHub takes it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from perfgate.model.errors import StoreFailed
from perfgate.model.secrets import Cleaner


def append_summary(env: Mapping[str, str], markdown: str) -> None:
    """Append to the summary of a job, without the secrets of its environment; outside a job there
    is none.

    Raises:
        StoreFailed: the file does not take it.
    """
    if env.get("GITHUB_STEP_SUMMARY"):
        append(Path(env["GITHUB_STEP_SUMMARY"]), Cleaner(env).clean(markdown))


def append(file: Path, text: str) -> None:
    """Append to a file by which a step speaks to the runner.

    Raises:
        StoreFailed: the file does not take it.
    """
    try:
        with file.open("a", encoding="utf-8", errors="replace") as opened:
            opened.write(text)
    except OSError as error:
        raise StoreFailed(
            "runner-file-not-written", path=str(file), reason=error.strerror or str(error)
        ) from error
