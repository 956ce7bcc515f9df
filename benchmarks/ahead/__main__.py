"""Whether runs that are started together repeat as well as serial ones, and what each way takes.

    python -m benchmarks.ahead [--part PART ...] [--loop LOOP ...] [--runs 20] [--minutes 9]

Parts: `bare` (the loop in a plain process), `serial`, `early`, `late` (runs under nsys, the latter
two `--at-once` of them together), `gate` (whole gates of the unchanged loop, after one that is
blessed). Each measurement is appended to FILE at once, and a part that is there is not made again,
so that a call may be cut off and repeated; without parts, FILE is shown.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import mean, median, stdev
from typing import Final

from perfgate.execute.ahead import RunFailed, Wanted
from perfgate.execute.lab import Invocation
from perfgate.execute.laboratory import Laboratory
from perfgate.machine import read_machine
from perfgate.model.errors import PerfgateError
from perfgate.model.metric import Metric
from perfgate.model.sample import Form
from perfgate.model.settings import Settings
from perfgate.model.workload import Workload
from perfgate.plugin.progress import Progress
from perfgate.store import Store

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parent.parent
LOOPS: Final = {
    "gpt": (40, 15),
    "decode": (60, 20),
    "recurrence": (60, 20),
    "dense": (60, 20),
    "cpu": (30, 5),
}
"""Steps and warm-up of each loop, as it declares them."""
FORMS: Final = {"serial": Form.ALONE, "early": Form.EARLY, "late": Form.LATE}
SHOWN: Final = (Metric.KERNEL_MS, Metric.STEP_MS)
BARE: Final = "import runpy, sys; runpy.run_path(sys.argv[1])[sys.argv[2]](range(int(sys.argv[3])))"
Row = dict[str, object]


def bare(loop: str) -> Iterator[Row]:
    """One plain process."""
    command = [sys.executable, "-c", BARE, str(HERE / "workloads" / "loops.py"), loop]
    began = time.perf_counter()
    subprocess.run([*command, str(sum(LOOPS[loop]))], cwd=ROOT, check=True)
    yield {"wall_s": time.perf_counter() - began}


def runs(loop: str, form: Form, at_once: int) -> Iterator[Row]:
    """Runs under nsys: one, or as many at once."""
    with tempfile.TemporaryDirectory(prefix="perfgate-ahead-") as work:
        project = _project(Path(work))
        asked = Invocation(
            root=project,
            settings=Settings(),
            env=os.environ,
            worker_env=_environment(),
            pytest_options=(f"--rootdir={project}", "-c", str(project / "pyproject.toml")),
        )
        of = Laboratory(asked, Progress(sys.stderr, live=False, width=100))
        context, (steps, warmup) = of.context, LOOPS[loop]
        source = "workloads/loops.py"
        workload = Workload(
            id=loop, source=source, nodeid=f"{source}::{loop}", steps=steps, warmup=warmup
        )
        wanted = [
            Wanted(context=context, workload=workload, folder=project / f"run-{number}")
            for number in range(1 if form is Form.ALONE else at_once)
        ]
        began = time.perf_counter()
        made = list(of.make(wanted, form))
        wall_s = time.perf_counter() - began
        for one in made:
            yield {
                "wall_s": wall_s / len(made),
                "at_once": len(made),
                "began": one.run.started_at.isoformat(),
                "form": one.run.form,
                "notes": [str(note.code) for note in one.run.notes],
                "needs": None if one.run.needs is None else one.run.needs.model_dump(),
                "steps": [process.steps for process in one.run.processes],
                "periods_ms": [process.periods_ms for process in one.run.processes],
                **dict(one.run.measured().items()),
            }


def gate(loop: str, folder: Path) -> Iterator[Row]:
    """One gate of the unchanged loop; the first in a folder is blessed, and not counted."""
    if not (folder / "baselines").exists():
        _project(folder)
        _git(folder, "init", "-q")
        _git(folder, "add", "-A")
        _git(folder, "commit", "-qm", "The loop")
        _pytest(folder, loop, "--perfgate-new=allow")
        bless = [sys.executable, "-m", "perfgate", "bless", loop, "--reason", "benchmark"]
        subprocess.run(bless, cwd=folder, env=_environment(), check=True)
        _git(folder, "add", "-A")
        _git(folder, "commit", "-qm", "Its baseline")
    began = time.perf_counter()
    _pytest(folder, loop, "--perfgate-json=gate.json")
    wall_s = time.perf_counter() - began
    (found,) = json.loads((folder / "gate.json").read_text(encoding="utf-8"))["workloads"]
    verdict = found["verdict"]
    latest = Store(folder, "baselines").results.latest(loop)
    result = None if latest is None else latest.result
    sides = () if result is None else (result.reference_runs, result.interleaved_runs)
    yield {
        "wall_s": wall_s,
        "blocks_ms": [
            [[block.step_ms for block in run.processes[0].blocks] for run in side] for side in sides
        ],
        "outcome": verdict["outcome"],
        "stage": verdict["stage"],
        "runs": verdict["runs"],
        "forms": [run.get("form") for run in found["runs"]],
        "why": verdict.get("why"),
    }


def _project(folder: Path) -> Path:
    """A project with the loops in it."""
    shutil.copytree(HERE / "workloads", folder / "workloads", dirs_exist_ok=True)
    (folder / "pyproject.toml").write_text("[tool.pytest.ini_options]\n", encoding="utf-8")
    (folder / ".gitignore").write_text(".perfgate/\n__pycache__/\ngate.json\n", encoding="utf-8")
    return folder


def _pytest(folder: Path, loop: str, *options: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "--perfgate", *options]
    command.append(f"workloads/loops.py::{loop}")
    subprocess.run(command, cwd=folder, env=_environment(), check=False)


def _git(folder: Path, *words: str) -> None:
    named = ("-c", "user.name=benchmark", "-c", "user.email=benchmark@localhost")
    subprocess.run(["git", *named, *words], cwd=folder, check=True)


def _environment() -> dict[str, str]:
    """With this checkout's perfgate, whichever is installed."""
    paths = (str(ROOT), os.environ.get("PYTHONPATH", ""))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}


# What is kept and shown


def kept(file: Path) -> list[Row]:
    """What was measured so far."""
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def show(rows: list[Row]) -> None:
    """Print means, SDs and wall times by GPU, loop and part."""
    print(f"{'GPU':<23}{'loop':<11}{'part':<8}{'runs':>5}{'s a run':>9}   values: mean (SD)")
    for which in dict.fromkeys(map(_which, rows)):
        of = [row for row in rows if _which(row) == which]
        gpu, loop, part = which
        texts = [f"{gpu:<23}{loop:<11}{part:<8}{len(of):>5}{median(_values(of, 'wall_s')):>9.2f}  "]
        for metric in SHOWN:
            values = _values(of, metric)
            if len(values) > 1 and mean(values):
                spread = 100 * stdev(values) / mean(values)
                texts.append(f" {metric} {mean(values):.4f} ({spread:.2f} %)")
        if part == "gate":
            texts.append(f" {', '.join(sorted({str(row['outcome']) for row in of}))}")
        print("".join(texts))


def _which(row: Row) -> tuple[str, str, str]:
    """Of which GPU, loop and part it is."""
    return str(row["gpu"]), str(row["loop"]), str(row["part"])


def _values(rows: list[Row], name: str) -> list[float]:
    return [value for row in rows if isinstance(value := row.get(name), float | int)]


def main() -> None:
    """Make what is asked for and still missing, and show all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", nargs="+", choices=["bare", *FORMS, "gate"], default=[])
    parser.add_argument("--loop", nargs="+", choices=list(LOOPS), default=list(LOOPS)[:4])
    parser.add_argument("--runs", type=int, default=20, help="of each loop and part")
    parser.add_argument("--at-once", type=int, default=5, help="runs that are started together")
    parser.add_argument("--out", type=Path, default=HERE / "samples.jsonl")
    parser.add_argument("--minutes", type=float, default=9.0, help="after which nothing is begun")
    asked = parser.parse_args()
    ends = time.monotonic() + 60 * asked.minutes
    gpu = read_machine(os.environ, nsys=None, nsys_options=()).gpu_name
    for part in asked.part:
        for loop in asked.loop:
            with tempfile.TemporaryDirectory(prefix="perfgate-gates-") as folder:
                make: Callable[[], Iterator[Row]]
                match part:
                    case "bare":
                        make = partial(bare, loop)
                    case "gate":
                        make = partial(gate, loop, Path(folder))
                    case form:
                        make = partial(runs, loop, FORMS[form], asked.at_once)
                while time.monotonic() < ends:
                    have = [row for row in kept(asked.out) if _which(row) == (gpu, loop, part)]
                    if len(have) >= asked.runs:
                        break
                    try:
                        rows = [{"loop": loop, "part": part, "gpu": gpu, **row} for row in make()]
                    except (RunFailed, PerfgateError) as failed:
                        print(f"{loop} {part}: {failed}", file=sys.stderr)
                        continue
                    with asked.out.open("a", encoding="utf-8") as file:
                        file.writelines(json.dumps(row) + "\n" for row in rows)
    show(kept(asked.out))


if __name__ == "__main__":
    main()
