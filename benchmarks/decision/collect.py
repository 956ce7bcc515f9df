"""Makes real gates of a loop on this machine's GPU, unchanged and with a planted slowdown, and records them.

    python -m benchmarks.decision.collect gpu_bound OUT.json --seconds 540 --phase 0

In a scratch repository of its own: a baseline of 10 runs is measured and blessed, then one gate after another
(`pytest --perfgate`, as a user starts it) until the time is up, each with its slowdown written into the working tree,
in turn 0, 1, 0, 2 and 3 %. Several may run at once, each with a GPU (`CUDA_VISIBLE_DEVICES`) and cores (`taskset`) of
its own; `merge OUT.json PART.json ...` makes one file of theirs.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.decision.measured import (
    Kind,
    RecordedGate,
    RecordedLoop,
    Recording,
    blessings_of,
    gate_of,
    load,
    save,
)
from perfgate.machine import read_machine
from perfgate.model.baseline import Baseline
from perfgate.model.metric import Metric
from perfgate.store import Store

LOOPS: Final = Path(__file__).with_name("loops.py")
KINDS: Final = {"gpu_bound": Kind.GPU_BOUND, "cpu_bound": Kind.CPU_BOUND}
CYCLE: Final = (0.0, 0.01, 0.0, 0.02, 0.03)
"""Slowdowns in turn: as many unchanged gates as of two slowdowns together."""
BLESSED_RUNS: Final = 10
CYCLES_PER_MS: Final = 1_980_000
"""Of an H200's SM clock, 1980 MHz; what a slowdown really was is in the recorded kernel times."""


class Project:
    """A scratch repository with one loop in it."""

    def __init__(self, root: Path, loop: str) -> None:
        self.root = root
        self.loop = loop
        self._file = root / "workloads" / "loops.py"
        self._file.parent.mkdir()
        (root / "pyproject.toml").write_text("[tool.perfgate]\n", encoding="utf-8")
        (root / ".gitignore").write_text(".perfgate/\n__pycache__/\n", encoding="utf-8")
        self._file.write_text(LOOPS.read_text(encoding="utf-8"), encoding="utf-8")
        self._git("init", "-q")
        self.commit("loops")

    def commit(self, message: str) -> None:
        """Commit all that is there."""
        self._git("add", "-A")
        self._git("-c", "user.name=bench", "-c", "user.email=bench@localhost", "commit", "-q", "-m", message)

    def plant(self, *, cycles: int = 100, spins: int = 0) -> None:
        """Write the constants of a slowdown into the working tree."""
        text = LOOPS.read_text(encoding="utf-8")
        text = re.sub(r"^SLEEP_CYCLES = .*$", f"SLEEP_CYCLES = {cycles}", text, flags=re.MULTILINE)
        text = re.sub(r"^SPINS = .*$", f"SPINS = {spins}", text, flags=re.MULTILINE)
        self._file.write_text(text, encoding="utf-8")

    def gate(self, *options: str) -> str:
        """Run one gate, and return what it printed."""
        command = [sys.executable, "-m", "pytest", "--perfgate", "-k", self.loop, *options]
        done = subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    def bless(self) -> Baseline:
        """Bless what was kept, commit it, and return it."""
        command = [sys.executable, "-c", "from perfgate.cli import main; main()", "bless", "--reason", "unchanged"]
        subprocess.run(command, cwd=self.root, check=True, capture_output=True)
        self.commit("bless")
        store = Store(self.root, "baselines")
        (listed,) = store.baselines()
        if not isinstance(listed.found, Baseline):
            raise listed.found
        return listed.found

    def latest(self, slowdown: float) -> RecordedGate:
        """The gate that was made last."""
        kept = Store(self.root, "baselines").latest_result(self.loop)
        if kept is None:
            raise SystemExit(f"{self.loop}: the gate kept no result")
        return gate_of(kept.result, slowdown=slowdown, interleaved=kept.result.interleaved_runs)

    def _git(self, *words: str) -> None:
        subprocess.run(["git", *words], cwd=self.root, check=True)


def spins_per_ms() -> float:
    """How many turns of an empty loop this CPU takes in a ms, under the best of several tries."""
    turns = 200_000
    best = float("inf")
    for _ in range(15):
        began = time.perf_counter()
        for _ in range(turns):
            pass
        best = min(best, time.perf_counter() - began)
    return turns / best / 1000


def collect(loop: str, out: Path, *, seconds: float, phase: int, log: Path | None) -> None:
    """Bless a baseline, then make gates until `seconds` are over; `out` holds all so far after each of them."""
    ends = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="perfgate-gates-") as folder:
        project = Project(Path(folder), loop)
        said = project.gate(f"--perfgate-runs={BLESSED_RUNS}")
        try:
            baseline = project.bless()
        except subprocess.CalledProcessError as refused:
            raise SystemExit(f"{said}\n{refused.stderr.decode()}") from refused
        step_ms = median(baseline.values(Metric.STEP_MS))
        per_ms = spins_per_ms()
        gates: list[RecordedGate] = []
        longest = 0.0
        while time.monotonic() + longest < ends:
            slowdown = CYCLE[(phase + len(gates)) % len(CYCLE)]
            more_ms = slowdown * step_ms
            if KINDS[loop] is Kind.GPU_BOUND:
                project.plant(cycles=100 + round(more_ms * CYCLES_PER_MS))
            else:
                project.plant(spins=round(more_ms * per_ms))
            began = time.monotonic()
            said = project.gate()
            longest = max(longest, time.monotonic() - began)
            gates.append(project.latest(slowdown))
            print(f"{loop} +{slowdown:.0%}: {gates[-1].outcome}, {gates[-1].runs} runs", flush=True)
            if log is not None:
                with log.open("a", encoding="utf-8") as file:
                    file.write(f"== {loop} +{slowdown:.0%}\n{said}\n")
            save(_recording(loop, baseline, gates), out)


def _recording(loop: str, baseline: Baseline, gates: Sequence[RecordedGate]) -> Recording:
    machine = read_machine(os.environ, nsys=baseline.machine.nsys, nsys_options=baseline.machine.nsys_options)
    return Recording(
        machine={
            "GPU": machine.gpu_name,
            "driver": str(machine.driver),
            "CPU": f"{machine.cpu}, {len(os.sched_getaffinity(0))} cores",
            "torch": str(baseline.machine.torch),
            "nsys": str(baseline.machine.nsys),
        },
        loops=(RecordedLoop(name=loop, kind=KINDS[loop], baseline=blessings_of(baseline), gates=tuple(gates)),),
    )


def merge(recordings: Sequence[Recording]) -> Recording:
    """One recording of several; each keeps its own baseline, since that was measured on another GPU."""
    machines = {tuple(sorted(recording.machine.items())) for recording in recordings}
    loops = [loop for recording in recordings for loop in recording.loops]
    remarks = tuple(dict.fromkeys(remark for recording in recordings for remark in recording.remarks))
    if len(machines) > 1:
        remarks = (*remarks, f"The machines differ: {sorted(machines)}.")
    return Recording(machine=recordings[0].machine, remarks=remarks, loops=tuple(loops))


def main() -> None:
    """Collect or merge, as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("loop", choices=[*KINDS, "merge"])
    parser.add_argument("out", type=Path)
    parser.add_argument("parts", type=Path, nargs="*", help="of merge: the recordings")
    parser.add_argument("--seconds", type=float, default=540)
    parser.add_argument("--phase", type=int, default=0, help="where in the cycle of slowdowns to begin")
    parser.add_argument("--log", type=Path, help="write what the gates print there")
    given = parser.parse_args()
    if given.loop == "merge":
        save(merge([load(part) for part in given.parts]), given.out)
        return
    collect(given.loop, given.out, seconds=given.seconds, phase=given.phase, log=given.log)


if __name__ == "__main__":
    main()
