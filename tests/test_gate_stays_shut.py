"""The gate stays shut: a row a case, each with its exit status and all that the user reads.

Nothing known is not a pass. Where a case needs a GPU that no test machine has, the machine and the runs are put in at
the border; where it needs a workload that misbehaves, the workload is a real one under a real nsys.
"""

from __future__ import annotations

import errno
import io
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from support import records
from support.exports import write_export
from support.project import LOOP, Project

from perfgate.gating import gate, series
from perfgate.machine import gpu_lock
from perfgate.model.baseline import BlessedRun
from perfgate.model.metric import Metric
from perfgate.model.sample import Run
from perfgate.nsys import tool
from perfgate.nsys.export.timeline import read_timeline
from perfgate.plugin import outputs

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
"""One copy a step more than any baseline here has: a count, so that one run shows it and a second confirms it."""

ALL_IS_WELL = """\
@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session):
    yield
    session.exitstatus = 0
"""
"""What a conftest may say for the sake of a suite without tests."""

OTHER = LOOP.replace("def loop", "def other")
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
    project.bless(project.baseline(metrics=SMALL, on=project.machine.model_copy(update={"gpus": h100})))


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
    occasion = made.occasions[0].model_copy(update={"runs": runs})
    project.bless(made.model_copy(update={"occasions": (occasion,)}))
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
    project.bless(project.baseline(metrics=SMALL, on=project.machine.model_copy(update={"nsys": "2025.3.1"})))


def other_steps(project: Project) -> None:
    blessed(project, steps=30)


def spoilt(project: Project, spoil: Callable[[str], str]) -> None:
    """A baseline whose file was changed behind perfgate's back."""
    blessed(project)
    file = project.root / "baselines" / "nvidia-h200" / "loop.json"
    file.write_text(spoil(file.read_text("utf-8")), encoding="utf-8")


def renamed(project: Project) -> None:
    blessed(project)
    project.workload(LOOP.replace("def loop", "def new_name"))


def deleted(project: Project) -> None:
    blessed(project)
    project.bless(project.baseline(metrics=SMALL, name="gone"))


def beside_one_that_needs(project: Project, package: str) -> None:
    """A good workload, and the file of another that skips itself without a package."""
    blessed(project)
    project.workload(f"import pytest\npytest.importorskip({package!r})\n{OTHER}", file="other.py")
    project.bless(project.baseline(metrics=SMALL, name="other"))


def beside_two_of_which_one_needs(project: Project, package: str) -> None:
    """Two good workloads for two shards, and the file of a third that skips itself without a package."""
    beside_one_that_needs(project, package=package)
    project.bless(project.baseline(metrics=SMALL, name="relu"))
    project.workload(LOOP.replace("def loop", "def relu"), file="relu.py")


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


def script(project: Project, *, step: str = "Batch \\\\d+", steps: int = 5, text: str = SCRIPT) -> None:
    project.write("train.py", text)
    project.write(
        "workloads/train.yaml",
        f'command: [{sys.executable}, train.py]\nstep: "{step}"\nsteps: {steps}\ncapture: all\ntimeout_s: 60\n',
    )


def blind(project: Project) -> None:
    """A capture without GPU operations has no more than the time of its steps."""
    blessed(project, run(absent={Metric.H2D_COPIES: "the capture holds no GPU operation: does the process use CUDA?"}))


def nsys_is_nowhere(project: Project) -> None:
    project.workload()
    project.patch.setenv("PERFGATE_NSYS", str(project.root / "bin" / "nsys"))


def nsys_hangs(project: Project) -> None:
    under(project, "")
    program = Path(os.environ["PERFGATE_NSYS"])
    program.write_text("#!/bin/sh\nsleep 60\n", encoding="utf-8")
    project.patch.setattr(gate, "find_nsys", partial(tool.find_nsys, timeout_s=0.3))


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

    project.patch.setattr("perfgate.store.disk.os.fsync", fsync)


def unwritable_document(project: Project) -> None:
    blessed(project)

    class Full(io.StringIO):
        def write(self, _text: str) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    project.patch.setattr(outputs, "opened", lambda _file, _mode: Full())


def nearly_full_disk(project: Project) -> None:
    project.workload()
    usage = shutil.disk_usage(project.root)._replace(free=30_000_000)
    project.patch.setattr("perfgate.nsys.profile.shutil.disk_usage", lambda _path: usage)


def same_to_the_last_digit(project: Project) -> None:
    """Baseline and runs without any spread: no division by it, and no loss hidden by it."""
    project.gpus()
    project.workload()
    alike = project.baseline(metrics=[])
    same = BlessedRun(values={Metric.STEP_MS: 12.34, Metric.H2D_COPIES: 2})
    occasion = alike.occasions[0].model_copy(update={"runs": (same,) * 5})
    project.bless(alike.model_copy(update={"occasions": (occasion,)}))
    project.measures(run({Metric.STEP_MS: 12.34 * 1.05}))


def taken(project: Project) -> None:
    """Another gate holds the GPU and does not let go."""
    blessed(project)
    project.write("pyproject.toml", "[tool.perfgate]\nlock_timeout_s = 0.5\n")
    held = gpu_lock(project.machine.gpus, timeout_s=1, on_wait=print, workload="resnet18")
    held.__enter__()
    project.patch.setattr(series, "IDLE_PATIENCE_S", 0.0)
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
    """A second workload, without a baseline, that a hook of the project keeps from being measured."""
    blessed(project)
    project.workload(OTHER, file="others.py")
    project.write("conftest.py", f"import pytest\n\n{hook}")


def left_early(project: Project, conftest: str) -> None:
    """A conftest that ends pytest, or says that all is well, though one workload has regressed."""
    blessed(project, SLOWER)
    project.write("conftest.py", f"import sys\n\nimport pytest\n\n{conftest}")


def plugged(project: Project, plugin: str) -> None:
    """A plugin that the environment names, beside a workload that has regressed."""
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


def skipped_beside_a_file(project: Project) -> None:
    folder_is_a_file(project)
    project.workload(SKIPS_ITSELF)


def settings(project: Project, line: str) -> None:
    blessed(project)
    project.write("pyproject.toml", f"[tool.perfgate]\n{line}\n")


@dataclass(frozen=True, kw_only=True)
class Case:
    """One way in which a gate must not open."""

    name: str
    arrange: Callable[[Project], None]
    arguments: tuple[str, ...] = ()
    status: int = 1
    nsys: bool = False
    """Whether it takes a real nsys."""
    says: str = field(repr=False)


ENDED_WITH_0 = """
GATE SHUT: pytest was ended with exit status 0 before the gate was told: by pytest.exit or pytest_cmdline_main
    in a conftest or plugin, for one. That is no success; let it raise, or skip what it cannot run.
"""
COPY_ADDED = """
__ loop __
loop: REGRESSED (2 runs against 5 blessed)
  h2d_copies 2 to 3; step_ms unchanged (12.34 ms).
  metric      baseline    now  change               budget  outcome       p
  ----------  --------  -----  -------------------  ------  ---------  ----
  h2d_copies         2      3  +1 (+50.0 %)          exact  REGRESSED
  step_ms        12.34  12.34  +0.0 % [-2.1, +1.5]     2 %  PASSED     0.49
  [ ]: a loss is shown where the lower end (99.75 %) is above 0, a pass where the upper end (97.5 %) is below
      the budget; p: probability of such a rise by chance; could show: the smallest loss these runs could have
      shown
  next        If this is meant, gate with --perfgate-runs=5 (what a baseline needs) and bless it: perfgate
      bless loop --reason "..." --accept-regression
  files       .perfgate/results/nvidia-h200/loop/TIME
REGRESSED  loop  step_ms 12.34  +0.0 % [-2.1, +1.5]  budget 2 %  2 runs
    h2d_copies 2 to 3; step_ms unchanged (12.34 ms).
GATE SHUT: 1 REGRESSED of 1 workload
"""
CASES = (
    Case(
        name="no baseline",
        arrange=no_baseline,
        nsys=True,
        says="""
__ loop __
loop: NO_BASELINE (1 run)
  there is no baseline to compare with on this machine (no GPU).
  metric          now  lowest  highest
  ------------  -----  ------  -------
  step_ms       1.234   1.234    1.234
  step_mean_ms  1.234   1.234    1.234
  remark      whether the warm-up was long enough is not shown: that takes 8 measured steps or more, and 4
      were asked for
  next        Gate with --perfgate-runs=5: a baseline needs as many, and gates of the same code are joined. If
      these numbers are right, make them the baseline: perfgate bless loop --reason "..."
  files       .perfgate/results/no-gpu/loop/TIME
NO_BASELINE  loop  step_ms 1.234  1 run
    there is no baseline to compare with on this machine (no GPU).
GATE SHUT: 1 NO_BASELINE of 1 workload
""",
    ),
    Case(
        name="baseline of another GPU model",
        arrange=other_gpu,
        says="""
__ loop __
loop: INCOMPARABLE (5 runs)
  its baseline is for NVIDIA H100 80GB HBM3, this machine is NVIDIA H200. Their times are not comparable.
  metric        now  lowest  highest
  ----------  -----  ------  -------
  step_ms     12.34   12.34    12.34
  h2d_copies      2       2        2
  next        Run where it was blessed, or bless one for this machine: perfgate bless loop --reason "..."
  files       .perfgate/results/nvidia-h200/loop/TIME
INCOMPARABLE  loop  step_ms 12.34  5 runs
    its baseline is for NVIDIA H100 80GB HBM3, this machine is NVIDIA H200. Their times are not comparable.
GATE SHUT: 1 INCOMPARABLE of 1 workload
""",
    ),
    Case(
        name="broken baseline of another GPU model",
        arrange=broken_on_another_gpu,
        says="""
__ loop __
loop: INCOMPARABLE (5 runs)
  its baseline is for nvidia-h100-80gb-hbm3, this machine is NVIDIA H200. Their times are not comparable.
  metric        now  lowest  highest
  ----------  -----  ------  -------
  step_ms     12.34   12.34    12.34
  h2d_copies      2       2        2
  next        Run where it was blessed, or bless one for this machine: perfgate bless loop --reason "..."
  files       .perfgate/results/nvidia-h200/loop/TIME
INCOMPARABLE  loop  step_ms 12.34  5 runs
    its baseline is for nvidia-h100-80gb-hbm3, this machine is NVIDIA H200. Their times are not comparable.
GATE SHUT: 1 INCOMPARABLE of 1 workload
""",
    ),
    Case(
        name="baseline of another nsys",
        arrange=other_nsys,
        says="""
__ loop __
loop: INCOMPARABLE (5 runs against 5 blessed)
  baseline was captured by nsys 2025.3.1, this is nsys 2024.2.3. Their times are not comparable.
  metric      baseline    now  lowest  highest  outcome
  ----------  --------  -----  ------  -------  ---------
  step_ms        12.34  12.34   12.34    12.34  not gated
  h2d_copies         2      2       2        2  not gated
  next        Run as it was blessed, or bless anew: perfgate bless loop --reason "..."
  files       .perfgate/results/nvidia-h200/loop/TIME
INCOMPARABLE  loop  step_ms 12.34  5 runs
    baseline was captured by nsys 2025.3.1, this is nsys 2024.2.3. Their times are not comparable.
GATE SHUT: 1 INCOMPARABLE of 1 workload
""",
    ),
    Case(
        name="baseline of another step count",
        arrange=other_steps,
        says="""
__ loop __
loop: INCOMPARABLE (5 runs against 5 blessed)
  the baseline is of other parameters: steps was 30 and is 4.
  metric      baseline    now  lowest  highest  outcome
  ----------  --------  -----  ------  -------  ---------
  step_ms        12.34  12.34   12.34    12.34  not gated
  h2d_copies         2      2       2        2  not gated
  next        Restore them, or bless the workload as it is now: perfgate bless loop --reason "..."
  files       .perfgate/results/nvidia-h200/loop/TIME
INCOMPARABLE  loop  step_ms 12.34  5 runs
    the baseline is of other parameters: steps was 30 and is 4.
GATE SHUT: 1 INCOMPARABLE of 1 workload
""",
    ),
    Case(
        name="baseline of other ranges as steps",
        arrange=of_other_steps,
        says="""
__ loop __
loop: INCOMPARABLE (5 runs against 5 blessed)
  the steps of the baseline are ranges named 'training_step #', these are 'optimizer_step #' and
      'training_step #'. Their times are not comparable.
  metric      baseline    now  lowest  highest  outcome
  ----------  --------  -----  ------  -------  ---------
  step_ms        12.34  12.34   12.34    12.34  not gated
  h2d_copies         2      2       2        2  not gated
  next        Correct the pattern of the steps (workloads/loops.py), or bless what they are now: perfgate
      bless loop --reason "..."
  files       .perfgate/results/nvidia-h200/loop/TIME
INCOMPARABLE  loop  step_ms 12.34  5 runs
    the steps of the baseline are ranges named 'training_step #', these are 'optimizer_step #' and
        'training_step #'. Their times are not comparable.
GATE SHUT: 1 INCOMPARABLE of 1 workload
""",
    ),
    Case(
        name="baseline in a folder in capitals",
        arrange=in_capitals,
        says="""
__ loop __
loop: INCOMPARABLE (5 runs)
  its baseline for this machine is baselines/NVIDIA-H200/loop.json, where none is looked for: the folder is to
      be named nvidia-h200.
  metric        now  lowest  highest
  ----------  -----  ------  -------
  step_ms     12.34   12.34    12.34
  h2d_copies      2       2        2
  next        Rename the folder, or bless one anew: perfgate bless loop --reason "..."
  files       .perfgate/results/nvidia-h200/loop/TIME
INCOMPARABLE  loop  step_ms 12.34  5 runs
    its baseline for this machine is baselines/NVIDIA-H200/loop.json, where none is looked for: the folder is
        to be named nvidia-h200.
GATE SHUT: 1 INCOMPARABLE of 1 workload
""",
    ),
    Case(
        name="baseline that is cut short",
        arrange=partial(spoilt, spoil=lambda text: text[:200]),
        says="""
__ loop __
loop: INCOMPARABLE
  baselines/nvidia-h200/loop.json: the baseline is broken: its JSON ends too early (line 9: Unterminated
      string starting at).
  next        Restore it (git checkout HEAD -- baselines/nvidia-h200/loop.json, or from an older commit), or
      delete it, gate once more and bless anew: perfgate bless loop --reason "..."
  files       .perfgate/results/nvidia-h200/loop/TIME
INCOMPARABLE  loop
    baselines/nvidia-h200/loop.json: the baseline is broken: its JSON ends too early (line 9: Unterminated
        string starting at).
GATE SHUT: 1 INCOMPARABLE of 1 workload
""",
    ),
    Case(
        name="baseline that is empty",
        arrange=partial(spoilt, spoil=lambda _text: ""),
        says="""
__ loop __
loop: INCOMPARABLE
  baselines/nvidia-h200/loop.json: the baseline is broken: it is empty.
  next        Restore it (git checkout HEAD -- baselines/nvidia-h200/loop.json, or from an older commit), or
      delete it, gate once more and bless anew: perfgate bless loop --reason "..."
  files       .perfgate/results/nvidia-h200/loop/TIME
INCOMPARABLE  loop
    baselines/nvidia-h200/loop.json: the baseline is broken: it is empty.
GATE SHUT: 1 INCOMPARABLE of 1 workload
""",
    ),
    Case(
        name="baseline of a newer format",
        arrange=partial(spoilt, spoil=lambda text: text.replace('"format": 2', '"format": 3')),
        says="""
__ loop __
loop: INCOMPARABLE
  baselines/nvidia-h200/loop.json: the baseline has format 3. This perfgate reads formats 1 to 2.
  next        Upgrade perfgate, or delete the file, gate once more and bless anew: perfgate bless loop
      --reason "..."
  files       .perfgate/results/nvidia-h200/loop/TIME
INCOMPARABLE  loop
    baselines/nvidia-h200/loop.json: the baseline has format 3. This perfgate reads formats 1 to 2.
GATE SHUT: 1 INCOMPARABLE of 1 workload
""",
    ),
    Case(
        name="baseline edited by hand",
        arrange=partial(spoilt, spoil=lambda text: text.replace("12.34", "99.99")),
        says="""
__ loop __
loop: INCOMPARABLE
  baselines/nvidia-h200/loop.json: the baseline was changed after it was blessed. Its seal must match its
      content: a baseline is measured and blessed, never edited.
  next        Restore it (git checkout HEAD -- baselines/nvidia-h200/loop.json, or from an older commit), or
      delete it, gate once more and bless anew: perfgate bless loop --reason "..."
  files       .perfgate/results/nvidia-h200/loop/TIME
INCOMPARABLE  loop
    baselines/nvidia-h200/loop.json: the baseline was changed after it was blessed. Its seal must match its
        content: a baseline is measured and blessed, never edited.
GATE SHUT: 1 INCOMPARABLE of 1 workload
""",
    ),
    Case(
        name="NaN in the baseline",
        arrange=partial(spoilt, spoil=lambda text: text.replace("12.34", "NaN")),
        says="""
__ loop __
loop: INCOMPARABLE
  baselines/nvidia-h200/loop.json: the baseline is broken: it holds NaN, which is not a number.
  next        Restore it (git checkout HEAD -- baselines/nvidia-h200/loop.json, or from an older commit), or
      delete it, gate once more and bless anew: perfgate bless loop --reason "..."
  files       .perfgate/results/nvidia-h200/loop/TIME
INCOMPARABLE  loop
    baselines/nvidia-h200/loop.json: the baseline is broken: it holds NaN, which is not a number.
GATE SHUT: 1 INCOMPARABLE of 1 workload
""",
    ),
    Case(
        name="workload renamed",
        arrange=renamed,
        says="""
__ new_name __
new_name: NO_BASELINE (5 runs)
  there is no baseline to compare with on this machine (NVIDIA H200).
  metric        now  lowest  highest
  ----------  -----  ------  -------
  step_ms     12.34   12.34    12.34
  h2d_copies      2       2        2
  next        If these numbers are right, make them the baseline: perfgate bless new_name --reason "..."
  files       .perfgate/results/nvidia-h200/new_name/TIME
NO_BASELINE  new_name  step_ms 12.34  5 runs
    there is no baseline to compare with on this machine (NVIDIA H200).
loop: it has a baseline for this machine, and no such workload was collected; gate with the variables and
    options that it was blessed with, or, if it was renamed or deleted on purpose, delete its baseline
GATE SHUT: 1 NO_BASELINE, and 1 other reason above
""",
    ),
    Case(
        name="workload deleted while its baseline remains",
        arrange=deleted,
        says="""
PASSED  loop  step_ms 12.34  +0.0 % [-2.0, +1.5]  budget 2 %  3 runs
GATE SHUT: gone: it has a baseline for this machine, and no such workload was collected; gate with the
    variables and options that it was blessed with, or, if it was renamed or deleted on purpose, delete its
    baseline
""",
    ),
    Case(
        name="workload deleted from a file that is named",
        arrange=deleted_from_its_file,
        arguments=("workloads/loops.py",),
        says="""
PASSED  loop  step_ms 12.34  +0.0 % [-2.0, +1.5]  budget 2 %  3 runs
1 of 2 workloads, chosen by path
GATE SHUT: gone: it has a baseline for this machine, measured from workloads/loops.py, which does not declare
    it now; gate with the variables and options that it was blessed with, or, if it was renamed or deleted on
    purpose, delete its baseline; if it was moved, bless it where it is
""",
    ),
    Case(
        name="all workloads deleted while a baseline remains",
        arrange=whole_file_deleted,
        status=5,
        says="""
no workload was collected, so nothing was measured
loop: it has a baseline for this machine, and no such workload was collected; gate with the variables and
    options that it was blessed with, or, if it was renamed or deleted on purpose, delete its baseline
GATE SHUT: 2 reasons above
""",
    ),
    Case(
        name="nothing collected",
        arrange=nothing,
        status=5,
        says="""
GATE SHUT: no workload was collected, so nothing was measured
""",
    ),
    Case(
        name="no folder of workloads",
        arrange=lambda project: (project.root / "workloads").rmdir(),
        status=4,
        says="""
ERROR: --perfgate: there is no folder /project/workloads. Workloads are collected from there.
Make one with a workload in it, or set workloads in [tool.perfgate].
""",
    ),
    Case(
        name="-k that selects nothing",
        arrange=blessed,
        arguments=("-k", "nothing_like_it"),
        status=5,
        says="""
0 of 1 workload, chosen by -k
GATE SHUT: no workload was collected, so nothing was measured
""",
    ),
    Case(
        name="an argument that is no workload",
        arrange=blessed,
        arguments=("workloads/loops.py::absent",),
        status=4,
        says="""
GATE SHUT: pytest did not start, see its error
ERROR: not found: /project/workloads/loops.py::absent
(no match in any of [<GatedModule loops.py>])
""",
    ),
    Case(
        name="a workload file that cannot be imported",
        arrange=broken_file,
        status=2,
        says="""
__ ERROR collecting workloads/broken.py __
workloads/broken.py:1: in <module>
    raise RuntimeError("no such data set")
E   RuntimeError: no such data set
GATE SHUT: files that cannot be collected: workloads/broken.py
""",
    ),
    Case(
        name="a workload file that cannot be imported, and going on",
        arrange=broken_file,
        arguments=("--continue-on-collection-errors",),
        says="""
__ ERROR collecting workloads/broken.py __
workloads/broken.py:1: in <module>
    raise RuntimeError("no such data set")
E   RuntimeError: no such data set
PASSED  loop  step_ms 12.34  +0.0 % [-2.0, +1.5]  budget 2 %  3 runs
GATE SHUT: files that cannot be collected: workloads/broken.py
""",
    ),
    Case(
        name="two workloads of one name",
        arrange=two_of_one_name,
        status=4,
        says="""
GATE SHUT: pytest did not start, see its error
ERROR: loop: 2 workloads bear this name (workloads/loops.py, workloads/more.py). Baselines are kept by name,
    so it must be unique.
Rename all but one.
""",
    ),
    Case(
        name="workload raises",
        arrange=partial(real, body='for _ in steps:\n    raise RuntimeError("CUDA out of memory")'),
        nsys=True,
        says="""
__ loop __
loop: NOT_MEASURED
  it raised RuntimeError: CUDA out of memory.
  next        See /project/.perfgate/results/no-gpu/loop/TIME/run-1/workload.log.
              Last lines of its output:
                | workloads/loops.py:7: in loop
                |     raise RuntimeError("CUDA out of memory")
                | E   RuntimeError: CUDA out of memory
  files       .perfgate/results/no-gpu/loop/TIME
NOT_MEASURED  loop
    it raised RuntimeError: CUDA out of memory.
GATE SHUT: 1 NOT_MEASURED of 1 workload
""",
    ),
    Case(
        name="workload calls sys.exit(3)",
        arrange=partial(real, body="sys.exit(3)"),
        nsys=True,
        says="""
__ loop __
loop: NOT_MEASURED
  it called sys.exit(3) (exit status 3).
  next        See /project/.perfgate/results/no-gpu/loop/TIME/run-1/workload.log.
              Last lines of its output:
                | workloads/loops.py:6: in loop
                |     sys.exit(3)
                | E   SystemExit: 3
  files       .perfgate/results/no-gpu/loop/TIME
NOT_MEASURED  loop
    it called sys.exit(3) (exit status 3).
GATE SHUT: 1 NOT_MEASURED of 1 workload
""",
    ),
    Case(
        name="workload calls sys.exit(0)",
        arrange=partial(real, body="sys.exit()"),
        nsys=True,
        says="""
__ loop __
loop: NOT_MEASURED
  it called sys.exit() (exit status 0).
  next        See /project/.perfgate/results/no-gpu/loop/TIME/run-1/workload.log.
              Last lines of its output:
                | workloads/loops.py:6: in loop
                |     sys.exit()
                | E   SystemExit
  files       .perfgate/results/no-gpu/loop/TIME
NOT_MEASURED  loop
    it called sys.exit() (exit status 0).
GATE SHUT: 1 NOT_MEASURED of 1 workload
""",
    ),
    Case(
        name="workload calls os._exit(3)",
        arrange=partial(real, body="os._exit(3)"),
        nsys=True,
        says="""
__ loop __
loop: NOT_MEASURED
  its process was gone with exit status 3 before the workload came to its end.
  next        See /project/.perfgate/results/no-gpu/loop/TIME/run-1/workload.log. It printed nothing.
  files       .perfgate/results/no-gpu/loop/TIME
NOT_MEASURED  loop
    its process was gone with exit status 3 before the workload came to its end.
GATE SHUT: 1 NOT_MEASURED of 1 workload
""",
    ),
    Case(
        name="workload is killed",
        arrange=partial(real, body="os.kill(os.getpid(), signal.SIGKILL)"),
        nsys=True,
        says="""
__ loop __
loop: NOT_MEASURED
  its process was killed by SIGKILL before the workload came to its end.
  next        See /project/.perfgate/results/no-gpu/loop/TIME/run-1/workload.log. It printed nothing.
  files       .perfgate/results/no-gpu/loop/TIME
NOT_MEASURED  loop
    its process was killed by SIGKILL before the workload came to its end.
GATE SHUT: 1 NOT_MEASURED of 1 workload
""",
    ),
    Case(
        name="workload hangs",
        arrange=partial(real, body='print("waiting for data", flush=True)\ntime.sleep(600)', more=", timeout_s=6"),
        nsys=True,
        says="""
__ loop __
loop: NOT_MEASURED
  it did not end within 6 s and was stopped.
  next        See /project/.perfgate/results/no-gpu/loop/TIME/run-1/workload.log, or raise timeout_s if it
      needs longer.
              Last lines of its output:
                | waiting for data
  files       .perfgate/results/no-gpu/loop/TIME
NOT_MEASURED  loop
    it did not end within 6 s and was stopped.
GATE SHUT: 1 NOT_MEASURED of 1 workload
""",
    ),
    Case(
        name="workload skips itself",
        arrange=partial(real, body='import pytest\npytest.skip("no data here")'),
        nsys=True,
        says="""
__ loop __
loop: NOT_MEASURED
  it skipped itself (no data here), so nothing was measured.
  next        Run it where there is what it needs, or mark it (pytest.mark.skipif), which the gate sees before
      it runs. See /project/.perfgate/results/no-gpu/loop/TIME/run-1/workload.log. It printed nothing.
  files       .perfgate/results/no-gpu/loop/TIME
NOT_MEASURED  loop
    it skipped itself (no data here), so nothing was measured.
GATE SHUT: 1 NOT_MEASURED of 1 workload
""",
    ),
    Case(
        name="loop takes too few turns",
        arrange=partial(real, body="for turn in steps:\n    if turn == 3:\n        break"),
        nsys=True,
        says="""
__ loop __
loop: NOT_MEASURED
  the loop took 4 of 5 turns (1 warm-up, 4 measured). It must go on until the steps are used up: look for a
      break, a return, or data that ends first.
  next        See /project/.perfgate/results/no-gpu/loop/TIME/run-1/workload.log. It printed nothing.
  files       .perfgate/results/no-gpu/loop/TIME
NOT_MEASURED  loop
    the loop took 4 of 5 turns (1 warm-up, 4 measured). It must go on until the steps are used up: look for a
        break, a return, or data that ends first.
GATE SHUT: 1 NOT_MEASURED of 1 workload
""",
    ),
    Case(
        name="loop takes no turn",
        arrange=partial(real, body="pass"),
        nsys=True,
        says="""
__ loop __
loop: NOT_MEASURED
  the loop took 0 of 5 turns (1 warm-up, 4 measured). Write for _ in steps: around a step, and look for a
      return before it, or data that are empty.
  next        See /project/.perfgate/results/no-gpu/loop/TIME/run-1/workload.log. It printed nothing.
  files       .perfgate/results/no-gpu/loop/TIME
NOT_MEASURED  loop
    the loop took 0 of 5 turns (1 warm-up, 4 measured). Write for _ in steps: around a step, and look for a
        return before it, or data that are empty.
GATE SHUT: 1 NOT_MEASURED of 1 workload
""",
    ),
    Case(
        name="loop iterates in a forked process",
        arrange=partial(
            real, body="import os\nif not os.fork():\n    for _ in steps: pass\n    os._exit(0)\nos.wait()"
        ),
        nsys=True,
        says="""
__ loop __
loop: NOT_MEASURED
  the steps were taken to another process, and only the workload's own is measured step by step. Iterate over
      them in the function that they are given to.
  next        See /project/.perfgate/results/no-gpu/loop/TIME/run-1/workload.log. It printed nothing.
  files       .perfgate/results/no-gpu/loop/TIME
NOT_MEASURED  loop
    the steps were taken to another process, and only the workload's own is measured step by step. Iterate
        over them in the function that they are given to.
GATE SHUT: 1 NOT_MEASURED of 1 workload
""",
    ),
    Case(
        name="loop iterates twice",
        arrange=partial(real, body="for _ in steps: pass\nfor _ in steps: pass"),
        nsys=True,
        says="""
__ loop __
loop: NOT_MEASURED
  the steps were iterated a second time, after 5 of 5 turns. Iterate over them once, and do one step of work a
      turn.
  next        See /project/.perfgate/results/no-gpu/loop/TIME/run-1/workload.log. It printed nothing.
  files       .perfgate/results/no-gpu/loop/TIME
NOT_MEASURED  loop
    the steps were iterated a second time, after 5 of 5 turns. Iterate over them once, and do one step of work
        a turn.
GATE SHUT: 1 NOT_MEASURED of 1 workload
""",
    ),
    Case(
        name="nvtx package that nsys does not hear",
        arrange=deaf,
        nsys=True,
        says="""
__ loop __
loop: NOT_MEASURED
  nvtx 0.2.11 does not speak to this nsys: its ranges are silently dropped. Install an older one (pip install
      "nvtx<0.2.12") or a newer nsys (2024.6 or later).
  next        See /project/.perfgate/results/no-gpu/loop/TIME/run-1/workload.log. It printed nothing.
  files       .perfgate/results/no-gpu/loop/TIME
NOT_MEASURED  loop
    nvtx 0.2.11 does not speak to this nsys: its ranges are silently dropped. Install an older one (pip
        install "nvtx<0.2.12") or a newer nsys (2024.6 or later).
GATE SHUT: 1 NOT_MEASURED of 1 workload
""",
    ),
    Case(
        name="no range of the command is a step",
        arrange=partial(script, step="Epoch \\\\d+"),
        nsys=True,
        says=r"""
__ train __
train: NOT_MEASURED
  no NVTX range matches 'Epoch \d+'. Perhaps you meant 'Batch \d+' (5 times).
  next        Give the name of the step's range, or a regular expression that matches all of it. It ended with
      exit status 0: if that was before its first step, see
      /project/.perfgate/results/no-gpu/train/TIME/run-1/workload.log. It printed nothing.
  files       .perfgate/results/no-gpu/train/TIME
NOT_MEASURED  train
    no NVTX range matches 'Epoch \d+'. Perhaps you meant 'Batch \d+' (5 times).
GATE SHUT: 1 NOT_MEASURED of 1 workload
""",
    ),
    Case(
        name="the steps are used up before the work",
        arrange=partial(real, body="for _ in list(steps):\n    time.sleep(0.001)", steps=40),
        nsys=True,
        says="""
__ loop __
loop: INVALID (1 run)
  run 1 does not count: a step takes 0.002 ms, about what marking it takes, and launches nothing on a GPU: the
      work is done elsewhere; do it in the body of the loop over the steps.
  next        Remove the cause, and run again.
  files       .perfgate/results/no-gpu/loop/TIME
INVALID  loop  1 run
    run 1 does not count: a step takes 0.002 ms, about what marking it takes, and launches nothing on a GPU:
        the work is done elsewhere; do it in the body of the loop over the steps.
GATE SHUT: 1 INVALID of 1 workload
""",
    ),
    Case(
        name="fewer steps than declared",
        arrange=partial(script, steps=9),
        nsys=True,
        says="""
__ train __
train: INVALID (1 run)
  run 1 does not count: steps were lost: process 1 shows 5 of 9 measured steps; its capture holds 5, and
      workloads/train.yaml asks for 9 (warmup and steps): the script takes fewer, leaves by os._exit before
      nsys has written its last, or has a launcher that does not wait for it.
  next        Remove the cause, and run again.
  files       .perfgate/results/no-gpu/train/TIME
INVALID  train  1 run
    run 1 does not count: steps were lost: process 1 shows 5 of 9 measured steps; its capture holds 5, and
        workloads/train.yaml asks for 9 (warmup and steps): the script takes fewer, leaves by os._exit before
        nsys has written its last, or has a launcher that does not wait for it.
GATE SHUT: 1 INVALID of 1 workload
""",
    ),
    Case(
        name="command fails",
        arrange=partial(script, text="raise SystemExit('no such data set')"),
        nsys=True,
        says="""
__ train __
train: NOT_MEASURED
  its command ended with exit status 1.
  next        See /project/.perfgate/results/no-gpu/train/TIME/run-1/workload.log.
              Last lines of its output:
                | no such data set
  files       .perfgate/results/no-gpu/train/TIME
NOT_MEASURED  train
    its command ended with exit status 1.
GATE SHUT: 1 NOT_MEASURED of 1 workload
""",
    ),
    Case(
        name="command that does not exist",
        arrange=no_such_command,
        nsys=True,
        says="""
__ train __
train: NOT_MEASURED
  The workload's program no-such-program is not an executable file on PATH.
  next        In workloads/train.yaml, correct the command, or install it.
  files       .perfgate/results/no-gpu/train/TIME
NOT_MEASURED  train
    The workload's program no-such-program is not an executable file on PATH.
GATE SHUT: 1 NOT_MEASURED of 1 workload
""",
    ),
    Case(
        name="no GPU operations although the baseline has them",
        arrange=blind,
        says="""
__ loop __
loop: NOT_MEASURED (3 runs against 5 blessed)
  Not all that the baseline gates could be judged: h2d_copies (not measured in 3 of 3 runs: the capture holds
      no GPU operation: does the process use CUDA?).
  metric      baseline    now  change               budget  outcome          p  could show
  ----------  --------  -----  -------------------  ------  ------------  ----  ----------
  h2d_copies         2                                      NOT_MEASURED
  step_ms        12.34  12.34  +0.0 % [-2.0, +1.5]     2 %  PASSED        0.49      +2.1 %
  [ ]: a loss is shown where the lower end (99.75 %) is above 0, a pass where the upper end (97.5 %) is below
      the budget; p: probability of such a rise by chance; could show: the smallest loss these runs could have
      shown
  next        See the runs' captures and logs for the cause. If this is meant, delete the baseline's file,
      gate once more and bless anew: perfgate bless loop --reason "..."
  files       .perfgate/results/nvidia-h200/loop/TIME
NOT_MEASURED  loop  step_ms 12.34  +0.0 % [-2.0, +1.5]  budget 2 %  3 runs
    Not all that the baseline gates could be judged: h2d_copies (not measured in 3 of 3 runs: the capture
        holds no GPU operation: does the process use CUDA?).
GATE SHUT: 1 NOT_MEASURED of 1 workload
""",
    ),
    Case(
        name="nsys missing",
        arrange=nsys_is_nowhere,
        says="""
__ loop __
loop: NOT_MEASURED
  nsys /bin/nsys (from PERFGATE_NSYS): does not exist. Expected the nsys program.
  next        Correct PERFGATE_NSYS, or leave it out to search PATH and NVIDIA's usual folders.
NOT_MEASURED  loop
    nsys /bin/nsys (from PERFGATE_NSYS): does not exist. Expected the nsys program.
GATE SHUT: 1 NOT_MEASURED of 1 workload
""",
    ),
    Case(
        name="nsys too old",
        arrange=partial(under, nsys="", version="2021.3.3.2"),
        says="""
__ loop __
loop: NOT_MEASURED
  nsys /bin/nsys (from PERFGATE_NSYS): is version 2021.3.3. perfgate knows 2022.4 and newer.
  next        Install Nsight Systems (package nsight-systems-cli, or
      https://developer.nvidia.com/nsight-systems), then put nsys on PATH, set PERFGATE_NSYS, or pass
      --perfgate-nsys.
NOT_MEASURED  loop
    nsys /bin/nsys (from PERFGATE_NSYS): is version 2021.3.3. perfgate knows 2022.4 and newer.
GATE SHUT: 1 NOT_MEASURED of 1 workload
""",
    ),
    Case(
        name="nsys that does not answer",
        arrange=nsys_hangs,
        says="""
__ loop __
loop: NOT_MEASURED
  nsys /bin/nsys (from PERFGATE_NSYS): `nsys --version` gave no answer within 0.3 s.
  next        Install Nsight Systems (package nsight-systems-cli, or
      https://developer.nvidia.com/nsight-systems), then put nsys on PATH, set PERFGATE_NSYS, or pass
      --perfgate-nsys.
NOT_MEASURED  loop
    nsys /bin/nsys (from PERFGATE_NSYS): `nsys --version` gave no answer within 0.3 s.
GATE SHUT: 1 NOT_MEASURED of 1 workload
""",
    ),
    Case(
        name="nsys failing",
        arrange=partial(under, nsys='print("nsys: out of luck", file=sys.stderr)\nsys.exit(1)'),
        says="""
__ loop __
loop: NOT_MEASURED
  its process was gone with exit status 1 before the workload came to its end.
  next        See /project/.perfgate/results/no-gpu/loop/TIME/run-1/workload.log.
              Last lines of its output:
                | nsys: out of luck
  files       .perfgate/results/no-gpu/loop/TIME
NOT_MEASURED  loop
    its process was gone with exit status 1 before the workload came to its end.
GATE SHUT: 1 NOT_MEASURED of 1 workload
""",
    ),
    Case(
        name="nsys writing no report",
        arrange=partial(under, nsys=WORKS + "sys.exit(status)"),
        says="""
__ loop __
loop: NOT_MEASURED
  nsys ended with status 0 and wrote no capture, and did not say why. All it printed is in
      /project/.perfgate/results/no-gpu/loop/TIME/run-1/workload.log.
  next        See /project/.perfgate/results/no-gpu/loop/TIME/run-1/workload.log, and run: perfgate doctor
  files       .perfgate/results/no-gpu/loop/TIME
NOT_MEASURED  loop
    nsys ended with status 0 and wrote no capture, and did not say why. All it printed is in
        /project/.perfgate/results/no-gpu/loop/TIME/run-1/workload.log.
GATE SHUT: 1 NOT_MEASURED of 1 workload
""",
    ),
    Case(
        name="nsys leaving a .qdstrm only",
        arrange=partial(under, nsys=WORKS + UNIMPORTED),
        says="""
__ loop __
loop: NOT_MEASURED
  nsys 2024.2.3 recorded the workload but could not import its recording: it does not say why. Run it again;
      if it fails each time, use another nsys through PERFGATE_NSYS.
  next        See /project/.perfgate/results/no-gpu/loop/TIME/run-1/workload.log, and run: perfgate doctor
  files       .perfgate/results/no-gpu/loop/TIME
NOT_MEASURED  loop
    nsys 2024.2.3 recorded the workload but could not import its recording: it does not say why. Run it again;
        if it fails each time, use another nsys through PERFGATE_NSYS.
GATE SHUT: 1 NOT_MEASURED of 1 workload
""",
    ),
    Case(
        name="nsys writing a report that is none",
        arrange=partial(under, nsys=WORKS + CORRUPT),
        says="""
__ loop __
loop: NOT_MEASURED
  /project/.perfgate/results/no-gpu/loop/TIME/run-1/nsys/capture.nsys-rep: nsys 2024.2.3 cannot export it: the
      export does not exist. Expected a complete .nsys-rep.
  next        Capture it again; if it was copied or downloaded, compare its size with the original's.
              See /project/.perfgate/results/no-gpu/loop/TIME/run-1/workload.log, and run: perfgate doctor
  files       .perfgate/results/no-gpu/loop/TIME
NOT_MEASURED  loop
    /project/.perfgate/results/no-gpu/loop/TIME/run-1/nsys/capture.nsys-rep: nsys 2024.2.3 cannot export it:
        the export does not exist. Expected a complete .nsys-rep.
GATE SHUT: 1 NOT_MEASURED of 1 workload
""",
    ),
    Case(
        name="corrupt SQLite export",
        arrange=corrupt_export,
        says="""
__ loop __
loop: NOT_MEASURED
  /project/run-1.sqlite: it is cut off: 3000 of 8192 bytes are there.
  next        Export it again: nsys export --type sqlite --force-overwrite true CAPTURE.nsys-rep
  files       .perfgate/results/nvidia-h200/loop/TIME
NOT_MEASURED  loop
    /project/run-1.sqlite: it is cut off: 3000 of 8192 bytes are there.
GATE SHUT: 1 NOT_MEASURED of 1 workload
""",
    ),
    Case(
        name="disk full",
        arrange=full_disk,
        says="""
__ loop __
loop: NOT_MEASURED
  .perfgate/.gitignore: the disk is full. What was there before is unchanged.
  next        Free some space (old captures lie under .perfgate/results), then run again.
NOT_MEASURED  loop
    .perfgate/.gitignore: the disk is full. What was there before is unchanged.
GATE SHUT: 1 NOT_MEASURED of 1 workload
""",
    ),
    Case(
        name="disk nearly full",
        arrange=nearly_full_disk,
        nsys=True,
        says="""
__ loop __
loop: NOT_MEASURED
  The disk is full: 30 MB are free in /project/.perfgate/results/no-gpu/loop/TIME/run-1/nsys, a capture needs
      200 MB. Free some space.
  next        Run: perfgate doctor
  files       .perfgate/results/no-gpu/loop/TIME
NOT_MEASURED  loop
    The disk is full: 30 MB are free in /project/.perfgate/results/no-gpu/loop/TIME/run-1/nsys, a capture
        needs 200 MB. Free some space.
GATE SHUT: 1 NOT_MEASURED of 1 workload
""",
    ),
    Case(
        name="zero variance and 5 % slower",
        arrange=same_to_the_last_digit,
        says="""
__ loop __
loop: REGRESSED (3 runs against 5 blessed)
  +5.0 % step_ms (12.34 to 12.96 ms).
  metric   baseline    now  change               budget  outcome          p  could show
  -------  --------  -----  -------------------  ------  ---------  -------  ----------
  step_ms     12.34  12.96  +5.0 % [+2.9, +6.5]     2 %  REGRESSED  <0.0001      +2.1 %
  [ ]: a loss is shown where the lower end (99.75 %) is above 0, a pass where the upper end (97.5 %) is below
      the budget; p: probability of such a rise by chance; could show: the smallest loss these runs could have
      shown
  unchanged   h2d_copies 2
  next        If this is meant, gate with --perfgate-runs=5 (what a baseline needs) and bless it: perfgate
      bless loop --reason "..." --accept-regression
  files       .perfgate/results/nvidia-h200/loop/TIME
REGRESSED  loop  step_ms 12.96  +5.0 % [+2.9, +6.5]  budget 2 %  3 runs
    +5.0 % step_ms (12.34 to 12.96 ms).
GATE SHUT: 1 REGRESSED of 1 workload
""",
    ),
    Case(
        name="a count rose",
        arrange=lambda project: blessed(project, SLOWER),
        says=COPY_ADDED,
    ),
    Case(
        name="GPU throttled",
        arrange=lambda project: blessed(project, run(throttled=["hardware thermal slowdown"])),
        says="""
__ loop __
loop: INVALID (1 run against 5 blessed)
  run 1 does not count: GPU GPU-0 was throttled (hardware thermal slowdown).
  next        Free the GPU or let it cool, and run again.
  files       .perfgate/results/nvidia-h200/loop/TIME
INVALID  loop  1 run
    run 1 does not count: GPU GPU-0 was throttled (hardware thermal slowdown).
GATE SHUT: 1 INVALID of 1 workload
""",
    ),
    Case(
        name="GPU shared",
        arrange=lambda project: blessed(project, run(neighbours=["python (4711)"])),
        says="""
__ loop __
loop: INVALID (1 run against 5 blessed)
  run 1 does not count: GPU GPU-0 was shared with python (4711).
  next        Free the GPU or let it cool, and run again.
  files       .perfgate/results/nvidia-h200/loop/TIME
INVALID  loop  1 run
    run 1 does not count: GPU GPU-0 was shared with python (4711).
GATE SHUT: 1 INVALID of 1 workload
""",
    ),
    Case(
        name="another gate on the GPU",
        arrange=taken,
        says="""
__ loop __
loop: NOT_MEASURED
  GPU GPU-11111111-aaaa-bbbb-cccc-000000000001: held by process 1 of ada for resnet18 since THEN, and not let
      go within 0.5 s. Gates on one GPU take turns, since each would measure the other.
  next        Wait for that gate to end, or raise lock_timeout_s in [tool.perfgate].
NOT_MEASURED  loop
    GPU GPU-11111111-aaaa-bbbb-cccc-000000000001: held by process 1 of ada for resnet18 since THEN, and not
        let go within 0.5 s. Gates on one GPU take turns, since each would measure the other.
GATE SHUT: 1 NOT_MEASURED of 1 workload
""",
    ),
    Case(
        name="another gate on the GPU for longer than the time budget",
        arrange=taken_beyond_the_time_budget,
        says="""
__ loop __
loop: NOT_MEASURED
  the time budget of 0.5 s was spent before it came to it.
  next        Allow more time (--perfgate-time-budget), or gate fewer workloads at once.
NOT_MEASURED  loop
    the time budget of 0.5 s was spent before it came to it.
GATE SHUT: 1 NOT_MEASURED of 1 workload
""",
    ),
    Case(
        name="code changed between runs",
        arrange=changed_meanwhile,
        says="""
__ loop __
loop: INVALID (2 runs against 5 blessed)
  run 2 does not count: the workload's code changed meanwhile.
  next        Remove the cause, and run again.
  files       .perfgate/results/nvidia-h200/loop/TIME
INVALID  loop  2 runs
    run 2 does not count: the workload's code changed meanwhile.
GATE SHUT: 1 INVALID of 1 workload
""",
    ),
    Case(
        name="workload with a baseline is skipped by a mark",
        arrange=partial(blessed, text=SKIPPED),
        says="""
skipped: loop (not today)
GATE SHUT: loop: it was expected, and not measured
""",
    ),
    Case(
        name="file of a workload with a baseline skips itself",
        arrange=partial(beside_one_that_needs, package="flash_attn"),
        says="""
skipped: workloads/other.py (could not import 'flash_attn': No module named 'flash_attn')
PASSED  loop  step_ms 12.34  +0.0 % [-2.0, +1.5]  budget 2 %  3 runs
GATE SHUT: other: it has a baseline for this machine, and was not collected; it may be in what was skipped:
    workloads/other.py (could not import 'flash_attn': No module named 'flash_attn')
""",
    ),
    Case(
        name="file of a workload with a baseline skips itself in the second shard",
        arrange=partial(beside_two_of_which_one_needs, package="flash_attn"),
        arguments=("--perfgate-shard=2/2",),
        says="""
skipped: workloads/other.py (could not import 'flash_attn': No module named 'flash_attn')
PASSED  relu  step_ms 12.34  +0.0 % [-2.2, +1.5]  budget 2 %  3 runs
Among 2 workloads, clocks share the 1 % of false alarms that a gate may give (Holm).
1 of 3 workloads, chosen by --perfgate-shard
GATE SHUT: other: it has a baseline for this machine, and was not collected; it may be in what was skipped:
    workloads/other.py (could not import 'flash_attn': No module named 'flash_attn')
""",
    ),
    Case(
        name="file skips itself beside baselines that cannot be listed",
        arrange=skipped_beside_a_file,
        status=5,
        says="""
skipped: workloads/loops.py (no data)
no workload was collected, so nothing was measured
baselines/nvidia-h200: the folder cannot be listed (Not a directory). Make it a folder that this user may
    read.
GATE SHUT: 2 reasons above
""",
    ),
    Case(
        name="all files skip themselves",
        arrange=all_skipped,
        status=5,
        says="""
skipped: workloads/loops.py (no data)
no workload was collected, so nothing was measured
loop: it has a baseline for this machine, and was not collected; it may be in what was skipped:
    workloads/loops.py (no data)
GATE SHUT: 2 reasons above
""",
    ),
    Case(
        name="workload marked xfail has regressed",
        arrange=lambda project: blessed(project, SLOWER, text=XFAIL),
        says=COPY_ADDED.replace("__ loop __\n", ""),
    ),
    Case(
        name="a conftest that exits with 0 where pytest is configured",
        arrange=partial(
            left_early,
            conftest='def pytest_configure():\n    pytest.exit("no GPU here", returncode=0)\n',
        ),
        says="""
Exit: no GPU here
GATE SHUT: pytest was ended with exit status 0 before the gate was told: by pytest.exit or pytest_cmdline_main
    in a conftest or plugin, for one. That is no success; let it raise, or skip what it cannot run.
""",
    ),
    Case(
        name="a conftest that exits with 0 where the session starts",
        arrange=partial(
            left_early,
            conftest='def pytest_sessionstart():\n    pytest.exit("no GPU here", returncode=0)\n',
        ),
        says="""
Exit: no GPU here
GATE SHUT: pytest was ended with exit status 0 before the gate was told: by pytest.exit or pytest_cmdline_main
    in a conftest or plugin, for one. That is no success; let it raise, or skip what it cannot run.
""",
    ),
    Case(
        name="a conftest that exits with 0 where the session ends",
        arrange=partial(
            left_early,
            conftest='def pytest_sessionfinish():\n    pytest.exit("all is well", returncode=0)\n',
        ),
        says="""
Exit: all is well
GATE SHUT: pytest was ended with exit status 0 before the gate was told: by pytest.exit or pytest_cmdline_main
    in a conftest or plugin, for one. That is no success; let it raise, or skip what it cannot run.
""",
    ),
    Case(
        name="a conftest that returns 0 in place of all that pytest does",
        arrange=partial(
            left_early,
            conftest="def pytest_cmdline_main():\n    return 0\n",
        ),
        says=ENDED_WITH_0,
    ),
    Case(
        name="a conftest that leaves with 0 before a session begins",
        arrange=partial(
            left_early,
            conftest="def pytest_cmdline_main():\n    sys.exit()\n",
        ),
        says=ENDED_WITH_0,
    ),
    Case(
        name="a conftest that says 0 whatever pytest says",
        arrange=partial(
            left_early,
            conftest="@pytest.hookimpl(wrapper=True, tryfirst=True)\n"
            "def pytest_cmdline_main():\n    yield\n    return 0\n",
        ),
        says=COPY_ADDED,
    ),
    Case(
        name="a conftest that leaves with 0 where pytest is cleared away",
        arrange=partial(
            left_early,
            conftest="def pytest_unconfigure():\n    sys.exit(0)\n",
        ),
        says=COPY_ADDED,
    ),
    Case(
        name="a conftest that leaves with 0 while it is loaded",
        arrange=partial(
            left_early,
            conftest="sys.exit(0)\n",
        ),
        status=4,
        says="""
ERROR: --perfgate: a conftest or plugin left with sys.exit(0) while it was loaded, so nothing was measured.
    That is no success.
Let it raise, or skip what it cannot run.
""",
    ),
    Case(
        name="a plugin that leaves with 0 while it is loaded",
        arrange=partial(
            plugged,
            plugin="sys.exit(0)\n",
        ),
        status=4,
        says="""
ERROR: --perfgate: a conftest or plugin left with sys.exit(0) while it was loaded, so nothing was measured.
    That is no success.
Let it raise, or skip what it cannot run.
""",
    ),
    Case(
        name="a plugin that leaves with 0 where it declares its options",
        arrange=partial(
            plugged,
            plugin="def pytest_addoption():\n    sys.exit(0)\n",
        ),
        status=4,
        says="""
ERROR: --perfgate: a conftest or plugin left with sys.exit(0) while it was loaded, so nothing was measured.
    That is no success.
Let it raise, or skip what it cannot run.
""",
    ),
    Case(
        name="a plugin that leaves with 0 when conftests are loaded",
        arrange=partial(
            plugged,
            plugin="@pytest.hookimpl(wrapper=True, tryfirst=True)\n"
            "def pytest_load_initial_conftests():\n    yield\n    sys.exit()\n",
        ),
        status=4,
        says="""
ERROR: --perfgate: a conftest or plugin left with sys.exit(0) while it was loaded, so nothing was measured.
    That is no success.
Let it raise, or skip what it cannot run.
""",
    ),
    Case(
        name="a conftest that takes every exit status for 0",
        arrange=partial(
            left_early,
            conftest=ALL_IS_WELL,
        ),
        says=COPY_ADDED,
    ),
    Case(
        name="a conftest that takes every exit status for 0, and no workload",
        arrange=partial(
            left_early,
            conftest=ALL_IS_WELL,
        ),
        arguments=("-k", "nothing"),
        says="""
0 of 1 workload, chosen by -k
GATE SHUT: no workload was collected, so nothing was measured
""",
    ),
    Case(
        name="--setup-only",
        arrange=blessed,
        arguments=("--setup-only",),
        says="""
GATE SHUT: loop: it was expected, and not measured
""",
    ),
    Case(
        name="--setup-plan",
        arrange=blessed,
        arguments=("--setup-plan",),
        says="""
GATE SHUT: loop: it was expected, and not measured
""",
    ),
    Case(
        name="-x after the first that regressed",
        arrange=one_of_two_regressed,
        arguments=("-x",),
        says="""
__ loop __
loop: REGRESSED (2 runs against 5 blessed)
  h2d_copies 2 to 3; step_ms unchanged (12.34 ms).
  metric      baseline    now  change               budget  outcome       p
  ----------  --------  -----  -------------------  ------  ---------  ----
  h2d_copies         2      3  +1 (+50.0 %)          exact  REGRESSED
  step_ms        12.34  12.34  +0.0 % [-2.2, +1.5]     2 %  PASSED     0.49
  [ ]: a loss is shown where the lower end (99.88 %) is above 0, a pass where the upper end (97.5 %) is below
      the budget; p: probability of such a rise by chance; could show: the smallest loss these runs could have
      shown
  next        If this is meant, gate with --perfgate-runs=5 (what a baseline needs) and bless it: perfgate
      bless loop --reason "..." --accept-regression
  files       .perfgate/results/nvidia-h200/loop/TIME
REGRESSED  loop  step_ms 12.34  +0.0 % [-2.2, +1.5]  budget 2 %  2 runs
    h2d_copies 2 to 3; step_ms unchanged (12.34 ms).
Among 2 workloads, clocks share the 1 % of false alarms that a gate may give (Holm).
other: it was expected, and not measured
GATE SHUT: 1 REGRESSED, and 1 other reason above
""",
    ),
    Case(
        name="xdist",
        arrange=blessed,
        arguments=("-n", "2"),
        status=4,
        says="""
ERROR: --perfgate: pytest-xdist was asked to run workloads side by side. They would measure one another.
Leave -n out, or pass -n 0.
""",
    ),
    Case(
        name="--perfgate-json to a place that cannot be written",
        arrange=blessed,
        arguments=("--perfgate-json=/dev/null/verdicts.json",),
        status=4,
        says="""
ERROR: --perfgate-json: /dev/null/verdicts.json cannot be written. Give it a file in a folder that can be
    written to.
""",
    ),
    Case(
        name="workload that a hook drops without deselecting it",
        arrange=partial(
            hooked,
            hook="def pytest_collection_modifyitems(items):\n    items[:] = [i for i in items if i.name == 'loop']\n",
        ),
        says="""
PASSED  loop  step_ms 12.34  +0.0 % [-2.2, +1.5]  budget 2 %  3 runs
Among 2 workloads, clocks share the 1 % of false alarms that a gate may give (Holm).
GATE SHUT: other: it was expected, and not measured
""",
    ),
    Case(
        name="workload that a hook runs nothing of",
        arrange=partial(
            hooked, hook="def pytest_runtest_protocol(item):\n    return True if item.name == 'other' else None\n"
        ),
        says="""
PASSED  loop  step_ms 12.34  +0.0 % [-2.2, +1.5]  budget 2 %  3 runs
Among 2 workloads, clocks share the 1 % of false alarms that a gate may give (Holm).
GATE SHUT: other: it was expected, and not measured
""",
    ),
    Case(
        name="pytest.exit with status 0 before all is measured",
        arrange=partial(
            hooked,
            hook="def pytest_runtest_logstart(nodeid):\n"
            "    if 'other' in nodeid: pytest.exit('enough', returncode=0)\n",
        ),
        says="""
PASSED  loop  step_ms 12.34  +0.0 % [-2.2, +1.5]  budget 2 %  3 runs
Among 2 workloads, clocks share the 1 % of false alarms that a gate may give (Holm).
GATE SHUT: other: it was expected, and not measured
""",
    ),
    Case(
        name="baseline that is a link to nowhere",
        arrange=link_to_nowhere,
        arguments=("--perfgate-new=allow",),
        says="""
__ loop __
loop: INCOMPARABLE
  baselines/nvidia-h200/loop.json: it is a link to nowhere. Whether there is a baseline behind it cannot be
      told.
  next        Restore what it leads to, or delete the link.
  files       .perfgate/results/nvidia-h200/loop/TIME
INCOMPARABLE  loop
    baselines/nvidia-h200/loop.json: it is a link to nowhere. Whether there is a baseline behind it cannot be
        told.
GATE SHUT: 1 INCOMPARABLE of 1 workload
""",
    ),
    Case(
        name="file in place of the machine's folder of baselines",
        arrange=folder_is_a_file,
        arguments=("--perfgate-new=allow",),
        says="""
__ loop __
loop: INCOMPARABLE
  baselines/nvidia-h200/loop.json: the baseline cannot be read (Not a directory).
  next        Make it a file that this user may read.
  files       .perfgate/results/nvidia-h200/loop/TIME
INCOMPARABLE  loop
    baselines/nvidia-h200/loop.json: the baseline cannot be read (Not a directory).
baselines/nvidia-h200: the folder cannot be listed (Not a directory). Make it a folder that this user may
    read.
GATE SHUT: 1 INCOMPARABLE, and 1 other reason above
""",
    ),
    Case(
        name="the gate's side of the plugin switched off",
        arrange=blessed,
        arguments=("-p", "no:perfgate.plugin.gate_side"),
        status=4,
        says="""
ERROR: -p no:perfgate.plugin.gate_side: it is switched off, and nothing would be measured. Leave it out, or
    leave --perfgate out.
""",
    ),
    Case(
        name="pytest's terminal switched off",
        arrange=blessed,
        arguments=("-p", "no:terminal"),
        status=4,
        says="""
ERROR: -p no:terminal: a gate tells its verdicts there. Leave it out; -q says least.
""",
    ),
    Case(
        name="the worker's option",
        arrange=blessed,
        arguments=("--perfgate-worker=order.json",),
        status=4,
        says="""
ERROR: --perfgate-worker is what a gate passes to its own runs. Leave it out.
""",
    ),
    Case(
        name="--perfgate-json to a file of something else",
        arrange=blessed,
        arguments=("--perfgate-json=workloads/loops.py",),
        status=4,
        says="""
ERROR: --perfgate-json: /project/workloads/loops.py holds something else than perfgate's verdicts, and would
    be lost. Give it a new file, or delete that one.
""",
    ),
    Case(
        name="--perfgate-json when the disk is full",
        arrange=unwritable_document,
        arguments=("--perfgate-json=verdicts.json",),
        says="""
PASSED  loop  step_ms 12.34  +0.0 % [-2.0, +1.5]  budget 2 %  3 runs
GATE SHUT: /project/verdicts.json: the verdicts cannot be written there (No space left on device). Give
    --perfgate-json a file that can be written.
""",
    ),
    Case(
        name="--perfgate-runs=0",
        arrange=blessed,
        arguments=("--perfgate-runs=0",),
        status=4,
        says="""
ERROR: --perfgate-runs: the value is '0'. It should be at least 1.
Correct it.
""",
    ),
    Case(
        name="--perfgate-runs=abc",
        arrange=blessed,
        arguments=("--perfgate-runs=abc",),
        status=4,
        says="""
ERROR: --perfgate-runs: the value is 'abc'. It should be a whole number.
Correct it.
""",
    ),
    Case(
        name="--perfgate-runs=11",
        arrange=blessed,
        arguments=("--perfgate-runs=11",),
        status=4,
        says="""
ERROR: --perfgate-runs: the value is '11'. It should be at most 10.
Correct it.
""",
    ),
    Case(
        name="--perfgate-runs above --perfgate-max-runs",
        arrange=blessed,
        arguments=("--perfgate-runs=5", "--perfgate-max-runs=3"),
        status=4,
        says="""
ERROR: runs: the first look takes 5 runs, but no more than 3 are allowed. max_runs must be at least runs.
Raise max_runs (--perfgate-max-runs) or lower runs (--perfgate-runs).
""",
    ),
    Case(
        name="--perfgate-timeout=0",
        arrange=blessed,
        arguments=("--perfgate-timeout=0",),
        status=4,
        says="""
ERROR: --perfgate-timeout: the value is '0'. It should be greater than 0.
Correct it.
""",
    ),
    Case(
        name="--perfgate-new=yes",
        arrange=blessed,
        arguments=("--perfgate-new=yes",),
        status=4,
        says="""
ERROR: --perfgate-new: the value is 'yes'. It should be 'fail' or 'allow'.
Correct it.
""",
    ),
    Case(
        name="--perfgate-inconclusive=pass",
        arrange=blessed,
        arguments=("--perfgate-inconclusive=pass",),
        status=4,
        says="""
ERROR: --perfgate-inconclusive: the value is 'pass'. It should be 'warn' or 'fail'.
Correct it.
""",
    ),
    Case(
        name="--perfgate-nsys that is a folder",
        arrange=blessed,
        arguments=("--perfgate-nsys=/tmp",),
        says="""
__ loop __
loop: NOT_MEASURED
  nsys /tmp (from --perfgate-nsys): is a folder. Expected the nsys program.
  next        Correct --perfgate-nsys, or leave it out to search PATH and NVIDIA's usual folders.
NOT_MEASURED  loop
    nsys /tmp (from --perfgate-nsys): is a folder. Expected the nsys program.
GATE SHUT: 1 NOT_MEASURED of 1 workload
""",
    ),
    Case(
        name="unknown setting",
        arrange=partial(settings, line="run = 5"),
        status=4,
        says="""
ERROR: pyproject.toml [tool.perfgate]: unknown key 'run'. Known are anchor_budget, baselines, budgets,
    cuda_graph_trace, duet, duet_python, duet_setup, inconclusive, lock_timeout_s, loosened, machine,
    max_runs, new, nsys, pass_env, runs, time_budget_s, timeout_s, trace_osrt, workloads.
Perhaps you meant 'runs'.
""",
    ),
    Case(
        name="inconclusive where that is to fail",
        arrange=inconclusive,
        arguments=("--perfgate-inconclusive=fail",),
        says="""
__ loop __
loop: INCONCLUSIVE (10 runs against 5 blessed)
  step_ms +1.6 % [-0.8, +3.4], budget 2 %: neither shown to be within it nor beyond it. The smallest loss that
      10 runs can show here is 2.4 %. No number of runs would settle it: 69.5 % of its variance lies between
      occasions, of which the baseline spans 1.
  metric   baseline    now  change               budget  outcome           p  could show
  -------  --------  -----  -------------------  ------  ------------  -----  ----------
  step_ms     12.34  12.54  +1.6 % [-0.8, +3.4]     2 %  INCONCLUSIVE  0.029      +2.4 %
  [ ]: a loss is shown where the lower end (99.75 %) is above 0, a pass where the upper end (97.5 %) is below
      the budget; p: probability of such a rise by chance; could show: the smallest loss these runs could have
      shown
  unchanged   h2d_copies 2
  remark      No duet: /project: it is not in a git repository. perfgate asks git which code it measures.
              Run perfgate in a checkout of the project.
  next        Gate the baseline's commit again: if it moved too, it was the machine. Then delete the
      baseline's file, gate once more and bless anew: perfgate bless loop --reason "..."
  files       .perfgate/results/nvidia-h200/loop/TIME
INCONCLUSIVE  loop  step_ms 12.54  +1.6 % [-0.8, +3.4]  budget 2 %  10 runs
    step_ms +1.6 % [-0.8, +3.4], budget 2 %: neither shown to be within it nor beyond it. The smallest loss
        that 10 runs can show here is 2.4 %. No number of runs would settle it: 69.5 % of its variance lies
        between occasions, of which the baseline spans 1.
GATE SHUT: 1 INCONCLUSIVE of 1 workload
""",
    ),
    Case(
        name="--perfgate-new=allow and a baseline of another GPU",
        arrange=other_gpu,
        arguments=("--perfgate-new=allow",),
        says="""
__ loop __
loop: INCOMPARABLE (5 runs)
  its baseline is for NVIDIA H100 80GB HBM3, this machine is NVIDIA H200. Their times are not comparable.
  metric        now  lowest  highest
  ----------  -----  ------  -------
  step_ms     12.34   12.34    12.34
  h2d_copies      2       2        2
  next        Run where it was blessed, or bless one for this machine: perfgate bless loop --reason "..."
  files       .perfgate/results/nvidia-h200/loop/TIME
INCOMPARABLE  loop  step_ms 12.34  5 runs
    its baseline is for NVIDIA H100 80GB HBM3, this machine is NVIDIA H200. Their times are not comparable.
GATE SHUT: 1 INCOMPARABLE of 1 workload
""",
    ),
    Case(
        name="--perfgate-new=allow and a baseline edited by hand",
        arrange=partial(spoilt, spoil=lambda text: text.replace("12.34", "99.99")),
        arguments=("--perfgate-new=allow",),
        says="""
__ loop __
loop: INCOMPARABLE
  baselines/nvidia-h200/loop.json: the baseline was changed after it was blessed. Its seal must match its
      content: a baseline is measured and blessed, never edited.
  next        Restore it (git checkout HEAD -- baselines/nvidia-h200/loop.json, or from an older commit), or
      delete it, gate once more and bless anew: perfgate bless loop --reason "..."
  files       .perfgate/results/nvidia-h200/loop/TIME
INCOMPARABLE  loop
    baselines/nvidia-h200/loop.json: the baseline was changed after it was blessed. Its seal must match its
        content: a baseline is measured and blessed, never edited.
GATE SHUT: 1 INCOMPARABLE of 1 workload
""",
    ),
    Case(
        name="--perfgate-new=allow and a workload that raises",
        arrange=partial(real, body='raise RuntimeError("no")'),
        arguments=("--perfgate-new=allow",),
        nsys=True,
        says="""
__ loop __
loop: NOT_MEASURED
  it raised RuntimeError: no.
  next        See /project/.perfgate/results/no-gpu/loop/TIME/run-1/workload.log.
              Last lines of its output:
                | workloads/loops.py:6: in loop
                |     raise RuntimeError("no")
                | E   RuntimeError: no
  files       .perfgate/results/no-gpu/loop/TIME
NOT_MEASURED  loop
    it raised RuntimeError: no.
GATE SHUT: 1 NOT_MEASURED of 1 workload
""",
    ),
)


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.name, marks=[pytest.mark.nsys] if case.nsys else []) for case in CASES]
)
def test_the_gate_stays_shut_and_says_why(case: Case, project: Project, request: pytest.FixtureRequest) -> None:
    if case.nsys:
        request.getfixturevalue("real_nsys")
    case.arrange(project)
    seen = project.gate(*(("--perfgate-runs=1",) if case.nsys else ()), *case.arguments)
    assert (seen.message, seen.status) == (case.says.strip("\n"), case.status)
