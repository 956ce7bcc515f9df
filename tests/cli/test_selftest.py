"""`perfgate selftest`: what came out as it must, what did not, and that nothing stays behind."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from support import records
from support.processes import until
from support.project import Project
from support.refused import refused
from syrupy.assertion import SnapshotAssertion

from perfgate.model.document_text import document_text
from perfgate.model.errors import StoreFailed, WorkloadFailed
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.verdict import Verdict
from perfgate.profilers.nsys.tool import NsysTool, NsysVersion
from perfgate.render.page import Screen
from perfgate.selftest.play import Runner, play
from perfgate.store import Store

COMMAND = [sys.executable, "-c", "from perfgate.cli import main; main()", "selftest"]


def passed(outcome: Outcome = Outcome.PASSED) -> Verdict:
    return records.verdict(outcome, name="loop", reason="Within budget.")


def regressed(*metrics: Metric, runs: int = 3) -> Verdict:
    rows = [records.count(metric, Outcome.REGRESSED, was=1, now=2) for metric in metrics]
    return records.verdict(
        Outcome.REGRESSED, name="loop", reason=f"{metrics[0]} rose.", metrics=rows, measured=runs
    )


@dataclass(kw_only=True)
class FakeDoor:
    """Stands in for pytest: writes a verdict for each plant, and exits as a gate with it would."""

    verdicts: Mapping[str, Verdict | None]
    probe: str = '{"sum_ms": 0.16, "cycles_per_ms": 1980000.0}'
    asked: list[Sequence[str]] = field(default_factory=list)
    environments: list[Mapping[str, str]] = field(default_factory=list)
    planted: list[str] = field(default_factory=list)
    """What stood in the loop at each gate."""

    def __call__(
        self, command: Sequence[str], *, cwd: Path, env: Mapping[str, str], log: Path
    ) -> int:
        self.asked.append(command)
        self.environments.append(env)
        if "perfgate.selftest.probe" in command:
            log.write_text(
                "Traceback\nModuleNotFoundError: No module named 'torch'\n", encoding="utf-8"
            )
            Path(command[-1]).write_text(self.probe, encoding="utf-8")
            return 0 if self.probe else 1
        loop = (cwd / "workloads" / "loops.py").read_text(encoding="utf-8")
        self.planted += re.findall(r'^PLANTED = "(.*)"$', loop, re.MULTILINE)
        document = Path(
            next(word for word in command if word.startswith("--perfgate-json=")).partition("=")[2]
        )
        log.write_text("a first line\nnsys has gone away\n", encoding="utf-8")
        name = document.stem.partition("-")[2]
        verdict = self.verdicts[name]
        if name == "baseline":
            self.keep(cwd, verdict)
        if verdict is None:
            return 3
        opens = verdict.outcome in (Outcome.PASSED, Outcome.IMPROVED)
        shown = records.document(verdict, opens=opens)
        document.write_text(document_text(shown), encoding="utf-8")
        return int(not opens)

    def keep(self, project: Path, verdict: Verdict | None) -> None:
        file = project / "workloads" / "loops.py"
        made = records.result(
            of=records.workload("loop"),
            code={"workloads/loops.py": hashlib.sha256(file.read_bytes()).hexdigest()},
            judged=verdict,
        )
        store = Store(project, "baselines")
        store.results.save(
            made, store.results.new_folder("loop", made.machine.slug, at=made.measured_at)
        )


ALL_WELL: Mapping[str, Verdict | None] = {
    "baseline": records.verdict(Outcome.NO_BASELINE, name="loop", measured=5, blessed=0),
    "nothing": passed(),
    "sleep": regressed(Metric.STEP_MS, Metric.KERNEL_MS),
    "copy": regressed(
        Metric.H2D_MS, Metric.H2D_EXPOSED_MS, Metric.H2D_COPIES, Metric.H2D_BYTES, runs=2
    ),
    "sync": regressed(Metric.SYNCS, runs=2),
    "stall": regressed(Metric.STEP_MS, Metric.GAP_MS),
}


def played(
    door: FakeDoor, *, cpu: bool = False, keep: Path | None = None, width: int = 80
) -> tuple[int, list[str]]:
    said: list[str] = []
    runner = Runner(
        machine=records.machine(),
        nsys=NsysTool(Path("/bin/nsys"), NsysVersion(2025, 3, 1)),
        python="python3",
        env={"PATH": "/bin", "PYTEST_ADDOPTS": "-n 4"},
        run=door,
    )
    return play(runner, said.append, Screen(width=width, colour=False), keep=keep, cpu=cpu), said


def test_regressions_that_are_caught_by_the_right_metrics_are_a_gate_that_works(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    status, said = played(FakeDoor(verdicts=ALL_WELL))
    assert "\n".join(said) == snapshot
    assert status == 0


def test_a_wide_screen_names_every_metric(tmp_path: Path) -> None:
    _, said = played(FakeDoor(verdicts=ALL_WELL), width=200)
    assert said[-1].splitlines()[6].split()[-6:-2] == [
        "h2d_copies,",
        "h2d_ms,",
        "h2d_exposed_ms,",
        "h2d_bytes",
    ]


def test_every_gate_gets_its_plant_and_the_same_loop(tmp_path: Path) -> None:
    door = FakeDoor(verdicts=ALL_WELL)
    played(door)
    shown = [
        tuple(env.get(f"PERFGATE_SELFTEST_{name}") for name in ("SUMS", "CYCLES"))
        for env in door.environments
    ]
    assert door.planted == ["", "", "sleep", "copy", "sync", "stall"]
    # 3 ms are 19 sums of 0.16 ms; 3 % of 9.1 ms of kernels are 540540 cycles at 1980 MHz.
    assert shown == [
        (None, None),
        ("19", None),
        *[("19", "540540")] * 5,
    ]
    assert all("PYTEST_ADDOPTS" not in env for env in door.environments)
    assert all(env.get("CUDA_VISIBLE_DEVICES") is None for env in door.environments)
    assert all("--perfgate-nsys=/bin/nsys" in command for command in door.asked[1:])


def test_without_a_gpu_only_the_path_is_tried(snapshot: SnapshotAssertion) -> None:
    door = FakeDoor(verdicts={**ALL_WELL, "stall": regressed(Metric.STEP_MS)})
    status, said = played(door, cpu=True)
    assert status == 0
    assert "\n".join(said) == snapshot
    assert {env["CUDA_VISIBLE_DEVICES"] for env in door.environments} == {""}


@pytest.mark.parametrize(
    ("name", "verdict", "row"),
    [
        (
            "nothing",
            passed(Outcome.INCONCLUSIVE),
            "FAIL  nothing            PASSED             INCONCLUSIVE",
        ),
        (
            "nothing",
            passed(Outcome.IMPROVED),
            "FAIL  nothing            PASSED             IMPROVED",
        ),
        (
            "nothing",
            regressed(Metric.STEP_MS),
            "FAIL  nothing            PASSED             REGRESSED",
        ),
        ("sleep", passed(), "FAIL  3 % more GPU time  kernel_ms          PASSED"),
        (
            "sleep",
            regressed(Metric.STEP_MS),
            "FAIL  3 % more GPU time  kernel_ms          REGRESSED",
        ),
        (
            "stall",
            regressed(Metric.STEP_MS),
            "FAIL  2 ms host stall    step_ms, gap_ms    REGRESSED",
        ),
        (
            "copy",
            records.verdict(Outcome.INVALID),
            "FAIL  one more H2D copy  h2d_copies         INVALID",
        ),
    ],
)
def test_whatever_came_out_otherwise_is_a_gate_that_does_not_work(
    name: str, verdict: Verdict, row: str
) -> None:
    status, said = played(FakeDoor(verdicts={**ALL_WELL, name: verdict}), width=120)
    text = "\n".join(said)
    assert status == 1
    assert " ".join(row.split()) in " ".join(text.split())
    assert f"{verdict.workload}: {verdict.outcome} (" in text
    assert "1 of 6" in said[-2].splitlines()[-1]


def test_a_gate_without_a_verdict_is_shown_by_the_end_of_its_log() -> None:
    status, said = played(FakeDoor(verdicts={**ALL_WELL, "sync": None}))
    assert status == 1
    assert "  | a first line\n  | nsys has gone away" in said
    assert "exit 3" in said[-2]


def test_without_a_baseline_nothing_is_planted(snapshot: SnapshotAssertion) -> None:
    door = FakeDoor(
        verdicts={**ALL_WELL, "baseline": records.verdict(Outcome.INVALID, name="loop")}
    )
    status, said = played(door)
    assert status == 1
    assert len(door.asked) == 2
    assert said[-2] == snapshot


def test_a_gpu_that_cannot_be_measured_is_reported_by_the_last_word_of_its_log() -> None:
    with pytest.raises(WorkloadFailed) as failed:
        played(FakeDoor(verdicts=ALL_WELL, probe=""))
    assert "No module named 'torch'" in str(failed.value.fields["reason"])


def test_what_is_kept_lies_in_the_folder_that_was_named(tmp_path: Path) -> None:
    keep = tmp_path / "kept"
    _, said = played(FakeDoor(verdicts=ALL_WELL), keep=keep)
    assert str(keep) in said[-1]
    assert sorted(path.name for path in keep.iterdir()) == sorted(
        [
            f"{n}-{name}.{kind}"
            for n, name in enumerate(ALL_WELL, start=1)
            for kind in ("json", "log")
        ]
        + ["probe.json", "probe.log", "project"]
    )


def test_a_folder_that_is_there_is_never_written_into(tmp_path: Path) -> None:
    with refused(StoreFailed, "folder-not-made"):
        played(FakeDoor(verdicts=ALL_WELL), keep=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_machine_without_a_gpu_shows_nothing(project: Project) -> None:
    seen = project.perfgate("selftest")
    # That there is no driver is worded as well, and shown to nobody.
    assert (seen.err, seen.status) == ("", 1)
    assert seen.codes == {"selftest-without-gpu", "nvml-failed"}
    assert "the NVIDIA driver" not in seen.out


def test_an_nsys_that_is_not_there_is_said_before_anything_is_run(project: Project) -> None:
    seen = project.perfgate("selftest", "--cpu", "--nsys", "/nowhere/nsys")
    assert seen.out == ""
    assert seen.err.startswith("perfgate: ")
    assert "/nowhere/nsys" in seen.err
    assert seen.status == 11


# With a real nsys


@pytest.mark.nsys
def test_the_path_from_a_real_nsys_to_a_verdict_works(
    project: Project, real_nsys: Sequence[str]
) -> None:
    before = sorted(project.root.rglob("*"))
    done = subprocess.run(
        [*COMMAND, "--cpu"],
        cwd=project.root,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert [
        " ".join(line.split()[:-2]) for line in done.stdout.splitlines() if line.startswith("  ok")
    ] == [
        "ok nothing yet NO_BASELINE NO_BASELINE",
        "ok nothing PASSED PASSED",
        "ok 20 ms host stall step_ms REGRESSED step_ms",
    ]
    assert sorted(project.root.rglob("*")) == before


@pytest.mark.nsys
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_leaves_nothing_behind(
    project: Project, real_nsys: Sequence[str], tmp_path: Path, number: signal.Signals
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    mark = f"mark-{number}-{os.getpid()}"
    process = subprocess.Popen(
        [*COMMAND, "--cpu"],
        cwd=project.root,
        env={
            **os.environ,
            "TMPDIR": str(temporary),
            "SELFTEST_MARK": mark,
            "PYTHONUNBUFFERED": "1",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        until(
            lambda: any(temporary.glob("perfgate-selftest-*/project/.perfgate/results/*/*/*/run-1"))
        )
        process.send_signal(number)
        said, _ = process.communicate(timeout=60)
    except BaseException:
        # Whatever is left would hold the turn that all gates of this machine take.
        for left in living_with(mark):
            os.kill(int(left), signal.SIGKILL)
        raise
    assert process.returncode == 1
    assert said.endswith("\nAborted!\n")
    assert list(temporary.glob("perfgate-selftest-*")) == []
    until(lambda: not living_with(mark))


def living_with(mark: str) -> list[str]:
    """Processes that inherited a variable of this value."""
    found = []
    for pid in psutil.pids():
        with contextlib.suppress(OSError):
            if mark.encode() in Path(f"/proc/{pid}/environ").read_bytes():
                found.append(str(pid))
    return found
