"""Read interleaved duets that gates made and print, as Markdown, how well each estimator repeats from pair to pair.

    python -m benchmarks.moods.duets benchmarks/moods/h200-two-speeds.npz

The file has a row a pair: `gate` it was made in, `reference_begins`, and the periods of either side in us, bout after
bout (`bout_periods` of each, in `info`). All pairs of a gate compare the same two codes, so how an estimate differs
from its gate's median is error, in per cent, of logs; what the truth was nobody needs to know.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from benchmarks.moods.analyse import ESTIMATORS, Estimator, Floats, median, percent, sd, table


def in_turns(periods: Floats, lengths: list[int]) -> Floats:
    """Periods of one side as (bouts, k): the last k of each, as many as the shortest has."""
    ends = np.cumsum(lengths)
    k = min(lengths)
    return np.array([periods[end - k : end] for end in ends])


def estimate(estimator: Estimator, reference: Floats, candidate: Floats, *, reference_begins: bool) -> float:
    """Candidate over reference; the estimator sees the side that began as its first."""
    if reference_begins:
        return estimator.ratio(reference, candidate)
    return -estimator.ratio(candidate, reference)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    with np.load(parser.parse_args().file) as file:
        info = json.loads(str(file["info"]))
        gates, begins = file["gate"], file["reference_begins"]
        sides = [
            [in_turns(row.astype(float), info["bout_periods"]) for row in file[name]]
            for name in ("reference_us", "candidate_us")
        ]
    numbers = sorted(set(gates.tolist()))
    print(f"{info['machine']}\n{info['settings']}\n{len(gates)} pairs of {len(numbers)} gates\n")
    bouts = np.concatenate([np.median(side, axis=1) for pair in zip(*sides, strict=True) for side in pair]) / 1000
    told = ", ".join(
        f"{quantile:.0%}: {np.quantile(bouts, quantile):.2f}" for quantile in (0.05, 0.25, 0.5, 0.75, 0.95)
    )
    print(f"Steps of all bouts, ms: {told}\n")
    rows = []
    for estimator in ESTIMATORS:
        found = np.array(
            [
                estimate(estimator, reference, candidate, reference_begins=bool(first))
                for reference, candidate, first in zip(*sides, begins, strict=True)
            ]
        )
        of_gates = [found[gates == number] for number in numbers]
        errors = np.concatenate([of_gate - median(of_gate) for of_gate in of_gates])
        sizes = (float(np.sqrt(np.mean(errors**2))), 1.4826 * median(np.abs(errors)), *map(sd, of_gates))
        rows.append((estimator.name, *map(percent, sizes)))
    head = ["estimate of a pair", "root mean square", "1.48 x median size"]
    print(table([*head, *(f"SD, gate {gate + 1}" for gate in numbers)], rows))


if __name__ == "__main__":
    main()
