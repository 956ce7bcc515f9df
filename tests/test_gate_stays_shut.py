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
from dataclasses import KW_ONLY, dataclass
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


@dataclass(frozen=True)
class Case:
    """One way in which a gate must not open."""

    arrange: Callable[[Project], None]
    outcome: str | None = None
    """Of the workload that was judged, if one was."""
    _: KW_ONLY
    of: str = "loop"
    arguments: tuple[str, ...] = ()
    status: int = 1
    nsys: bool = False
    """Whether it takes a real nsys."""


CASES: Mapping[str, Case] = {
    "no baseline": Case(no_baseline, "NO_BASELINE", nsys=True),
    "baseline of another GPU model": Case(other_gpu, "INCOMPARABLE"),
    "broken baseline of another GPU model": Case(broken_on_another_gpu, "INCOMPARABLE"),
    "baseline of another nsys": Case(other_nsys, "INCOMPARABLE"),
    "baseline of another step count": Case(other_steps, "INCOMPARABLE"),
    "baseline of other ranges as steps": Case(of_other_steps, "INCOMPARABLE"),
    "baseline in a folder in capitals": Case(in_capitals, "INCOMPARABLE"),
    "baseline that is cut short": Case(
        partial(spoilt, spoil=lambda text: text[:200]), "INCOMPARABLE"
    ),
    "baseline that is empty": Case(partial(spoilt, spoil=lambda _text: ""), "INCOMPARABLE"),
    "baseline of a newer format": Case(
        partial(spoilt, spoil=lambda text: text.replace('"format": 2', '"format": 3')),
        "INCOMPARABLE",
    ),
    "baseline edited by hand": Case(
        partial(spoilt, spoil=lambda text: text.replace("12.34", "99.99")), "INCOMPARABLE"
    ),
    "NaN in the baseline": Case(
        partial(spoilt, spoil=lambda text: text.replace("12.34", "NaN")), "INCOMPARABLE"
    ),
    "workload renamed": Case(renamed, "NO_BASELINE", of="new_name"),
    "workload deleted while its baseline remains": Case(deleted, "PASSED"),
    "all workloads deleted while a baseline remains": Case(whole_file_deleted, status=5),
    "nothing collected": Case(nothing, status=5),
    "no folder of workloads": Case(lambda project: (project.root / "workloads").rmdir(), status=4),
    "-k that selects nothing": Case(blessed, arguments=("-k", "nothing_like_it"), status=5),
    "an argument that is no workload": Case(
        blessed, arguments=("workloads/loops.py::absent",), status=4
    ),
    "a workload file that cannot be imported": Case(broken_file, status=2),
    "a workload file that cannot be imported, and going on": Case(
        broken_file, "PASSED", arguments=("--continue-on-collection-errors",)
    ),
    "two workloads of one name": Case(two_of_one_name, status=4),
    "workload raises": Case(
        partial(real, body='for _ in steps:\n    raise RuntimeError("CUDA out of memory")'),
        "NOT_MEASURED",
        nsys=True,
    ),
    "workload calls sys.exit(3)": Case(
        partial(real, body="sys.exit(3)"), "NOT_MEASURED", nsys=True
    ),
    "workload calls sys.exit(0)": Case(partial(real, body="sys.exit()"), "NOT_MEASURED", nsys=True),
    "workload calls os._exit(3)": Case(
        partial(real, body="os._exit(3)"), "NOT_MEASURED", nsys=True
    ),
    "workload is killed": Case(
        partial(real, body="os.kill(os.getpid(), signal.SIGKILL)"), "NOT_MEASURED", nsys=True
    ),
    "workload hangs": Case(
        partial(
            real,
            body='print("waiting for data", flush=True)\ntime.sleep(600)',
            more=", timeout_s=6",
        ),
        "NOT_MEASURED",
        nsys=True,
    ),
    "workload skips itself": Case(
        partial(real, body='import pytest\npytest.skip("no data here")'), "NOT_MEASURED", nsys=True
    ),
    "loop takes too few turns": Case(
        partial(real, body="for turn in steps:\n    if turn == 3:\n        break"),
        "NOT_MEASURED",
        nsys=True,
    ),
    "loop takes no turn": Case(partial(real, body="pass"), "NOT_MEASURED", nsys=True),
    "loop iterates in a forked process": Case(
        partial(
            real,
            body="import os\nif not os.fork():\n    for _ in steps: pass\n    os._exit(0)\nos.wait()",
        ),
        "NOT_MEASURED",
        nsys=True,
    ),
    "loop iterates twice": Case(
        partial(real, body="for _ in steps: pass\nfor _ in steps: pass"), "NOT_MEASURED", nsys=True
    ),
    "nvtx package that nsys does not hear": Case(deaf, "NOT_MEASURED", nsys=True),
    "no range of the command is a step": Case(
        partial(script, step="Epoch \\\\d+"), "NOT_MEASURED", of="train", nsys=True
    ),
    "the steps are used up before the work": Case(
        partial(real, body="for _ in list(steps):\n    time.sleep(0.001)", steps=40),
        "INVALID",
        nsys=True,
    ),
    "fewer steps than declared": Case(partial(script, steps=9), "INVALID", of="train", nsys=True),
    "command fails": Case(
        partial(script, text="raise SystemExit('no such data set')"),
        "NOT_MEASURED",
        of="train",
        nsys=True,
    ),
    "command that does not exist": Case(no_such_command, "NOT_MEASURED", of="train", nsys=True),
    "no GPU operations although the baseline has them": Case(blind, "NOT_MEASURED"),
    "nsys missing": Case(nsys_is_nowhere, "NOT_MEASURED"),
    "nsys too old": Case(partial(under, nsys="", version="2021.3.3.2"), "NOT_MEASURED"),
    "nsys that does not answer": Case(nsys_hangs, "NOT_MEASURED"),
    "nsys failing": Case(
        partial(under, nsys='print("nsys: out of luck", file=sys.stderr)\nsys.exit(1)'),
        "NOT_MEASURED",
    ),
    "nsys writing no report": Case(partial(under, nsys=WORKS + "sys.exit(status)"), "NOT_MEASURED"),
    "nsys leaving a .qdstrm only": Case(partial(under, nsys=WORKS + UNIMPORTED), "NOT_MEASURED"),
    "nsys writing a report that is none": Case(
        partial(under, nsys=WORKS + CORRUPT), "NOT_MEASURED"
    ),
    "corrupt SQLite export": Case(corrupt_export, "NOT_MEASURED"),
    "disk full": Case(full_disk, "NOT_MEASURED"),
    "disk nearly full": Case(nearly_full_disk, "NOT_MEASURED", nsys=True),
    "zero variance and 5 % slower": Case(same_to_the_last_digit, "INCONCLUSIVE"),
    "a count rose": Case(lambda project: blessed(project, SLOWER), "REGRESSED"),
    "GPU throttled": Case(
        lambda project: blessed(project, run(throttled=["hardware thermal slowdown"])), "INVALID"
    ),
    "GPU shared": Case(
        lambda project: blessed(project, run(neighbours=["python (4711)"])), "INVALID"
    ),
    "another gate on the GPU": Case(taken, "NOT_MEASURED"),
    "another gate on the GPU for longer than the time budget": Case(
        taken_beyond_the_time_budget, "NOT_MEASURED"
    ),
    "code changed between runs": Case(changed_meanwhile, "INVALID"),
    "workload with a baseline is skipped by a mark": Case(partial(blessed, text=SKIPPED)),
    "file of a workload with a baseline skips itself": Case(
        partial(with_one_that_needs, package="flash_attn"), "PASSED"
    ),
    "file of a workload with a baseline skips itself in the second shard": Case(
        partial(with_two_of_which_one_needs, package="flash_attn"),
        "PASSED",
        of="relu",
        arguments=("--perfgate-shard=2/2",),
    ),
    "file skips itself next to baselines that cannot be listed": Case(
        skipped_next_to_a_file, status=5
    ),
    "all files skip themselves": Case(all_skipped, status=5),
    "workload marked xfail has regressed": Case(
        lambda project: blessed(project, SLOWER, text=XFAIL), "REGRESSED"
    ),
    "a conftest that exits with 0 where pytest is configured": Case(
        partial(
            left_early,
            conftest='def pytest_configure():\n    pytest.exit("no GPU here", returncode=0)\n',
        )
    ),
    "a conftest that exits with 0 where the session starts": Case(
        partial(
            left_early,
            conftest='def pytest_sessionstart():\n    pytest.exit("no GPU here", returncode=0)\n',
        )
    ),
    "a conftest that exits with 0 where the session ends": Case(
        partial(
            left_early,
            conftest='def pytest_sessionfinish():\n    pytest.exit("all is well", returncode=0)\n',
        )
    ),
    "a conftest that returns 0 in place of all that pytest does": Case(
        partial(
            left_early,
            conftest="def pytest_cmdline_main():\n    return 0\n",
        )
    ),
    "a conftest that leaves with 0 before a session begins": Case(
        partial(
            left_early,
            conftest="def pytest_cmdline_main():\n    sys.exit()\n",
        )
    ),
    "a conftest that says 0 whatever pytest says": Case(
        partial(
            left_early,
            conftest="@pytest.hookimpl(wrapper=True, tryfirst=True)\n"
            "def pytest_cmdline_main():\n    yield\n    return 0\n",
        ),
        "REGRESSED",
    ),
    "a conftest that leaves with 0 where pytest is cleared away": Case(
        partial(
            left_early,
            conftest="def pytest_unconfigure():\n    sys.exit(0)\n",
        ),
        "REGRESSED",
    ),
    "a conftest that leaves with 0 while it is loaded": Case(
        partial(
            left_early,
            conftest="sys.exit(0)\n",
        ),
        status=4,
    ),
    "a plugin that leaves with 0 while it is loaded": Case(
        partial(
            plugged,
            plugin="sys.exit(0)\n",
        ),
        status=4,
    ),
    "a plugin that leaves with 0 where it declares its options": Case(
        partial(
            plugged,
            plugin="def pytest_addoption():\n    sys.exit(0)\n",
        ),
        status=4,
    ),
    "a plugin that leaves with 0 when conftests are loaded": Case(
        partial(
            plugged,
            plugin="@pytest.hookimpl(wrapper=True, tryfirst=True)\n"
            "def pytest_load_initial_conftests():\n    yield\n    sys.exit()\n",
        ),
        status=4,
    ),
    "a conftest that takes every exit status for 0": Case(
        partial(
            left_early,
            conftest=ALL_IS_WELL,
        ),
        "REGRESSED",
    ),
    "a conftest that takes every exit status for 0, and no workload": Case(
        partial(
            left_early,
            conftest=ALL_IS_WELL,
        ),
        arguments=("-k", "nothing"),
        status=5,
    ),
    "--setup-only": Case(blessed, arguments=("--setup-only",)),
    "--setup-plan": Case(blessed, arguments=("--setup-plan",)),
    "-x after the first that regressed": Case(one_of_two_regressed, "REGRESSED", arguments=("-x",)),
    "workload that a hook drops without deselecting it": Case(
        partial(
            hooked,
            hook="def pytest_collection_modifyitems(items):\n    items[:] = [i for i in items if i.name == 'loop']\n",
        ),
        "PASSED",
    ),
    "workload that a hook runs nothing of": Case(
        partial(
            hooked,
            hook="def pytest_runtest_protocol(item):\n    return True if item.name == 'other' else None\n",
        ),
        "PASSED",
    ),
    "pytest.exit with status 0 before all is measured": Case(
        partial(
            hooked,
            hook="def pytest_runtest_logstart(nodeid):\n"
            "    if 'other' in nodeid: pytest.exit('enough', returncode=0)\n",
        ),
        "PASSED",
    ),
    "baseline that is a link to nowhere": Case(
        link_to_nowhere, "INCOMPARABLE", arguments=("--perfgate-new=allow",)
    ),
    "file in place of the machine's folder of baselines": Case(
        folder_is_a_file, "INCOMPARABLE", arguments=("--perfgate-new=allow",)
    ),
    "the gate's side of the plugin switched off": Case(
        blessed, arguments=("-p", "no:perfgate.plugin.gate_side"), status=4
    ),
    "pytest's terminal switched off": Case(blessed, arguments=("-p", "no:terminal"), status=4),
    "the worker's option": Case(blessed, arguments=("--perfgate-worker=order.json",), status=4),
    "--perfgate-json when the disk is full": Case(
        unwritable_document, "PASSED", arguments=("--perfgate-json=verdicts.json",)
    ),
    "--perfgate-runs=0": Case(blessed, arguments=("--perfgate-runs=0",), status=4),
    "--perfgate-runs=abc": Case(blessed, arguments=("--perfgate-runs=abc",), status=4),
    "--perfgate-runs=11": Case(blessed, arguments=("--perfgate-runs=11",), status=4),
    "--perfgate-runs above --perfgate-max-runs": Case(
        blessed, arguments=("--perfgate-runs=5", "--perfgate-max-runs=3"), status=4
    ),
    "--perfgate-timeout=0": Case(blessed, arguments=("--perfgate-timeout=0",), status=4),
    "--perfgate-new=yes": Case(blessed, arguments=("--perfgate-new=yes",), status=4),
    "--perfgate-inconclusive=pass": Case(
        blessed, arguments=("--perfgate-inconclusive=pass",), status=4
    ),
    "--perfgate-nsys that is a folder": Case(
        blessed, "NOT_MEASURED", arguments=("--perfgate-nsys=/tmp",)
    ),
    "unknown setting": Case(partial(settings, line="run = 5"), status=4),
    "inconclusive where that is to fail": Case(
        inconclusive, "INCONCLUSIVE", arguments=("--perfgate-inconclusive=fail",)
    ),
    "--perfgate-new=allow and a baseline of another GPU": Case(
        other_gpu, "INCOMPARABLE", arguments=("--perfgate-new=allow",)
    ),
    "--perfgate-new=allow and a baseline edited by hand": Case(
        partial(spoilt, spoil=lambda text: text.replace("12.34", "99.99")),
        "INCOMPARABLE",
        arguments=("--perfgate-new=allow",),
    ),
    "--perfgate-new=allow and a workload that raises": Case(
        partial(real, body='raise RuntimeError("no")'),
        "NOT_MEASURED",
        arguments=("--perfgate-new=allow",),
        nsys=True,
    ),
}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=name, marks=[pytest.mark.nsys] if case.nsys else [])
        for name, case in CASES.items()
    ],
)
def test_the_gate_stays_shut(
    case: Case, project: Project, request: pytest.FixtureRequest, snapshot: SnapshotAssertion
) -> None:
    if case.nsys:
        request.getfixturevalue("real_nsys")
    case.arrange(project)
    seen = project.gate(*(("--perfgate-runs=1",) if case.nsys else ()), *case.arguments)
    judged = {} if case.outcome is None else {case.of: case.outcome}
    assert (seen.status, outcomes(seen.message)) == (case.status, judged)
    assert seen.message == snapshot


def outcomes(message: str) -> dict[str, str]:
    """What each workload came to, by the lines of the summary."""
    return {workload: outcome for outcome, workload in re.findall(SUMMARY, message, re.MULTILINE)}
