"""`perfgate show`, `compare` and `inspect`: what is there, as it is, and a sentence where there is
nothing."""

from __future__ import annotations

import io
import json
import shutil
import sqlite3
import sys
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import closing
from pathlib import Path

import pytest
from support import records
from support.project import LOOP, Project
from syrupy.assertion import SnapshotAssertion

from perfgate import cli
from perfgate.cli.terminal import screen
from perfgate.model.metric import Metric


def refused(project: Project, *arguments: str) -> tuple[AbstractSet[str], int]:
    """The codes and the exit status of a command that prints nothing."""
    seen = project.perfgate(*arguments)
    assert (seen.out, seen.err != "") == ("", True)
    return seen.codes, seen.status


# show


def test_show_lists_a_line_a_baseline(here: Project) -> None:
    here.bless(here.baseline())
    here.bless(
        records.baseline(
            name="resnet18_input[pinned]",
            on=records.machine("NVIDIA H100 80GB HBM3"),
            reason="r" * 60,
        )
    )
    seen = here.perfgate("show")
    rows = [line.split() for line in seen.out.splitlines()]
    assert rows[0] == ["machine", "workload", "step_ms", "runs", "blessed", "reason"]
    assert [row[:5] for row in rows[2:] if len(row) > 1] == [
        ["nvidia-h100-80gb-hbm3", "resnet18_input[pinned]", "12.34", "5", "2026-03-02"],
        ["nvidia-h200", "loop", "12.34", "5", "2026-03-02"],
    ]
    assert seen.status == 0


def test_show_shows_all_of_one_baseline(here: Project) -> None:
    here.bless(here.baseline())
    lines = here.perfgate("show", "loop").out.splitlines()
    assert lines[:4] == [
        "loop on NVIDIA H200",
        "  blessed     2026-03-02 12:05 UTC by Ada <ada@example.org> at 0123456789ab",
        "  reason      first baseline",
        "  measured    2026-03-02 12:00 UTC: 5 runs at 0123456789ab, SM clock 1980 MHz",
    ]
    assert "  file        baselines/nvidia-h200/loop.json" in lines


@pytest.mark.parametrize("is_blessed", [False, True])
def test_show_of_what_is_not_there_is_an_error(here: Project, is_blessed: bool) -> None:
    if is_blessed:
        here.bless(here.baseline())
    found = refused(here, "show", *(["lop"] if is_blessed else []))
    assert found == ({"baseline-unknown" if is_blessed else "baselines-none"}, 18)


def test_show_lists_an_unreadable_baseline_and_exits_with_its_code(here: Project) -> None:
    here.bless(here.baseline())
    here.write("baselines/nvidia-h200/other.json", "{")
    seen = here.perfgate("show")
    rows = [line.split()[:3] for line in seen.out.splitlines()[2:4]]
    assert rows == [
        ["nvidia-h200", "loop", "12.34"],
        ["nvidia-h200", "other", "unreadable:"],
    ]
    assert seen.status == 19


def test_without_an_open_stdout_nothing_is_printed_and_nothing_breaks(here: Project) -> None:
    here.bless(here.baseline())
    with here.patch.context() as patch:
        patch.setattr(sys, "stdout", None)
        with pytest.raises(SystemExit) as ended:
            cli.main(["show", "loop"])
    assert ended.value.code == 0


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [({}, True), ({"TERM": "dumb"}, False), ({"NO_COLOR": ""}, False)],
    ids=str,
)
def test_a_terminal_is_coloured_unless_it_cannot_be_or_is_not_to_be(
    monkeypatch: pytest.MonkeyPatch, variables: Mapping[str, str], coloured: bool
) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert screen()["colour"] is coloured


# compare


def test_compare_puts_a_baseline_next_to_the_kept_result(here: Project) -> None:
    here.bless(here.baseline())
    here.measures(records.run({Metric.STEP_MS: 13.0, Metric.H2D_COPIES: 4}))
    here.gate()
    seen = here.perfgate("compare", "loop", "loop:kept")
    lines = seen.out.splitlines()
    assert (seen.status, lines[0]) == (0, "a: loop (5 runs)")
    assert "  step_ms             12.34     13.00  +5.3 %" in lines
    assert "  h2d_copies              2         4  +2 (+100 %)" in lines


def test_compare_takes_files_and_folders(here: Project) -> None:
    file = here.bless(here.baseline())
    folder = here.keep(records.result(of=here.declared()))
    for side in (folder, folder / "result.json"):
        seen = here.perfgate("compare", file, side)
        assert (seen.status, seen.out.splitlines()[0]) == (
            0,
            "a: /project/baselines/nvidia-h200/loop.json (5 runs)",
        )


def test_compare_needs_the_steps_of_a_capture_next_to_a_baseline(
    here: Project, capture: Path
) -> None:
    here.bless(here.baseline())
    codes, status = refused(here, "compare", "loop", "mlp.sqlite")
    assert ("capture-without-step" in codes, status) == (True, 10)
    seen = here.perfgate("compare", "loop", "mlp.sqlite", "--step", "step")
    assert (seen.status, seen.out.splitlines()[1]) == (0, "b: mlp.sqlite (1 run)")


def test_compare_of_two_captures_says_where_they_differ_nowhere(
    project: Project, capture: Path
) -> None:
    seen = project.perfgate("compare", "mlp.sqlite", "mlp.sqlite", "--step", "step")
    assert seen.status == 0
    assert "  step_ms             7.274     7.274  0 %" in seen.out.splitlines()


@pytest.mark.parametrize(
    ("word", "code", "status"),
    [
        ("nothing", "subject-missing", 18),
        ("workloads", "result-not-there", 20),
        ("notes.txt", "subject-missing", 18),
        ("loop:kept", "results-none", 20),
        ("other", "subject-several", 18),
    ],
)
def test_compare_says_what_it_does_not_find(
    here: Project, word: str, code: str, status: int
) -> None:
    here.bless(here.baseline())
    here.write("notes.txt", "hello\n")
    for gpu in ("NVIDIA L4", "NVIDIA A100"):
        here.bless(here.baseline("other", on=records.machine(gpu)))
    assert refused(here, "compare", "loop", word) == ({code}, status)


@pytest.mark.parametrize(
    ("command", "label"),
    [(["compare"], "a: mlp.sqlite (1 run)"), (["explain", "--no-rules"], "a: mlp.sqlite")],
)
def test_two_of_which_no_metric_can_be_compared_are_no_success(
    project: Project, capture: Path, command: list[str], label: str
) -> None:
    with closing(sqlite3.connect(capture)) as database:
        names = database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'CUPTI%'"
        )
        for (name,) in names.fetchall():
            database.execute(f"DELETE FROM {name}")
        database.commit()
    seen = project.perfgate(*command, "mlp.sqlite", "mlp.sqlite")
    assert (seen.status, seen.out.splitlines()[0], seen.err) == (1, label, "")


def without(capture: Path, name: str, *tables: str) -> str:
    """A copy of a capture that lacks these tables' rows, as if they had not been traced."""
    copy = capture.with_name(name)
    shutil.copy(capture, copy)
    with closing(sqlite3.connect(copy)) as database:
        for table in tables:
            database.execute(f"DELETE FROM {table}")
        database.commit()
    return name


def test_compare_says_of_captures_what_inspect_says_that_they_lack(
    project: Project, capture: Path, snapshot: SnapshotAssertion
) -> None:
    bare = without(capture, "bare.sqlite", "CUPTI_ACTIVITY_KIND_RUNTIME")
    found = project.perfgate(
        "compare", "mlp.sqlite", bare, "--step", "step", columns=80
    ).out.splitlines()
    assert found == snapshot
    inspected = project.perfgate("inspect", bare, "--step", "step", columns=80).out.splitlines()
    assert [line for line in found[3:8] if line not in inspected] == []


def test_compare_says_of_a_capture_what_makes_it_invalid(project: Project, capture: Path) -> None:
    lossy = without(capture, "lossy.sqlite", "CUPTI_ACTIVITY_KIND_KERNEL WHERE rowid % 20 = 0")
    found = project.perfgate("compare", "mlp.sqlite", lossy, "--step", "step", columns=80).out
    (line,) = [line for line in found.splitlines() if line.startswith("  INVALID")]
    assert "of 920 launches" in line


# inspect


def test_inspect_measures_a_whole_window(
    project: Project, capture: Path, snapshot: SnapshotAssertion
) -> None:
    seen = project.perfgate("inspect", "mlp.sqlite")
    assert seen.out == snapshot
    assert (seen.status, seen.err) == (0, "")


def test_inspect_measures_steps_behind_the_warm_up(project: Project, capture: Path) -> None:
    asked = ("inspect", "mlp.sqlite", "--step", "st.p")
    lines = project.perfgate(*asked).out.splitlines()
    assert lines[2] == "process 548: 20 steps, 130.9 ms"
    assert any(line.split()[:2] == ["step_ms", "7.274"] for line in lines)
    lines = project.perfgate(*asked, "--warmup", "5").out.splitlines()
    assert lines[2].startswith("process 548: 15 steps")


def test_inspect_prints_json(project: Project, capture: Path) -> None:
    found = json.loads(project.perfgate("inspect", "mlp.sqlite", "--step", "step", "--json").out)
    (process,) = found["processes"]
    assert (found["format"], found["source"], process["pid"], process["steps"]) == (
        1,
        "mlp.sqlite",
        548,
        20,
    )
    assert process["values"]["launches"] == 46
    assert process["values"]["step_ms"] == pytest.approx(7.274, abs=0.001)
    assert process["absent"] == {"nccl_ms": "no NCCL kernels", "nccl_exposed_ms": "no NCCL kernels"}


NAME = "\u4e16\x9b31m\u202e\x7f\U0001f600\u00fc"
"""Of a range: neither in Latin-1 nor without what steers a terminal."""


@pytest.fixture
def foreign(capture: Path) -> Path:
    """The capture with a range of that name."""
    with closing(sqlite3.connect(capture)) as database:
        database.execute("UPDATE StringIds SET value = ? WHERE value = 'forward'", (NAME,))
        database.execute("UPDATE NVTX_EVENTS SET text = ? WHERE text = 'forward'", (NAME,))
        database.commit()
    return capture


def printed(monkeypatch: pytest.MonkeyPatch, encoding: str, *words: str) -> str:
    """What a command writes to an output of this encoding."""
    written = io.BytesIO()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding=encoding))
        with pytest.raises(SystemExit) as left:
            cli.main(words)
        assert left.value.code == 0
        return written.getvalue().decode(encoding)


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-8"])
@pytest.mark.usefixtures("project", "foreign")
def test_what_is_looked_at_is_printed_in_any_encoding(
    monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    for command in (
        ["inspect", "mlp.sqlite"],
        ["compare", "mlp.sqlite", "mlp.sqlite"],
        ["explain", "mlp.sqlite", "mlp.sqlite", "--no-rules", "--full"],
    ):
        found = printed(monkeypatch, encoding, *command, "--step", "step")
        assert "mlp.sqlite" in found
        if command[0] == "inspect":
            assert ("\u4e16" if encoding == "utf-8" else r"\u4e16") in found


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-8"])
@pytest.mark.usefixtures("project", "foreign")
def test_json_is_the_same_in_any_encoding_and_steers_no_terminal(
    monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    found = printed(monkeypatch, encoding, "inspect", "mlp.sqlite", "--step", "step", "--json")
    assert found.isascii()
    assert found.replace("\n", "").isprintable()
    (process,) = json.loads(found)["processes"]
    assert NAME in {row["name"] for row in process["ranges"]}


LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 12345\n"


@pytest.mark.parametrize(
    ("name", "text", "status"),
    [
        ("gone.sqlite", None, 14),
        ("gone.nsys-rep", None, 14),
        (f"{'x' * 300}.sqlite", None, 14),  # no name of a file
        ("workloads", None, 14),
        ("notes.txt", "hello\n", 14),
        ("lfs.sqlite", LFS, 14),
        ("lfs.nsys-rep", LFS, 14),
        ("run.nsys-rep", "x" * 5000, 11),  # for want of an nsys
        ("old.qdrep", "x" * 5000, 11),  # what nsys wrote before 2021.4
    ],
)
def test_what_cannot_be_read_as_a_capture_is_refused(
    here: Project, name: str, text: str | None, status: int
) -> None:
    here.patch.setenv("PERFGATE_NSYS", "/nowhere/nsys")
    if text is not None:
        here.write(name, text)
    assert refused(here, "inspect", name)[1] == status


@pytest.mark.nsys
@pytest.mark.usefixtures("real_nsys")
def test_inspect_reads_a_report_that_a_gate_kept(project: Project) -> None:
    project.workload()
    project.gate("--perfgate-runs=1", "--perfgate-keep-captures")
    (report,) = (project.root / ".perfgate").rglob("*.nsys-rep")
    shutil.copy(report, project.root / "mine.nsys-rep")
    seen = project.perfgate("inspect", "mine.nsys-rep", "--step", "step")
    assert (seen.status, seen.out.splitlines()[0]) == (0, "mine.nsys-rep: 1 process")


# doctor and help


def gone(here: Project) -> None:
    here.bless(here.baseline("gone"))


def folder_gone(here: Project) -> None:
    shutil.rmtree(here.root / "workloads")


def skips_itself(here: Project) -> None:
    here.workload(f"import pytest\npytest.skip('no data', allow_module_level=True)\n{LOOP}")


def raises(here: Project) -> None:
    here.workload(LOOP + "raise RuntimeError('no such data set')\n")


def warns(here: Project) -> None:
    """Pytest warns of its configuration, where warnings are errors."""
    here.write("pytest.ini", "[pytest]\ntestpaths = nowhere\nfilterwarnings = error\n")


def unreadable(here: Project) -> None:
    here.store.baselines.path("nvidia-h200", "loop").write_text("{")


@pytest.mark.parametrize(
    ("arrange", "says"),
    [
        (gone, "baselines/nvidia-h200/gone.json"),
        (folder_gone, "baselines/nvidia-h200/loop.json"),
        (skips_itself, "workloads/loops.py (no data)"),
        (raises, "RuntimeError: no such data set"),
        (warns, "No files were found in testpaths"),
        (unreadable, "git checkout HEAD -- baselines/nvidia-h200/loop.json"),
    ],
)
def test_doctor_says_what_is_wrong_with_baselines_and_workloads(
    here: Project, arrange: Callable[[Project], None], says: str
) -> None:
    here.bless(here.baseline())
    arrange(here)
    seen = here.perfgate("doctor", columns=120)
    assert seen.status == 1
    assert says in seen.out


def test_a_baseline_in_the_folder_of_another_machine_is_reported_by_doctor_and_show(
    here: Project,
) -> None:
    path = here.bless(here.baseline())
    path.parent.rename(path.parent.with_name("nvidia-a100"))
    for command in ("doctor", "show"):
        seen = here.perfgate(command)
        assert (seen.status != 0, "baseline-in-wrong-folder" in seen.codes) == (True, True)


def test_doctor_collects_under_the_projects_own_options(here: Project) -> None:
    here.bless(here.baseline())
    here.write("pytest.ini", "[pytest]\naddopts = -n 2 -v --strict-markers\n")
    assert "ok    baselines" in here.perfgate("doctor").out.splitlines()


def test_the_help_fits_a_screen(project: Project, snapshot: SnapshotAssertion) -> None:
    seen = project.perfgate("--help")
    assert seen.status == 0
    assert seen.out == snapshot


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(("nonsense",), "No such command 'nonsense'."), (("compare", "a"), "Missing argument 'B'.")],
)
def test_a_wrong_word_is_a_usage_error(
    project: Project, arguments: tuple[str, ...], says: str
) -> None:
    seen = project.perfgate(*arguments)
    assert (seen.err.splitlines()[-1], seen.status) == (f"Error: {says}", 2)
