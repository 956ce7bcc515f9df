"""Every way in which nsys fails, played by a shell script: the real one does so only where something is broken."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from perfgate.model.errors import CaptureUnreadable, StoreFailed
from perfgate.model.order import RUN_COOKIE
from perfgate.model.reports import ReportName
from perfgate.model.workload import CaptureMode, CaptureWindow
from perfgate.profilers.nsys import importer
from perfgate.profilers.nsys.output import TAIL_LINES, Output
from perfgate.profilers.nsys.profile import (
    ProfileOutcome,
    ProfileSpec,
    export,
    profile,
    run_reports,
)
from perfgate.profilers.nsys.tool import NsysTool, NsysVersion

RECENT = NsysVersion(2024, 2, 3)

SCRIPT = """#!/bin/sh
verb=$1; shift
for argument; do
  case $argument in
    --output=*) out=${argument#--output=};;
    --report=*) reports="$reports ${argument#--report=}";;
    -*) ;;
    *) source=$argument;;
  esac
done
sqlite=@SQLITE@
case $verb in
profile) @PROFILE@
;;
export) @EXPORT@
;;
stats) for report in $reports; do
printf 'Processing [%s] with [/opt/reports/%s.py] to [%s_%s.csv]... ' "$source" "$report" "$out" "$report"
@STATS@
done
;;
esac
"""

CAPTURES = """echo rep > "$out.nsys-rep"; cp "$sqlite" "$out.sqlite" """
EXPORTS = """cp "$sqlite" "$out" """
SKIPS = """: > "${out}_$report.csv"; echo "SKIPPED: $source does not contain CUDA trace data." """
SKIPS_AS_2025 = (
    ': > "${out}_$report.csv"; printf '
    r"'PROCESSED (EMPTY RESULTS)\n\nSKIPPED: %s does not contain CUDA trace data.\n\n'"
    ' "$source"'
)
"""As nsys 2025.3.1 printed it on an H200, for captures without copies or without kernels."""
NVTX_CSV = """Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Style,Range
100.0,5397846,5,1079569.2,1074207.0,1072625,1098413,10858.3,PushPop,step
"""
NVTX_ONLY = f"""case $report in nvtx_sum|nvtxsum)
printf '{NVTX_CSV.replace("%", "%%")}' > "${{out}}_$report.csv"; echo PROCESSED;;
*) {SKIPS};; esac"""


class Fake(NamedTuple):
    """A place with a fake nsys."""

    folder: Path
    make: Callable[..., NsysTool]

    @property
    def run(self) -> Path:
        return self.folder / "run"


@pytest.fixture
def sqlite(tmp_path: Path) -> Path:
    path = tmp_path / "template.sqlite"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
    return path


@pytest.fixture
def fake(tmp_path: Path, sqlite: Path) -> Fake:
    def make(
        profile: str = CAPTURES,
        export: str = EXPORTS,
        stats: str = NVTX_ONLY,
        version: NsysVersion = RECENT,
    ) -> NsysTool:
        path = tmp_path / "nsys"
        script = SCRIPT.replace("@SQLITE@", f"'{sqlite}'").replace("@PROFILE@", profile)
        path.write_text(script.replace("@EXPORT@", export).replace("@STATS@", stats))
        path.chmod(0o755)
        return NsysTool(path, version)

    return Fake(tmp_path, make)


def outcome_of(
    tool: NsysTool,
    fake: Fake,
    *,
    capture: CaptureMode | CaptureWindow = CaptureMode.CUDA_PROFILER_API,
    argv: tuple[str, ...] = ("sh", "-c", "exit 0"),
    timeout_s: float = 20.0,
    env: dict[str, str] | None = None,
) -> ProfileOutcome:
    spec = ProfileSpec(
        argv=argv,
        folder=fake.run,
        cwd=fake.folder,
        env={"PATH": "/usr/bin:/bin", **(env or {})},
        timeout_s=timeout_s,
        capture=capture,
    )
    return profile(tool, spec)


def test_a_capture_comes_with_the_export_that_stats_wrote(fake: Fake) -> None:
    tool = fake.make(export="echo 'must not be called' >&2; exit 1")
    outcome = outcome_of(tool, fake)
    assert [(c.rep.name, c.sqlite.name) for c in outcome.captures] == [
        ("capture.nsys-rep", "capture.sqlite")
    ]
    assert (outcome.exit_status, outcome.signal, outcome.timed_out, outcome.problem) == (
        0,
        None,
        False,
        None,
    )


@pytest.mark.parametrize(
    "left",
    [
        pytest.param("", id="none"),
        pytest.param(': > "$out.sqlite"', id="empty"),
        pytest.param('echo no database > "$out.sqlite"', id="foreign"),
        pytest.param('head -c 4096 "$sqlite" > "$out.sqlite"', id="cut short"),
        pytest.param(
            'cp "$sqlite" "$out.sqlite"; touch -d @1000000000 "$out.sqlite"',
            id="older than the capture",
        ),
    ],
)
def test_an_export_that_stats_did_not_write_well_is_made_anew(
    fake: Fake, left: str, sqlite: Path
) -> None:
    outcome = outcome_of(fake.make(profile=f'echo rep > "$out.nsys-rep"; {left}'), fake)
    assert outcome.problem is None
    assert outcome.captures[0].sqlite == fake.run / "capture.sqlite"
    assert outcome.captures[0].sqlite.read_bytes() == sqlite.read_bytes()


def test_every_capture_in_the_folder_is_one_of_the_run_in_natural_order(fake: Fake) -> None:
    many = 'for n in 10 2 1; do echo rep > "$out.$n.nsys-rep"; cp "$sqlite" "$out.$n.sqlite"; done'
    outcome = outcome_of(fake.make(profile=many), fake)
    assert [c.rep.name for c in outcome.captures] == [f"capture.{n}.nsys-rep" for n in (1, 2, 10)]


def test_one_capture_that_cannot_be_exported_is_a_problem_beside_the_others(fake: Fake) -> None:
    two = f'{CAPTURES}; : > "$out.2.nsys-rep"'
    outcome = outcome_of(fake.make(profile=two), fake)
    assert [c.rep.name for c in outcome.captures] == ["capture.nsys-rep"]
    assert outcome.problem == f"{fake.run}/capture.2.nsys-rep: is empty.\nCapture it again."


@pytest.mark.parametrize(
    ("status", "signal"),
    [(0, None), (3, None), (137, "SIGKILL"), (139, "SIGSEGV"), (143, "SIGTERM"), (255, None)],
)
def test_the_status_of_the_workload_is_passed_on_beside_a_good_capture(
    fake: Fake, status: int, signal: str | None
) -> None:
    outcome = outcome_of(fake.make(profile=f"{CAPTURES}; exit {status}"), fake)
    assert (outcome.exit_status, outcome.signal) == (status, signal)
    assert len(outcome.captures) == 1
    assert outcome.problem is None


def test_an_nsys_that_dies_after_a_good_capture_leaves_the_workloads_status_unknown(
    fake: Fake,
) -> None:
    outcome = outcome_of(fake.make(profile=f"{CAPTURES}; kill -ABRT $$"), fake)
    assert (outcome.exit_status, outcome.signal, outcome.problem) == (None, None, None)
    assert len(outcome.captures) == 1


def test_the_workloads_lines_are_told_apart_from_nsyss(fake: Fake) -> None:
    said = r"""cat <<'END'
Collecting data...
WARNING: CUDA graph-level trace requires CUDA driver version 11.7 or higher.
    Changing to node-level trace.
epoch 1
Capture range started in the application.
  loss 0.5
Capture range ended in the application.
WARNING: loss is not finite
Generating '/tmp/nsys-report-7df7.qdstrm'
END
printf '\r[1/7] [0%%                          ] capture.nsys-rep'
printf 'epoch 2\n'
printf '\r[1/7] [=====================94%%  ] capture.nsys-repProcessing 164781 events:\n'
cat <<'END'
[3/7] Executing 'nvtx_sum' stats report

 Time (%)  Total Time (ns)  Instances  Range
 --------  ---------------  ---------  -----
    100.0          5397846          5  step

[4/7] Executing 'cuda_api_sum' stats report
SKIPPED: No data available.
Generated:
    /tmp/run/capture.nsys-rep
    /tmp/run/capture.sqlite
epoch 3
END
"""
    heard: list[str] = []
    tool = fake.make(profile=f"{said}{CAPTURES}")
    spec = ProfileSpec(
        argv=("sh",),
        folder=fake.run,
        cwd=fake.folder,
        env={"PATH": "/usr/bin:/bin"},
        timeout_s=20.0,
        capture=CaptureMode.ALL,
    )
    outcome = profile(tool, spec, on_line=heard.append)
    assert heard == ["epoch 1", "WARNING: loss is not finite", "epoch 2", "epoch 3"]
    assert outcome.tail == tuple(heard)
    assert "Generated:\n    /tmp/run/capture.nsys-rep\n" in outcome.log.read_text()


def test_the_tail_is_the_last_lines() -> None:
    output = Output(None)
    for number in range(30):
        output.take(f"line {number}")
    assert list(output.tail) == [f"line {number}" for number in range(30 - TAIL_LINES, 30)]


FOOTER = """\
{failed} failed (exitcode: 1) local_rank: 1 (pid: 22922) of binary: /venv/bin/python3
Traceback (most recent call last):
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
Failures:
[1]:
  time      : 2026-11-26_05:07:40
  rank      : 0 (local_rank: 0)
Root Cause (first observed failure):
[0]:
  time      : 2026-11-26_05:07:40
  rank      : 1 (local_rank: 1)
  exitcode  : 1 (pid: 22922)
"""
NEW, OLD = (
    "E1126 05:07:40.163000 22507 torch/distributed/elastic/multiprocessing/api.py:1002]",
    "ERROR:torch.distributed.elastic.multiprocessing.api:",
)


@pytest.mark.parametrize("failed", [NEW, OLD])
def test_of_ranks_the_one_that_failed_first_has_the_last_word(failed: str) -> None:
    def tail(*said: str) -> list[str]:
        output = Output(None)
        for line in (
            *said,
            *FOOTER.format(failed=failed).splitlines(),
            *[f"frame {n}" for n in range(30)],
        ):
            output.take(line)
        return list(output.tail)

    others = [f"[rank{rank}]: frame {line}" for rank in (0, 2, 3) for line in range(20)]
    assert tail("[rank1]: boom", "epoch 1", *others) == ["[rank1]: boom"]
    # Of older versions, whose ranks do not say which they are, what came before is what there is.
    assert tail("epoch 1", "RuntimeError: boom") == ["epoch 1", "RuntimeError: boom"]
    assert tail()[-1] == "frame 29"


def test_a_listener_that_cannot_tell_is_heard(fake: Fake) -> None:
    def fail(line: str) -> None:
        raise BrokenPipeError("nobody listens")

    spec = ProfileSpec(
        argv=("sh",),
        folder=fake.run,
        cwd=fake.folder,
        env={},
        timeout_s=20.0,
        capture=CaptureMode.ALL,
    )
    with pytest.raises(BrokenPipeError, match="nobody listens"):
        profile(fake.make(profile="echo hello"), spec, on_line=fail)


class CalledOff(Exception):
    """A run is of no use any more."""


def call_off() -> None:
    raise CalledOff


def test_a_run_can_be_called_off(fake: Fake) -> None:
    spec = ProfileSpec(
        argv=("sh",),
        folder=fake.run,
        cwd=fake.folder,
        env={},
        timeout_s=20.0,
        capture=CaptureMode.ALL,
    )
    tool = fake.make(profile="sleep 20")
    with pytest.raises(CalledOff):
        profile(tool, spec, on_tick=call_off)


def test_an_export_and_its_reports_can_be_called_off(fake: Fake, sqlite: Path) -> None:
    tool = fake.make(export="sleep 20", stats="sleep 20")
    rep = fake.folder / "source.nsys-rep"
    rep.write_text("rep")
    with pytest.raises(CalledOff):
        export(tool, rep, fake.folder, on_tick=call_off)
    with pytest.raises(CalledOff):
        run_reports(tool, sqlite, fake.folder / "reports", on_tick=call_off)


NEVER_OPENED = (
    "The capture range never opened: cudaProfilerStart() was not called, or the workload did not use CUDA. "
    "Call torch.cuda.profiler.start() before the measured steps, or set `capture: all`."
)
NO_IMPORTER = "nsys 2024.2.3 recorded the workload but could not import its recording: "


LOST = (
    "echo \"Generating '/tmp/nsys-report-7df7.qdstrm'\"; printf '\\r[1/1] [=====100%%] capture.nsys-rep\\n'; "
    "echo Generated:"
)
"""All that 2024.2 said of a run on a busy machine; there was no file."""


@pytest.mark.parametrize(
    ("said", "capture", "problem"),
    [
        pytest.param(
            "echo Generated:",
            CaptureMode.CUDA_PROFILER_API,
            NEVER_OPENED,
            id="capture never opened",
        ),
        pytest.param(
            "printf 'Generated:\\n\\tNo reports were generated\\n'",
            CaptureMode.CUDA_PROFILER_API,
            NEVER_OPENED,
            id="capture never opened, 2025",
        ),
        pytest.param(
            "echo Generated:; exit 3",
            CaptureMode.CUDA_PROFILER_API,
            "The capture range never opened: the workload ended with status 3 before it called cudaProfilerStart().",
            id="workload failed first",
        ),
        pytest.param(
            "true",
            CaptureWindow(delay=30, duration=5),
            "The capture range never opened: the workload ended before the window of 30 s after the start. "
            "Set a shorter delay, or more steps.",
            id="window never opened",
        ),
        pytest.param(
            "exit 7",
            CaptureMode.ALL,
            "nsys ended with status 7 and wrote no capture, and did not say why. All it printed is in {run}/nsys.log",
            id="nothing at all",
        ),
        pytest.param(
            'echo x > "$out.qdstrm"; echo "Importer error status: An unknown error occurred."',
            CaptureMode.ALL,
            f"{NO_IMPORTER}An unknown error occurred. Its importer was killed or broke down: run it again, or use "
            "another nsys through PERFGATE_NSYS.",
            id="importer killed",
        ),
        pytest.param(
            'echo x > "$out.qdstrm"; '
            'echo "Importer error status: The importer binary and its dependencies were not found."',
            CaptureMode.ALL,
            f"{NO_IMPORTER}The importer binary and its dependencies were not found. Its importer is missing: "
            "install nsys whole, host folder and all, or set PERFGATE_NSYS to another one.",
            id="no importer",
        ),
        pytest.param(
            'echo "[1/1] [==========47%] capture.nsys-rep"; echo "Importer error status: Importation failed."',
            CaptureMode.ALL,
            f"{NO_IMPORTER}Importation failed. Its importer gave up on the recording: use a newer nsys through "
            "PERFGATE_NSYS.",
            id="importer gave up",
        ),
        pytest.param(
            'echo x > "$out.qdstrm"',
            CaptureMode.ALL,
            f"{NO_IMPORTER}it does not say why. Run it again; if it fails each time, use another nsys through "
            "PERFGATE_NSYS.",
            id="only a qdstrm",
        ),
        pytest.param(
            "echo \"Failed to create '$out.nsys-rep': File exists.\" >&2",
            CaptureMode.ALL,
            "nsys could not write {run}/capture.nsys-rep: File exists. Make the folder writable.",
            id="output elsewhere",
        ),
        pytest.param(
            "echo \"Failed to create '$out.nsys-rep': No space left on device.\" >&2",
            CaptureMode.ALL,
            "The disk ran full while nsys wrote the capture into {run}. Free some space.",
            id="disk full",
        ),
        pytest.param(
            'echo "FATAL ERROR: /dvs/QuadD/Common/Stream.cpp(720): Throw in function void serialize()"; exit 139',
            CaptureMode.ALL,
            "nsys 2024.2.3 itself failed: FATAL ERROR: /dvs/QuadD/Common/Stream.cpp(720): Throw in function void "
            "serialize(). All it printed is in {run}/nsys.log",
            id="nsys failed",
        ),
        pytest.param(
            "kill -ABRT $$",
            CaptureMode.ALL,
            "nsys 2024.2.3 itself failed: it was ended by SIGABRT and left no capture. All it printed is in "
            "{run}/nsys.log",
            id="nsys died",
        ),
        pytest.param(
            LOST,
            CaptureMode.CUDA_PROFILER_API,
            "nsys 2024.2.3 itself failed: it recorded the workload and wrote no capture. All it printed is in "
            "{run}/nsys.log",
            id="nsys lost it",
        ),
    ],
)
def test_a_missing_capture_is_called_by_its_reason(
    fake: Fake, said: str, capture: CaptureMode | CaptureWindow, problem: str
) -> None:
    outcome = outcome_of(fake.make(profile=said), fake, capture=capture)
    assert outcome.captures == ()
    assert outcome.problem == problem.format(run=fake.run)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (
            "unrecognised option '--cuda-graph-trace=graph'",
            "nsys 2024.2.3 ({nsys}) does not know the option --cuda-graph-trace=graph. Set PERFGATE_NSYS to another.",
        ),
        (
            "Illegal --duration argument: 1e9.\n\n\nusage: nsys profile [<args>] [application]",
            (
                "nsys 2024.2.3 ({nsys}) did not start the workload: Illegal --duration argument: 1e9. "
                "Correct its capture window."
            ),
        ),
        (
            'std::exception::what: boost::filesystem::temp_directory_path: Not a directory [system:20]: "/a,b"',
            "nsys cannot use the folder /a,b. Set TMPDIR to one that exists and can be written.",
        ),
    ],
)
def test_a_workload_that_was_never_started_has_no_status(
    fake: Fake, said: str, problem: str
) -> None:
    tool = fake.make(profile=f"cat <<'END'\n{said}\nEND\nexit 1")
    outcome = outcome_of(tool, fake, env={"TMPDIR": "/a,b"})
    assert outcome.exit_status is None
    assert outcome.tail == ()
    assert outcome.problem == problem.format(nsys=tool.path)


@pytest.mark.parametrize(
    "said",
    ["unrecognised option '--epochs'", "Illegal --delay argument: 1e9. Delay set to 0 seconds."],
)
def test_a_workload_that_left_a_capture_was_started_whatever_was_printed(
    fake: Fake, said: str
) -> None:
    assert (
        outcome_of(fake.make(profile=f'echo "{said}"; {CAPTURES}; exit 3'), fake).exit_status == 3
    )


def test_a_delay_that_nsys_sets_to_none_is_no_refusal(fake: Fake) -> None:
    outcome = outcome_of(
        fake.make(profile="echo 'Illegal --delay argument: 1e9. Delay set to 0 seconds.'; exit 3"),
        fake,
    )
    assert outcome.exit_status == 3


def test_a_run_out_of_time_has_no_captures_and_leaves_nothing_running(fake: Fake) -> None:
    outcome = outcome_of(
        fake.make(profile=f"{CAPTURES}; echo step 1; exec sleep 60"), fake, timeout_s=1.0
    )
    assert outcome.timed_out
    assert outcome.captures == ()
    assert outcome.exit_status is None
    assert outcome.tail == ("step 1",)
    assert outcome.problem == (
        "The workload did not end within 1 s, so it was ended with all that it had started. "
        f"Give it more time (timeout_s), or look where it hangs: {fake.run}/nsys.log"
    )
    assert not outcome.nsys_hung


def test_an_nsys_that_hangs_when_all_else_has_ended_is_told_from_a_workload_that_does(
    fake: Fake,
) -> None:
    outcome = outcome_of(
        fake.make(profile=f"{CAPTURES}; echo step 1; kill -STOP $$"), fake, timeout_s=1.0
    )
    assert outcome.timed_out
    assert outcome.nsys_hung
    assert outcome.captures == ()
    assert outcome.problem == (
        "nsys 2024.2.3 did not end within 1 s, though the workload had ended, so it was ended. Run it again; for a "
        f"capture that takes it so long, measure fewer steps or raise timeout_s: {fake.run}/nsys.log"
    )


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (
            ("no-such-program",),
            (
                "The workload's program no-such-program is not an executable file on PATH. "
                "Correct the command, or install it."
            ),
        ),
        (
            ("./train.sh",),
            "The workload's program ./train.sh is not an executable file. Correct the command, or install it.",
        ),
    ],
)
def test_a_program_that_is_not_there_is_said_before_nsys_is_run(
    fake: Fake, argv: tuple[str, ...], problem: str
) -> None:
    (fake.folder / "train.sh").write_text("not executable")
    outcome = outcome_of(fake.make(), fake, argv=argv)
    assert outcome.problem == problem
    assert outcome.exit_status is None
    assert not outcome.log.exists()


def test_too_little_space_is_said_before_nsys_is_run(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type(shutil.disk_usage("/"))(10**12, 10**12 - 5_000_000, 5_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    outcome = outcome_of(fake.make(), fake)
    assert outcome.problem == (
        f"The disk is full: 5 MB are free in {fake.run}, a capture needs 200 MB. Free some space."
    )


def fill_the_disk_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type(shutil.disk_usage("/"))
    left = iter([usage(10**12, 0, 10**12), usage(10**12, 0, 10**9), usage(10**12, 10**12, 4096)])
    monkeypatch.setattr(shutil, "disk_usage", lambda _: next(left, usage(10**12, 0, 10**12)))


def test_what_nsys_loses_while_the_disk_is_full_is_not_tried_again(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_the_disk_meanwhile(monkeypatch)
    outcome = outcome_of(fake.make(profile=LOST), fake)
    assert (outcome.crash, outcome.disk_was_full) == (None, True)
    assert (
        outcome.problem
        == f"The disk ran full while nsys wrote the capture into {fake.run}. Free some space."
    )


def test_a_capture_made_while_the_disk_was_full_is_not_taken(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_the_disk_meanwhile(monkeypatch)
    outcome = outcome_of(fake.make(profile=f"{CAPTURES}; exit 139"), fake)
    assert (outcome.captures, outcome.exit_status, outcome.signal) == ((), 139, "SIGSEGV")
    assert (
        outcome.problem
        == f"The disk ran full while nsys wrote the capture into {fake.run}. Free some space."
    )


def test_a_folder_that_cannot_be_made_is_a_problem(fake: Fake) -> None:
    fake.run.write_text("a file stands here")
    assert outcome_of(fake.make(), fake).problem == (
        f"nsys could not be run in {fake.run}: [Errno 17] File exists: '{fake.run}'. "
        "Make the folder writable, or free some space."
    )


def test_a_folder_of_an_earlier_run_is_refused(fake: Fake) -> None:
    tool = fake.make()
    outcome_of(tool, fake)
    with pytest.raises(
        ValueError,
        match=r"run holds capture\.nsys-rep, capture\.sqlite; a run needs a fresh folder",
    ):
        outcome_of(tool, fake)


def test_nsys_has_a_temporary_folder_of_its_own_and_the_workload_keeps_the_users(
    fake: Fake,
) -> None:
    seen = f'echo "$TMPDIR"; test -w "$TMPDIR"; echo $?; for a; do echo "$a"; done | grep TMPDIR; {CAPTURES}'
    outcome = outcome_of(fake.make(profile=seen), fake, env={"TMPDIR": "/scratch/me"})
    assert outcome.tail == (f"{fake.run}/tmp", "0", "--env-var=TMPDIR=/scratch/me")
    assert not (fake.run / "tmp").exists()


def test_a_temporary_folder_that_nsys_could_not_hand_on_is_left_as_it_is(fake: Fake) -> None:
    outcome = outcome_of(
        fake.make(profile=f'echo "$TMPDIR"; {CAPTURES}'), fake, env={"TMPDIR": "/a,b"}
    )
    assert outcome.tail == ("/a,b",)


def test_a_folder_that_nsys_would_misread_is_given_by_another_name(fake: Fake) -> None:
    odd = fake._replace(folder=fake.folder / "100%p, why? #1")
    odd.folder.mkdir()
    outcome = outcome_of(fake.make(profile=f'echo "$out"; {CAPTURES}'), odd)
    assert not set("%?#,") & set(outcome.tail[0])
    assert outcome.captures[0].sqlite == odd.run / "capture.sqlite"
    assert outcome.captures[0].sqlite.is_file()
    assert not Path(outcome.tail[0]).parent.exists()


def test_a_helper_that_the_workload_left_behind_is_ended(fake: Fake) -> None:
    # Until it has become `sleep` it bears the name of the nsys that it was forked from.
    settled = "until grep -q sleep /proc/$!/comm; do sleep 0.01; done"
    left = f"setsid sleep 60 >/dev/null 2>&1 & {settled}; echo ${RUN_COOKIE}; {CAPTURES}"
    outcome = outcome_of(fake.make(profile=left), fake)
    assert outcome.wall_s < 10
    environs = [Path(f"/proc/{pid}/environ") for pid in psutil.pids()]
    assert not [path for path in environs if outcome.tail[0].encode() in _bytes_of(path)]


@pytest.mark.parametrize(
    ("capture", "status"),
    [(CaptureWindow(delay=1, duration=1), None), (CaptureMode.CUDA_PROFILER_API, 0)],
)
def test_a_workload_that_outlives_its_window_by_the_clock_has_no_status(
    fake: Fake, capture: CaptureMode | CaptureWindow, status: int | None
) -> None:
    settled = "until grep -q sleep /proc/$!/comm; do sleep 0.01; done"
    tool = fake.make(profile=f"setsid sleep 60 >/dev/null 2>&1 & {settled}; {CAPTURES}")
    outcome = outcome_of(tool, fake, capture=capture)
    assert len(outcome.captures) == 1
    assert (outcome.exit_status, outcome.problem) == (status, None)


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


# export


def test_export_returns_the_checked_export(fake: Fake, sqlite: Path) -> None:
    rep = fake.folder / "model%p.nsys-rep"
    rep.write_text("rep")
    target = export(fake.make(), rep, fake.folder / "out")
    assert target == fake.folder / "out" / "model%p.sqlite"
    assert target.read_bytes() == sqlite.read_bytes()
    assert list((fake.folder / "out").iterdir()) == [target]


@pytest.mark.parametrize(
    ("content", "said", "message"),
    [
        pytest.param(
            "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
            EXPORTS,
            "{rep}: is a Git LFS pointer, not the capture itself.\nFetch it: git lfs pull --include=model.nsys-rep",
            id="git lfs pointer",
        ),
        pytest.param("", EXPORTS, "{rep}: is empty.\nCapture it again.", id="empty"),
        pytest.param(
            "rep",
            "echo 'Exportation error: Section Table Reference magic number mismatch.' >&2; exit 1",
            "{rep}: nsys 2024.2.3 cannot export it: Section Table Reference magic number mismatch. "
            "Expected a complete .nsys-rep.\n"
            "Capture it again; if it was copied or downloaded, compare its size with the original's.",
            id="cut short",
        ),
        pytest.param(
            "rep",
            "echo 'Exportation error: Report was created in Nsight Systems version (2025.3.2.474-0), newer than your "
            "current version.'",
            "{rep}: nsys 2024.2.3 cannot export it: Report was created in Nsight Systems version (2025.3.2.474-0), "
            "newer than your current version.\nUse an nsys as new as the one that captured it: set PERFGATE_NSYS.",
            id="of a newer nsys",
        ),
        pytest.param(
            "rep",
            "exit 0",
            "{rep}: nsys 2024.2.3 cannot export it: the export does not exist. Expected a complete .nsys-rep.\n"
            "Capture it again; if it was copied or downloaded, compare its size with the original's.",
            id="silent failure",
        ),
        pytest.param(
            "rep",
            'head -c 5000 "$sqlite" > "$out"',
            "{rep}: nsys 2024.2.3 cannot export it: the export is cut short. Expected a complete .nsys-rep.\n"
            "Capture it again; if it was copied or downloaded, compare its size with the original's.",
            id="export cut short",
        ),
    ],
)
def test_a_capture_that_cannot_be_exported_says_why(
    fake: Fake, content: str, said: str, message: str
) -> None:
    rep = fake.folder / "model.nsys-rep"
    rep.write_text(content)
    with pytest.raises(CaptureUnreadable) as caught:
        export(fake.make(export=said), rep, fake.folder / "out")
    assert str(caught.value) == message.format(rep=rep)
    assert not (fake.folder / "out" / "model.sqlite").exists()


def test_an_export_that_fails_leaves_the_earlier_one(fake: Fake, sqlite: Path) -> None:
    rep = fake.folder / "model.nsys-rep"
    rep.write_text("rep")
    export(fake.make(), rep, fake.folder)
    with pytest.raises(CaptureUnreadable):
        export(fake.make(export="exit 1"), rep, fake.folder)
    assert (fake.folder / "model.sqlite").read_bytes() == sqlite.read_bytes()


def test_an_export_that_hangs_is_ended(fake: Fake) -> None:
    rep = fake.folder / "model.nsys-rep"
    rep.write_text("rep")
    tool = fake.make(export="exec sleep 60")
    with pytest.raises(CaptureUnreadable) as caught:
        export(tool, rep, fake.folder, timeout_s=0.5)
    assert str(caught.value) == (
        f"{rep}: nsys export did not end within 0.5 s.\n"
        f"Export it by hand and look at what it says: {tool.path} export --type=sqlite {rep}"
    )


def test_a_folder_that_cannot_be_written_is_a_store_failure(fake: Fake) -> None:
    rep = fake.folder / "model.nsys-rep"
    rep.write_text("rep")
    with pytest.raises(StoreFailed) as caught:
        export(fake.make(), rep, rep / "below-a-file")
    assert str(caught.value) == (
        f"{rep}/below-a-file: cannot be written: Not a directory.\nMake it writable, or free some space."
    )


# reports


@pytest.mark.parametrize(
    "version", [NsysVersion(2022, 4, 2), NsysVersion(2023, 4, 4), NsysVersion(2024, 2, 3)]
)
def test_reports_are_read_and_skipped_ones_keep_nsyss_reason(
    fake: Fake, sqlite: Path, version: NsysVersion
) -> None:
    reports = run_reports(fake.make(version=version), sqlite, fake.folder / "reports")
    assert [(row.range, row.count, row.total_ns) for row in reports.nvtx_sum] == [
        ("step", 5, 5397846)
    ]
    assert reports.cuda_api_sum == ()
    assert reports.skipped == {
        name: "does not contain CUDA trace data."
        for name in ReportName
        if name is not ReportName.NVTX_SUM
    }
    assert [path.name for path in (fake.folder / "reports").iterdir()] == ["nvtx_sum.csv"]


def test_skipped_reports_are_known_in_the_words_of_2025(fake: Fake, sqlite: Path) -> None:
    tool = fake.make(version=NsysVersion(2025, 3, 1), stats=NVTX_ONLY.replace(SKIPS, SKIPS_AS_2025))
    reports = run_reports(tool, sqlite, fake.folder / "reports")
    assert [(row.range, row.count) for row in reports.nvtx_sum] == [("step", 5)]
    assert reports.skipped == {
        name: "does not contain CUDA trace data."
        for name in ReportName
        if name is not ReportName.NVTX_SUM
    }


def test_empty_results_without_a_word_are_a_skipped_report(fake: Fake, sqlite: Path) -> None:
    empty = ': > "${out}_$report.csv"; echo "PROCESSED (EMPTY RESULTS)"'
    tool = fake.make(version=NsysVersion(2025, 3, 1), stats=NVTX_ONLY.replace(SKIPS, empty))
    reports = run_reports(tool, sqlite, fake.folder / "reports")
    assert set(reports.skipped.values()) == {"it has no such data"}


def test_where_the_names_are_not_known_the_old_ones_are_tried_after_the_new(
    fake: Fake, sqlite: Path
) -> None:
    old_only = f"""case $report in *_*) echo; echo "ERROR: Report '$report' could not be found." >&2; continue;; esac
{NVTX_ONLY}"""
    tool = fake.make(stats=old_only, version=NsysVersion(2023, 1, 2))
    reports = run_reports(tool, sqlite, fake.folder / "reports")
    assert [row.range for row in reports.nvtx_sum] == ["step"]
    assert len(reports.skipped) == 4


def test_a_report_that_no_name_finds_is_an_error(fake: Fake, sqlite: Path) -> None:
    tool = fake.make(stats="""echo; echo "ERROR: Report '$report' could not be found." >&2""")
    with pytest.raises(CaptureUnreadable) as caught:
        run_reports(tool, sqlite, fake.folder / "reports")
    assert str(caught.value) == (
        f"nsys 2024.2.3 ({tool.path}): does not know the report nvtx_sum, cuda_gpu_mem_time_sum, "
        "cuda_gpu_mem_size_sum, cuda_gpu_kern_sum, cuda_api_sum.\nUse another nsys through PERFGATE_NSYS."
    )


@pytest.mark.parametrize(
    ("said", "fact"),
    [
        pytest.param("echo PROCESSED", "left no file and did not say why", id="missing"),
        pytest.param(
            ': > "${out}_$report.csv"; echo', "left an empty file and did not say why", id="empty"
        ),
        pytest.param(
            ': > "${out}_$report.csv"; echo; echo "ERROR: no such function: median" >&2',
            "left an empty file: ERROR: no such function: median",
            id="script failed",
        ),
        pytest.param(
            "echo; echo boom. >&2; exit 1",
            "left no file, and nsys ended with status 1: boom",
            id="failed",
        ),
        pytest.param(
            "kill -9 $$", "left no file, and nsys itself was ended by SIGKILL", id="killed"
        ),
        pytest.param("exit 3", "left no file, and nsys ended with status 3", id="failed silently"),
    ],
)
def test_a_report_without_rows_or_reason_is_an_error(
    fake: Fake, sqlite: Path, said: str, fact: str
) -> None:
    tool = fake.make(stats=said)
    with pytest.raises(CaptureUnreadable) as caught:
        run_reports(tool, sqlite, fake.folder / "reports")
    assert str(caught.value) == (
        f"report nvtx_sum of {sqlite}: {fact}. Expected nsys 2024.2.3 to print it, or to say that it has no such "
        "data.\nRun it by hand (a gate leaves this file behind with --perfgate-keep-captures): "
        f"LC_ALL=C {tool.path} stats --report=nvtx_sum {sqlite}"
    )


def test_a_report_skipped_because_the_file_was_not_read_is_an_error(
    fake: Fake, sqlite: Path
) -> None:
    said = (
        ': > "${out}_$report.csv"; echo "SKIPPED: $source file does not contain StringIds table."'
    )
    with pytest.raises(CaptureUnreadable, match="does not contain StringIds table"):
        run_reports(fake.make(stats=said), sqlite, fake.folder / "reports")


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (b"", "is empty"),
        (b"hello", "is no SQLite file"),
        (
            b"version https://git-lfs.github.com/spec/v1\n",
            "is a Git LFS pointer, not the export itself",
        ),
        (None, "does not exist"),
    ],
)
def test_reports_of_what_is_no_export_are_refused(
    fake: Fake, content: bytes | None, fact: str
) -> None:
    path = fake.folder / "odd.sqlite"
    if content is not None:
        path.write_bytes(content)
    tool = fake.make()
    with pytest.raises(CaptureUnreadable) as caught:
        run_reports(tool, path, fake.folder / "reports")
    assert str(caught.value) == (
        f"{path}: {fact}. Expected a SQLite export of an nsys capture.\n"
        f"Export the capture again: {tool.path} export --type=sqlite CAPTURE.nsys-rep"
    )


def test_reports_run_under_the_c_locale_and_without_the_users_variables(
    fake: Fake, sqlite: Path
) -> None:
    tool = fake.make(stats=f'env > "{fake.folder}/seen"; {NVTX_ONLY}')
    run_reports(
        NsysTool(tool.path, tool.version, {"LC_ALL": "de_DE.UTF-8", "HOME": "/home/me"}),
        sqlite,
        fake.run,
    )
    seen = dict(line.split("=", 1) for line in (fake.folder / "seen").read_text().splitlines())
    assert seen["LC_ALL"] == "C"
    assert seen["HOME"] == "/home/me"
    assert set(seen) <= {
        "LC_ALL",
        "HOME",
        "PATH",
        "TMPDIR",
        RUN_COOKIE,
        "PWD",
        "SHLVL",
        "OLDPWD",
        "_",
    }


def test_the_interpreter_of_these_tests_is_a_program_by_path(fake: Fake) -> None:
    outcome = outcome_of(
        fake.make(profile=f'echo "$source"; {CAPTURES}'), fake, argv=(sys.executable,)
    )
    assert outcome.tail == (sys.executable,)


CRASH = """
echo "/build/QuadD/Common/ProtobufComm/Client/ClientProxy.cpp(389): Throw in function QuadDProtobufComm::Endpoint" >&2
echo "Dynamic exception type: boost::wrapexcept<QuadDCommon::RuntimeException>" >&2
echo "[QuadDCommon::tag_message*] = Local Endpoint is not available." >&2
exit 1
"""


def test_an_nsys_that_breaks_down_is_told_from_a_workload_that_fails(fake: Fake) -> None:
    outcome = outcome_of(fake.make(profile=CRASH), fake)
    assert (outcome.exit_status, outcome.signal, outcome.captures, outcome.tail) == (
        None,
        None,
        (),
        (),
    )
    assert outcome.crash == "Local Endpoint is not available"
    assert outcome.problem is not None
    assert outcome.problem.startswith(
        "nsys 2024.2.3 itself failed: Local Endpoint is not available. All it printed is in "
    )


ANALYSIS_FAILED = """
echo "the workload's own last line"
cat <<'END'
Importer error status: Importation failed.
Import Failed with unexpected exception: /build/QuadD/Host/QdstrmImporter/main.cpp(34): Throw in function Importer
Dynamic exception type: boost::wrapexcept<QuadDCommon::RuntimeException>
std::exception::what: RuntimeException
[QuadDCommon::tag_message*] = Status: AnalysisFailed
Error {
  Type: RuntimeError
  SubError {
    Type: InvalidArgument
  }
}
END
"""


def test_what_an_importer_dumps_is_none_of_the_workloads_words(fake: Fake) -> None:
    outcome = outcome_of(fake.make(profile=ANALYSIS_FAILED), fake)
    assert outcome.tail == ("the workload's own last line",)
    assert outcome.crash == "Importation failed"


AGENT_LOST = """
echo "the workload's own last line"
cat <<'END'
Connection to Agent lost. This is most likely a bug. Internal reason: 'Connection reset by peer'.
Please refer to the troubleshooting section of the docs:
https://docs.nvidia.com/nsight-systems/UserGuide/index.html#troubleshooting
END
"""


@pytest.mark.parametrize("status", [0, 1])
def test_an_agent_that_was_lost_is_an_nsys_that_broke_down(fake: Fake, status: int) -> None:
    outcome = outcome_of(fake.make(profile=f"{AGENT_LOST}\nexit {status}"), fake)
    assert outcome.tail == ("the workload's own last line",)
    assert (outcome.exit_status, outcome.crash) == (None, "Connection to Agent lost")


def test_an_nsys_that_says_end_of_file_and_no_more_broke_down(fake: Fake) -> None:
    outcome = outcome_of(fake.make(profile="echo 'End of file' >&2; exit 1"), fake)
    assert (outcome.exit_status, outcome.tail, outcome.crash) == (None, (), "End of file")


def test_an_nsys_that_wrote_nothing_of_what_it_recorded_broke_down_unless_the_workload_failed(
    fake: Fake,
) -> None:
    outcome = outcome_of(fake.make(profile=LOST), fake)
    assert (outcome.exit_status, outcome.crash) == (
        None,
        "it recorded the workload and wrote no capture",
    )
    shutil.rmtree(fake.run)
    outcome = outcome_of(fake.make(profile=f"{LOST}; exit 3"), fake)
    assert (outcome.exit_status, outcome.crash) == (3, None)


@pytest.mark.parametrize("said", ["Importer error status: Not found.", "FATAL ERROR: /dvs/QuadD/a"])
def test_what_nsys_gives_a_reason_for_is_not_tried_again(fake: Fake, said: str) -> None:
    assert outcome_of(fake.make(profile=f"{LOST}; echo '{said}'"), fake).crash is None


IMPORTER_GONE = 'echo x > "$out.qdstrm"; echo "Importer error status: An unknown error occurred."'
"""As nsys 2024.2 ended where its importer was killed, and as 2025.3 does where the loader cannot start it."""


def test_an_importer_that_was_killed_is_an_nsys_that_broke_down_unless_the_workload_failed(
    fake: Fake,
) -> None:
    outcome = outcome_of(fake.make(profile=IMPORTER_GONE), fake)
    assert (outcome.exit_status, outcome.crash) == (None, "its importer: an unknown error occurred")
    shutil.rmtree(fake.run)
    outcome = outcome_of(fake.make(profile=f"{IMPORTER_GONE}; exit 3"), fake)
    assert (outcome.exit_status, outcome.crash) == (3, None)


def test_an_importer_that_lacks_a_library_will_lack_it_in_another_try(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        importer, "missing_libraries", lambda _: frozenset({"libdw.so.1", "libnew.so.2"})
    )
    outcome = outcome_of(fake.make(profile=IMPORTER_GONE), fake)
    assert (outcome.exit_status, outcome.crash) == (0, None)
    assert outcome.problem == (
        f"{NO_IMPORTER}An unknown error occurred. Its importer lacks libdw.so.1, libnew.so.2: "
        "install libdw1 (apt-get install)."
    )
    monkeypatch.setattr(importer, "missing_libraries", lambda _: frozenset({"libnew.so.2"}))
    shutil.rmtree(fake.run)
    problem = outcome_of(fake.make(profile=IMPORTER_GONE), fake).problem
    assert (
        problem
        == f"{NO_IMPORTER}An unknown error occurred. Its importer lacks libnew.so.2: install it."
    )


def test_a_brace_that_a_workload_prints_is_its_own(fake: Fake) -> None:
    outcome = outcome_of(fake.make(profile="echo '{'; echo '}'"), fake)
    assert outcome.tail == ("{", "}")
