"""Real runs under a real nsys: what it does on each of these is not documented, and differs by
version."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from support.refused import refused

from perfgate.model.errors import CaptureUnreadable
from perfgate.model.order import RUN_COOKIE
from perfgate.model.workload import CaptureMode, CaptureWindow
from perfgate.profilers.nsys import profile as nsys_profile
from perfgate.profilers.nsys.answers import export
from perfgate.profilers.nsys.command import withhold_secrets
from perfgate.profilers.nsys.export.timeline import read_timeline
from perfgate.profilers.nsys.reports import run_reports
from perfgate.profilers.nsys.tool import NsysTool
from perfgate.profilers.seam import ProfileOutcome, ProfileSpec
from perfgate.system.ending import processes_of
from perfgate.system.process import ignore

pytestmark = pytest.mark.nsys

FIVE_STEPS = """
import nvtx, time
for number in range(5):
    with nvtx.annotate("step"):
        time.sleep(0.002)
print("all steps done", flush=True)
"""


def spec_of(
    code: str,
    folder: Path,
    *,
    capture: CaptureMode | CaptureWindow = CaptureMode.ALL,
    timeout_s: float = 60.0,
    env: Mapping[str, str] = os.environ,
) -> ProfileSpec:
    (folder.parent / "workload.py").write_text(code)
    kept, _ = withhold_secrets(env, ())
    return ProfileSpec(
        argv=(sys.executable, "workload.py"),
        folder=folder,
        cwd=folder.parent,
        env=kept,
        timeout_s=timeout_s,
        capture=capture,
    )


def profile(
    tool: NsysTool, spec: ProfileSpec, *, on_tick: Callable[[], None] = ignore
) -> ProfileOutcome:
    """Profile; where nsys itself broke down, the test says so, and is tried again."""
    outcome = nsys_profile.profile(tool, spec, on_tick=on_tick)
    assert not outcome.crashed, "NsysCrashed"
    return outcome


def steps_in(sqlite: Path) -> int:
    """Count the closed ranges called step."""
    ranges = read_timeline(sqlite).ranges
    return int((ranges.name.bear("step") & ranges.closed).sum())


def code_of(outcome: ProfileOutcome) -> str | None:
    return None if outcome.problem is None else outcome.problem.code


def left_running(outcome: ProfileOutcome) -> list[str]:
    """Name the processes that still bear the run's cookie, which the workload printed as its last
    line."""
    assert len(outcome.tail[-1]) >= 32
    return [process.name() for process in processes_of(outcome.tail[-1])]


PRINT_COOKIE = f"import os; print(os.environ[{RUN_COOKIE!r}].split(':')[-1], flush=True)"


@pytest.fixture(scope="module")
def good(nsys_tool: NsysTool, tmp_path_factory: pytest.TempPathFactory) -> ProfileOutcome:
    return profile(nsys_tool, spec_of(FIVE_STEPS, tmp_path_factory.mktemp("good") / "run"))


def test_a_script_with_ranges_leaves_a_capture_with_them(good: ProfileOutcome) -> None:
    assert good.problem is None
    assert (good.exit_status, good.signal, good.timed_out) == (0, None, False)
    assert good.tail == ("all steps done",)
    [capture] = good.captures
    assert steps_in(capture.sqlite) == 5
    assert not (capture.rep.parent / "tmp").exists()


def test_its_reports_are_read_and_those_without_data_are_empty(
    nsys_tool: NsysTool, good: ProfileOutcome, tmp_path: Path
) -> None:
    reports = run_reports(nsys_tool, good.captures[0].sqlite, tmp_path / "reports")
    [row] = [row for row in reports.nvtx_sum if row.range == "step"]
    assert (row.count, row.style) == (5, "PushPop")
    assert 5 * 2_000_000 <= row.total_ns < 5 * 1_000_000_000
    assert reports.cuda_gpu_kern_sum == ()


def test_its_capture_can_be_exported_again_under_a_name_nsys_would_misread(
    nsys_tool: NsysTool, good: ProfileOutcome, tmp_path: Path
) -> None:
    rep = tmp_path / "50% of, what? #1 \N{LATIN SMALL LETTER U WITH DIAERESIS}.nsys-rep"
    rep.write_bytes(good.captures[0].rep.read_bytes())
    sqlite = export(nsys_tool, rep, tmp_path / "100%p, out?#")
    assert sqlite.name == rep.with_suffix(".sqlite").name
    assert steps_in(sqlite) == 5
    reports = run_reports(nsys_tool, sqlite, tmp_path / "100%p, out?#" / "reports")
    assert [row.count for row in reports.nvtx_sum if row.range == "step"] == [5]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["100%p, out?#", rep.name]


def test_half_a_capture_is_refused(
    nsys_tool: NsysTool, good: ProfileOutcome, tmp_path: Path
) -> None:
    rep = tmp_path / "half.nsys-rep"
    content = good.captures[0].rep.read_bytes()
    rep.write_bytes(content[: len(content) // 2])
    with refused(CaptureUnreadable, "capture-not-exported"):
        export(nsys_tool, rep, tmp_path)
    assert list(tmp_path.iterdir()) == [rep]


def test_a_script_that_hangs_is_ended_and_nothing_is_left_running(
    nsys_tool: NsysTool, tmp_path: Path
) -> None:
    code = (
        f"{FIVE_STEPS}\nimport subprocess\nsubprocess.Popen(['sleep', '60'])\n"
        f"{PRINT_COOKIE}\ntime.sleep(60)"
    )
    started = time.monotonic()
    outcome = profile(nsys_tool, spec_of(code, tmp_path / "run", timeout_s=5.0))
    assert time.monotonic() - started < 15.0
    assert outcome.timed_out
    assert (outcome.captures, outcome.exit_status) == ((), None)
    assert code_of(outcome) == "capture-timed-out"
    assert outcome.tail[0] == "all steps done"
    assert left_running(outcome) == []


def test_a_child_that_outlives_the_script_does_not_hold_up_the_run(
    nsys_tool: NsysTool, tmp_path: Path
) -> None:
    code = (
        f"{FIVE_STEPS}\nimport subprocess\n"
        f"subprocess.Popen(['sleep', '60'], stdout=-3, stderr=-3)\n{PRINT_COOKIE}"
    )
    outcome = profile(nsys_tool, spec_of(code, tmp_path / "run"))
    assert outcome.wall_s < 30.0
    assert outcome.exit_status == 0
    assert steps_in(outcome.captures[0].sqlite) == 5
    assert left_running(outcome) == []


@pytest.mark.parametrize(
    ("capture", "status", "code"),
    [
        (CaptureMode.CUDA_PROFILER_API, 0, "profiler-not-started"),
        (CaptureWindow(delay=20.0, duration=1.0), None, "window-not-reached"),
    ],
    ids=["never opens", "opens too late"],
)
def test_a_capture_without_anything_in_it_is_named(
    nsys_tool: NsysTool,
    tmp_path: Path,
    capture: CaptureMode | CaptureWindow,
    status: int | None,
    code: str,
) -> None:
    outcome = profile(nsys_tool, spec_of(FIVE_STEPS, tmp_path / "run", capture=capture))
    assert (outcome.captures, code_of(outcome)) == ((), code)
    assert status is None or outcome.exit_status == status


def test_a_window_by_the_clock_holds_some_steps_and_ends_the_run(
    nsys_tool: NsysTool, tmp_path: Path
) -> None:
    code = f"""{PRINT_COOKIE}
import nvtx, time
for number in range(300):
    with nvtx.annotate("step"):
        time.sleep(0.1)
"""
    window = CaptureWindow(delay=1.0, duration=4.0)
    outcome = profile(nsys_tool, spec_of(code, tmp_path / "run", capture=window))
    assert outcome.problem is None
    assert outcome.wall_s < 20.0
    assert outcome.exit_status is None
    assert 1 <= steps_in(outcome.captures[0].sqlite) <= 45
    assert left_running(outcome) == []


def test_a_withheld_secret_is_nowhere_in_the_capture(nsys_tool: NsysTool, tmp_path: Path) -> None:
    env = {**os.environ, "FAKE_TOKEN": "hush-d41d8cd98f00", "HARMLESS_NAME": "loud-b204e9800998"}
    outcome = profile(nsys_tool, spec_of(FIVE_STEPS, tmp_path / "run", env=env))
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".nsys-rep", ".sqlite", ".log"}
    for path in files:
        assert b"hush-d41d8cd98f00" not in path.read_bytes(), path
    # The counter-proof: what is not withheld is in there.
    assert b"loud-b204e9800998" in outcome.captures[0].sqlite.read_bytes()


@pytest.mark.parametrize(
    "name",
    [
        "m\N{LATIN SMALL LETTER U WITH DIAERESIS} bench[a=b]/100%p, why? #2/run",
        f"{'d' * 100}/{'e' * 100}/run",
    ],
    ids=["odd", "deep"],
)
def test_odd_and_deep_folders_work(nsys_tool: NsysTool, tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.parent.mkdir(parents=True)
    outcome = profile(nsys_tool, spec_of(FIVE_STEPS, folder))
    assert outcome.problem is None
    [capture] = outcome.captures
    assert steps_in(capture.sqlite) == 5
    left = sorted(path.name for path in folder.iterdir())
    assert (capture.sqlite.parent, left) == (
        folder,
        ["capture.nsys-rep", "capture.sqlite", "nsys.log"],
    )
    reports = run_reports(nsys_tool, capture.sqlite, folder / "reports")
    assert [row.count for row in reports.nvtx_sum if row.range == "step"] == [5]


@pytest.mark.parametrize("tmpdir", ["/no/such,folder", "/proc", "{tmp}/with space"])
def test_an_odd_tmpdir_reaches_the_workload_but_not_nsys(
    nsys_tool: NsysTool, tmp_path: Path, tmpdir: str
) -> None:
    odd = tmpdir.format(tmp=tmp_path)
    code = f"{FIVE_STEPS}\nimport os\nprint(os.environ['TMPDIR'])"
    outcome = profile(nsys_tool, spec_of(code, tmp_path / "run", env={**os.environ, "TMPDIR": odd}))
    assert outcome.problem is None
    assert outcome.tail == ("all steps done", odd)
    assert steps_in(outcome.captures[0].sqlite) == 5


@pytest.mark.parametrize("program", ["./train.sh", "no-such-program"])
def test_a_program_that_cannot_be_started_is_named(
    nsys_tool: NsysTool, tmp_path: Path, program: str
) -> None:
    script = tmp_path / "train.sh"
    script.write_text("echo no first line\n")
    script.chmod(0o755)
    outcome = profile(nsys_tool, replace(spec_of("", tmp_path / "run"), argv=(program,)))
    assert outcome.exit_status == 1
    assert outcome.tail[0].startswith(f"{program}: ")


def test_a_program_is_looked_for_on_path(nsys_tool: NsysTool, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "train").write_text("#!/bin/sh\necho $0 $1\n")
    (tmp_path / "here" / "train").chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}/here:{os.environ['PATH']}"}
    spec = replace(spec_of("", tmp_path / "run", env=env), argv=("train", "me"))
    assert profile(nsys_tool, spec).tail == (f"{tmp_path}/here/train me",)
