"""The peers' own code, given the step times of runs: pytest-benchmark, asv, and two textbook tests through SciPy.

Nothing is reimplemented here; only the values are handed over as the tool would have them. A run (one process) is one
round of pytest-benchmark and one sample of asv.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final, cast

import numpy as np
from asv.commands.compare import _is_result_better  # what `asv compare` and `asv continuous` print "+" by
from asv_runner.statistics import compute_stats
from pytest_benchmark.stats import Stats
from pytest_benchmark.utils import parse_compare_fail
from scipy.stats import mannwhitneyu, ttest_ind

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
    """Whether the baseline's commit is run again beside the candidate, and stored runs are left alone."""


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
    """What `asv continuous --factor FACTOR` calls worse; it keeps no samples unless told to record them."""

    def slower(before: Sequence[float], after: Sequence[float]) -> bool:
        sides = [[value / 1000 for value in values] for values in (before, after)]
        (then, then_stats), (now, now_stats) = (compute_stats(values, 1) for values in sides)
        samples = sides if record_samples else (None, None)
        return cast("bool", _is_result_better(then, now, (then_stats, samples[0]), (now_stats, samples[1]), factor))

    return slower


def _welch(before: Sequence[float], after: Sequence[float]) -> bool:
    """Welch's t-test of the logarithms."""
    then, now = np.log(before), np.log(after)
    p = float(ttest_ind(now, then, equal_var=False, alternative="greater").pvalue)
    return not math.isnan(p) and p <= ALPHA


def _mann_whitney(before: Sequence[float], after: Sequence[float]) -> bool:
    return bool(mannwhitneyu(after, before, alternative="greater").pvalue <= ALPHA)


_RULES: Final[tuple[tuple[str, Rule], ...]] = (
    *((f"pytest-benchmark {option}", _pytest_benchmark(option)) for option in ("mean:5%", "median:5%", "min:5%")),
    *((f"pytest-benchmark {option}", _pytest_benchmark(option)) for option in ("median:2%", "min:2%", "min:1%")),
    ("asv continuous, factor 1.1", _asv(1.1, record_samples=False)),
    ("asv continuous, factor 1.02", _asv(1.02, record_samples=False)),
    ("asv continuous, factor 1.02, samples", _asv(1.02, record_samples=True)),
    ("asv continuous, factor 1.01, samples", _asv(1.01, record_samples=True)),
    ("Welch 1 %", _welch),
    ("Mann-Whitney 1 %", _mann_whitney),
)
_ALONGSIDE: Final = (
    "asv continuous, factor 1.02, samples",
    "asv continuous, factor 1.01, samples",
    "Welch 1 %",
    "Mann-Whitney 1 %",
)
"""Those that can be had with both commits run in one gate, as `asv continuous` does."""

PEERS: Final = (
    *(Peer(name=name, slower=rule) for name, rule in _RULES),
    *(Peer(name=f"{name}, 8 + 8 runs", slower=rule, alongside=True) for name, rule in _RULES if name in _ALONGSIDE),
)


def versions() -> dict[str, str]:
    """Of what the rules are made of."""
    return {name: version(name) for name in ("pytest-benchmark", "asv", "asv_runner", "scipy")}
