"""What the two runs of an interleaved pair differ by, from block to block; knows no budget and no
other pair."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations_with_replacement
from statistics import fmean, median
from typing import Final

from perfgate.model.metric import Metric
from perfgate.model.sample import BlockSample, Run

FEWEST_NEIGHBOURS: Final = 5
"""Three blocks of either side have so many; of fewer, one disturbed block would spoil half."""
_FARTHEST_LOG: Final = 700.0
"""exp() of more than this is no double."""

_Differ = Callable[[BlockSample, BlockSample], float | None]
"""What a block of the candidate differs by from one of the reference; None where that has no
meaning."""


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
    there, values = reference.processes[0].values, dict(run.processes[0].values)
    means = _differences(neighbours, _log_ratio_of_means)
    ratios = {
        Metric.STEP_MS: _middle(_differences(neighbours, _log_ratio)),
        Metric.STEP_MEAN_MS: fmean(means) if means else None,
    }
    for metric, ratio in ratios.items():
        is_known = metric in there and metric in values
        if is_known and ratio is not None and abs(ratio) < _FARTHEST_LOG:
            values[metric] = there[metric] * math.exp(ratio)
    longer = _middle(_differences(neighbours, _longer_gap))
    if longer is not None and Metric.GAP_MS in there and Metric.GAP_MS in values:
        values[Metric.GAP_MS] = max(0.0, there[Metric.GAP_MS] + longer)
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


def _differences(neighbours: list[tuple[BlockSample, BlockSample]], differ: _Differ) -> list[float]:
    """What neighbours differ by, where that is known of enough of them."""
    found = [one for there, here in neighbours if (one := differ(there, here)) is not None]
    return found if len(found) >= FEWEST_NEIGHBOURS else []


def _middle(differences: list[float]) -> float | None:
    pairs = combinations_with_replacement(differences, 2)
    return median([(one + other) / 2 for one, other in pairs]) if differences else None


def _log_ratio(there: BlockSample, here: BlockSample) -> float | None:
    return _log_of_ratio(there.step_ms, here.step_ms)


def _log_ratio_of_means(there: BlockSample, here: BlockSample) -> float | None:
    if there.mean_ms is None or here.mean_ms is None:
        return None
    return _log_of_ratio(there.mean_ms, here.mean_ms)


def _log_of_ratio(there: float, here: float) -> float | None:
    return math.log(here) - math.log(there) if there > 0 and here > 0 else None


def _longer_gap(there: BlockSample, here: BlockSample) -> float | None:
    return None if there.gap_ms is None or here.gap_ms is None else here.gap_ms - there.gap_ms
