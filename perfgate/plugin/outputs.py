"""The files that a gate is asked to write: refused before it measures where that cannot be, and
written in the end."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final, Literal, Self

from perfgate.model.document import GateDocument
from perfgate.model.errors import ConfigInvalid, PerfgateError, StoreFailed
from perfgate.model.note import Severity, noted
from perfgate.model.pagedata import PageData

HERE: Final = Path()

# ruff: noqa: PLC0415 - each form loads what it needs


class OutputFormat(StrEnum):
    """In which form a gate is written, in this order; the value is what its option is called."""

    JSON = "json"
    PAGE_DATA = "page-data"
    HTML = "html"
    TRACE = "trace"
    JUNIT = "junit"
    """Of merged gates; pytest writes that of a single one."""
    MARKDOWN = "markdown"
    """Appended, and so once and last: it may be the summary of a CI job, to which others add."""


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """Where a gate's document goes, by its form."""

    files: Mapping[OutputFormat, Path]
    prefix: str
    """What the options begin with."""

    @classmethod
    def of(
        cls, prefix: str, given: Callable[[str], Path | str | None], *, folder: Path = HERE
    ) -> Self:
        """Take what the options say by their names, relative to a folder; refuse files that cannot
        be written, before hours of measuring.

        Raises:
            ConfigInvalid: names the option.
        """
        named = {form: given(form.replace("-", "_")) for form in OutputFormat}
        files = {form: folder / file for form, file in named.items() if file is not None}
        for form, file in files.items():
            try:
                _check_writable(file)
            except OSError as error:
                raise ConfigInvalid(
                    "output-unwritable",
                    option=f"{prefix}{form}",
                    file=str(file),
                    reason=error.strerror or str(error),
                ) from None
        return cls(files=files, prefix=prefix)

    def write(
        self, document: GateDocument, gathered: Callable[[GateDocument], PageData]
    ) -> GateDocument:
        """Write what was asked for: a file that cannot be written keeps the gate shut.

        The others say so as well: they are written again with what the document has become, which
        is returned. `gathered` is what the page shows of it.
        """
        left = [form for form in OutputFormat if form in self.files]
        while True:
            page = cache(partial(gathered, document))
            for form in left:
                try:
                    self._write(form, document, page)
                except PerfgateError as error:
                    left.remove(form)
                    document = document.shut_also_by(noted(error, Severity.INVALID))
                    break
            else:
                return document

    def _write(
        self, form: OutputFormat, document: GateDocument, page: Callable[[], PageData]
    ) -> None:
        file = self.files[form]
        text = _text(form, document, page)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_file(file, [text], mode="a" if form is OutputFormat.MARKDOWN else "w")
        except OSError as error:
            reason, option = error.strerror or str(error), f"{self.prefix}{form}"
            raise StoreFailed(
                "output-refused", file=str(file), reason=reason, option=option
            ) from error


def _text(form: OutputFormat, document: GateDocument, page: Callable[[], PageData]) -> str:
    """Return what is written in a form, with what makes it loaded only here."""
    match form:
        case OutputFormat.JSON:
            from perfgate.model.document_text import document_text

            return document_text(document)
        case OutputFormat.JUNIT:
            from perfgate.render.junit import gate_junit

            return gate_junit(document)
        case OutputFormat.MARKDOWN:
            from perfgate.render.markdown import gate_markdown

            return gate_markdown(document)
        case OutputFormat.PAGE_DATA:
            from perfgate.model.pagedata import page_data_text

            return page_data_text(page())
        case OutputFormat.HTML:
            from perfgate.render.html import page_html

            return page_html(page())
        case OutputFormat.TRACE:
            from perfgate.render.trace import steps_trace

            return steps_trace(page())


def _check_writable(file: Path) -> None:
    """Raise what the system says to writing there, as far as it can be known without."""
    if not file.exists():
        with TemporaryFile(dir=next(folder for folder in file.parents if folder.exists())):
            return
    if file.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not os.access(file, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def write_file(file: Path, parts: Iterable[str], *, mode: Literal["w", "a"] = "w") -> None:
    """Write the parts of a text; an older file that it could not replace whole is removed.

    Nobody shall take that, or a part of the new one, for this gate's.

    Raises:
        OSError: it cannot be written.
    """
    try:
        with file.open(mode, encoding="utf-8") as target:
            target.writelines(parts)
    except OSError:
        if mode == "w" and file.is_file():
            with suppress(OSError):
                file.unlink()
        raise
