"""The evidence behind the decision rule, by one command: simulated gates, and real ones kept as
numbers.

    python -m benchmarks.decision [simulate | measured | all | render] [--quick] [--out FOLDER]

`simulate` draws workloads and gates them, `measured` judges the gates in h200.json; each replaces
its own part of results.json. RESULTS.md and power.svg are then written anew from it, which is all
that `render` does. Needs no GPU, but `pip install -e '.[bench]'`; it took 12 minutes of two busy
cores. `--quick` prints the goals' table of a fifth of the gates, without peers, and writes nothing:
for trying what a rule is good for. Exits 1 where the simulation misses a goal.
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
from benchmarks.decision import peers
from benchmarks.decision import results as found
from benchmarks.decision.goals import Cells, missed
from benchmarks.decision.measured import judge_recording, summarise
from benchmarks.decision.measured import load as load_recording
from benchmarks.decision.picture import svg
from benchmarks.decision.populations import SEED
from benchmarks.decision.simulate import Cell, simulate
from benchmarks.decision.table import PICTURE, goals_table, markdown

HERE: Final = Path(__file__).resolve().parent
QUICK: Final = 0.2
"""Share of the gates."""
GATES_OF_PEERS: Final = 1000


def main(argv: Sequence[str] | None = None) -> int:
    """Do what is asked, write the files, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.decision", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument(
        "what", nargs="?", choices=("simulate", "measured", "all", "render"), default="all"
    )
    parser.add_argument(
        "--quick", action="store_true", help=f"simulate {QUICK:.0%} of the gates, write nothing"
    )
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--recording", type=Path, default=HERE / "h200.json", help="real gates, for `measured`"
    )
    parser.add_argument("--out", type=Path, default=HERE, help="folder of the results")
    chosen = parser.parse_args(argv)
    if chosen.quick:
        return _goals(_simulated(QUICK, chosen.processes))
    results = found.load(chosen.out / "results.json")
    made_with = {
        "perfgate": perfgate.__version__,
        "python": python_version(),
        "numpy": version("numpy"),
        **peers.versions(),
    }
    if chosen.what in ("simulate", "all"):
        cells = _simulated(1.0, chosen.processes)
        of_peers = peers.simulate(gates=GATES_OF_PEERS, processes=chosen.processes)
        simulated = found.Simulated(
            versions=made_with, seed=SEED, cells=tuple(cells), peers=tuple(of_peers)
        )
        results = results.model_copy(update={"simulated": simulated})
    if chosen.what in ("measured", "all"):
        recording = load_recording(chosen.recording)
        measured = found.Measured(
            versions=made_with,
            machine=recording.machine,
            notes=recording.notes,
            found=tuple(judge_recording(recording, peers.PEERS)),
            summaries=tuple(summarise(recording)),
        )
        results = results.model_copy(update={"measured": measured})
    _write(chosen.out, results)
    return (
        _goals(results.simulated.cells)
        if results.simulated is not None and chosen.what != "measured"
        else 0
    )


def _simulated(share: float, processes: int) -> list[Cell]:
    began = time.perf_counter()
    cells = simulate(share=share, processes=processes)
    print(
        f"simulated {sum(cell.gates for cell in cells)} gates in "
        f"{time.perf_counter() - began:.0f} s"
    )
    return cells


def _goals(found_cells: Sequence[Cell]) -> int:
    cells = Cells(found_cells)
    print("\n".join(goals_table(cells)))
    return 1 if missed(cells) else 0


def _write(out: Path, results: found.Results) -> None:
    files = {
        "results.json": found.as_json(results),
        "RESULTS.md": markdown(results),
    }
    if results.simulated is not None:
        files[PICTURE] = svg(results.simulated)
    out.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (out / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
