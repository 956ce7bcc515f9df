"""Gates without a machine: prepared runs of a candidate and of another commit, and what comes of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from support import records

from perfgate.gate import Checked, Expectation, Pair, Policy, check
from perfgate.model.baseline import Baseline
from perfgate.model.errors import PerfgateError
from perfgate.model.machine import Machine
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.sample import BoutSample, Run
from perfgate.model.verdict import Stage

BLESS = 'perfgate bless mlp --reason "..."'
SHA = "0123456789abcdef0123456789abcdef01234567"
WOBBLE = (0.0, 0.02, -0.02, 0.01, -0.01)
"""Per cent by which runs differ, so that no side is all alike."""
NOISY = (0.0, 6.0, -5.0, 3.0, -7.0, 4.0, -2.0, 5.0, -4.0, 1.0, 6.0, -6.0)
"""Per cent by which runs of a launch-bound loop differ; both sides of an interleaved pair share it."""
COPIED = (1000, 1010, 990, 1005, 995)
"""Bytes that runs of a loop copy whose copies vary."""
FULL = records.baseline(
    *([{Metric.STEP_MS: 12.34 * (1 + w / 100)} for w in WOBBLE] for _ in range(2))
)
"""Ten runs over two occasions."""


# Runs


def slower(percent: float, number: int = 0, *, clock_mhz: float = 1980) -> Run:
    """A run whose step takes so much longer than the baseline's."""
    run = records.run(
        {Metric.STEP_MS: 12.34 * (1 + (percent + WOBBLE[number % len(WOBBLE)]) / 100)}
    )
    gpu = run.conditions.gpus[0].model_copy(update={"sm_clock_mhz": clock_mhz})
    return run.model_copy(update={"conditions": run.conditions.model_copy(update={"gpus": (gpu,)})})


def moody(percent: float, *, wobble: int = 0) -> list[Run]:
    """Runs of a side so much slower, in the mood of their pair."""
    return [
        slower((1 + percent / 100) * (1 + mood / 100) * 100 - 100, n + wobble)
        for n, mood in enumerate(NOISY)
    ]


def in_bouts(run: Run, steps: Sequence[float], *, begins: bool) -> Run:
    """The run with what its bouts took, ms a step."""
    bouts = tuple(BoutSample(number=number, step_ms=ms) for number, ms in enumerate(steps))
    (process,) = run.processes
    return run.model_copy(
        update={"processes": (process.model_copy(update={"bouts": bouts}),), "begins": begins}
    )


def stepping(run: Run, *names: str) -> Run:
    """A run whose steps are ranges of these names."""
    processes = tuple(
        process.model_copy(update={"step_names": dict.fromkeys(names, 1 / max(len(names), 1))})
        for process in run.processes
    )
    return run.model_copy(update={"processes": processes})


def of_processes(run: Run, number: int) -> Run:
    """A run of so many processes, all alike."""
    return run.model_copy(update={"processes": run.processes * number})


def copying(*sizes: int) -> list[Run]:
    """Runs that copy so many bytes per step."""
    return [records.run({Metric.H2D_BYTES: size}) for size in sizes]


# Baselines


def noisy_baseline() -> Baseline:
    """Ten runs of a loop whose runs differ by more than what it is held to."""
    return records.baseline(
        *([{Metric.STEP_MS: 12.34 * (1 + n / 100)} for n in NOISY[:5]] for _ in range(2))
    )


def with_steps(baseline: Baseline, *names: tuple[str, ...]) -> Baseline:
    """A baseline whose runs had steps of these names, one run after the other."""
    runs = zip(baseline.runs, [*names, *[names[-1]] * len(baseline.runs)], strict=False)
    made = tuple(run.model_copy(update={"step_names": of_run}) for run, of_run in runs)
    return baseline.model_copy(
        update={"occasions": (baseline.occasions[0].model_copy(update={"runs": made}),)}
    )


def copied() -> Baseline:
    """Five runs of a loop whose copies vary."""
    return records.baseline([{Metric.H2D_BYTES: size} for size in COPIED])


# Who makes runs


class Candidate:
    """A series of prepared runs, which remembers what was asked of it."""

    def __init__(self, *made: Run | BaseException, on: Machine | None = None) -> None:
        self._made = made
        self.machine = on or records.machine()
        self.asked: list[tuple[int, int]] = []
        """Index and planned number of each run asked for."""

    def measure(self, index: int, planned: int) -> Run:
        """Hand out the next of the prepared runs, or raise it."""
        self.asked.append((index, planned))
        made = self._made[min(index, len(self._made) - 1)]
        if isinstance(made, BaseException):
            raise made
        return made


class RecordedDuel:
    """A duet of prepared pairs, which remembers what was asked of it; `opened` says whether it was begun at all."""

    revision = "the baseline's commit 0123456789ab"
    commit = SHA

    def __init__(
        self,
        reference: Sequence[Run | BaseException],
        candidate: Sequence[Run | BaseException],
        *,
        opening: PerfgateError | None = None,
        alone: Pair | None = None,
    ) -> None:
        self._sides = (reference, candidate)
        self._alone = alone
        self.alone_asked = 0
        self._opening = opening
        self.asked: list[tuple[int, int]] = []
        self.opened = self.closed = False

    @contextmanager
    def __call__(self) -> Iterator[RecordedDuel]:
        """Open it, as a gate does."""
        self.opened = True
        if self._opening is not None:
            raise self._opening
        try:
            yield self
        finally:
            self.closed = True

    def pair(self, index: int, planned: int) -> Pair:
        """Hand out a prepared pair, or raise what one of its sides is."""
        self.asked.append((index, planned))
        made = [side[min(index, len(side) - 1)] for side in self._sides]
        for run in made:
            if isinstance(run, BaseException):
                raise run
        reference, candidate = made
        assert isinstance(reference, Run)
        assert isinstance(candidate, Run)
        return Pair(reference=reference, candidate=candidate)

    def alone(self) -> Pair:
        """Hand out the runs that were made alone."""
        self.alone_asked += 1
        return self._alone or Pair(reference=slower(0), candidate=slower(0, 1), cores=(1.0, 1.0))


def duel(there: float, here: float) -> RecordedDuel:
    """A duet whose sides take so many per cent longer than the baseline."""
    return RecordedDuel(
        [slower(there, n) for n in range(8)], [slower(here, n + 2) for n in range(8)]
    )


def screen(percent: float) -> Candidate:
    """A candidate that takes so many per cent longer than the baseline."""
    return Candidate(*(slower(percent, number) for number in range(12)))


# Gates


def expect(
    baseline: Baseline | None = None,
    *,
    on: Machine | None = None,
    steps: int = 30,
    trouble: str | None = None,
    elsewhere: Sequence[str] = (),
) -> Expectation:
    """What is expected of the loop."""
    return Expectation(
        workload=records.workload(steps=steps),
        machine=on or records.machine(),
        baseline=baseline,
        trouble=trouble,
        elsewhere=tuple(elsewhere),
    )


def gated(
    series: Candidate,
    other: RecordedDuel | None,
    baseline: Baseline = FULL,
    *,
    policy: Policy | None = None,
) -> Checked:
    """What comes of a gate against the stored baseline, with a duet where there is one."""
    return check(expect(baseline), policy or Policy(), series, other)


def outcome_of(checked: Checked) -> tuple[Outcome, Stage | None, int, int]:
    """The outcome, by which stage, and how many runs were made of either side."""
    verdict = checked.verdict
    return verdict.outcome, verdict.stage, len(checked.runs), len(checked.reference_runs)


def told(checked: Checked) -> tuple[Outcome, str, str]:
    """The outcome with its words."""
    return checked.verdict.outcome, checked.verdict.reason, checked.verdict.next_step
