"""The files that a gate is asked to write: refused before it measures where that cannot be, and
written in the end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from enum import StrEnum
from functools import cache, partial
from pathlib import Path
from typing import Final, Literal

from perfgate.model.document import GateDocument
from perfgate.model.errors import ConfigInvalid, StoreFailed
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


Outputs = Mapping[OutputFormat, Path]
"""Where a gate's document goes, by its form."""


def outputs_of(
    prefix: str, given: Callable[[str], Path | str | None], *, folder: Path = HERE
) -> Outputs:
    """Take what the options say by their names, relative to a folder; refuse files that cannot be
    written, before hours of measuring.

    Raises:
        ConfigInvalid: names the option.
    """
    named = {form: given(form.replace("-", "_")) for form in OutputFormat}
    files = {form: folder / file for form, file in named.items() if file is not None}
    for form, file in files.items():
        there = next(one for one in (file, *file.parents) if os.path.exists(one))  # noqa: PTH110 - one that cannot be looked at is not there
        is_folder = there != file
        if there.is_dir() is not is_folder or not os.access(there, os.W_OK):
            raise ConfigInvalid("output-unwritable", option=f"{prefix}{form}", file=str(file))
    return files


def write_outputs(
    files: Outputs, document: GateDocument, gathered: Callable[[GateDocument], PageData]
) -> GateDocument:
    """Write what was asked for: a file that cannot be written keeps the gate shut.

    The others say so as well: they are written again with what the document has become, which is
    returned. `gathered` is what the page shows of it.
    """
    page = cache(partial(gathered, document))
    for form in OutputFormat:
        if form not in files:
            continue
        text = (_text(one, document, page) for one in (form,))  # made once its file is open
        try:
            write_file(files[form], text, mode="a" if form == "markdown" else "w")
        except StoreFailed as error:
            others = {one: file for one, file in files.items() if one is not form}
            shut = document.shut_also_by(noted(error, Severity.INVALID))
            return write_outputs(others, shut, gathered)
    return document


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
            from perfgate.model.pagedata import page_data_text, small_enough

            return page_data_text(small_enough(page()))
        case OutputFormat.HTML:
            from perfgate.render.html import page_html

            return page_html(page())
        case OutputFormat.TRACE:
            from perfgate.render.trace import steps_trace

            return steps_trace(page())


def write_file(file: Path, parts: Iterable[str], *, mode: Literal["w", "a"] = "w") -> None:
    """Write the parts of a text; an older file that it could not replace whole is removed.

    Nobody shall take that, or a part of the new one, for this gate's.

    Raises:
        StoreFailed: it cannot be written, or the text is none that may be.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open(mode, encoding="utf-8") as target:
            target.writelines(parts)
    except (OSError, StoreFailed) as refused:
        if mode == "w" and file.is_file():
            with suppress(OSError):
                file.unlink()
        if isinstance(refused, StoreFailed):
            raise
        reason = refused.strerror or str(refused)
        raise StoreFailed("file-unwritten", file=str(file), reason=reason) from refused
