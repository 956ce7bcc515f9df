"""Judges each variant against the one before, both ways, by perfgate's own judge, and holds that
against the lesson.

A step up the series is judged as an A/B run whose other side is the variant before: both were
measured in turns, on the same occasions. The step back is the same with the sides exchanged.
Nothing is measured or written here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median
from typing import Final, assert_never

from benchmarks.series.lessons import NO_DIFFERENCE, VARIANTS, Lesson, Series
from benchmarks.series.recording import RecordedRun, RecordedVariant, Recording
from perfgate.explain.shown import of_counts, start_notes
from perfgate.judge.evidence import Evidence
from perfgate.judge.judge import judge
from perfgate.judge.looks import AB_PLAN
from perfgate.model.metric import METRICS, Kind, Metric
from perfgate.model.outcome import Outcome
from perfgate.model.sample import RangeSample, Run
from perfgate.model.settings import Policy
from perfgate.model.verdict import MetricVerdict, Stage, Verdict
from perfgate.words import say
from perfgate.words.numbers import listed, plural

STEP_BUDGET: Final = spec.budget if (spec := METRICS[Metric.STEP_MS].time) is not None else 0.0
"""A published gain above this, perfgate's budget of a step, must be found as one."""
FIRST_LOOK: Final = AB_PLAN.looks[0]
"""With fewer runs of either variant nothing can be shown of the two."""


class Finding(StrEnum):
    """What a step up the series shows, next to what is taught of it."""

    AS_TAUGHT = "as taught"
    AT_A_PRICE = "as taught, at a price"
    """What is named gets better, and something else worse, so that a gate calls the step REGRESSED.
    """
    NOT_SETTLED = "not settled"
    """Nothing speaks against the lesson, and these runs do not show it."""
    DIFFERS = "differs"
    NO_LESSON = "nothing is taught of it"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True, kw_only=True)
class Step:
    """One variant against the one before."""

    variant: str
    before: str
    finding: Finding
    why: tuple[str, ...] = ()
    """What differs, is not settled, or is the price, as clauses."""
    up: Verdict | None = None
    """None where the two cannot be compared."""
    down: Verdict | None = None
    ratio: float | None = None
    """Of the speeds: above 1 is faster."""
    published: float | None = None
    """The same, as published."""
    where: Mapping[Metric, Mapping[str, float]] = field(default_factory=dict)
    """How much each NVTX range added to the named metrics on the way up, per step, what fell most
    first."""

    def counts(self) -> tuple[str, ...]:
        """How counts changed on the way up, those that fell first, as `syncs 5 -> 0`."""
        rows = [
            row
            for row in _rows(self.up)
            if METRICS[row.metric].kind is Kind.COUNT and row.baseline != row.now
        ]
        ordered = sorted(rows, key=lambda row: (row.now or 0.0) > (row.baseline or 0.0))
        return tuple(
            f"{row.metric} {row.baseline or 0:.15g} -> {row.now or 0:.15g}" for row in ordered
        )


def speed(variant: RecordedVariant) -> float | None:
    """Steps a second: the median over its runs; None where it has none, or no step time."""
    times = variant.values(Metric.STEP_MS)
    return 1000 / median(times) if times and median(times) > 0 else None


def ordered_variants(recording: Recording, loop: str) -> list[RecordedVariant]:
    """A loop's recorded variants in the series's order, without one by the number of GPUs that they
    are named after."""
    series = VARIANTS.get(loop)
    names = [] if series is None else [variant.name for variant in series.variants]

    def place(variant: RecordedVariant) -> int:
        if series is not None:
            return names.index(variant.variant) if variant.variant in names else len(names)
        number, _, _ = variant.variant.partition(" ")
        return int(number) if number.isdecimal() else 0

    return sorted((variant for variant in recording.variants if variant.loop == loop), key=place)


def judge_loop(recording: Recording, loop: str) -> tuple[Step, ...]:
    """Judge every variant of a loop that has one before it, in the series's order."""
    series = VARIANTS.get(loop)
    names = [
        one.variant
        for one in ordered_variants(recording, loop)
        if series is None or series.variant(one.variant)
    ]
    steps: list[Step] = []
    for place, name in enumerate(names):
        before = (names[place - 1] if place else None) if series is None else series.before(name)
        if before is not None:
            steps.append(
                _judge_step(recording, loop, name, _last_measured(recording, loop, name, before))
            )
    return tuple(steps)


def _last_measured(recording: Recording, loop: str, name: str, before: str) -> str:
    """The variant that one is judged against: the one before, or where that has no run, the nearest
    below that has one.

    Not where the lesson is that nothing changes: it says so of those two only.
    """
    series = VARIANTS.get(loop)
    if series is None or _lesson(series, name) == NO_DIFFERENCE:
        return before
    candidate: str | None = before
    while candidate is not None:
        variant = recording.of(loop, candidate)
        if variant is not None and variant.sound:
            return candidate
        candidate = series.before(candidate)
    return before


def _lesson(series: Series | None, name: str) -> Lesson | None:
    variant = None if series is None else series.variant(name)
    return None if variant is None else variant.lesson


def _judge_step(recording: Recording, loop: str, name: str, before_name: str) -> Step:
    series = VARIANTS.get(loop)
    now, before = _met(recording.of(loop, name), recording.of(loop, before_name))
    published = None if series is None else _published_ratio(series, name, before_name)

    def not_judged(why: str, *, ratio: float | None = None) -> Step:
        finding = Finding.NOT_JUDGED
        return Step(
            variant=name,
            before=before_name,
            finding=finding,
            why=(why,),
            ratio=ratio,
            published=published,
        )

    if now is None or not now.sound:
        return not_judged(f"{name} has no run that counts")
    if before is None or not before.sound:
        return not_judged(f"{before_name} has no run that counts")
    ratio = _ratio(before, now)
    forbidden = _why_incomparable(recording, before, now)
    if forbidden is not None:
        return not_judged(forbidden, ratio=ratio)
    up, down = (
        verdict_of(before, now),
        verdict_of(now, before),
    )
    lesson = _lesson(series, name)
    finding, why = _finding(lesson, (up, down), (before, now), ratio=ratio, published=published)
    return Step(
        variant=name,
        before=before_name,
        finding=finding,
        why=why,
        up=up,
        down=down,
        ratio=ratio,
        published=published,
        where={} if lesson is None else _where(lesson, before, now),
    )


def _met(
    now: RecordedVariant | None, before: RecordedVariant | None
) -> tuple[RecordedVariant | None, RecordedVariant | None]:
    """Their runs on GPUs that both ran on, if an A/B run can be looked at with them; all, if not.

    What another host launches slower, or another GPU computes slower, is no part of what a variant
    adds.
    """
    if now is None or before is None:
        return now, before
    there = {run.machine for run in now.sound} & {run.machine for run in before.sound}
    met = _on(now, there), _on(before, there)
    return met if all(len(variant.sound) >= FIRST_LOOK for variant in met) else (now, before)


def _on(variant: RecordedVariant, machines: Container[int]) -> RecordedVariant:
    return variant.model_copy(
        update={"runs": tuple(run for run in variant.runs if run.machine in machines)}
    )


def verdict_of(reference: RecordedVariant, candidate: RecordedVariant) -> Verdict:
    """Judge a variant's runs against those of another, which are blessed for it as the other side
    of a A/B run is.
    """
    runs = _runs(candidate)
    pairs = tuple(zip(_runs(reference), runs, strict=False))
    policy = Policy(max_runs=2 * len(pairs), budgets=candidate.workload.budgets)
    evidence = Evidence(workload=candidate.workload.id, pairs=pairs)
    verdict = judge(evidence, policy, Stage.AB_RUN)
    notes = (*of_counts(verdict), *verdict.notes, *start_notes(runs))
    return verdict.model_copy(update={"notes": notes})


def _runs(variant: RecordedVariant) -> list[Run]:
    return [one.run for one in variant.sound]


def _ranges(variant: RecordedVariant) -> tuple[RangeSample, ...]:
    """Those of its slowest process in the run with the median step."""
    runs = sorted(_runs(variant), key=lambda run: run.value(Metric.STEP_MS) or 0.0)
    processes = runs[len(runs) // 2].processes
    slowest = max(
        processes, key=lambda process: process.values.get(Metric.STEP_MS, 0.0), default=None
    )
    return () if slowest is None else slowest.ranges


def _ratio(before: RecordedVariant, now: RecordedVariant) -> float | None:
    slow, fast = speed(before), speed(now)
    return fast / slow if slow and fast else None


def _published_ratio(series: Series, name: str, before: str) -> float | None:
    slow, fast = (
        None if (variant := series.variant(one)) is None else variant.published
        for one in (before, name)
    )
    return fast / slow if slow and fast else None


def _why_incomparable(
    recording: Recording, before: RecordedVariant, now: RecordedVariant
) -> str | None:
    there, here = ({run.machine for run in variant.sound} for variant in (before, now))
    for then in sorted(there):
        for one in sorted(here):
            if len(recording.machines[then].gpus) != len(recording.machines[one].gpus):
                return "a gate compares what ran on as many GPUs"
            found = recording.machines[then].differences_that_forbid_comparison(
                recording.machines[one]
            )
            if found:
                return (
                    say.fact(found[0])
                    .replace("baseline", before.variant, 1)
                    .replace("this machine", now.variant, 1)
                )
    return None


# Against the lesson


def _finding(
    lesson: Lesson | None,
    way: tuple[Verdict, Verdict],
    variants: tuple[RecordedVariant, RecordedVariant],
    *,
    ratio: float | None,
    published: float | None,
) -> tuple[Finding, tuple[str, ...]]:
    """Hold what a step up, and back, of two variants shows against what is taught of it."""
    if lesson is None:
        return Finding.NO_LESSON, ()
    up, down = way
    for variant in variants:
        if len(variant.sound) < FIRST_LOOK:
            counted = plural(len(variant.sound), "run")
            return Finding.NOT_SETTLED, (
                (
                    f"{counted} of {variant.variant}, and an A/B run is first looked at with "
                    f"{FIRST_LOOK}"
                ),
            )
    if not lesson.metrics:
        return _as_no_difference(up, down)
    absent = [metric for metric in lesson.metrics if not _is_judged(up, metric)]
    if set(lesson.every) & set(absent) or (lesson.either and set(lesson.either) <= set(absent)):
        return Finding.NOT_JUDGED, tuple(f"{metric} was not measured in both" for metric in absent)
    contrary, still_open = _unmoved(lesson, up, down)
    slow = _too_slow(lesson, up, ratio, published)
    contrary += _not_there(lesson, *variants)
    (still_open if _may_be_faster(up) else contrary).extend(slow)
    worse = [row.metric for row in _rows(up) if row.outcome is Outcome.REGRESSED]
    if contrary:
        written = [f"{listed(list(map(str, worse)))} worse"] if worse else []
        return Finding.DIFFERS, (*contrary, *still_open, *written)
    if still_open:
        return Finding.NOT_SETTLED, tuple(still_open)
    match up.outcome:
        case Outcome.IMPROVED:
            return Finding.AS_TAUGHT, ()
        case Outcome.REGRESSED:
            return Finding.AT_A_PRICE, (f"{listed(list(map(str, worse)))} worse",)
        case Outcome.INCONCLUSIVE:
            open_rows = [
                str(row.metric) for row in _rows(up) if row.outcome is Outcome.INCONCLUSIVE
            ]
            return Finding.NOT_SETTLED, (f"{listed(open_rows)} open after {up.runs} runs",)
        case Outcome.NOT_MEASURED:
            missing = [
                f"{row.metric} {row.reason}"
                for row in _rows(up)
                if row.outcome is Outcome.NOT_MEASURED
            ]
            return Finding.NOT_SETTLED, tuple(missing)
        case Outcome.PASSED | Outcome.NO_BASELINE | Outcome.INCOMPARABLE | Outcome.INVALID:
            return Finding.DIFFERS, (f"the step up is {up.outcome}",)
        case _:
            assert_never(up.outcome)


def _as_no_difference(up: Verdict, down: Verdict) -> tuple[Finding, tuple[str, ...]]:
    """Both ways PASSED, where the tutorial teaches that it changes nothing."""
    written = [
        f"the step {way} is {verdict.outcome}{_by(verdict, verdict.outcome)}"
        for way, verdict in (("up", up), ("back", down))
        if verdict.outcome is not Outcome.PASSED
    ]
    if not written:
        return Finding.AS_TAUGHT, ()
    if all(verdict.outcome in (Outcome.PASSED, Outcome.INCONCLUSIVE) for verdict in (up, down)):
        return Finding.NOT_SETTLED, tuple(written)
    return Finding.DIFFERS, tuple(written)


def _unmoved(lesson: Lesson, up: Verdict, down: Verdict) -> tuple[list[str], list[str]]:
    """What speaks against the lesson, and what these runs leave open, of the metrics that it names.

    A metric must get better on the way up, and worse on the way back.
    """
    contrary: list[str] = []
    still_open: list[str] = []
    for metric in lesson.every:
        if (written := _why_unmoved(metric, up, down)) is not None:
            (still_open if _is_open(metric, up, down) else contrary).append(written)
    others = [
        why for metric in lesson.either if (why := _why_unmoved(metric, up, down)) is not None
    ]
    if lesson.either and len(others) == len(lesson.either):
        is_open = any(_is_open(metric, up, down) for metric in lesson.either)
        (still_open if is_open else contrary).append("; ".join(others))
    return contrary, still_open


def _why_unmoved(metric: Metric, up: Verdict, down: Verdict) -> str | None:
    there, back = _outcome(up, metric), _outcome(down, metric)
    if there is not Outcome.IMPROVED:
        return f"{metric} is {there or 'not measured'}"
    return (
        None
        if back is Outcome.REGRESSED
        else f"{metric} is {back or 'not measured'} on the way back"
    )


def _is_open(metric: Metric, up: Verdict, down: Verdict) -> bool:
    """Whether it may yet have moved as it should: neither way has shown anything else."""
    there, back = _outcome(up, metric), _outcome(down, metric)
    return (
        (there in (Outcome.IMPROVED, Outcome.INCONCLUSIVE) or _fell_by_chance(up.of(metric)))
        and back in (Outcome.REGRESSED, Outcome.INCONCLUSIVE)
        and Outcome.INCONCLUSIVE in (there, back)
    )


def _fell_by_chance(row: MetricVerdict | None) -> bool:
    """Whether a count that varies fell, and in too few runs to rule out chance: a gate has no other
    word for it."""
    if row is None or row.outcome is not Outcome.PASSED or row.exact is not False:
        return False
    return (row.now or 0.0) < (row.baseline or 0.0)


def _not_there(lesson: Lesson, before: RecordedVariant, now: RecordedVariant) -> list[str]:
    """What is taught of ranges, and is otherwise."""
    written: list[str] = []
    for metric, taught in lesson.under.items():
        changes = _changes(metric, before, now)
        most = next((name for name, change in changes.items() if change < 0), "no known range")
        if most != taught:
            written.append(f"{metric} falls most under {most}, not under {taught}")
    if lesson.top_range is not None:
        name, last = lesson.top_range
        places = [_place(run, name) for run in before.sound]
        if not all(place is not None and place <= last for place in places):
            shown = listed(sorted({"missing" if place is None else str(place) for place in places}))
            written.append(
                f"{name} is at place {shown} of the ranges before it, not among the first {last}"
            )
    return written


def _changes(metric: Metric, before: RecordedVariant, now: RecordedVariant) -> dict[str, float]:
    """What each range added to a metric, that which fell most first; ranges that held none of it
    are left out."""
    changes: defaultdict[str, float] = defaultdict(float)
    for sign, variant in ((-1.0, before), (1.0, now)):
        for sample in _ranges(variant):
            if metric in sample.values:
                changes[sample.name] += sign * sample.values[metric]
    return dict(sorted(changes.items(), key=lambda change: (change[1], change[0])))


def _where(
    lesson: Lesson, before: RecordedVariant, now: RecordedVariant
) -> dict[Metric, dict[str, float]]:
    found = {metric: _changes(metric, before, now) for metric in lesson.metrics}
    return {metric: changes for metric, changes in found.items() if changes}


def _place(run: RecordedRun, name: str) -> int | None:
    names = run.longest_ranges
    return names.index(name) + 1 if name in names else None


def _too_slow(
    lesson: Lesson, up: Verdict, ratio: float | None, published: float | None
) -> list[str]:
    if ratio is None:
        return []
    if lesson.at_least is not None and ratio < lesson.at_least:
        return [f"x{ratio:.2f}, at least x{lesson.at_least:g} is taught"]
    step = _outcome(up, Metric.STEP_MS)
    if step is Outcome.REGRESSED:
        return [f"slower, x{ratio:.2f}"]
    if published is not None and published > 1 + STEP_BUDGET and step is not Outcome.IMPROVED:
        return [f"no faster, x{ratio:.2f} where x{published:.2f} is published"]
    return []


def _may_be_faster(up: Verdict) -> bool:
    """Whether these runs leave open that the step is faster by its budget."""
    row = up.of(Metric.STEP_MS)
    if row is None or row.outcome is not Outcome.PASSED:
        return row is not None and row.outcome is Outcome.INCONCLUSIVE
    return row.low is not None and row.low <= -STEP_BUDGET


def _by(verdict: Verdict, outcome: Outcome) -> str:
    named = [str(row.metric) for row in verdict.metrics if row.outcome is outcome]
    return f" by {listed(named)}" if named else ""


def _rows(verdict: Verdict | None) -> tuple[MetricVerdict, ...]:
    return () if verdict is None else verdict.metrics


def _outcome(verdict: Verdict, metric: Metric) -> Outcome | None:
    row = verdict.of(metric)
    return None if row is None else row.outcome


def _is_judged(verdict: Verdict, metric: Metric) -> bool:
    return _outcome(verdict, metric) not in (None, Outcome.NOT_MEASURED)
