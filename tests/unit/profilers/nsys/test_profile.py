"""Every way in which a run under nsys goes, well or not."""

from __future__ import annotations

import shutil

import pytest
from support.fake_nsys import CAPTURES, Fake

from perfgate.model.secrets import Cleaner
from perfgate.model.workload import CaptureMode, CaptureWindow
from perfgate.profilers.nsys.output import Output
from perfgate.profilers.seam import ProfileOutcome

SETTLED = "until grep -q sleep /proc/$!/comm; do sleep 0.01; done"
"""Until it has become `sleep` a helper bears the name of the nsys that it was forked from."""
LOST = "echo \"Generating '/tmp/nsys-report-7df7.qdstrm'\"; echo Generated:"
"""All that 2024.2 said of a run on a busy machine; there was no file."""
NOT_IMPORTED = 'echo x > "$out.qdstrm"; echo "Importer error status: An unknown error occurred."'
"""As nsys 2024.2 ended where its importer was killed, and 2025.3 where the loader cannot start it.
"""


def code(outcome: ProfileOutcome) -> str | None:
    return None if outcome.problem is None else outcome.problem.code


def test_a_capture_comes_with_the_export_that_stats_wrote(fake: Fake) -> None:
    outcome = fake.profile(CAPTURES)
    assert [(one.rep.name, one.sqlite.name) for one in outcome.captures] == [
        ("capture.nsys-rep", "capture.sqlite")
    ]
    assert (outcome.exit_status, outcome.signal, outcome.timed_out) == (0, None, False)
    assert outcome.problem is None


@pytest.mark.parametrize(
    "left",
    [
        "",
        ': > "$out.sqlite"',
        'head -c 4096 "$sqlite" > "$out.sqlite"',
        'cp "$sqlite" "$out.sqlite"; touch -d @1000000000 "$out.sqlite"',
    ],
    ids=["none", "empty", "cut short", "older than the capture"],
)
def test_an_export_that_stats_did_not_write_well_is_made_anew(fake: Fake, left: str) -> None:
    outcome = fake.profile(f'echo rep > "$out.nsys-rep"; {left}')
    assert outcome.problem is None
    assert outcome.captures[0].sqlite.read_bytes() == fake.sqlite.read_bytes()


def test_every_capture_in_the_folder_is_one_of_the_run_in_natural_order(fake: Fake) -> None:
    many = 'for n in 10 2 1; do echo rep > "$out.$n.nsys-rep"; cp "$sqlite" "$out.$n.sqlite"; done'
    names = [one.rep.name for one in fake.profile(many).captures]
    assert names == [f"capture.{n}.nsys-rep" for n in (1, 2, 10)]


def test_one_capture_that_cannot_be_exported_is_a_problem_next_to_the_others(fake: Fake) -> None:
    outcome = fake.profile(f'{CAPTURES}; : > "$out.2.nsys-rep"')
    assert [one.rep.name for one in outcome.captures] == ["capture.nsys-rep"]
    assert code(outcome) == "capture-empty"


@pytest.mark.parametrize(
    ("ends", "status", "signal"),
    [
        ("exit 3", 3, None),
        ("exit 137", 137, "SIGKILL"),
        ("exit 139", 139, "SIGSEGV"),
        ("exit 255", 255, None),
        ("kill -ABRT $$", None, None),
    ],
)
def test_the_status_of_the_workload_is_passed_on_next_to_a_good_capture(
    fake: Fake, ends: str, status: int | None, signal: str | None
) -> None:
    outcome = fake.profile(f"{CAPTURES}; {ends}")
    assert (outcome.exit_status, outcome.signal, outcome.problem) == (status, signal, None)
    assert len(outcome.captures) == 1


def test_the_workloads_lines_are_kept_apart_from_nsyss(fake: Fake) -> None:
    said = r"""cat <<'END'
Collecting data...
WARNING: CUDA graph-level trace requires CUDA driver version 11.7 or higher.
    Changing to node-level trace.
epoch 1
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

SKIPPED: No data available.
Importer error status: Importation failed.
Error {
  Type: RuntimeError
}
Export error: File not found: '/tmp/run/.nsys-rep'.
Generated:
    /tmp/run/capture.nsys-rep
{
epoch 3
END
"""
    outcome = fake.profile(f"{said}{CAPTURES}")
    assert outcome.tail == ("epoch 1", "WARNING: loss is not finite", "epoch 2", "{", "epoch 3")
    assert "Generated:\n    /tmp/run/capture.nsys-rep\n" in outcome.log.read_text()


FOOTER = """\
{failed} failed (exitcode: 1) local_rank: 1 (pid: 22922) of binary: /venv/bin/python3
Traceback (most recent call last):
Failures:
[1]:
  rank      : 0 (local_rank: 0)
Root Cause (first observed failure):
[0]:
  time      : 2026-11-26_05:07:40
  rank      : 1 (local_rank: 1)
"""


@pytest.mark.parametrize(
    "failed",
    [
        "E1126 05:07:40.163000 22507 torch/distributed/elastic/multiprocessing/api.py:1002]",
        "ERROR:torch.distributed.elastic.multiprocessing.api:",
    ],
)
def test_of_ranks_the_one_that_failed_first_has_the_last_word(failed: str) -> None:
    def tail(*said: str) -> list[str]:
        output = Output(Cleaner())
        for line in (*said, *FOOTER.format(failed=failed).splitlines(), *["frame"] * 30):
            output.take(line)
        return list(output.tail)

    others = [f"[rank{rank}]: frame {line}" for rank in (0, 2, 3) for line in range(20)]
    assert tail("[rank1]: boom", "epoch 1", *others) == ["[rank1]: boom"]
    # Of older versions, whose ranks do not say which they are, what came before is what there is.
    assert tail("epoch 1", "RuntimeError: boom") == ["epoch 1", "RuntimeError: boom"]


class CalledOff(Exception):
    """A run is of no use any more."""


def call_off(*_: object) -> None:
    raise CalledOff


def test_what_a_listener_raises_ends_the_run(fake: Fake) -> None:
    with pytest.raises(CalledOff):
        fake.profile("sleep 20", on_tick=call_off)


@pytest.mark.parametrize(
    ("said", "capture", "problem", "crashed"),
    [
        ("echo Generated:", CaptureMode.CUDA_PROFILER_API, "profiler-not-started", False),
        ("echo Generated:; exit 3", CaptureMode.CUDA_PROFILER_API, "ended-before-window", False),
        ("true", CaptureWindow(delay=30, duration=5), "window-not-reached", False),
        ("exit 7", CaptureMode.ALL, "nsys-wrote-nothing", False),
        (NOT_IMPORTED, CaptureMode.ALL, "nsys-not-imported", True),
        (f"{NOT_IMPORTED}; exit 3", CaptureMode.ALL, "nsys-not-imported", False),
        (
            (
                'echo "Importer error status: '
                'The importer binary and its dependencies were not found."'
            ),
            CaptureMode.ALL,
            "nsys-not-imported",
            False,
        ),
        (
            'echo "Importer error status: Importation failed."',
            CaptureMode.ALL,
            "nsys-crashed",
            True,
        ),
        ('echo x > "$out.qdstrm"', CaptureMode.ALL, "nsys-not-imported", False),
        (
            "echo \"Failed to create '$out.nsys-rep': File exists.\" >&2",
            CaptureMode.ALL,
            "nsys-cannot-write",
            False,
        ),
        (
            "echo \"Failed to create '$out.nsys-rep': No space left on device.\" >&2",
            CaptureMode.ALL,
            "nsys-disk-full",
            False,
        ),
        (
            'echo "FATAL ERROR: /dvs/QuadD/Common/Stream.cpp(720): Throw"; exit 139',
            CaptureMode.ALL,
            "nsys-crashed",
            False,
        ),
        (
            'echo "[QuadDCommon::tag_message*] = Local Endpoint is not available."; exit 1',
            CaptureMode.ALL,
            "nsys-crashed",
            True,
        ),
        ("echo 'Connection to Agent lost. A bug.'", CaptureMode.ALL, "nsys-crashed", True),
        ("echo 'End of file' >&2; exit 1", CaptureMode.ALL, "nsys-crashed", True),
        ("kill -ABRT $$", CaptureMode.ALL, "nsys-crashed", True),
        (LOST, CaptureMode.CUDA_PROFILER_API, "nsys-crashed", True),
        (f"{LOST}; exit 3", CaptureMode.CUDA_PROFILER_API, "ended-before-window", False),
    ],
)
def test_a_missing_capture_is_called_by_its_reason(
    fake: Fake, said: str, capture: CaptureMode | CaptureWindow, problem: str, *, crashed: bool
) -> None:
    """Where nsys itself broke down, its exit status says nothing of the workload."""
    outcome = fake.profile(said, capture=capture)
    assert outcome.captures == ()
    assert (code(outcome), outcome.crashed) == (problem, crashed)
    assert outcome.exit_status is None or not crashed
    if "exit 3" in said:
        assert outcome.exit_status == 3


@pytest.mark.parametrize(
    "said",
    [
        "unrecognised option '--cuda-graph-trace=graph'",
        "Illegal --duration argument: 1e9.\n\nusage: nsys profile",
    ],
)
def test_a_workload_that_was_never_started_has_no_status(fake: Fake, said: str) -> None:
    outcome = fake.profile(f"cat <<'END'\n{said}\nEND\nexit 1")
    assert (outcome.exit_status, outcome.tail, code(outcome)) == (None, (), "nsys-not-started")


@pytest.mark.parametrize(
    "said",
    [
        f"unrecognised option '--epochs'\"; {CAPTURES}; echo \"",
        "Illegal --delay argument: 1e9. Delay set to 0 seconds.",
    ],
)
def test_a_workload_that_was_started_has_its_status_whatever_was_printed(
    fake: Fake, said: str
) -> None:
    assert fake.profile(f'echo "{said}"; exit 3').exit_status == 3


@pytest.mark.parametrize(("last", "hung"), [("exec sleep 60", False), ("kill -STOP $$", True)])
def test_a_run_out_of_time_has_no_captures_and_leaves_nothing_running(
    fake: Fake, last: str, *, hung: bool
) -> None:
    outcome = fake.profile(f"{CAPTURES}; echo step 1; {last}", timeout_s=1.0)
    assert (outcome.timed_out, outcome.nsys_hung) == (True, hung)
    assert (outcome.captures, outcome.exit_status, outcome.tail) == ((), None, ("step 1",))
    assert code(outcome) == "capture-timed-out"


@pytest.mark.parametrize("program", ["no-such-program", "./train.sh"])
def test_a_program_that_cannot_be_run_is_said_before_nsys_is_run(fake: Fake, program: str) -> None:
    script = fake.folder / "train.sh"
    script.write_text("says nobody what runs it")
    script.chmod(0o755)
    outcome = fake.profile(CAPTURES, argv=(program,))
    assert (code(outcome), outcome.exit_status) == ("workload-program-unrunnable", None)
    assert not outcome.log.exists()


def test_too_little_space_is_said_before_nsys_is_run(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type(shutil.disk_usage("/"))(10**12, 10**12 - 5_000_000, 5_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    assert code(fake.profile(CAPTURES)) == "disk-too-full"


@pytest.mark.parametrize("script", [LOST, f"{CAPTURES}; exit 139"])
def test_what_is_left_of_a_full_disk_is_no_capture_and_is_not_tried_again(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    usage = type(shutil.disk_usage("/"))
    left = iter([usage(10**12, 0, 10**12), usage(10**12, 0, 10**9), usage(10**12, 10**12, 4096)])
    monkeypatch.setattr(shutil, "disk_usage", lambda _: next(left, usage(10**12, 0, 10**12)))
    outcome = fake.profile(script)
    assert (outcome.captures, code(outcome)) == ((), "nsys-disk-full")
    assert not outcome.crashed


def test_a_folder_that_cannot_be_made_and_one_of_an_earlier_run(fake: Fake) -> None:
    fake.run.write_text("a file stands here")
    assert code(fake.profile(CAPTURES)) == "run-folder-unusable"
    fake.run.unlink()
    fake.profile(CAPTURES)
    with pytest.raises(ValueError, match="a run needs a fresh folder"):
        fake.profile(CAPTURES)


def test_nsys_has_a_temporary_folder_of_its_own_and_the_workload_keeps_the_users(
    fake: Fake,
) -> None:
    seen = 'echo "$TMPDIR"; test -w "$TMPDIR"; for a; do echo "$a"; done | grep scratch'
    env = {"TMPDIR": "/scratch/me", "LC_ALL": "de_DE.UTF-8"}
    outcome = fake.profile(f"{seen}; echo $LC_ALL; {CAPTURES}", env=env)
    assert outcome.tail == (f"{fake.run}/tmp", "/scratch/me", "de_DE.UTF-8")
    assert not (fake.run / "tmp").exists()


@pytest.mark.parametrize(
    ("capture", "status"),
    [(CaptureWindow(delay=1, duration=1), None), (CaptureMode.CUDA_PROFILER_API, 0)],
)
def test_a_workload_that_outlives_its_window_by_the_clock_has_no_status(
    fake: Fake, capture: CaptureMode | CaptureWindow, status: int | None
) -> None:
    script = f"setsid sleep 60 >/dev/null 2>&1 & {SETTLED}; {CAPTURES}"
    outcome = fake.profile(script, capture=capture)
    assert len(outcome.captures) == 1
    assert (outcome.exit_status, outcome.problem) == (status, None)
