"""Simulated workloads: what their runs take, in ms; knows no rule that judges them.

A step is the sum of its parts, and noise lies in the parts, so step, kernels, idle time and copies
move together. Each number of a population is a fraction of a step. What a mode, an outlier or a
slow process adds is idle time, but for slow copies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Final

import numpy as np

from perfgate.judge.compare import Floats
from perfgate.model.metric import Metric

Values = Mapping[Metric, Floats]
"""ms per step, shape (gates, runs)."""
SEED: Final = 20261127
MOST_ALONE: Final = 10
_PAIRS: Final = 12
_PROCESSES: Final = MOST_ALONE + 2 * _PAIRS
OUTLIER_LOSS: Final = (0.05, 0.50)
SLOW_COPY_LOSS: Final = (0.015, 0.03)
"""Seen in 5 of 16 processes of `mlp` and `transformer` that ran alone on H100s, in none of their 8
pairs in blocks, and in none of 10 processes on an H200."""
SLOW_MODE_SHARE: Final = (0.2, 0.8)
SLOW_PROCESS_LOSS: Final = 0.4
OWN_OF_A_BLOCK: Final = {"kernel": 0.0028, "idle": 0.006, "copy": 0.0028}
"""SD of what one side of a pair of blocks has for itself: of kernel time, and of a step twice: 0.7
% of it in all."""


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The parts of a step in ms, and how its noise is shared by kernels, idle time and copies:
    squares add to 1."""

    step: float
    kernel: float
    idle: float
    copy: float
    noise: tuple[float, float, float]


GPU_BOUND: Final = Profile(step=10, kernel=8, idle=0.5, copy=1.4, noise=(0.20, 0.89, 0.40))
LAUNCH_BOUND: Final = Profile(step=5, kernel=0.66, idle=4.2, copy=0.05, noise=(0.05, 0.998, 0.03))
KERNELS_VARY: Final = Profile(step=10, kernel=8, idle=0.5, copy=1.4, noise=(1, 0, 0))


@dataclass(frozen=True)
class Population:
    """Workloads of one kind; named by their run SD and occasion SD in %."""

    name: str
    run_sd: float
    occasion_sd: float
    _: KW_ONLY
    profile: Profile = GPU_BOUND
    gated_sd: float | None = None
    """Of runs in the gate, where that is not what it was when they were blessed."""
    student: bool = False
    """Student's t with 3 degrees of freedom instead of a normal distribution."""
    correlation: float = 0.0
    """Of each process with the one before it."""
    outliers: float = 0.0
    """Share of runs that take `OUTLIER_LOSS` longer."""
    slow_copies: float = 0.0
    """Share of runs alone whose copies take `SLOW_COPY_LOSS` longer."""
    modes: tuple[float, float] | None = None
    """Between these lies how far a workload's two modes are apart."""
    drift: float = 0.0
    """Over ten processes of the gate."""
    warm: float = 0.0
    """By how much the first process of the gate is faster."""


POPULATIONS: Final = (
    Population("0.3/0.2", 0.003, 0.002),
    Population("0.5/0.5", 0.005, 0.005),
    Population("0.5/1", 0.005, 0.01),
    Population("1/0.5", 0.01, 0.005),
    Population("2/0.5", 0.02, 0.005),
    Population("Student t, 3 df", 0.005, 0.002, student=True),
    Population("5 % outliers", 0.005, 0.002, outliers=0.05),
    Population("20 % outliers", 0.005, 0.002, outliers=0.2),
    Population("two modes, 1-3 %", 0.003, 0.002, modes=(0.01, 0.03)),
    Population("two modes, 10-60 %", 0.003, 0.002, modes=(0.1, 0.6)),
    Population("noisier host", 0.003, 0.002, gated_sd=0.03),
    Population("AR 0.9", 0.01, 0.002, correlation=0.9),
    Population("kernels vary", 0.005, 0.005, profile=KERNELS_VARY),
)
"""Those that the goals are means of."""
MORE: Final = (
    Population("0.1/0.1", 0.001, 0.001),
    Population("5/1", 0.05, 0.01),
    Population("slow copies", 0.003, 0.002, slow_copies=0.3),
    Population("drift", 0.005, 0.002, drift=0.01),
    Population("warm host", 0.005, 0.002, warm=0.03),
    Population("launch-bound 1/0.5", 0.01, 0.005, profile=LAUNCH_BOUND),
    Population("launch-bound 3/1", 0.03, 0.01, profile=LAUNCH_BOUND),
    Population("launch-bound 10/3", 0.1, 0.03, profile=LAUNCH_BOUND),
)


@dataclass(frozen=True, kw_only=True)
class Change:
    """What the gate meets that was not so when the baseline was blessed."""

    part: Metric | None = None
    """Where the candidate loses."""
    loss: float = 0.0
    """So much: of kernel time, or of a step."""
    slow: float = 0.0
    """Share of the candidate's processes that take `SLOW_PROCESS_LOSS` longer."""
    machine: float = 0.0
    """By how much the machine is slower, for both sides."""

    def __str__(self) -> str:
        """The name of it in tables."""
        if self.part is not None:
            return f"{self.part} +{100 * self.loss:.3g} %"
        if self.slow:
            return f"+40 % in 1 of {round(1 / self.slow)} processes"
        return f"machine {self.machine:.0%} slower" if self.machine else "unchanged"


@dataclass(kw_only=True)
class World:
    """Workloads of one population, their blessed runs and all runs that their gates could ask
    for.
    """

    population: Population
    gates: int
    blessed_runs: tuple[int, ...] = (5,)
    """Of each occasion."""
    change: Change = field(default_factory=Change)

    def __post_init__(self) -> None:
        """Draw all noise, in an order that does not depend on the change: only that differs between
        changes."""
        population, gates = self.population, self.gates
        rng = self._rng = np.random.default_rng(
            [SEED, *population.name.encode(), len(self.blessed_runs)]
        )
        self._apart = (
            rng.uniform(*population.modes, size=(gates, 1))
            if population.modes
            else np.zeros((gates, 1))
        )
        self._slow_mode = rng.uniform(*SLOW_MODE_SHARE, size=(gates, 1))
        noise = [
            self._noise(runs, population.run_sd) + self._occasion() for runs in self.blessed_runs
        ]
        self.blessed = self._times(
            np.concatenate(noise, axis=-1), self._added(sum(self.blessed_runs))
        )
        run_sd = population.run_sd if population.gated_sd is None else population.gated_sd
        self._here = self._noise(_PROCESSES, run_sd) + self._occasion()
        self._extra = self._added(_PROCESSES)
        self._extra += population.drift / 10 * np.arange(_PROCESSES)
        self._extra[:, 0] -= population.warm
        self._luck = rng.random((gates, _PROCESSES))
        self._own = rng.normal(size=(2, gates, 3, _PAIRS))

    def alone(self, runs: int) -> Values:
        """The first processes of the gate, all the candidate's."""
        return self._gated(np.arange(runs), is_candidate=True)

    def alone_there(self, *, after: int) -> Values:
        """One process of the baseline's commit after so many of the candidate's."""
        return self._gated(np.array([after]))

    def pairs(self, *, after: int, in_blocks: bool) -> tuple[Values, Values]:
        """Twelve pairs after so many processes, baseline's commit and candidate: ABBA, or in
        blocks, which share all but what each side has for itself."""
        place = np.arange(_PAIRS)
        if in_blocks:
            there = here = after + 2 * place
            return self._gated(there, own=self._own[0]), self._gated(
                here, own=self._own[1], is_candidate=True
            )
        there, here = after + 2 * place + place % 2, after + 2 * place + 1 - place % 2
        return self._gated(there), self._gated(here, is_candidate=True)

    def _noise(self, runs: int, sd: float) -> Floats:
        population, shape = self.population, (self.gates, 3, runs)
        correlation = population.correlation
        if population.student:
            return np.asarray(self._rng.standard_t(3, size=shape) / np.sqrt(3) * sd)
        noise = self._rng.normal(size=shape)
        for run in range(1, runs if correlation else 0):
            noise[..., run] = (
                correlation * noise[..., run - 1] + np.sqrt(1 - correlation**2) * noise[..., run]
            )
        noise = noise * sd
        if population.slow_copies:
            is_slow = self._rng.random((self.gates, runs)) < population.slow_copies
            lost = self._rng.uniform(*SLOW_COPY_LOSS, size=is_slow.shape)
            noise[:, 2] += is_slow * lost / population.profile.noise[2]
        return noise

    def _occasion(self) -> Floats:
        return np.asarray(self._rng.normal(size=(self.gates, 3, 1)) * self.population.occasion_sd)

    def _added(self, runs: int) -> Floats:
        is_outlier, is_slow = self._rng.random((2, self.gates, runs))
        lost = self._rng.uniform(*OUTLIER_LOSS, size=(self.gates, runs))
        return np.asarray(
            (is_outlier < self.population.outliers) * lost
            + (is_slow < self._slow_mode) * self._apart
        )

    def _gated(
        self, processes: np.ndarray, *, own: Floats | None = None, is_candidate: bool = False
    ) -> Values:
        extra = self._extra[:, processes]
        if is_candidate:
            extra = extra + SLOW_PROCESS_LOSS * (self._luck[:, processes] < self.change.slow)
        return self._times(
            self._here[..., processes],
            extra,
            own=own,
            change=self.change,
            is_candidate=is_candidate,
        )

    def _times(
        self,
        noise: Floats,
        extra: Floats,
        *,
        own: Floats | None = None,
        change: Change | None = None,
        is_candidate: bool = False,
    ) -> Values:
        of, change = self.population.profile, change or Change()
        own = np.zeros((self.gates, 3, 1)) if own is None else own
        lost = {change.part: change.loss} if is_candidate else {}
        kernel_share, idle_share, copy_share = of.noise
        kernel = of.step * kernel_share * noise[:, 0]
        kernel = kernel + of.kernel * (
            OWN_OF_A_BLOCK["kernel"] * own[:, 0] + lost.get(Metric.KERNEL_MS, 0.0)
        )
        idle = of.step * (idle_share * noise[:, 1] + OWN_OF_A_BLOCK["idle"] * own[:, 1] + extra)
        idle = idle + of.step * lost.get(Metric.GAP_MS, 0.0)
        copy = of.step * (
            copy_share * noise[:, 2]
            + OWN_OF_A_BLOCK["copy"] * own[:, 2]
            + lost.get(Metric.H2D_MS, 0.0)
        )
        speed = 1 + change.machine
        return {
            Metric.STEP_MS: (of.step + kernel + idle + copy) * speed,
            Metric.KERNEL_MS: (of.kernel + kernel) * speed,
            Metric.GAP_MS: (of.idle + idle) * speed,
            Metric.H2D_MS: (of.copy + copy) * speed,
        }
