"""The files that a gate is asked to write, refused before it measures where they have no place."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryFile
from types import MappingProxyType
from typing import Final, Literal, Self, TextIO, assert_never

import pytest

from perfgate.gate import Closing
from perfgate.model.document import GateDocument, document_text
from perfgate.model.errors import ConfigInvalid, PerfgateError, StoreFailed
from perfgate.model.note import Severity, noted
from perfgate.model.pagedata import PageData, page_data_text
from perfgate.plugin.refusals import refused, usage_error
from perfgate.render.html import page_html
from perfgate.render.junit import gate_junit
from perfgate.render.markdown import gate_markdown
from perfgate.render.trace import steps_trace


class Form(StrEnum):
    """In which form a gate is written; the value is what its option is called."""

    JSON = "json"
    PAGE_DATA = "page-data"
    HTML = "html"
    TRACE = "trace"
    JUNIT = "junit"
    """Of merged gates; pytest writes that of a single one."""
    MARKDOWN = "markdown"
    """Appended: it may be the summary of a CI job, to which others add as well."""


_PAGES: Final = frozenset({Form.HTML, Form.PAGE_DATA, Form.TRACE})


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """Where the document goes, by its form."""

    files: Mapping[Form, Path]
    prefix: str
    """What the options begin with."""

    @classmethod
    def of(cls, config: pytest.Config) -> Self:
        """Read the options.

        Raises:
            pytest.UsageError: a file cannot be written there.
        """
        forms = [form for form in Form if form is not Form.JUNIT]
        given = {form: config.getoption(f"perfgate_{form.replace('-', '_')}") for form in forms}
        for form, file in given.items():
            if file == "":
                raise usage_error("output-unnamed", option=f"--perfgate-{form}")
        folder = config.invocation_params.dir
        files: dict[Form, Path] = {form: folder / file for form, file in given.items() if file}
        found = cls(files=files, prefix="--perfgate-")
        junit = config.getoption("xmlpath", None)
        try:
            found.refuse({} if not junit else {folder / junit: "--junit-xml"})
        except PerfgateError as error:
            raise refused(error) from None
        return found

    def refuse(self, others: Mapping[Path, str] = MappingProxyType({})) -> None:
        """Refuse files that cannot be written, before hours of measuring.

        Args:
            others: files that others write, with the options that name them.

        Raises:
            ConfigInvalid: names the option.
        """
        taken = {Path(os.path.realpath(file)): option for file, option in others.items()}
        for form, file in self.files.items():
            option = f"{self.prefix}{form}"
            if reason := _why_not_writable(file):
                raise ConfigInvalid(
                    "output-unwritable", option=option, file=str(file), reason=reason
                )
            other = taken.setdefault(Path(os.path.realpath(file)), option)
            if other != option and (file.is_file() or not file.exists()):
                raise ConfigInvalid("output-shared", option=option, file=str(file), other=other)

    def write(
        self,
        documented: Callable[[Closing], GateDocument],
        closing: Closing,
        gathered: Callable[[GateDocument], PageData],
    ) -> Closing:
        """Write what was asked for: a file that cannot be written keeps the gate shut.

        What is written says so as well: all is written again, until all that can be written says
        what the closing has become. Markdown cannot be written again, and comes last.

        Args:
            documented: the gate as it is with a closing.
            closing: what the gate has come to.
            gathered: what the page shows of it.
        """
        left = dict(self.files)
        markdown = left.pop(Form.MARKDOWN, None)
        closing = self._written(left, documented, closing, gathered)
        if markdown is not None:
            try:
                self._write(Form.MARKDOWN, markdown, gate_markdown(documented(closing)), mode="a")
            except StoreFailed as error:
                closing = self._written(left, documented, _shut(closing, error), gathered)
        return closing

    def _written(
        self,
        left: dict[Form, Path],
        documented: Callable[[Closing], GateDocument],
        closing: Closing,
        gathered: Callable[[GateDocument], PageData],
    ) -> Closing:
        """Write files; those that cannot be written are taken out of `left`."""
        while True:
            failure = self._first_refused(left, documented(closing), gathered)
            if failure is None:
                return closing
            forms, error = failure
            for form in forms:
                left.pop(form, None)
            closing = _shut(closing, error)

    def _first_refused(
        self,
        files: Mapping[Form, Path],
        document: GateDocument,
        gathered: Callable[[GateDocument], PageData],
    ) -> tuple[frozenset[Form], PerfgateError] | None:
        try:
            page = gathered(document) if files.keys() & _PAGES else None
        except PerfgateError as error:
            return _PAGES, error
        for form, file in files.items():
            try:
                self._write(form, file, _text(form, document, page), mode="w")
            except StoreFailed as error:
                return frozenset({form}), error
        return None

    def _write(self, form: Form, file: Path, text: str, *, mode: Literal["w", "a"]) -> None:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with opened(file, mode) as target:
                target.write(text)
        except OSError as error:
            reason = error.strerror or str(error)
            option = f"{self.prefix}{form}"
            raise StoreFailed(
                "output-refused", file=str(file), reason=reason, option=option
            ) from error


def _text(form: Form, document: GateDocument, page: PageData | None) -> str:
    match form:
        case Form.JSON:
            return document_text(document)
        case Form.JUNIT:
            return gate_junit(document)
        case Form.MARKDOWN:
            return gate_markdown(document)
        case Form.HTML | Form.PAGE_DATA | Form.TRACE:
            assert page is not None
            return _PAGE_TEXTS[form](page)
        case _:
            assert_never(form)


_PAGE_TEXTS: Final[Mapping[Form, Callable[[PageData], str]]] = {
    Form.HTML: page_html,
    Form.PAGE_DATA: page_data_text,
    Form.TRACE: steps_trace,
}


def _shut(closing: Closing, error: PerfgateError) -> Closing:
    return closing.but(noted(error, Severity.INVALID))


def _why_not_writable(file: Path) -> str:
    """Return what the system says to writing there; empty where nothing stands against it."""
    try:
        if not _is_there(file):
            with TemporaryFile(dir=next(parent for parent in file.parents if parent.exists())):
                return ""
        if file.is_dir():
            return os.strerror(errno.EISDIR)
        return "" if os.access(file, os.W_OK) else os.strerror(errno.EACCES)
    except OSError as refused:
        return refused.strerror or str(refused)


def _is_there(file: Path) -> bool:
    try:
        file.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


@contextmanager
def opened(file: Path, mode: Literal["w", "a"]) -> Iterator[TextIO]:
    """Open a file to write text: all of it is there in the end, or nothing of it.

    What is replaced goes first: an older one is not left to be taken for this gate's, and its room
    may be needed. What is no plain file of this user's alone, such as a device, a pipe or a link,
    is written as it is.
    """
    there = _status(file)
    if mode == "a":
        with _appended(file, there) as target:
            yield target
    elif there is not None and not (_is_own(there) and _is_removed(file)):
        with file.open(mode, encoding="utf-8") as target:
            yield target
    else:
        with _beside(file, there) as target:
            yield target


@contextmanager
def replaced(file: Path) -> Iterator[TextIO]:
    """Open a file to write text; what is there stays until all of the new one is written.

    What is no plain file of this user's alone is written as it is.
    """
    there = _status(file)
    if there is not None and not _is_own(there):
        with file.open("w", encoding="utf-8") as target:
            yield target
    else:
        with _beside(file, there) as target:
            yield target


def _status(file: Path) -> os.stat_result | None:
    try:
        return file.lstat()
    except FileNotFoundError:
        return None


def _is_own(there: os.stat_result) -> bool:
    return stat.S_ISREG(there.st_mode) and there.st_nlink == 1 and there.st_uid == os.geteuid()


def _is_removed(file: Path) -> bool:
    """Remove a file, and say whether that may be: not where something is mounted."""
    try:
        file.unlink()
    except OSError:
        return False
    return True


@contextmanager
def _beside(file: Path, there: os.stat_result | None) -> Iterator[TextIO]:
    """Write next to a file's place, then put it there; with the mode of the one that was there."""
    temporary = file.with_name(f".perfgate-{secrets.token_hex(6)}.tmp")
    try:
        with temporary.open("x", encoding="utf-8") as target:
            if there is not None:
                temporary.chmod(stat.S_IMODE(there.st_mode))
            yield target
        temporary.replace(file)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextmanager
def _appended(file: Path, there: os.stat_result | None) -> Iterator[TextIO]:
    """Append to a file; what came of it where that fails is taken back."""
    try:
        with file.open("a", encoding="utf-8") as target:
            yield target
    except OSError:
        with suppress(OSError):
            if there is None:
                file.unlink()
            elif stat.S_ISREG(there.st_mode):
                os.truncate(file, there.st_size)
        raise
