"""Gates without a machine: prepared runs of a candidate and of another commit, and what comes of
them."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

from support import records

from perfgate.execute.lab import Against, Asked, Pair
from perfgate.gate.check import check
from perfgate.gate.expect import Expectation
from perfgate.gate.underway import Affords, Underway
from perfgate.model.baseline import Baseline
from perfgate.model.machine import Machine
from perfgate.model.metric import Metric
from perfgate.model.note import Note
from perfgate.model.order import Needs
from perfgate.model.outcome import Outcome
from perfgate.model.sample import BlockSample, Form, Run
from perfgate.model.settings import Policy
from perfgate.model.verdict import Stage, Verdict

SHA = "0123456789abcdef0123456789abcdef01234567"
THERE = Against(revision="the baseline's commit 0123456789ab", commit=SHA)
WOBBLE = (0.0, 0.02, -0.02, 0.01, -0.01)
"""Per cent by which runs differ, so that no side is all alike."""
NOISY = (0.0, 6.0, -5.0, 3.0, -7.0, 4.0, -2.0, 5.0, -4.0, 1.0, 6.0, -6.0)
"""Per cent by which runs of a launch-bound loop differ; both sides of an interleaved pair share it.
"""
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


def noisy_runs(percent: float, *, wobble: int = 0) -> list[Run]:
    """Runs of a side so much slower, with the noise of their pair."""
    return [
        slower((1 + percent / 100) * (1 + noise / 100) * 100 - 100, n + wobble)
        for n, noise in enumerate(NOISY)
    ]


def in_blocks(run: Run, steps: Sequence[float], *, begins: bool) -> Run:
    """The run with what its blocks took, ms a step."""
    blocks = tuple(BlockSample(number=number, step_ms=ms) for number, ms in enumerate(steps))
    (process,) = run.processes
    return run.model_copy(
        update={"processes": (process.model_copy(update={"blocks": blocks}),), "begins": begins}
    )


def stepping(run: Run, *names: str) -> Run:
    """A run whose steps are ranges of these names."""
    return with_process(run, step_names=dict.fromkeys(names, 1 / max(len(names), 1)))


def with_process(run: Run, **update: object) -> Run:
    """A run whose processes hold these."""
    processes = tuple(process.model_copy(update=update) for process in run.processes)
    return run.model_copy(update={"processes": processes})


def copying(*sizes: int) -> list[Run]:
    """Runs that copy so many bytes per step."""
    return [records.run({Metric.H2D_BYTES: size}) for size in sizes]


# Baselines


def noisy_baseline() -> Baseline:
    """Ten runs of a loop whose runs differ by more than what it is held to."""
    return records.baseline(
        *([{Metric.STEP_MS: 12.34 * (1 + n / 100)} for n in NOISY[:5]] for _ in range(2))
    )


def with_runs(baseline: Baseline, **update: object) -> Baseline:
    """A baseline whose runs hold these."""
    occasions = tuple(
        one.model_copy(update={"runs": tuple(run.model_copy(update=update) for run in one.runs)})
        for one in baseline.occasions
    )
    return baseline.model_copy(update={"occasions": occasions})


def with_steps(baseline: Baseline, *names: tuple[str, ...]) -> Baseline:
    """A baseline whose runs had steps of these names, one run after the other."""
    runs = zip(baseline.runs, [*names, *[names[-1]] * len(baseline.runs)], strict=False)
    made = tuple(run.model_copy(update={"step_names": of_run}) for run, of_run in runs)
    return records.in_one_occasion(baseline, runs=made)


def copied() -> Baseline:
    """Five runs of a loop whose copies vary."""
    return records.baseline([{Metric.H2D_BYTES: size} for size in COPIED])


# Who makes runs

Made = Run | BaseException
"""A prepared run, or what is raised in its place."""


def busy(run: Made, cores: float) -> Run:
    """The run, with so many CPU cores kept busy by its steps."""
    assert isinstance(run, Run)
    return run.model_copy(update={"needs": Needs(host_bytes=1 << 30, gpu_bytes=0, cores=cores)})


@dataclass
class Pairs:
    """Prepared runs of another commit and of the candidate, the last of each for ever."""

    reference: Sequence[Made]
    candidate: Sequence[Made]
    alone: Pair = field(default_factory=lambda: Pair(reference=slower(0), candidate=slower(0, 1)))
    asked: list[int] = field(default_factory=list)
    """How many further pairs were asked for, each time."""


@dataclass
class PreparedLab:
    """A lab of prepared runs, the last of them for ever; remembers how many were asked for."""

    made: Sequence[Made]
    by_form: dict[Form, Pairs]
    machine: Machine
    asked: list[int] = field(default_factory=list)
    taken: int = 0
    called_off: list[int] = field(default_factory=list)
    """How many of those that were asked for nobody wanted any more, each time."""
    prepared: list[tuple[Asked, ...]] = field(default_factory=list)
    commit: Against = THERE

    @property
    def forms(self) -> frozenset[Form]:
        return frozenset(self.by_form)

    def prepare(self, *asked: Asked) -> None:
        self.prepared.append(asked)

    def runs(self, number: int) -> Generator[Run]:
        self.asked.append(number)
        left = number
        try:
            for _ in range(number):
                self.taken += 1
                left -= 1
                yield _come(self.made, self.taken - 1)
        finally:
            self.called_off.append(left)

    def pairs(self, form: Form, number: int) -> Generator[Pair]:
        if form is Form.ALONE:
            yield self.by_form[Form.BLOCK].alone
            return
        pairs = self.by_form[form]
        done = sum(pairs.asked)
        pairs.asked.append(number)
        for index in range(done, done + number):
            candidate = _come(pairs.candidate, index)
            yield Pair(reference=_come(pairs.reference, index), candidate=candidate)


def _come(made: Sequence[Made], index: int) -> Run:
    run = made[min(index, len(made) - 1)]
    if isinstance(run, BaseException):
        raise run
    return run


def pairs(there: float, here: float) -> Pairs:
    """Pairs whose sides take so many per cent longer than the baseline."""
    return Pairs([slower(there, n) for n in range(8)], [slower(here, n + 2) for n in range(8)])


def screen(percent: float, *, clock_mhz: float = 1980) -> list[Made]:
    """Runs of a candidate that takes so many per cent longer than the baseline."""
    return [slower(percent, number, clock_mhz=clock_mhz) for number in range(12)]


# Gates


@dataclass(frozen=True, kw_only=True)
class Checked:
    """One workload's verdict with the runs it rests on."""

    verdict: Verdict
    runs: tuple[Run, ...]
    reference_runs: tuple[Run, ...]
    interleaved_runs: tuple[Run, ...]


def expect(
    baseline: Baseline | None = None,
    *,
    on: Machine | None = None,
    steps: int = 30,
    trouble: Note | None = None,
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
    made: Sequence[Made],
    alternate: Pairs | None = None,
    baseline: Baseline | None = FULL,
    *,
    blocks: Pairs | None = None,
    on: Machine | None = None,
    policy: Policy | None = None,
    against: bool = False,
    affords: Affords = lambda _runs, _seconds: True,
) -> Checked:
    """Gate prepared runs against a baseline, with pairs where there are some."""
    by_form = {Form.PAIR: alternate, Form.BLOCK: blocks}
    expected = expect(baseline, on=on)
    lab = PreparedLab(
        made=made or screen(0),
        by_form={form: one for form, one in by_form.items() if one is not None},
        machine=expected.machine,
    )
    return checked_by(Underway(expected, lab, policy or Policy(), against=against, affords=affords))


def checked_by(underway: Underway) -> Checked:
    """Check one workload."""
    verdict = check(underway)
    return Checked(
        verdict=verdict,
        runs=tuple(underway.runs),
        reference_runs=tuple(underway.references),
        interleaved_runs=tuple(underway.blocks),
    )


Came = tuple[Outcome, Stage | None, int, int]


def came(of: Checked) -> Came:
    """The outcome, by which stage, and how many runs were made of either side."""
    verdict = of.verdict
    return verdict.outcome, verdict.stage, len(of.runs), len(of.reference_runs)
