"""The files of a gate: each whole or not there, whatever the disk takes, and each that is refused
told once."""

from __future__ import annotations

import os
import resource
import stat
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from support import gates

from perfgate.gate import Closing
from perfgate.model.document import GateDocument, document_text, read_document
from perfgate.model.pagedata import page_data
from perfgate.plugin.outputs import Form, Outputs, opened

OPEN = Closing(opens=True)
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


def closed(document: GateDocument, closing: Closing) -> GateDocument:
    return document.model_copy(
        update={
            "opens_gate": closing.opens,
            "exit_status": closing.exit_status,
            "shut_by": closing.shut_by,
        }
    )


def written(
    files: Mapping[Form, Path], document: GateDocument = GATE, closing: Closing = OPEN
) -> Closing:
    return Outputs(files=files, prefix="--perfgate-").write(
        partial(closed, document), closing, page_data
    )


def refusal(form: Form, file: Path) -> str:
    return (
        f"{file}: the verdicts cannot be written there (File too large). "
        f"Give --perfgate-{form} a file that can be written."
    )


@pytest.mark.parametrize("older", [False, True], ids=["new", "older"])
def test_of_files_that_do_not_fit_nothing_stays_and_each_is_told_once(
    tmp_path: Path, older: bool
) -> None:
    files = {form: tmp_path / f"x.{form}" for form in (Form.HTML, Form.JUNIT, Form.MARKDOWN)}
    if older:
        assert written(
            {form: file for form, file in files.items() if form is not Form.MARKDOWN}
        ).opens
    with no_file_larger_than(100):
        closing = written(files)
    assert closing.shut_by == tuple(refusal(form, file) for form, file in files.items())
    assert list(tmp_path.iterdir()) == []


def test_an_older_document_that_cannot_be_replaced_is_not_left_to_say_that_the_gate_is_open(
    tmp_path: Path,
) -> None:
    file = tmp_path / "gate.json"
    file.write_text(document_text(GATE), encoding="utf-8")
    with no_file_larger_than(100):
        assert not written({Form.JSON: file}).opens
    assert list(tmp_path.iterdir()) == []


def test_the_files_that_fit_are_whole_and_name_the_one_that_does_not(tmp_path: Path) -> None:
    files = {
        Form.JSON: tmp_path / "x.json",
        Form.HTML: tmp_path / "x.html",
        Form.MARKDOWN: tmp_path / "x.md",
    }
    with no_file_larger_than(100_000):
        closing = written(files)
    assert closing.shut_by == (refusal(Form.HTML, files[Form.HTML]),)
    assert read_document(files[Form.JSON].read_text("utf-8")) == closed(GATE, closing)
    assert sorted(tmp_path.iterdir()) == [files[Form.JSON], files[Form.MARKDOWN]]


def test_markdown_that_does_not_fit_leaves_what_others_wrote(tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("# The job\n", encoding="utf-8")
    with no_file_larger_than(100):
        assert written({Form.MARKDOWN: summary}).shut_by == (refusal(Form.MARKDOWN, summary),)
    assert summary.read_text("utf-8") == "# The job\n"


def test_an_interrupted_file_is_none(tmp_path: Path) -> None:
    def interrupted() -> None:
        with opened(tmp_path / "x.json", "w") as target:
            target.write("half of")
            target.flush()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_replaced_with_its_mode_and_a_new_one_has_the_usual(tmp_path: Path) -> None:
    old, new, usual = tmp_path / "old.json", tmp_path / "new.json", tmp_path / "usual"
    old.touch(mode=0o600)
    usual.touch()
    assert written({Form.JSON: old, Form.PAGE_DATA: new}).opens
    modes = [stat.S_IMODE(file.stat().st_mode) for file in (old, new)]
    assert modes == [0o600, stat.S_IMODE(usual.stat().st_mode)]


def test_a_link_leads_where_it_led_and_what_has_two_names_keeps_both(tmp_path: Path) -> None:
    link, behind = tmp_path / "link.json", tmp_path / "behind.json"
    link.symlink_to(behind)
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    one.touch()
    other.hardlink_to(one)
    assert written({Form.JSON: link, Form.PAGE_DATA: one}).opens
    assert link.is_symlink()
    assert read_document(behind.read_text("utf-8")) == closed(GATE, OPEN)
    assert one.samefile(other)
    assert other.read_text("utf-8")


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text("utf-8")), daemon=True)
    reader.start()
    assert written({Form.JSON: pipe}).opens
    reader.join(timeout=10)
    assert [read_document(text) for text in read] == [closed(GATE, OPEN)]
    assert pipe.is_fifo()


@pytest.mark.parametrize("form", [Form.JSON, Form.MARKDOWN])
def test_a_device_stays_one(form: Form) -> None:
    full, null = Path("/dev/full"), Path("/dev/null")
    (told,) = written({form: full}).shut_by
    assert told.startswith(
        "/dev/full: the verdicts cannot be written there (No space left on device)."
    )
    assert written({form: null}).opens
    assert full.is_char_device()
    assert null.is_char_device()


def test_where_a_file_may_not_be_removed_it_is_written_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where it is mounted into a container."""
    file = tmp_path / "x.json"
    file.touch()
    before = file.stat().st_ino

    def busy(_path: Path, *, missing_ok: bool = False) -> None:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(Path, "unlink", busy)
    assert written({Form.JSON: file}).opens
    assert (file.stat().st_ino, list(tmp_path.iterdir())) == (before, [file])
