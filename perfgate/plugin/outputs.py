"""The files that a gate is asked to write beside its terminal: refused before it measures where they have no place."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TextIO

import pytest

from perfgate.gate import Closing
from perfgate.model.errors import StoreFailed
from perfgate.pages import Shelf, page_of
from perfgate.render.document import GateDocument, document_text
from perfgate.render.html import page_html
from perfgate.render.markdown import gate_markdown


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """Where the document goes, in which form; None where it was not asked for."""

    json: Path | None
    markdown: Path | None
    """Appended to: it may be the summary of a CI job, to which others add as well."""
    html: Path | None

    @classmethod
    def of(cls, config: pytest.Config) -> Outputs:
        """Read the options.

        Raises:
            pytest.UsageError: a file cannot be written there, or holds what would be lost.
        """

        def path(option: str) -> Path | None:
            given = config.getoption(option)
            return config.invocation_params.dir / given if given else None

        found = cls(json=path("perfgate_json"), markdown=path("perfgate_markdown"), html=path("perfgate_html"))
        for option, file in (("json", found.json), ("markdown", found.markdown), ("html", found.html)):
            _refuse_unwritable(f"--perfgate-{option}", file)
        if found.html is not None and found.html.is_file() and not is_page_or_empty(found.html.read_bytes()):
            raise pytest.UsageError(
                f"--perfgate-html: {found.html} holds something else than perfgate's page, and would be lost. "
                "Give it a new file, or delete that one."
            )
        if found.json is not None and found.json.is_file() and not _is_document_or_empty(found.json.read_bytes()):
            raise pytest.UsageError(
                f"--perfgate-json: {found.json} holds something else than perfgate's verdicts, and would be lost. "
                "Give it a new file, or delete that one."
            )
        return found

    def write(self, documented: Callable[[Closing], GateDocument], closing: Closing, shelf: Shelf) -> Closing:
        """Write what was asked for, and return the closing: a file that cannot be written keeps the gate shut.

        What is written says so as well: files are written again, and the Markdown, which cannot be, comes last.

        Args:
            documented: the gate as it is with a closing.
            closing: what the gate has come to.
            shelf: what the page shows beside it.
        """

        def html(document: GateDocument) -> str:
            return page_html(page_of(document, shelf))

        files = {
            option: (file, text)
            for option, file, text in (("json", self.json, document_text), ("html", self.html, html))
            if file is not None
        }
        closing = _written(files, documented, closing)
        if self.markdown is not None:
            try:
                _write(self.markdown, gate_markdown(documented(closing)), mode="a", option="markdown")
            except StoreFailed as refused:
                closing = _written(files, documented, _shut(closing, refused))
        return closing


def _written(
    files: Mapping[str, tuple[Path, Callable[[GateDocument], str]]],
    documented: Callable[[Closing], GateDocument],
    closing: Closing,
) -> Closing:
    """Write files, by their option, until all that can be written say what the closing has become."""
    for option, (file, text) in files.items():
        try:
            _write(file, text(documented(closing)), mode="w", option=option)
        except StoreFailed as refused:
            others = {name: one for name, one in files.items() if name != option}
            return _written(others, documented, _shut(closing, refused))
    return closing


def _shut(closing: Closing, refused: StoreFailed) -> Closing:
    return Closing(opens=False, shut_by=(*closing.shut_by, str(refused).replace("\n", " ")))


def _refuse_unwritable(option: str, file: Path | None) -> None:
    """Find out before hours of measuring that a file has no place."""
    if file is None:
        return
    folder = next(parent for parent in file.parents if parent.exists())
    taken = file.exists() and not os.access(file, os.W_OK)
    if file.is_dir() or taken or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise pytest.UsageError(
            f"{option}: {file} cannot be written. Give it a file in a folder that can be written to."
        )


def is_page_or_empty(content: bytes) -> bool:
    """Whether a file's content is nothing to be sorry for: an older page, or nothing."""
    return not content or (content.lstrip().lower().startswith(b"<!doctype html") and b"perfgate" in content[:4096])


def _is_document_or_empty(content: bytes) -> bool:
    """Whether a file's content is nothing to be sorry for: a gate's document of any version, or nothing."""
    try:
        held = json.loads(content or b'{"perfgate": ""}')
    except (ValueError, RecursionError):
        return False
    return isinstance(held, dict) and "perfgate" in held


def _write(file: Path, text: str, *, mode: Literal["w", "a"], option: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with opened(file, mode) as target:
            target.write(text)
    except OSError as refused:
        raise StoreFailed(
            subject=str(file),
            fact=f"the verdicts cannot be written there ({refused.strerror or refused})",
            next_step=f"Give --perfgate-{option} a file that can be written.",
        ) from refused


def opened(file: Path, mode: Literal["w", "a"]) -> TextIO:
    """Open a file to write text."""
    return file.open(mode, encoding="utf-8")
