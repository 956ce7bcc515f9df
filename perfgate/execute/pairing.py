"""What the two runs of an interleaved pair differ by, from block to block; knows no budget and no
other pair."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import combinations_with_replacement
from statistics import fmean, median
from typing import Final

from perfgate.model.metric import Metric
from perfgate.model.sample import BlockSample, Run

FEWEST_NEIGHBOURS: Final = 5
"""Three blocks of either side have so many; of fewer, one disturbed block would spoil half."""


def in_noise_of(reference: Run, run: Run) -> Run:
    """The candidate's run of a pair, with its steps and idle time as if both sides had met the same
    host noise.

    Each block is compared with the other side's just before it and just after it. The middle of
    these differences (ratios of `step_ms`, ms of `gap_ms`) is put on top of what the reference's
    run took: the median of the means of any two of them, each with itself too (Hodges and Lehmann
    1963). Of `step_mean_ms`, which is to show what falls in few blocks, it is their mean.

    ```
    begins      |-0-|     |-1-|     |-2-|   neighbours: 0 and 0, 0 and 1, 1 and 1, 1 and 2, 2 and 2
    the other        |-0-|     |-1-|     |-2-|
    ```

    Noise that changes between two blocks spoils the neighbours there, and no others; the medians of
    both runs may be of different noise. Measured on a host whose cores had two speeds:
    `benchmarks/host-noise`.

    Whatever else was measured stays as it is, as does all of it where there are too few blocks.
    """
    neighbours = _in_order(reference, run)
    if not neighbours:
        return run
    steps = _ratios([(there.step_ms, here.step_ms) for there, here in neighbours])
    means = _ratios([(there.mean_ms, here.mean_ms) for there, here in neighbours])
    gaps = _enough(
        here.gap_ms - there.gap_ms
        for there, here in neighbours
        if there.gap_ms is not None and here.gap_ms is not None
    )
    there, values = reference.processes[0].values, dict(run.processes[0].values)
    known = there.keys() & values.keys()
    if steps and Metric.STEP_MS in known:
        values[Metric.STEP_MS] = there[Metric.STEP_MS] * math.exp(_middle(steps))
    if means and Metric.STEP_MEAN_MS in known:
        values[Metric.STEP_MEAN_MS] = there[Metric.STEP_MEAN_MS] * math.exp(fmean(means))
    if gaps and Metric.GAP_MS in known:
        values[Metric.GAP_MS] = max(0.0, there[Metric.GAP_MS] + _middle(gaps))
    process = run.processes[0].model_copy(update={"values": values})
    return run.model_copy(update={"processes": (process,)})


def _in_order(reference: Run, run: Run) -> list[tuple[BlockSample, BlockSample]]:
    """Neighbouring blocks, the reference's first; none unless both runs are of one process and took
    turns."""
    if (
        len(reference.processes) != 1
        or len(run.processes) != 1
        or {reference.begins, run.begins} != {True, False}
    ):
        return []
    theirs, own = (
        {2 * block.number + (0 if side.begins else 1): block for block in side.processes[0].blocks}
        for side in (reference, run)
    )
    return [
        (theirs[neighbour], own[place])
        for place in own
        for neighbour in (place - 1, place + 1)
        if neighbour in theirs
    ]


def _ratios(sides: Iterable[tuple[float | None, float | None]]) -> list[float]:
    """Logarithms of the candidate's time over the reference's, where both are known and not 0."""
    return _enough(math.log(here) - math.log(there) for there, here in sides if there and here)


def _enough(differences: Iterable[float]) -> list[float]:
    """What neighbours differ by, where that is known of enough of them."""
    found = list(differences)
    return found if len(found) >= FEWEST_NEIGHBOURS else []


def _middle(differences: Iterable[float]) -> float:
    pairs = combinations_with_replacement(differences, 2)
    return median((one + other) / 2 for one, other in pairs)
