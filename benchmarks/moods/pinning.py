"""How an interleaved duet stands being sent to its one core late: wall time of a pair, and how well pairs repeat.

    python -m benchmarks.moods.pinning --pairs 10 [--seconds 500] [--out pinning.json]

Makes pairs of perfgate's own (`perfgate.execute.measure_pair`) of one loop with itself, in turn

    early   both processes are on the core before they import torch, and until they have ended
    late    both are sent there for the last turns of their warm-up, and let go after their last step: perfgate's way

so a pair's difference is error in both. What `--out` holds already is gone on with, and shown alone where there are as
many pairs. Needs nsys, a quiet machine, and a GPU; without one the loop runs on the CPU,
to try the script. An early pair is made by a line at the top of the loop's file; perfgate itself knows one way only.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean, median, stdev
from typing import Final

from scipy.stats import chi2

from benchmarks.decision.collect import environment
from perfgate.execute.lab import BLOCK_STEPS, MOST_BLOCKS
from perfgate.execute.running import (
    Bench,
    Measured,
    ReferenceFailed,
    Side,
    measure_pair,
    outlasting_crashes,
)
from perfgate.machine import read_machine
from perfgate.model.errors import PerfgateError
from perfgate.model.metric import Metric
from perfgate.model.settings import Settings
from perfgate.model.workload import Workload
from perfgate.profilers.nsys.command import trace_options
from perfgate.profilers.nsys.tool import find_nsys

LOOPS: Final = Path(__file__).parents[1] / "decision" / "loops.py"
CORE: Final = "PIN_EARLY"
AT_THE_TOP: Final = f"""\
import os
if {CORE!r} in os.environ:
    os.sched_setaffinity(0, {{int(os.environ[{CORE!r}])}})
"""
EARLY, LATE = "early", "late"
ORDER: Final = (EARLY, LATE, LATE, EARLY)
WARMUP: Final = 50
COVERAGE: Final = 0.9


@dataclass(frozen=True, kw_only=True)
class MadePair:
    """One pair: how long it took, s, and the step times of both sides, ms."""

    mode: str
    begins: str
    wall_s: float
    """With export and measuring."""
    runs_s: float
    """Of the longer of both runs."""
    reference_ms: float
    candidate_ms: float
    remarks: tuple[str, ...]

    @property
    def difference(self) -> float:
        """Of the sides' step times, in per cent of logarithms."""
        return 100 * math.log(self.candidate_ms / self.reference_ms)


def prepared(root: Path, loop: str) -> tuple[Bench, Workload]:
    """Write the loop's file, and say how to run it."""
    file = root / "workloads" / "loops.py"
    file.parent.mkdir()
    (root / "pyproject.toml").write_text("[tool.pytest.ini_options]\n", encoding="utf-8")
    file.write_text(AT_THE_TOP + LOOPS.read_text(encoding="utf-8"), encoding="utf-8")
    settings, tool = Settings(), find_nsys(None, os.environ)
    options = trace_options(graph_trace=settings.cuda_graph_trace)
    bench = Bench(
        root=root,
        settings=settings,
        tool=tool,
        machine=read_machine(os.environ, nsys=str(tool.version), nsys_options=options),
        env=environment(),
        python=sys.executable,
        pytest_options=(
            f"--rootdir={root}",
            "--import-mode=importlib",
            "-c",
            str(root / "pyproject.toml"),
        ),
    )
    source = "workloads/loops.py"
    return bench, Workload(
        id=loop, source=source, nodeid=f"{source}::{loop}", steps=60, warmup=WARMUP
    )


def mode(number: int) -> str:
    """How pair `number` is pinned: early, late, late, early, so that a drift hits both alike."""
    return ORDER[number % len(ORDER)]


def begins(number: int) -> Side:
    """Which side of pair `number` begins; each does as often in either mode."""
    return "candidate" if number // len(ORDER) % 2 else "reference"


def make_pair(
    bench: Bench, workload: Workload, number: int, *, core: int, bouts: int = MOST_BLOCKS
) -> MadePair:
    """Make pair `number`."""
    env = {**bench.env, CORE: str(core)} if mode(number) == EARLY else bench.env
    there = replace(bench, env=env)
    began = time.monotonic()

    def make(fresh: object) -> tuple[Measured, Measured]:
        del fresh
        with tempfile.TemporaryDirectory(prefix="pair-", dir=bench.root) as folder:
            return measure_pair(
                there,
                there,
                workload,
                (Path(folder) / "reference", Path(folder) / "candidate"),
                begins=begins(number),
                bout_steps=BLOCK_STEPS,
                steps=BLOCK_STEPS * bouts,
                core=core,
            )

    reference, candidate = outlasting_crashes(
        make, on_crash=lambda crashed: print(f"again: {crashed}")
    )
    sides = reference.run, candidate.run
    reference_ms, candidate_ms = (run.value(Metric.STEP_MS) or math.nan for run in sides)
    return MadePair(
        mode=mode(number),
        begins=begins(number),
        wall_s=time.monotonic() - began,
        runs_s=max(run.wall_s for run in sides),
        reference_ms=reference_ms,
        candidate_ms=candidate_ms,
        remarks=tuple(
            dict.fromkeys(told for run in sides for told in (*run.complaints, *run.remarks))
        ),
    )


def summary(pairs: Sequence[MadePair]) -> str:
    """One line for each mode; spreads and means in per cent."""
    lines = [
        "| pinned | pairs | wall of a pair, s (least to most) | step, ms | SD of the difference, % (90 %) | mean, % |"
    ]
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name in (EARLY, LATE):
        made = [pair for pair in pairs if pair.mode == name]
        if len(made) < 2:
            continue
        walls = sorted(pair.wall_s for pair in made)
        told = [pair.difference for pair in made]
        spread, df = stdev(told), len(told) - 1
        low, high = (
            spread * math.sqrt(df / chi2.ppf(p, df))
            for p in ((1 + COVERAGE) / 2, (1 - COVERAGE) / 2)
        )
        step_ms = median(value for pair in made for value in (pair.reference_ms, pair.candidate_ms))
        wall = f"{median(walls):.1f} ({walls[0]:.1f} to {walls[-1]:.1f})"
        error = spread / math.sqrt(len(told))
        lines.append(
            f"| {name} | {len(made)} | {wall} | {step_ms:.3f} | {spread:.2f} ({low:.2f} to {high:.2f}) "
            f"| {mean(told):+.2f} ± {error:.2f} |"
        )
    return "\n".join(lines)


def load(path: Path) -> tuple[dict[str, object], list[MadePair]]:
    """Return the machine and the pairs that an earlier call has written.

    Raises:
        SystemExit: the file holds no pairs.
    """
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        made = [MadePair(**{**pair, "remarks": tuple(pair["remarks"])}) for pair in told["pairs"]]
        return told["machine"], made
    except (ValueError, KeyError, TypeError) as wrong:
        raise SystemExit(f"{path}: it holds no pairs ({wrong}).") from wrong


def told_machine(bench: Bench) -> dict[str, object]:
    """What is kept of a machine: all that has a part in the times, and which GPU it was not."""
    return {
        **bench.machine.model_dump(mode="json", exclude={"gpus"}),
        "gpus": [gpu.name for gpu in bench.machine.gpus],
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Make pairs both ways, and print what they took and how they differ."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=10, help="each way (default 10)")
    parser.add_argument(
        "--seconds",
        type=float,
        default=500,
        help="no pair is begun that would end later (default 500)",
    )
    parser.add_argument("--loop", choices=("cpu_bound", "gpu_bound"), default="cpu_bound")
    parser.add_argument(
        "--bouts",
        type=int,
        default=MOST_BLOCKS,
        help=f"of each side of a pair (default {MOST_BLOCKS})",
    )
    parser.add_argument(
        "--core",
        type=int,
        default=max(os.sched_getaffinity(0)),
        help="default: the last allowed one",
    )
    parser.add_argument(
        "--out", type=Path, help="write the pairs there, as JSON, after each of them; read first"
    )
    given = parser.parse_args(argv)
    ends = time.monotonic() + given.seconds
    machine, pairs = load(given.out) if given.out is not None and given.out.exists() else (None, [])
    if len(pairs) >= 2 * given.pairs:
        print(summary(pairs))
        return
    with tempfile.TemporaryDirectory(prefix="perfgate-pinning-") as folder:
        bench, workload = prepared(Path(folder), given.loop)
        if machine not in (None, told_machine(bench)):
            raise SystemExit(
                f"{given.out}: its pairs were made on another machine; give another file."
            )
        longest = max((pair.wall_s for pair in pairs), default=0.0)
        for number in range(len(pairs), 2 * given.pairs):
            if time.monotonic() + longest > ends:
                print(f"the time is up after {number} of {2 * given.pairs} pairs")
                break
            try:
                pair = make_pair(bench, workload, number, core=given.core, bouts=given.bouts)
            except (PerfgateError, ReferenceFailed) as failed:
                print(f"{mode(number)}: came to nothing: {failed}", flush=True)
                continue
            longest = max(longest, pair.wall_s)
            pairs.append(pair)
            print(
                f"{pair.mode}: {pair.wall_s:.1f} s, {pair.difference:+.2f} % {'; '.join(pair.remarks)}",
                flush=True,
            )
            if given.out is not None:
                told = {"machine": told_machine(bench), "pairs": [asdict(made) for made in pairs]}
                given.out.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    print(summary(pairs))


if __name__ == "__main__":
    main()
