"""The files of a gate: each whole or not there, whatever the disk takes, and each that is refused
named once."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from support import gates

from perfgate.model import document_text
from perfgate.model.document import GateDocument
from perfgate.model.document_text import read_document
from perfgate.model.pagedata import page_data
from perfgate.plugin.outputs import OutputFormat, write_outputs

GATE = gates.gate("", gates.judged("mlp"))


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """Let the system refuse what goes beyond so many bytes of a file, once it has taken those."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def written(files: Mapping[OutputFormat, Path]) -> GateDocument:
    return write_outputs(files, GATE, page_data)


def refusal(file: Path) -> str:
    return f"{file}: it cannot be written (File too large). Give a file that can be written."


@pytest.mark.parametrize("older", [False, True], ids=["new", "older"])
def test_of_files_that_do_not_fit_nothing_stays_and_each_is_named_once(
    tmp_path: Path, older: bool
) -> None:
    files = {form: tmp_path / f"x.{form}" for form in (OutputFormat.HTML, OutputFormat.JUNIT)}
    if older:
        assert written(files).opens_gate
    with no_file_larger_than(100):
        document = written(files)
    assert document.shut_by == tuple(map(refusal, files.values()))
    assert list(tmp_path.iterdir()) == []


def test_the_files_that_fit_are_whole_and_name_the_one_that_does_not(tmp_path: Path) -> None:
    files = {
        OutputFormat.JSON: tmp_path / "x.json",
        OutputFormat.HTML: tmp_path / "x.html",
        OutputFormat.MARKDOWN: tmp_path / "x.md",
    }
    with no_file_larger_than(100_000):
        document = written(files)
    assert document.shut_by == (refusal(files[OutputFormat.HTML]),)
    assert read_document(files[OutputFormat.JSON].read_text("utf-8")) == document
    assert sorted(tmp_path.iterdir()) == [files[OutputFormat.JSON], files[OutputFormat.MARKDOWN]]


def test_a_document_that_is_too_large_is_one_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {OutputFormat.JSON: tmp_path / "x.json", OutputFormat.JUNIT: tmp_path / "x.xml"}
    assert written(files).opens_gate
    monkeypatch.setattr(document_text, "LARGEST_DOCUMENT", 100)
    document = written(files)
    assert document.shut_codes[-1] == "document-too-large"
    assert list(tmp_path.iterdir()) == [files[OutputFormat.JUNIT]]
    assert "too large" in files[OutputFormat.JUNIT].read_text("utf-8")


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text("utf-8")), daemon=True)
    reader.start()
    assert written({OutputFormat.JSON: pipe}).opens_gate
    reader.join(timeout=10)
    assert [read_document(text) for text in read] == [GATE]
    assert pipe.is_fifo()


@pytest.mark.parametrize("form", [OutputFormat.JSON, OutputFormat.MARKDOWN])
def test_a_device_and_a_link_stay_what_they_are(tmp_path: Path, form: OutputFormat) -> None:
    full, null, link = Path("/dev/full"), Path("/dev/null"), tmp_path / "link"
    link.symlink_to("there")
    (why,) = written({form: full}).shut_by
    assert why.startswith("/dev/full: it cannot be written (No space left on device).")
    assert written({form: null}).opens_gate
    assert written({form: link}).opens_gate
    assert (full.is_char_device(), null.is_char_device(), link.is_symlink()) == (True, True, True)
    assert (tmp_path / "there").read_text("utf-8")
