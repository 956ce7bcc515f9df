"""The peers' own code, given the step times of runs: pytest-benchmark, asv, and two textbook tests
through SciPy.

Nothing is reimplemented here; only the values are handed over as the tool would have them. A run
(one process) is one round of pytest-benchmark and one sample of asv.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from multiprocessing import Pool
from typing import Final, cast

import numpy as np
from asv.commands.compare import (
    _is_result_better,
)  # what `asv compare` and `asv continuous` print "+" by
from asv_runner.statistics import compute_stats
from pytest_benchmark.stats import Stats
from pytest_benchmark.utils import parse_compare_fail
from scipy.stats import mannwhitneyu, ttest_ind

from benchmarks.decision.populations import MORE, MOST_ALONE, POPULATIONS, Change, Population, World
from benchmarks.decision.simulate import CURVE, DRAWN, IDLE, UNCHANGED, PeerCell
from perfgate.model.metric import Metric

ALPHA: Final = 0.01
"""Of the textbook tests, one-sided: what perfgate allows a whole gate."""
Rule = Callable[[Sequence[float], Sequence[float]], bool]
"""Whether step times in ms, before and after, are called slower."""


@dataclass(frozen=True, kw_only=True)
class Peer:
    """One tool with one setting."""

    name: str
    slower: Rule
    alongside: bool = False
    """Whether the baseline's commit is run again next to the candidate, and stored runs are left
    alone."""


def _pytest_benchmark(option: str) -> Rule:
    """What `--benchmark-compare-fail=OPTION` fails by, in seconds as there."""
    check = parse_compare_fail(option)

    def slower(before: Sequence[float], after: Sequence[float]) -> bool:
        then, now = Stats(), Stats()
        for stats, values in ((then, before), (now, after)):
            for value in values:
                stats.update(value / 1000)
        field = str(check.field)
        return check.fails({field: getattr(now, field)}, {field: getattr(then, field)}) is not None

    return slower


def _asv(factor: float, *, record_samples: bool) -> Rule:
    """What `asv continuous --factor FACTOR` calls worse; it keeps no samples unless asked to record
    them."""

    def slower(before: Sequence[float], after: Sequence[float]) -> bool:
        sides = [[value / 1000 for value in values] for values in (before, after)]
        (then, then_stats), (now, now_stats) = (compute_stats(values, 1) for values in sides)
        samples = sides if record_samples else (None, None)
        return cast(
            "bool",
            _is_result_better(then, now, (then_stats, samples[0]), (now_stats, samples[1]), factor),
        )

    return slower


def _welch(before: Sequence[float], after: Sequence[float]) -> bool:
    """Welch's t-test of the logarithms."""
    then, now = np.log(before), np.log(after)
    p = float(ttest_ind(now, then, equal_var=False, alternative="greater").pvalue)
    return not math.isnan(p) and p <= ALPHA


def _mann_whitney(before: Sequence[float], after: Sequence[float]) -> bool:
    return bool(mannwhitneyu(after, before, alternative="greater").pvalue <= ALPHA)


_RULES: Final[tuple[tuple[str, Rule], ...]] = (
    ("pytest-benchmark median:5%", _pytest_benchmark("median:5%")),
    ("pytest-benchmark median:2%", _pytest_benchmark("median:2%")),
    ("asv continuous, factor 1.1", _asv(1.1, record_samples=False)),
    ("asv continuous, factor 1.02, samples", _asv(1.02, record_samples=True)),
    ("Welch 1 %", _welch),
    ("Mann-Whitney 1 %", _mann_whitney),
)
PAIRS_ALONGSIDE: Final = 8

PEERS: Final = (
    *(Peer(name=name, slower=rule) for name, rule in _RULES),
    *(Peer(name=f"{name}, 8 + 8 runs", slower=rule, alongside=True) for name, rule in _RULES[2:]),
)


def judge(population: Population, change: Change, *, gates: int) -> list[PeerCell]:
    """Judge the step times of simulated gates: 5 blessed runs and 10 of the candidate, or fresh
    ones of both."""
    world = World(population=population, gates=gates, change=change)
    stored = world.blessed, world.alone(MOST_ALONE)
    fresh = world.pairs(after=0, in_blocks=False)
    found: list[PeerCell] = []
    for peer in PEERS:
        sides = [side[Metric.STEP_MS] for side in (fresh if peer.alongside else stored)]
        if peer.alongside:
            sides = [side[:, :PAIRS_ALONGSIDE] for side in sides]
        slower = sum(
            peer.slower(before.tolist(), after.tolist())
            for before, after in zip(*sides, strict=True)
        )
        found.append(
            PeerCell(
                peer=peer.name,
                change=str(change),
                population=population.name,
                gates=gates,
                slower=slower,
            )
        )
    return found


def simulate(*, gates: int, processes: int = 2) -> list[PeerCell]:
    """Judge what the goals ask of perfgate, and what is drawn: every population, unchanged and
    slower."""
    drawn = [population for population in (*POPULATIONS, *MORE) if population.name in DRAWN]
    tasks = {
        (change, population.name): population
        for change in (UNCHANGED, *IDLE)
        for population in POPULATIONS
    }
    tasks |= {
        (change, population.name): population
        for change in (UNCHANGED, *CURVE)
        for population in drawn
    }
    with Pool(processes) as pool:
        found = pool.starmap(
            partial(judge, gates=gates), [(of, change) for (change, _), of in tasks.items()], 1
        )
    return [cell for cells in found for cell in cells]


def versions() -> dict[str, str]:
    """Of what the rules are made of."""
    return {name: version(name) for name in ("pytest-benchmark", "asv", "asv_runner", "scipy")}
