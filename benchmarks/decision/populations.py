"""Simulated workloads: the values of their blessed runs and of one gate's runs; knows no rule that judges them.

The logarithm of a run's step time is a base, plus the occasion's shift, plus run noise, plus, in some runs, a mode or
an outlier:

| population | run SD | occasion SD | outlier runs | modes |
|---|---|---|---|---|
| quiet | 0.3 % | 0.2 % | none | none |
| typical | 0.5 % | 0.5 % | 3 % of runs, +5 to +50 % | none |
| mix | 0.3-2 %, log-uniform by workload | 0.5 % | 3 % of runs, +5 to +50 % | a third of the workloads |
| two speeds | 0.5 % | 0.5 % | none | all, and far apart |
| noisy | 2-5 %, log-uniform by workload | 0.5 % | none | none |
| noisier host | 0.3 % when it was blessed, 3 % in the gate | 0.2 % | none | none |

A baseline is 10 runs, 2 on each of 5 occasions. A gate is one new occasion, with a slow drift: linear in the number of
processes started, SD 0.1 % per 10 of them. Candidate and reference runs of a duet share that occasion and that drift.

What the design's table leaves open was chosen so: outliers and slow modes are drawn run by run, on both sides alike; an
outlier's loss is uniform between its two ends; a bimodal workload's modes lie 1-3 % apart (uniform), 10-60 % in "two
speeds", and each run draws the slow one with a probability that is the workload's own, uniform between 0.2 and 0.8. An
H200's host had cores of such a kind, on which a step took 5.3 or 8.2 ms (`benchmarks/moods`).

The other four gated clocks do not take part in a slowdown. Their noise is their own: the run SD and the occasion SD
that the table of metrics gives them by default, and a drift by the same proportion, each times what the population's
SD of step_ms is to the default of step_ms. So `typical` has every clock at its defaults. What an outlier run loses is
idle time: it is added to gap_ms as well. Modes are in step_ms alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from perfgate.model.metric import METRICS, Basis, ClockSpec, Metric

OCCASIONS: Final = 5
RUNS_AN_OCCASION: Final = 2
BASELINE_RUNS: Final = OCCASIONS * RUNS_AN_OCCASION
MOST_RUNS: Final = 40
"""Runs of either side that one gate can ask for."""
DRIFT_SD: Final = 0.001 / 10
"""Of the slope of step_ms within a gate: a fraction per process started."""
OUTLIER_LOSS: Final = (0.05, 0.50)
MODE_DISTANCE: Final = (0.01, 0.03)
SLOW_MODE_CHANCE: Final = (0.2, 0.8)
SEED: Final = 20260301

BASE_MS: Final[Mapping[Metric, float]] = {
    Metric.STEP_MS: 10.0,
    Metric.KERNEL_MS: 8.0,
    Metric.GAP_MS: 2.0,
    Metric.H2D_MS: 1.5,
    Metric.H2D_EXPOSED_MS: 1.0,
}
"""Levels: they matter to no rule here, as long as noise leaves all values above zero."""
SIMULATED: Final = tuple(BASE_MS)
"""Those that any loop on one GPU has."""


@dataclass(frozen=True, kw_only=True)
class Population:
    """Workloads of one kind; all SDs are fractions of a step."""

    name: str
    told: str
    run_sd: tuple[float, float]
    """Lowest and highest; log-uniform between them, one for each workload."""
    occasion_sd: float
    outliers: float = 0.0
    """Share of runs."""
    bimodal: float = 0.0
    """Share of workloads."""
    mode_distance: tuple[float, float] = MODE_DISTANCE
    """Of the two modes, in logs; uniform, one for each workload."""
    noisier: float = 1.0
    """What the run SD of blessed runs is multiplied by in the gate, in both sides of a duet."""


POPULATIONS: Final = (
    Population(name="quiet", told="run SD 0.3 %, occasion SD 0.2 %", run_sd=(0.003, 0.003), occasion_sd=0.002),
    Population(
        name="typical",
        told="run SD 0.5 %, occasion SD 0.5 %, 3 % outlier runs",
        run_sd=(0.005, 0.005),
        occasion_sd=0.005,
        outliers=0.03,
    ),
    Population(
        name="mix",
        told="run SD 0.3-2 %, occasion SD 0.5 %, 3 % outlier runs, a third of the workloads bimodal",
        run_sd=(0.003, 0.02),
        occasion_sd=0.005,
        outliers=0.03,
        bimodal=1 / 3,
    ),
    Population(
        name="two speeds",
        told="run SD 0.5 %, occasion SD 0.5 %, every workload of two modes 10-60 % apart",
        run_sd=(0.005, 0.005),
        occasion_sd=0.005,
        bimodal=1.0,
        mode_distance=(0.1, 0.6),
    ),
    Population(name="noisy", told="run SD 2-5 %, occasion SD 0.5 %", run_sd=(0.02, 0.05), occasion_sd=0.005),
    Population(
        name="noisier host",
        told="as quiet when it was blessed, run SD 3 % in the gate",
        run_sd=(0.003, 0.003),
        occasion_sd=0.002,
        noisier=10.0,
    ),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Runs:
    """Noise of the runs of one side: all that does not depend on when in its occasion a run is made."""

    noise: NDArray[np.float64]
    """Of each clock (its row in SIMULATED) in each run, occasion included, in the clock's basis."""
    loss: NDArray[np.float64]
    """What an outlier run loses, as a fraction of its step; 0 for all others."""


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    """One workload: its blessed runs, and all runs that one gate could ask for."""

    blessed: _Runs
    candidate: _Runs
    reference: _Runs
    slope: NDArray[np.float64]
    """Of each clock within the gate, per process started."""

    def baseline_ms(self, run: int) -> dict[Metric, float]:
        """Values of blessed run `run`: two of the first occasion, two of the second, and so on."""
        return self._values(self.blessed, run, started=0, slowdown=0.0)

    def candidate_ms(self, run: int, *, started: int, slowdown: float) -> dict[Metric, float]:
        """Values of candidate run `run` where `started` processes were started in the gate before it."""
        return self._values(self.candidate, run, started=started, slowdown=slowdown)

    def reference_ms(self, run: int, *, started: int) -> dict[Metric, float]:
        """Values of the baseline's commit, run again in the gate."""
        return self._values(self.reference, run, started=started, slowdown=0.0)

    def _values(self, side: _Runs, run: int, *, started: int, slowdown: float) -> dict[Metric, float]:
        noise, lost = side.noise[:, run] + self.slope * started, float(side.loss[run])
        values: dict[Metric, float] = {}
        for row, metric in enumerate(SIMULATED):
            base, x = BASE_MS[metric], float(noise[row])
            if metric is Metric.STEP_MS:
                values[metric] = base * math.exp(x) * (1 + lost) * (1 + slowdown)
            elif _spec(metric).basis is Basis.LOG:
                values[metric] = base * math.exp(x)
            else:
                idle = lost if metric is Metric.GAP_MS else 0.0
                values[metric] = base + BASE_MS[Metric.STEP_MS] * (x + idle)
        return values


def draw(population: Population, gate: int) -> World:
    """Draw the workload of gate number `gate`: the same one for every slowdown, so that only that differs."""
    rng = np.random.default_rng([SEED, *population.name.encode(), gate])
    low, high = population.run_sd
    run_sd = math.exp(rng.uniform(math.log(low), math.log(high)))
    step = _spec(Metric.STEP_MS)
    specs = [_spec(metric) for metric in SIMULATED]
    run_sds = np.array([spec.prior_sd / step.prior_sd * run_sd for spec in specs])
    by_occasion = np.array([spec.occasion_sd / step.occasion_sd for spec in specs])
    distance = rng.uniform(*population.mode_distance) * (rng.random() < population.bimodal)
    slow_chance = rng.uniform(*SLOW_MODE_CHANCE)
    shifts = rng.normal(size=(len(specs), OCCASIONS + 1)) * (by_occasion * population.occasion_sd)[:, None]
    slope = rng.normal(size=len(specs)) * by_occasion * DRIFT_SD

    def side(shift: NDArray[np.float64], *, noisier: float) -> _Runs:
        runs = shift.shape[1]
        noise = shift + rng.normal(size=shift.shape) * run_sds[:, None] * noisier
        noise[SIMULATED.index(Metric.STEP_MS)] += distance * (rng.random(runs) < slow_chance)
        is_outlier = rng.random(runs) < population.outliers
        return _Runs(noise=noise, loss=np.where(is_outlier, rng.uniform(*OUTLIER_LOSS, size=runs), 0.0))

    here = np.repeat(shifts[:, -1:], MOST_RUNS, axis=1)
    return World(
        blessed=side(np.repeat(shifts[:, :-1], RUNS_AN_OCCASION, axis=1), noisier=1.0),
        candidate=side(here, noisier=population.noisier),
        reference=side(here, noisier=population.noisier),
        slope=slope,
    )


def _spec(metric: Metric) -> ClockSpec:
    spec = METRICS[metric].clock
    if spec is None:
        raise ValueError(f"{metric} is no gated clock")
    return spec
