"""The gate stays shut: a row a case, each with its exit status and outcomes; what the user reads is
in a snapshot.

Nothing known is not a pass. Where a case needs a GPU that no test machine has, the machine and the
runs are put in at the border; where it needs a workload that misbehaves, the workload is a real one
under a real nsys.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from support import records
from support.exports import write_export
from support.project import LOOP, Project, loops
from syrupy.assertion import SnapshotAssertion

from perfgate.machine import gpu_lock
from perfgate.model.baseline import BlessedRun
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.sample import Run
from perfgate.profilers.nsys import tool
from perfgate.profilers.nsys.export.timeline import read_timeline

SMALL = (Metric.STEP_MS, Metric.H2D_COPIES)
"""A clock and a count are enough: tables stay short."""


def run(
    values: Mapping[Metric, float] | None = None,
    *,
    throttled: Sequence[str] = (),
    neighbours: Sequence[str] = (),
    absent: Mapping[Metric, str] | None = None,
) -> Run:
    """One run with what `SMALL` names."""
    given = {Metric.STEP_MS: 12.34, Metric.H2D_COPIES: 2.0, **(values or {})}
    held = {metric: value for metric, value in given.items() if metric not in (absent or {})}
    made = records.run(throttled=throttled, neighbours=neighbours)
    return made.model_copy(update={"processes": (records.process(held, absent=absent),)})


SLOWER = run({Metric.H2D_COPIES: 3})
"""One copy a step more than any baseline here has: a count, so that one run shows it and a second
confirms it."""

ALL_IS_WELL = """\
@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session):
    yield
    session.exitstatus = 0
"""
"""What a conftest may say for the sake of a suite without tests."""

OTHER = loops("other")
SKIPPED = LOOP.replace("@workload", '@pytest.mark.skip(reason="not today")\n@workload').replace(
    "import time", "import time\nimport pytest"
)
SKIPS_ITSELF = f'import pytest\npytest.skip("no data", allow_module_level=True)\n{LOOP}'
XFAIL = SKIPPED.replace('skip(reason="not today")', 'xfail(reason="known to be slow")')
SCRIPT = """\
import time, nvtx
for number in range(5):
    with nvtx.annotate(f"Batch {number}"):
        time.sleep(0.001)
"""
DEAF = """\
import os, nvtx
class DummyDomain: ...
if "NSYS_PROFILING_SESSION_ID" in os.environ:
    nvtx.get_domain = lambda name: DummyDomain()
"""
"""What the nvtx package is from 0.2.12 on under an nsys up to 2024.2."""


def loop(body: str, *, more: str = "", steps: int = 4) -> str:
    """A workload whose function has this body."""
    declared = f"@workload(steps={steps}, warmup=1{more})"
    return f"import os, signal, sys, time\nfrom perfgate import workload\n\n{declared}\n" + (
        "def loop(steps):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    )


WORKS = """\
if words[0] != "profile":
    sys.exit(0)
status = subprocess.run(words[words.index(PYTHON):]).returncode
folder = os.path.dirname(next(word.partition("=")[2] for word in words if word.startswith("--output=")))
""".replace("PYTHON", repr(sys.executable))
"""An nsys that runs the workload and passes on its exit status, and so far writes nothing."""
UNIMPORTED = 'open(os.path.join(folder, "capture.qdstrm"), "wb").write(b"x" * 5000)\n'
CORRUPT = 'open(os.path.join(folder, "capture.nsys-rep"), "wb").write(b"not a report" * 500)\n'


def blessed(project: Project, *outcomes: Run, text: str = LOOP, steps: int = 4) -> None:
    """A workload with a baseline of this machine, an H200, that measures these runs now."""
    project.gpus()
    project.workload(text)
    project.bless(project.baseline(steps=steps, metrics=SMALL))
    project.measures(*(outcomes or (run(),)))


def real(project: Project, body: str, *, more: str = "", steps: int = 4) -> None:
    """A workload that runs under the real nsys."""
    project.workload(loop(body, more=more, steps=steps))


def under(project: Project, nsys: str, *, version: str = "2024.2.3.38") -> None:
    """A good workload under an nsys that is none."""
    project.workload()
    project.nsys(nsys, version=version)


def no_baseline(project: Project) -> None:
    project.workload()


def other_gpu(project: Project) -> None:
    blessed(project)
    shutil.rmtree(project.root / "baselines")
    h100 = records.machine("NVIDIA H100 80GB HBM3").gpus
    project.bless(
        project.baseline(metrics=SMALL, on=project.machine.model_copy(update={"gpus": h100}))
    )


def in_capitals(project: Project) -> None:
    blessed(project)
    folder = project.root / "baselines" / "nvidia-h200"
    folder.rename(folder.with_name("NVIDIA-H200"))


def of_other_steps(project: Project) -> None:
    """A baseline whose steps were other ranges than what is measured now."""
    project.gpus()
    project.workload()
    made = project.baseline(metrics=SMALL)
    runs = tuple(one.model_copy(update={"step_names": ("training_step #",)}) for one in made.runs)
    project.bless(records.in_one_occasion(made, runs=runs))
    now = run()
    names = {"step_names": {"optimizer_step #": 0.5, "training_step #": 0.5}}
    processes = tuple(process.model_copy(update=names) for process in now.processes)
    project.measures(now.model_copy(update={"processes": processes}))


def deleted_from_its_file(project: Project) -> None:
    blessed(project)
    gone = project.baseline(metrics=SMALL, name="gone")
    project.bless(gone.model_copy(update={"source": "workloads/loops.py"}))


def broken_on_another_gpu(project: Project) -> None:
    other_gpu(project)
    (broken,) = (project.root / "baselines").rglob("*.json")
    broken.write_text("{")


def other_nsys(project: Project) -> None:
    blessed(project)
    shutil.rmtree(project.root / "baselines")
    project.bless(
        project.baseline(metrics=SMALL, on=project.machine.model_copy(update={"nsys": "2025.3.1"}))
    )


def other_steps(project: Project) -> None:
    blessed(project, steps=30)


def spoilt(project: Project, spoil: Callable[[str], str]) -> None:
    """A baseline whose file was changed behind perfgate's back."""
    blessed(project)
    file = project.root / "baselines" / "nvidia-h200" / "loop.json"
    file.write_text(spoil(file.read_text("utf-8")), encoding="utf-8")


def renamed(project: Project) -> None:
    blessed(project)
    project.workload(loops("new_name"))


def deleted(project: Project) -> None:
    blessed(project)
    project.bless(project.baseline(metrics=SMALL, name="gone"))


def with_one_that_needs(project: Project, package: str) -> None:
    """A good workload, and the file of another that skips itself without a package."""
    blessed(project)
    project.workload(f"import pytest\npytest.importorskip({package!r})\n{OTHER}", file="other.py")
    project.bless(project.baseline(metrics=SMALL, name="other"))


def with_two_of_which_one_needs(project: Project, package: str) -> None:
    """Two good workloads for two shards, and the file of a third that skips itself without a
    package."""
    with_one_that_needs(project, package=package)
    project.bless(project.baseline(metrics=SMALL, name="relu"))
    project.workload(loops("relu"), file="relu.py")


def all_skipped(project: Project) -> None:
    blessed(project, text=SKIPS_ITSELF)


def whole_file_deleted(project: Project) -> None:
    blessed(project)
    (project.root / "workloads" / "loops.py").unlink()


def one_of_two_regressed(project: Project) -> None:
    blessed(project, SLOWER, SLOWER, run())
    project.bless(project.baseline(metrics=SMALL, name="other"))
    project.workload(OTHER, file="others.py")


def deaf(project: Project) -> None:
    project.workload()
    project.write("workloads/conftest.py", DEAF)


def script(
    project: Project, *, step: str = "Batch \\\\d+", steps: int = 5, text: str = SCRIPT
) -> None:
    project.write("train.py", text)
    project.write(
        "workloads/train.yaml",
        f'command: [{sys.executable}, train.py]\nstep: "{step}"\nsteps: {steps}\ncapture: all\ntimeout_s: 60\n',
    )


def blind(project: Project) -> None:
    """A capture without GPU operations has no more than the time of its steps."""
    blessed(
        project,
        run(
            absent={
                Metric.H2D_COPIES: "the capture holds no GPU operation: does the process use CUDA?"
            }
        ),
    )


def nsys_is_nowhere(project: Project) -> None:
    project.workload()
    project.patch.setenv("PERFGATE_NSYS", str(project.root / "bin" / "nsys"))


def nsys_hangs(project: Project) -> None:
    under(project, "")
    program = Path(os.environ["PERFGATE_NSYS"])
    program.write_text("#!/bin/sh\nsleep 60\n", encoding="utf-8")
    project.patch.setattr(
        "perfgate.execute.laboratory.find_nsys", partial(tool.find_nsys, timeout_s=0.3)
    )


def corrupt_export(project: Project) -> None:
    """What reading a capture says whose SQLite export was cut."""
    blessed(project)
    export = write_export(project.root / "run-1.sqlite")
    export.write_bytes(export.read_bytes()[:3000])

    def read() -> Run:
        read_timeline(export)
        raise AssertionError("it was read")

    project.measures(read)


def no_such_command(project: Project) -> None:
    project.write("workloads/train.yaml", "command: [no-such-program]\nstep: x\nsteps: 5\n")


def nothing(project: Project) -> None:
    project.gpus()


def full_disk(project: Project) -> None:
    blessed(project)

    def fsync(_handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    project.patch.setattr("os.fsync", fsync)


def unwritable_document(project: Project) -> None:
    blessed(project)
    (project.root / "verdicts.json").symlink_to("/dev/full")


def nearly_full_disk(project: Project) -> None:
    project.workload()
    usage = shutil.disk_usage(project.root)._replace(free=30_000_000)
    project.patch.setattr("shutil.disk_usage", lambda _path: usage)


def same_to_the_last_digit(project: Project) -> None:
    """Baseline and runs without any spread: no division by it, and no loss hidden by it."""
    project.gpus()
    project.workload()
    same = BlessedRun(values={Metric.STEP_MS: 12.34, Metric.H2D_COPIES: 2})
    project.bless(records.in_one_occasion(project.baseline(), runs=(same,) * 5))
    project.measures(run({Metric.STEP_MS: 12.34 * 1.05}))


def taken(project: Project) -> None:
    """Another gate holds the GPU and does not let go."""
    blessed(project)
    project.write("pyproject.toml", "[tool.perfgate]\nlock_timeout_s = 0.5\n")
    held = gpu_lock(project.machine.gpus, timeout_s=1, on_wait=print, workload="resnet18")
    held.__enter__()
    project.held = held


def taken_beyond_the_time_budget(project: Project) -> None:
    """It has less time than it would wait for the other."""
    taken(project)
    project.write("pyproject.toml", "[tool.perfgate]\ntime_budget_s = 0.5\n")


def inconclusive(project: Project) -> None:
    """Some 1.6 % slower, and so noisy that nothing is shown either way."""
    times = (12.5, 12.7, 12.3, 12.7, 12.5, 12.4, 12.65, 12.5, 12.6, 12.55)
    blessed(project, *(run({Metric.STEP_MS: ms}) for ms in times))


def changed_meanwhile(project: Project) -> None:
    blessed(project)
    project.measures(run(), run(), code=[{"model.py": "a" * 64}, {"model.py": "b" * 64}])


def two_of_one_name(project: Project) -> None:
    blessed(project)
    project.workload(LOOP, file="more.py")


def broken_file(project: Project) -> None:
    blessed(project)
    project.workload('raise RuntimeError("no such data set")\n', file="broken.py")


def hooked(project: Project, hook: str) -> None:
    """A second workload, without a baseline, that a hook of the project keeps from being
    measured.
    """
    blessed(project)
    project.workload(OTHER, file="others.py")
    project.write("conftest.py", f"import pytest\n\n{hook}")


def left_early(project: Project, conftest: str) -> None:
    """A conftest that ends pytest, or says that all is well, though one workload has regressed."""
    blessed(project, SLOWER)
    project.write("conftest.py", f"import sys\n\nimport pytest\n\n{conftest}")


def plugged(project: Project, plugin: str) -> None:
    """A plugin that the environment names, next to a workload that has regressed."""
    blessed(project, SLOWER)
    project.write("plugged_in.py", f"import sys\n\nimport pytest\n\n{plugin}")
    project.patch.syspath_prepend(str(project.root))
    project.patch.setenv("PYTEST_PLUGINS", "plugged_in")


def link_to_nowhere(project: Project) -> None:
    blessed(project)
    file = project.root / "baselines" / "nvidia-h200" / "loop.json"
    file.unlink()
    file.symlink_to("../../../elsewhere/loop.json")


def folder_is_a_file(project: Project) -> None:
    blessed(project)
    shutil.rmtree(project.root / "baselines")
    project.write("baselines/nvidia-h200", "")


def skipped_next_to_a_file(project: Project) -> None:
    folder_is_a_file(project)
    project.workload(SKIPS_ITSELF)


def settings(project: Project, line: str) -> None:
    blessed(project)
    project.write("pyproject.toml", f"[tool.perfgate]\n{line}\n")


SUMMARY = rf"^({'|'.join(Outcome)})  ([\w.\[\]-]+)(?=  |$)"
"""A line of the summary."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One way in which a gate must not open."""

    name: str
    arrange: Callable[[Project], None]
    arguments: tuple[str, ...] = ()
    status: int = 1
    nsys: bool = False
    """Whether it takes a real nsys."""
    outcomes: Mapping[str, str] = field(default_factory=dict)
    """What each workload came to."""


CASES = (
    Case(
        name="no baseline",
        arrange=no_baseline,
        nsys=True,
        outcomes={"loop": "NO_BASELINE"},
    ),
    Case(
        name="baseline of another GPU model",
        arrange=other_gpu,
        outcomes={"loop": "INCOMPARABLE"},
    ),
    Case(
        name="broken baseline of another GPU model",
        arrange=broken_on_another_gpu,
        outcomes={"loop": "INCOMPARABLE"},
    ),
    Case(
        name="baseline of another nsys",
        arrange=other_nsys,
        outcomes={"loop": "INCOMPARABLE"},
    ),
    Case(
        name="baseline of another step count",
        arrange=other_steps,
        outcomes={"loop": "INCOMPARABLE"},
    ),
    Case(
        name="baseline of other ranges as steps",
        arrange=of_other_steps,
        outcomes={"loop": "INCOMPARABLE"},
    ),
    Case(
        name="baseline in a folder in capitals",
        arrange=in_capitals,
        outcomes={"loop": "INCOMPARABLE"},
    ),
    Case(
        name="baseline that is cut short",
        arrange=partial(spoilt, spoil=lambda text: text[:200]),
        outcomes={"loop": "INCOMPARABLE"},
    ),
    Case(
        name="baseline that is empty",
        arrange=partial(spoilt, spoil=lambda _text: ""),
        outcomes={"loop": "INCOMPARABLE"},
    ),
    Case(
        name="baseline of a newer format",
        arrange=partial(spoilt, spoil=lambda text: text.replace('"format": 2', '"format": 3')),
        outcomes={"loop": "INCOMPARABLE"},
    ),
    Case(
        name="baseline edited by hand",
        arrange=partial(spoilt, spoil=lambda text: text.replace("12.34", "99.99")),
        outcomes={"loop": "INCOMPARABLE"},
    ),
    Case(
        name="NaN in the baseline",
        arrange=partial(spoilt, spoil=lambda text: text.replace("12.34", "NaN")),
        outcomes={"loop": "INCOMPARABLE"},
    ),
    Case(
        name="workload renamed",
        arrange=renamed,
        outcomes={"new_name": "NO_BASELINE"},
    ),
    Case(
        name="workload deleted while its baseline remains",
        arrange=deleted,
        outcomes={"loop": "PASSED"},
    ),
    Case(
        name="workload deleted from a file that is named",
        arrange=deleted_from_its_file,
        arguments=("workloads/loops.py",),
        outcomes={"loop": "PASSED"},
    ),
    Case(
        name="all workloads deleted while a baseline remains",
        arrange=whole_file_deleted,
        status=5,
    ),
    Case(
        name="nothing collected",
        arrange=nothing,
        status=5,
    ),
    Case(
        name="no folder of workloads",
        arrange=lambda project: (project.root / "workloads").rmdir(),
        status=4,
    ),
    Case(
        name="-k that selects nothing",
        arrange=blessed,
        arguments=("-k", "nothing_like_it"),
        status=5,
    ),
    Case(
        name="an argument that is no workload",
        arrange=blessed,
        arguments=("workloads/loops.py::absent",),
        status=4,
    ),
    Case(
        name="a workload file that cannot be imported",
        arrange=broken_file,
        status=2,
    ),
    Case(
        name="a workload file that cannot be imported, and going on",
        arrange=broken_file,
        arguments=("--continue-on-collection-errors",),
        outcomes={"loop": "PASSED"},
    ),
    Case(
        name="two workloads of one name",
        arrange=two_of_one_name,
        status=4,
    ),
    Case(
        name="workload raises",
        arrange=partial(real, body='for _ in steps:\n    raise RuntimeError("CUDA out of memory")'),
        nsys=True,
        outcomes={"loop": "NOT_MEASURED"},
    ),
    Case(
        name="workload calls sys.exit(3)",
        arrange=partial(real, body="sys.exit(3)"),
        nsys=True,
        outcomes={"loop": "NOT_MEASURED"},
    ),
    Case(
        name="workload calls sys.exit(0)",
        arrange=partial(real, body="sys.exit()"),
        nsys=True,
        outcomes={"loop": "NOT_MEASURED"},
    ),
    Case(
        name="workload calls os._exit(3)",
        arrange=partial(real, body="os._exit(3)"),
        nsys=True,
        outcomes={"loop": "NOT_MEASURED"},
    ),
    Case(
        name="workload is killed",
        arrange=partial(real, body="os.kill(os.getpid(), signal.SIGKILL)"),
        nsys=True,
        outcomes={"loop": "NOT_MEASURED"},
    ),
    Case(
        name="workload hangs",
        arrange=partial(
            real,
            body='print("waiting for data", flush=True)\ntime.sleep(600)',
            more=", timeout_s=6",
        ),
        nsys=True,
        outcomes={"loop": "NOT_MEASURED"},
    ),
    Case(
        name="workload skips itself",
        arrange=partial(real, body='import pytest\npytest.skip("no data here")'),
        nsys=True,
        outcomes={"loop": "NOT_MEASURED"},
    ),
    Case(
        name="loop takes too few turns",
        arrange=partial(real, body="for turn in steps:\n    if turn == 3:\n        break"),
        nsys=True,
        outcomes={"loop": "NOT_MEASURED"},
    ),
    Case(
        name="loop takes no turn",
        arrange=partial(real, body="pass"),
        nsys=True,
        outcomes={"loop": "NOT_MEASURED"},
    ),
    Case(
        name="loop iterates in a forked process",
        arrange=partial(
            real,
            body="import os\nif not os.fork():\n    for _ in steps: pass\n    os._exit(0)\nos.wait()",
        ),
        nsys=True,
        outcomes={"loop": "NOT_MEASURED"},
    ),
    Case(
        name="loop iterates twice",
        arrange=partial(real, body="for _ in steps: pass\nfor _ in steps: pass"),
        nsys=True,
        outcomes={"loop": "NOT_MEASURED"},
    ),
    Case(
        name="nvtx package that nsys does not hear",
        arrange=deaf,
        nsys=True,
        outcomes={"loop": "NOT_MEASURED"},
    ),
    Case(
        name="no range of the command is a step",
        arrange=partial(script, step="Epoch \\\\d+"),
        nsys=True,
        outcomes={"train": "NOT_MEASURED"},
    ),
    Case(
        name="the steps are used up before the work",
        arrange=partial(real, body="for _ in list(steps):\n    time.sleep(0.001)", steps=40),
        nsys=True,
        outcomes={"loop": "INVALID"},
    ),
    Case(
        name="fewer steps than declared",
        arrange=partial(script, steps=9),
        nsys=True,
        outcomes={"train": "INVALID"},
    ),
    Case(
        name="command fails",
        arrange=partial(script, text="raise SystemExit('no such data set')"),
        nsys=True,
        outcomes={"train": "NOT_MEASURED"},
    ),
    Case(
        name="command that does not exist",
        arrange=no_such_command,
        nsys=True,
        outcomes={"train": "NOT_MEASURED"},
    ),
    Case(
        name="no GPU operations although the baseline has them",
        arrange=blind,
        outcomes={"loop": "NOT_MEASURED"},
    ),
    Case(
        name="nsys missing",
        arrange=nsys_is_nowhere,
        outcomes={"loop": "NOT_MEASURED"},
    ),
    Case(
        name="nsys too old",
        arrange=partial(under, nsys="", version="2021.3.3.2"),
        outcomes={"loop": "NOT_MEASURED"},
    ),
    Case(
        name="nsys that does not answer",
        arrange=nsys_hangs,
        outcomes={"loop": "NOT_MEASURED"},
    ),
    Case(
        name="nsys failing",
        arrange=partial(under, nsys='print("nsys: out of luck", file=sys.stderr)\nsys.exit(1)'),
        outcomes={"loop": "NOT_MEASURED"},
    ),
    Case(
        name="nsys writing no report",
        arrange=partial(under, nsys=WORKS + "sys.exit(status)"),
        outcomes={"loop": "NOT_MEASURED"},
    ),
    Case(
        name="nsys leaving a .qdstrm only",
        arrange=partial(under, nsys=WORKS + UNIMPORTED),
        outcomes={"loop": "NOT_MEASURED"},
    ),
    Case(
        name="nsys writing a report that is none",
        arrange=partial(under, nsys=WORKS + CORRUPT),
        outcomes={"loop": "NOT_MEASURED"},
    ),
    Case(
        name="corrupt SQLite export",
        arrange=corrupt_export,
        outcomes={"loop": "NOT_MEASURED"},
    ),
    Case(
        name="disk full",
        arrange=full_disk,
        outcomes={"loop": "NOT_MEASURED"},
    ),
    Case(
        name="disk nearly full",
        arrange=nearly_full_disk,
        nsys=True,
        outcomes={"loop": "NOT_MEASURED"},
    ),
    Case(
        name="zero variance and 5 % slower",
        arrange=same_to_the_last_digit,
        outcomes={"loop": "INCONCLUSIVE"},
    ),
    Case(
        name="a count rose",
        arrange=lambda project: blessed(project, SLOWER),
        outcomes={"loop": "REGRESSED"},
    ),
    Case(
        name="GPU throttled",
        arrange=lambda project: blessed(project, run(throttled=["hardware thermal slowdown"])),
        outcomes={"loop": "INVALID"},
    ),
    Case(
        name="GPU shared",
        arrange=lambda project: blessed(project, run(neighbours=["python (4711)"])),
        outcomes={"loop": "INVALID"},
    ),
    Case(
        name="another gate on the GPU",
        arrange=taken,
        outcomes={"loop": "NOT_MEASURED"},
    ),
    Case(
        name="another gate on the GPU for longer than the time budget",
        arrange=taken_beyond_the_time_budget,
        outcomes={"loop": "NOT_MEASURED"},
    ),
    Case(
        name="code changed between runs",
        arrange=changed_meanwhile,
        outcomes={"loop": "INVALID"},
    ),
    Case(
        name="workload with a baseline is skipped by a mark",
        arrange=partial(blessed, text=SKIPPED),
    ),
    Case(
        name="file of a workload with a baseline skips itself",
        arrange=partial(with_one_that_needs, package="flash_attn"),
        outcomes={"loop": "PASSED"},
    ),
    Case(
        name="file of a workload with a baseline skips itself in the second shard",
        arrange=partial(with_two_of_which_one_needs, package="flash_attn"),
        arguments=("--perfgate-shard=2/2",),
        outcomes={"relu": "PASSED"},
    ),
    Case(
        name="file skips itself next to baselines that cannot be listed",
        arrange=skipped_next_to_a_file,
        status=5,
    ),
    Case(
        name="all files skip themselves",
        arrange=all_skipped,
        status=5,
    ),
    Case(
        name="workload marked xfail has regressed",
        arrange=lambda project: blessed(project, SLOWER, text=XFAIL),
        outcomes={"loop": "REGRESSED"},
    ),
    Case(
        name="a conftest that exits with 0 where pytest is configured",
        arrange=partial(
            left_early,
            conftest='def pytest_configure():\n    pytest.exit("no GPU here", returncode=0)\n',
        ),
    ),
    Case(
        name="a conftest that exits with 0 where the session starts",
        arrange=partial(
            left_early,
            conftest='def pytest_sessionstart():\n    pytest.exit("no GPU here", returncode=0)\n',
        ),
    ),
    Case(
        name="a conftest that exits with 0 where the session ends",
        arrange=partial(
            left_early,
            conftest='def pytest_sessionfinish():\n    pytest.exit("all is well", returncode=0)\n',
        ),
    ),
    Case(
        name="a conftest that returns 0 in place of all that pytest does",
        arrange=partial(
            left_early,
            conftest="def pytest_cmdline_main():\n    return 0\n",
        ),
    ),
    Case(
        name="a conftest that leaves with 0 before a session begins",
        arrange=partial(
            left_early,
            conftest="def pytest_cmdline_main():\n    sys.exit()\n",
        ),
    ),
    Case(
        name="a conftest that says 0 whatever pytest says",
        arrange=partial(
            left_early,
            conftest="@pytest.hookimpl(wrapper=True, tryfirst=True)\n"
            "def pytest_cmdline_main():\n    yield\n    return 0\n",
        ),
        outcomes={"loop": "REGRESSED"},
    ),
    Case(
        name="a conftest that leaves with 0 where pytest is cleared away",
        arrange=partial(
            left_early,
            conftest="def pytest_unconfigure():\n    sys.exit(0)\n",
        ),
        outcomes={"loop": "REGRESSED"},
    ),
    Case(
        name="a conftest that leaves with 0 while it is loaded",
        arrange=partial(
            left_early,
            conftest="sys.exit(0)\n",
        ),
        status=4,
    ),
    Case(
        name="a plugin that leaves with 0 while it is loaded",
        arrange=partial(
            plugged,
            plugin="sys.exit(0)\n",
        ),
        status=4,
    ),
    Case(
        name="a plugin that leaves with 0 where it declares its options",
        arrange=partial(
            plugged,
            plugin="def pytest_addoption():\n    sys.exit(0)\n",
        ),
        status=4,
    ),
    Case(
        name="a plugin that leaves with 0 when conftests are loaded",
        arrange=partial(
            plugged,
            plugin="@pytest.hookimpl(wrapper=True, tryfirst=True)\n"
            "def pytest_load_initial_conftests():\n    yield\n    sys.exit()\n",
        ),
        status=4,
    ),
    Case(
        name="a conftest that takes every exit status for 0",
        arrange=partial(
            left_early,
            conftest=ALL_IS_WELL,
        ),
        outcomes={"loop": "REGRESSED"},
    ),
    Case(
        name="a conftest that takes every exit status for 0, and no workload",
        arrange=partial(
            left_early,
            conftest=ALL_IS_WELL,
        ),
        arguments=("-k", "nothing"),
        status=5,
    ),
    Case(
        name="--setup-only",
        arrange=blessed,
        arguments=("--setup-only",),
    ),
    Case(
        name="--setup-plan",
        arrange=blessed,
        arguments=("--setup-plan",),
    ),
    Case(
        name="-x after the first that regressed",
        arrange=one_of_two_regressed,
        arguments=("-x",),
        outcomes={"loop": "REGRESSED"},
    ),
    Case(
        name="xdist",
        arrange=blessed,
        arguments=("-n", "2"),
        status=4,
    ),
    Case(
        name="--perfgate-json to a place that cannot be written",
        arrange=blessed,
        arguments=("--perfgate-json=/dev/null/verdicts.json",),
        status=4,
    ),
    Case(
        name="workload that a hook drops without deselecting it",
        arrange=partial(
            hooked,
            hook="def pytest_collection_modifyitems(items):\n    items[:] = [i for i in items if i.name == 'loop']\n",
        ),
        outcomes={"loop": "PASSED"},
    ),
    Case(
        name="workload that a hook runs nothing of",
        arrange=partial(
            hooked,
            hook="def pytest_runtest_protocol(item):\n    return True if item.name == 'other' else None\n",
        ),
        outcomes={"loop": "PASSED"},
    ),
    Case(
        name="pytest.exit with status 0 before all is measured",
        arrange=partial(
            hooked,
            hook="def pytest_runtest_logstart(nodeid):\n"
            "    if 'other' in nodeid: pytest.exit('enough', returncode=0)\n",
        ),
        outcomes={"loop": "PASSED"},
    ),
    Case(
        name="baseline that is a link to nowhere",
        arrange=link_to_nowhere,
        arguments=("--perfgate-new=allow",),
        outcomes={"loop": "INCOMPARABLE"},
    ),
    Case(
        name="file in place of the machine's folder of baselines",
        arrange=folder_is_a_file,
        arguments=("--perfgate-new=allow",),
        outcomes={"loop": "INCOMPARABLE"},
    ),
    Case(
        name="the gate's side of the plugin switched off",
        arrange=blessed,
        arguments=("-p", "no:perfgate.plugin.gate_side"),
        status=4,
    ),
    Case(
        name="pytest's terminal switched off",
        arrange=blessed,
        arguments=("-p", "no:terminal"),
        status=4,
    ),
    Case(
        name="the worker's option",
        arrange=blessed,
        arguments=("--perfgate-worker=order.json",),
        status=4,
    ),
    Case(
        name="--perfgate-json when the disk is full",
        arrange=unwritable_document,
        arguments=("--perfgate-json=verdicts.json",),
        outcomes={"loop": "PASSED"},
    ),
    Case(
        name="--perfgate-runs=0",
        arrange=blessed,
        arguments=("--perfgate-runs=0",),
        status=4,
    ),
    Case(
        name="--perfgate-runs=abc",
        arrange=blessed,
        arguments=("--perfgate-runs=abc",),
        status=4,
    ),
    Case(
        name="--perfgate-runs=11",
        arrange=blessed,
        arguments=("--perfgate-runs=11",),
        status=4,
    ),
    Case(
        name="--perfgate-runs above --perfgate-max-runs",
        arrange=blessed,
        arguments=("--perfgate-runs=5", "--perfgate-max-runs=3"),
        status=4,
    ),
    Case(
        name="--perfgate-timeout=0",
        arrange=blessed,
        arguments=("--perfgate-timeout=0",),
        status=4,
    ),
    Case(
        name="--perfgate-new=yes",
        arrange=blessed,
        arguments=("--perfgate-new=yes",),
        status=4,
    ),
    Case(
        name="--perfgate-inconclusive=pass",
        arrange=blessed,
        arguments=("--perfgate-inconclusive=pass",),
        status=4,
    ),
    Case(
        name="--perfgate-nsys that is a folder",
        arrange=blessed,
        arguments=("--perfgate-nsys=/tmp",),
        outcomes={"loop": "NOT_MEASURED"},
    ),
    Case(
        name="unknown setting",
        arrange=partial(settings, line="run = 5"),
        status=4,
    ),
    Case(
        name="inconclusive where that is to fail",
        arrange=inconclusive,
        arguments=("--perfgate-inconclusive=fail",),
        outcomes={"loop": "INCONCLUSIVE"},
    ),
    Case(
        name="--perfgate-new=allow and a baseline of another GPU",
        arrange=other_gpu,
        arguments=("--perfgate-new=allow",),
        outcomes={"loop": "INCOMPARABLE"},
    ),
    Case(
        name="--perfgate-new=allow and a baseline edited by hand",
        arrange=partial(spoilt, spoil=lambda text: text.replace("12.34", "99.99")),
        arguments=("--perfgate-new=allow",),
        outcomes={"loop": "INCOMPARABLE"},
    ),
    Case(
        name="--perfgate-new=allow and a workload that raises",
        arrange=partial(real, body='raise RuntimeError("no")'),
        arguments=("--perfgate-new=allow",),
        nsys=True,
        outcomes={"loop": "NOT_MEASURED"},
    ),
)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=[pytest.mark.nsys] if case.nsys else [])
        for case in CASES
    ],
)
def test_the_gate_stays_shut(
    case: Case, project: Project, request: pytest.FixtureRequest, snapshot: SnapshotAssertion
) -> None:
    if case.nsys:
        request.getfixturevalue("real_nsys")
    case.arrange(project)
    seen = project.gate(*(("--perfgate-runs=1",) if case.nsys else ()), *case.arguments)
    assert (seen.status, outcomes(seen.message)) == (case.status, case.outcomes)
    assert seen.message == snapshot


def outcomes(message: str) -> dict[str, str]:
    """What each workload came to, by the lines of the summary."""
    return {workload: outcome for outcome, workload in re.findall(SUMMARY, message, re.MULTILINE)}
