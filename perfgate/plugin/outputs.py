"""The files that a gate is asked to write beside its terminal: refused before it measures where they have no place."""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, Self, TextIO, assert_never

import pytest

from perfgate.gate import Closing
from perfgate.model.document import GateDocument, document_text
from perfgate.model.errors import PerfgateError, StoreFailed
from perfgate.model.note import Severity, noted
from perfgate.model.pagedata import PageData, page_data_text
from perfgate.plugin.refusals import usage_error
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


HOLDS: Final[Mapping[Form, str]] = {
    Form.JSON: "perfgate's verdicts",
    Form.PAGE_DATA: "the data of perfgate's page",
    Form.HTML: "perfgate's page",
    Form.TRACE: "a trace",
    Form.JUNIT: "a JUnit file",
}
"""What a file may hold that is written over."""
SPOILT: Final = frozenset(
    {
        *(
            ".py",
            ".pyi",
            ".ipynb",
            ".sh",
            ".c",
            ".cc",
            ".cpp",
            ".cu",
            ".cuh",
            ".h",
            ".hpp",
            ".rs",
            ".js",
            ".ts",
        ),
        *(
            ".json",
            ".jsonl",
            ".toml",
            ".yaml",
            ".yml",
            ".ini",
            ".cfg",
            ".xml",
            ".html",
            ".htm",
            ".css",
            ".csv",
        ),
    }
)
"""Suffixes of files that Markdown is not added to, if they hold anything."""
_PAGES: Final = frozenset({Form.HTML, Form.PAGE_DATA, Form.TRACE})
LARGEST_REPLACED: Final = 256_000_000
"""Bytes of a file from which on it is not read to see whether it may be written over."""


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """Where the document goes, by its form."""

    files: Mapping[Form, Path]
    flag: str
    """What the options begin with."""

    @classmethod
    def of(cls, config: pytest.Config) -> Self:
        """Read the options.

        Raises:
            pytest.UsageError: a file cannot be written there, or holds what would be lost.
        """
        given = {
            form: config.getoption(f"perfgate_{form.replace('-', '_')}")
            for form in Form
            if form is not Form.JUNIT
        }
        if nameless := [form for form, file in given.items() if file == ""]:
            raise usage_error(
                f"--perfgate-{nameless[0]}: it names no file, as where a variable is empty. Give it one, or leave it "
                "out."
            )
        folder = config.invocation_params.dir
        found = cls(
            files={form: folder / file for form, file in given.items() if file}, flag="--perfgate-"
        )
        junit = config.getoption("xmlpath", None)
        refusal = found.refusal(
            pytests={} if not junit else {folder / junit: "pytest's --junit-xml"}
        )
        if refusal:
            raise usage_error(refusal)
        return found

    def refusal(self, pytests: Mapping[Path, str] = MappingProxyType({})) -> str:
        """Why these files are not written, to be told before hours of measuring; empty where they can be.

        `pytests` are files that others write, with what they are called.
        """
        for form, file in self.files.items():
            if not _can_be_written(file):
                return f"{self.flag}{form}: {file} cannot be written. Give it a file in a folder that can be written to."
        for form, file in self.files.items():
            if form in HOLDS and file.is_file() and not _may_be_replaced(form, file):
                return (
                    f"{self.flag}{form}: {file} holds something else than {HOLDS[form]}, and would be lost. "
                    "Give it a new file, or delete that one."
                )
        appended = self.files.get(Form.MARKDOWN)
        if appended is not None and _would_be_spoilt(appended):
            return (
                f"{self.flag}{Form.MARKDOWN}: {appended} holds something else than Markdown, and would be spoilt by "
                "what is appended. Give it another file."
            )
        taken = {Path(os.path.realpath(file)): name for file, name in pytests.items()}
        for form, file in self.files.items():
            other = taken.setdefault(Path(os.path.realpath(file)), f"{self.flag}{form}")
            if other != f"{self.flag}{form}" and (file.is_file() or not file.exists()):
                return f"{self.flag}{form}: {file} is that of {other} as well. Give each a file of its own."
        return ""

    def write(
        self,
        documented: Callable[[Closing], GateDocument],
        closing: Closing,
        gathered: Callable[[GateDocument], PageData],
    ) -> Closing:
        """Write what was asked for, and return the closing: a file that cannot be written keeps the gate shut.

        What is written says so as well: files are written again, and the Markdown, which cannot be, comes last.

        Args:
            documented: the gate as it is with a closing.
            closing: what the gate has come to.
            gathered: what the page shows of it.
        """
        replaced: dict[Form, Path] = {
            form: file for form, file in self.files.items() if form is not Form.MARKDOWN
        }
        closing = self._written(replaced, documented, closing, gathered)
        appended = self.files.get(Form.MARKDOWN)
        if appended is not None:
            try:
                self._write(Form.MARKDOWN, appended, gate_markdown(documented(closing)), mode="a")
            except StoreFailed as refused:
                left = {
                    form: file for form, file in replaced.items() if not _is_refused(file, closing)
                }
                closing = self._written(left, documented, _shut(closing, refused), gathered)
        return closing

    def _written(
        self,
        files: Mapping[Form, Path],
        documented: Callable[[Closing], GateDocument],
        closing: Closing,
        gathered: Callable[[GateDocument], PageData],
    ) -> Closing:
        """Write files until all that can be written say what the closing has become."""
        document = documented(closing)
        try:
            page = gathered(document) if files.keys() & _PAGES else None
        except PerfgateError as refused:
            others = {name: one for name, one in files.items() if name not in _PAGES}
            return self._written(others, documented, _shut(closing, refused), gathered)
        for form, file in files.items():
            try:
                self._write(form, file, _text(form, document, page), mode="w")
            except StoreFailed as refused:
                others = {name: one for name, one in files.items() if name is not form}
                return self._written(others, documented, _shut(closing, refused), gathered)
        return closing

    def _write(self, form: Form, file: Path, text: str, *, mode: Literal["w", "a"]) -> None:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with opened(file, mode) as target:
                target.write(text)
        except OSError as refused:
            raise StoreFailed(
                subject=str(file),
                fact=f"the verdicts cannot be written there ({refused.strerror or refused})",
                next_step=f"Give {self.flag}{form} a file that can be written.",
            ) from refused


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


def _shut(closing: Closing, refused: PerfgateError) -> Closing:
    return closing.but(noted(refused, Severity.INVALID))


def _is_refused(file: Path, closing: Closing) -> bool:
    """Whether it is told already that this file cannot be written."""
    return any(sentence.startswith(f"{file}: ") for sentence in closing.shut_by)


def _can_be_written(file: Path) -> bool:
    folder = next(parent for parent in file.parents if parent.exists())
    taken = file.exists() and not os.access(file, os.W_OK)
    return not (file.is_dir() or taken or not folder.is_dir() or not os.access(folder, os.W_OK))


def _would_be_spoilt(file: Path) -> bool:
    """Whether a file holds what is something else by its name, such as code, or a baseline."""
    try:
        return (
            file.resolve().suffix.lower() in SPOILT and file.is_file() and file.stat().st_size > 0
        )
    except OSError:
        return False  # that it cannot be written is told by itself


def _may_be_replaced(form: Form, file: Path) -> bool:
    """Whether a file's content is nothing to be sorry for: one that was written in this form before, or nothing."""
    try:
        content = (
            file.read_bytes()
            if file.stat().st_size <= LARGEST_REPLACED
            else b"too large to be ours"
        )
    except OSError:
        return False
    match form:
        case Form.HTML:
            return is_page_or_empty(content)
        case Form.JUNIT:
            return not content.strip() or (
                content.lstrip().startswith(b"<?xml") and b"<testsuite" in content[:4096]
            )
        case Form.TRACE:
            return not content or b'"traceEvents"' in content[:4096]
        case Form.JSON | Form.PAGE_DATA:
            return _is_json_of_ours_or_empty(content)
        case Form.MARKDOWN:
            return True
        case _:
            assert_never(form)


def is_page_or_empty(content: bytes) -> bool:
    """Whether a file's content is nothing to be sorry for: an older page, or nothing."""
    return not content or (
        content.lstrip().lower().startswith(b"<!doctype html") and b"perfgate" in content[:4096]
    )


def _is_json_of_ours_or_empty(content: bytes) -> bool:
    """Whether a file's content is nothing to be sorry for: a document or page data of any version, or nothing."""
    try:
        held = json.loads(content or b'{"perfgate": ""}')
    except (ValueError, RecursionError):
        return False
    return isinstance(held, dict) and "perfgate" in held


@contextmanager
def opened(file: Path, mode: Literal["w", "a"]) -> Iterator[TextIO]:
    """Open a file to write text: all of it is there in the end, or nothing of it.

    What is replaced goes first: an older one is not left to be taken for this gate's, and its room may be needed. What
    is no plain file of this user's alone, such as a device, a pipe or a link, is written as it is.
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
    """Open a file to write text in place of what is there, which stays until all of the new one is written.

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
    """Write beside a file's place, then put it there; with the mode of the one that was there."""
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
