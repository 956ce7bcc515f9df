"""Writes RESULTS.md from a recording and its judgements; measures and decides nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Final

from benchmarks.series.judging import Step, judge_loop, ordered_variants, speed
from benchmarks.series.lessons import SCALED, VARIANTS, Lesson, Series, Unit
from benchmarks.series.recording import RecordedVariant, Recording
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.sample import OUTSIDE_RANGES
from perfgate.model.verdict import Verdict
from perfgate.words.numbers import count, listed, milliseconds

COUNTS: Final = (
    Metric.LAUNCHES,
    Metric.GRAPH_LAUNCHES,
    Metric.H2D_COPIES,
    Metric.PAGEABLE_COPIES,
    Metric.D2H_COPIES,
    Metric.SYNCS,
)
MOST_RANGES: Final = 3
LEAST_SHARE: Final = 0.05
"""Of the largest change: a range of less is not named."""
RARE: Final = (Metric.GRAPH_LAUNCHES,)
"""Shown only where there are any."""
NCCL: Final = (Metric.NCCL_MS, Metric.NCCL_EXPOSED_MS)
"""Likewise."""
_NONE: Final = "-"


def markdown(recording: Recording) -> str:
    """Write the whole file."""
    judged = {loop: judge_loop(recording, loop) for loop in ordered_loops(recording)}
    lines = [
        "# The optimisation series, measured and judged",
        "",
        (
            "Made by `python -m benchmarks.series run` and `table`; do not edit. Every variant "
            "is run in fresh processes under nsys, in turns with the variants of its loop that "
            "share its GPUs. Values are medians over runs, per step; `spread` is the range of "
            "step_ms over its median. The published speeds are those of the tutorials that teach "
            "with these loops, on another machine: what can be compared is how much faster a "
            "variant is than another."
        ),
        "",
        (
            "A step up is judged by perfgate as an A/B run of the variant with the one before "
            "it, a step back with the sides exchanged, each as a gate of its own. It is as "
            "taught where every metric that the tutorial names got better on the way up and "
            "REGRESSED on the way back; at a price where another metric got worse besides, since "
            "a gate then calls the way up REGRESSED. A variant that is taught to change nothing "
            "must be PASSED both ways. Runs are compared on the GPUs that both variants ran on, "
            "if each has three there or more; if not, all are. Metrics that the tutorial names "
            "are in bold."
        ),
        "",
        *_circumstances(recording),
    ]
    found = Counter(step.finding for steps in judged.values() for step in steps)
    if found:
        lines += [
            "",
            (
                f"{found.total()} steps: "
                f"{', '.join(f'{number} {finding}' for finding, number in found.items())}."
            ),
        ]
    for loop, steps in judged.items():
        lines += _loop(recording, loop, steps)
    return "\n".join(lines) + "\n"


def ordered_loops(recording: Recording) -> list[str]:
    """The recorded loops, those with a series first and in its order."""
    known = [loop for loop in VARIANTS if loop in recording.loops()]
    return [*known, *(loop for loop in recording.loops() if loop not in known)]


def _circumstances(recording: Recording) -> Iterator[str]:
    used = {run.machine for variant in recording.variants for run in variant.runs}
    kinds: dict[str, set[tuple[str, ...]]] = {}
    for index in sorted(used):
        machine = recording.machines[index]
        # A script's torch is known without the toolkit that it was built for.
        torch, _, _ = (machine.torch or "unknown").partition("+")
        written = (
            f"{machine.gpu_name}, driver {machine.driver or 'none'}, CUDA "
            f"{machine.cuda or 'none'}, "
            f"torch {torch}, nsys {machine.nsys} ({' '.join(machine.nsys_options)}), "
            f"Python {machine.python}, {machine.cpu}, {machine.cpu_count} CPUs"
        )
        kinds.setdefault(written, set()).add(tuple(gpu.uuid for gpu in machine.gpus))
    for written, sets in kinds.items():
        yield f"- {written}" + (f"; {len(sets)} different GPUs" if len(sets) > 1 else "")
    runs = [run for variant in recording.variants for run in variant.runs]
    commits = sorted({run.commit for run in runs if run.commit is not None})
    yield f"- perfgate {recording.perfgate}" + (
        f", commit {', '.join(commits)} (+: with changes)" if commits else ""
    )
    yield f"- {len(runs)} runs, {sum(run.took_s for run in runs):.0f} s of measuring"


def _loop(recording: Recording, loop: str, steps: Sequence[Step]) -> Iterator[str]:
    series = VARIANTS.get(loop)
    variants = ordered_variants(recording, loop)
    yield from ("", f"## {loop}", "")
    if series is not None:
        published = f" Published on an {series.published_on}." if series.published_on else ""
        yield from (f"{series.summary}.{published}", "")
    elif loop in SCALED:
        yield from (f"{SCALED[loop]}.", "")
    yield from _speeds(series, variants)
    yield from _problems(variants)
    if steps:
        yield ""
        yield from _steps(series, steps)
        yield from _places(steps)
        yield from _noted(steps)


def _speeds(series: Series | None, variants: Sequence[RecordedVariant]) -> Iterator[str]:
    unit = None if series is None else series.unit
    columns: list[tuple[str, Callable[[RecordedVariant], str]]] = [
        ("runs", lambda variant: str(len(variant.sound))),
        ("steps/s", lambda variant: _speed(speed(variant))),
    ]
    if series is not None and unit is Unit.IMAGES:
        columns.append(("images/s", partial(_images, series)))
    if series is not None and unit is not None:
        columns.append((f"published {unit}", partial(_published, series)))
    columns += [
        (Metric.STEP_MS, partial(_ms, metric=Metric.STEP_MS)),
        ("spread", _spread),
        (Metric.KERNEL_MS, partial(_ms, metric=Metric.KERNEL_MS)),
        ("h2d_share", partial(_share, metric=Metric.H2D_MS)),
        (Metric.H2D_EXPOSED_MS, partial(_ms, metric=Metric.H2D_EXPOSED_MS)),
        *((metric, partial(_ms, metric=metric)) for metric in NCCL if _any(variants, metric)),
        ("gap_share", partial(_share, metric=Metric.GAP_MS)),
        *(
            (metric, partial(_count, metric=metric))
            for metric in COUNTS
            if metric not in RARE or _any(variants, metric)
        ),
    ]
    written = [(title, [cell(variant) for variant in variants]) for title, cell in columns]
    written = [(title, cells) for title, cells in written if any(cell != _NONE for cell in cells)]
    yield _row(["variant", *(title for title, _ in written)])
    yield _row(["---", *["---:"] * len(written)])
    for place, variant in enumerate(variants):
        yield _row([variant.variant, *(cells[place] for _, cells in written)])


def _problems(variants: Sequence[RecordedVariant]) -> Iterator[str]:
    written = [
        f"- {variant.variant} {'failed once' if variant.sound else 'has no run'}: {failure.reason}."
        for variant in variants
        for failure in variant.failures[-1:]
    ]
    unsound = {
        variant.variant: len(variant.runs) - len(variant.sound)
        for variant in variants
        if len(variant.runs) > len(variant.sound)
    }
    written += [
        f"- Runs of {name} that do not count: {number}." for name, number in unsound.items()
    ]
    if len({run.code for variant in variants for run in variant.sound}) > 1:
        written.append("- The workload's code changed between these runs.")
    written += _windows(variants)
    if written:
        yield ""
        yield from written


def _windows(variants: Sequence[RecordedVariant]) -> Iterator[str]:
    """How many steps a run measured, which the workload may have changed since."""
    of: dict[tuple[int | None, int], list[str]] = {}
    for variant in variants:
        of.setdefault((variant.workload.steps, variant.workload.warmup), []).append(variant.variant)
    for (steps, warmup), names in of.items():
        whose = f" of {listed(names)}" if len(of) > 1 else ""
        after = f" after {warmup} of warm-up" if warmup else ""
        yield f"- Each run{whose} measured {steps} steps{after}."


def _steps(series: Series | None, steps: Sequence[Step]) -> Iterator[str]:
    shows_published = any(step.published is not None for step in steps)
    titles = ["variant", "against", "speed", *(["published"] if shows_published else [])]
    titles += ["step up", "better", "worse", "step back", "worse then", "counts", "lesson"]
    yield _row(titles)
    yield _row(["---", "---", *["---:"] * (1 + shows_published), *["---"] * 7])
    for step in steps:
        lesson = _lesson(series, step.variant)
        cells = [step.variant, step.before, _times(step.ratio)]
        if shows_published:
            cells.append(_times(step.published))
        cells += [
            _outcome(step.up),
            _metrics(step.up, Outcome.IMPROVED, lesson),
            _metrics(step.up, Outcome.REGRESSED, lesson),
            _outcome(step.down),
            _metrics(step.down, Outcome.REGRESSED, lesson),
            ", ".join(step.counts()) or _NONE,
            f"{step.finding}: {'; '.join(step.why)}" if step.why else str(step.finding),
        ]
        yield _row(cells)


def _places(steps: Sequence[Step]) -> Iterator[str]:
    """Under which ranges the named metrics moved, a line each."""
    written = [
        f"- {step.variant}: {metric} {', '.join(moved)}"
        for step in steps
        for metric, changes in step.where.items()
        if (moved := _largest(changes))
    ]
    if written:
        yield from (
            "",
            "What changed in the named metrics on the way up, per step, by innermost range:",
            "",
        )
        yield from written


def _noted(steps: Sequence[Step]) -> Iterator[str]:
    """What a gate says below its table of a way up, a line each."""
    written = [
        f"- {step.variant}: {one}"
        for step in steps
        if step.up is not None
        for one in step.up.information
    ]
    if written:
        yield from ("", "What the gate remarks on, on the way up:", "")
        yield from written


def _largest(changes: Mapping[str, float]) -> list[str]:
    whole = max(map(abs, changes.values()), default=0.0)
    named = sorted(changes, key=lambda name: -abs(changes[name]))[:MOST_RANGES]
    return [
        f"{changes[name]:+.3g} under {name}"
        if name != OUTSIDE_RANGES
        else f"{changes[name]:+.3g} outside any range"
        for name in named
        if abs(changes[name]) >= LEAST_SHARE * whole > 0
    ]


def _lesson(series: Series | None, name: str) -> Lesson | None:
    variant = None if series is None else series.variant(name)
    return None if variant is None else variant.lesson


def _outcome(verdict: Verdict | None) -> str:
    return _NONE if verdict is None else str(verdict.outcome)


def _metrics(verdict: Verdict | None, outcome: Outcome, lesson: Lesson | None) -> str:
    named = () if lesson is None else lesson.metrics
    rows = () if verdict is None else verdict.metrics
    found = [row.metric for row in rows if row.outcome is outcome]
    return (
        ", ".join(f"**{metric}**" if metric in named else str(metric) for metric in found) or _NONE
    )


def _images(series: Series, measured: RecordedVariant) -> str:
    steps_s = speed(measured)
    return _speed(None if steps_s is None or series.batch is None else steps_s * series.batch)


def _published(series: Series, measured: RecordedVariant) -> str:
    variant = series.variant(measured.variant)
    if variant is None or variant.published is None:
        return _NONE
    written = f"{variant.published:,g}"
    return f"({written})" if variant.in_brackets else written


def _speed(value: float | None) -> str:
    if value is None:
        return _NONE
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2}f}"


def _times(ratio: float | None) -> str:
    return _NONE if ratio is None else f"x{ratio:.2f}"


def _ms(variant: RecordedVariant, metric: Metric) -> str:
    values = variant.values(metric)
    return milliseconds(median(values)) if values else _NONE


def _count(variant: RecordedVariant, metric: Metric) -> str:
    values = variant.values(metric)
    return count(median(values)) if values else _NONE


def _any(variants: Sequence[RecordedVariant], metric: Metric) -> bool:
    return any(any(variant.values(metric)) for variant in variants)


def _share(variant: RecordedVariant, metric: Metric) -> str:
    both = [(one.run.value(metric), one.run.value(Metric.STEP_MS)) for one in variant.sound]
    shares = [part / whole for part, whole in both if part is not None and whole]
    return f"{100 * median(shares):.1f} %" if shares else _NONE


def _spread(variant: RecordedVariant) -> str:
    values = variant.values(Metric.STEP_MS)
    return (
        f"{100 * (max(values) - min(values)) / median(values):.1f} %" if len(values) > 1 else _NONE
    )


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
