"""The evidence behind the decision rule, by one command: simulated gates, and real ones kept as numbers.

    python -m benchmarks.decision [simulate | measured | all | render] [--quick] [--gates 2000] [--out FOLDER]

`simulate` draws workloads and gates them, `measured` judges the gates in h200.json; each replaces its own part of
results.json. RESULTS.md, results.csv and power.svg are then written anew from it, which is all that `render` does.
Needs no GPU, but `pip install -e '.[bench]'`; 2000 gates a cell of five populations took 65 minutes of two cores (there
are six now). Exits 1 where a full simulation misses a target.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Final

import perfgate
from benchmarks.decision import results as found
from benchmarks.decision.measured import judge_recording, tell_recording
from benchmarks.decision.measured import load as load_recording
from benchmarks.decision.peers import PEERS, versions
from benchmarks.decision.picture import svg
from benchmarks.decision.populations import SEED
from benchmarks.decision.simulate import simulate
from benchmarks.decision.table import PICTURE, markdown, misses

HERE: Final = Path(__file__).resolve().parent
RECORDING: Final = HERE / "h200.json"
GATES: Final = 2000
QUICK_GATES: Final = 4
"""A cell: enough to see that all of it runs, and for nothing else."""


def main(argv: Sequence[str] | None = None) -> int:
    """Do what is asked, write the files, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.decision", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("what", nargs="?", choices=("simulate", "measured", "all", "render"), default="all")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_GATES} gates a cell: a smoke test, no evidence")
    parser.add_argument("--gates", type=int, default=GATES, help="a cell; twice as many where nothing got slower")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--recording", type=Path, default=RECORDING, help="real gates, for `measured`")
    parser.add_argument("--out", type=Path, default=HERE, help="folder of the results")
    chosen = parser.parse_args(argv)
    if chosen.quick and chosen.out.resolve() == HERE:
        parser.error("--quick makes no evidence: give it another folder by --out")
    if chosen.what == "measured" and not chosen.recording.exists():
        parser.error(f"there are no real gates: {chosen.recording} is not there")
    gates = QUICK_GATES if chosen.quick else chosen.gates
    results = found.load(chosen.out / "results.json")
    told = {"perfgate": perfgate.__version__, "python": python_version(), "numpy": version("numpy"), **versions()}
    if chosen.what in ("simulate", "all"):
        began = time.perf_counter()
        cells = simulate(gates, processes=chosen.processes)
        print(f"simulated {sum(cell.gates for cell in cells)} judgements in {time.perf_counter() - began:.0f} s")
        simulated = found.Simulated(versions=told, seed=SEED, gates=gates, cells=tuple(cells))
        results = results.model_copy(update={"simulated": simulated})
    if chosen.what in ("measured", "all"):
        if chosen.recording.exists():
            recording = load_recording(chosen.recording)
            measured = found.Measured(
                versions=told,
                machine=recording.machine,
                remarks=recording.remarks,
                found=tuple(judge_recording(recording, PEERS)),
                told=tuple(tell_recording(recording)),
            )
            results = results.model_copy(update={"measured": measured})
        else:
            print(f"no real gates: {chosen.recording.name} is not there")
    chosen.out.mkdir(parents=True, exist_ok=True)
    _write(chosen.out, results)
    if results.simulated is None or chosen.quick or chosen.what in ("measured", "render"):
        return 0
    missed = misses(results.simulated)
    for miss in missed:
        print(f"MISSED {miss}")
    return 1 if missed else 0


def _write(out: Path, results: found.Results) -> None:
    files = {
        "results.json": found.as_json(results),
        "results.csv": found.as_csv(results),
        "RESULTS.md": markdown(results),
    }
    if results.simulated is not None:
        files[PICTURE] = svg(results.simulated)
    for name, text in files.items():
        (out / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
