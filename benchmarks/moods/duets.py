"""Read interleaved duets that gates made and print, as Markdown, how well each estimator repeats from pair to pair.

    python -m benchmarks.moods.duets benchmarks/moods/h200-two-speeds.npz

The file has a row a pair: `gate` it was made in, `reference_begins`, and the periods of either side in us, bout after
bout (`bout_periods` of each, in `info`). All pairs of a gate compare the same two codes, so how an estimate differs
from its gate's median is error, in per cent, of logs; what the truth was nobody needs to know.
"""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.moods.analyse import ESTIMATORS, Estimator, Floats, median, percent, sd, table

JUDGED: Final[Estimator] = next(one for one in ESTIMATORS if one.name == "HL of neighbours")
"""perfgate's own."""
SHOWN_BOUTS: Final = (4, 6, 8, 10, 12, 14)


def in_turns(periods: Floats, lengths: list[int]) -> Floats:
    """Periods of one side as (bouts, k): the last k of each, as many as the shortest has."""
    ends = np.cumsum(lengths)
    k = min(lengths)
    return np.array([periods[end - k : end] for end in ends])


def estimate(
    estimator: Estimator, reference: Floats, candidate: Floats, *, reference_begins: bool
) -> float:
    """Candidate over reference; the estimator sees the side that began as its first."""
    if reference_begins:
        return estimator.ratio(reference, candidate)
    return -estimator.ratio(candidate, reference)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
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
    bouts = (
        np.concatenate(
            [np.median(side, axis=1) for pair in zip(*sides, strict=True) for side in pair]
        )
        / 1000
    )
    told = ", ".join(
        f"{quantile:.0%}: {np.quantile(bouts, quantile):.2f}"
        for quantile in (0.05, 0.25, 0.5, 0.75, 0.95)
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
        sizes = (
            float(np.sqrt(np.mean(errors**2))),
            1.4826 * median(np.abs(errors)),
            *map(sd, of_gates),
        )
        rows.append((estimator.name, *map(percent, sizes)))
    head = ["estimate of a pair", "root mean square", "1.48 x median size"]
    print(table([*head, *(f"SD, gate {gate + 1}" for gate in numbers)], rows))
    print(f"\nBy the first bouts of each side, {JUDGED.name}\n")
    print(
        table(
            ["bouts", "root mean square", "1.48 x median size", "of it noise of the bouts"],
            by_bouts(sides, gates, begins),
        )
    )


def by_bouts(sides: list[list[Floats]], gates: Floats, begins: Floats) -> list[tuple[str, ...]]:
    """How the error falls with the number of bouts, and what of it two halves of a pair's bouts do not share."""

    def found(first: int, last: int) -> Floats:
        return np.array(
            [
                estimate(
                    JUDGED, reference[first:last], candidate[first:last], reference_begins=bool(one)
                )
                for reference, candidate, one in zip(*sides, begins, strict=True)
            ]
        )

    rows = []
    for number in (
        bouts
        for bouts in SHOWN_BOUTS
        if bouts <= min(len(side) for side in itertools.chain(*sides))
    ):
        whole, halves = found(0, number), found(0, number // 2) - found(number // 2, number)
        errors = np.concatenate(
            [whole[gates == gate] - median(whole[gates == gate]) for gate in np.unique(gates)]
        )
        robust, noise = (1.4826 * median(np.abs(one)) for one in (errors, halves / 2))
        rows.append(
            (str(number), *map(percent, (float(np.sqrt(np.mean(errors**2))), robust, noise)))
        )
    return rows


if __name__ == "__main__":
    main()
