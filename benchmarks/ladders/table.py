"""Writes RESULTS.md from a recording and its judgements; measures and decides nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Final

from benchmarks.ladders.judging import Step, judge_loop, ordered_rungs, speed
from benchmarks.ladders.lessons import LADDERS, SCALED, Ladder, Lesson, Unit
from benchmarks.ladders.recording import RecordedRung, Recording
from benchmarks.ladders.shares import shares_of
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.sample import OUTSIDE_RANGES
from perfgate.model.verdict import Verdict
from perfgate.words.names import listed
from perfgate.words.numbers import count, milliseconds

PICTURE: Final = "ladders.svg"
COUNTS: Final = (
    Metric.LAUNCHES,
    Metric.GRAPH_LAUNCHES,
    Metric.H2D_COPIES,
    Metric.PAGEABLE_COPIES,
    Metric.D2H_COPIES,
    Metric.SYNCS,
)
MOST_RANGES: Final = 3
OTHERWISE: Final = 0.1
"""A gain that differs from the published one by a larger share of it is told with what the GPU did.
"""
LEAST_SHARE: Final = 0.05
"""Of the largest change: a range of less is not named."""
RARE: Final = (Metric.GRAPH_LAUNCHES,)
"""Shown only where there are any."""
NCCL: Final = (Metric.NCCL_MS, Metric.NCCL_EXPOSED_MS)
"""Likewise."""
_NONE: Final = "-"


def markdown(recording: Recording, *, picture: bool) -> str:
    """Write the whole file; `picture` tells whether one lies beside it."""
    judged = {loop: judge_loop(recording, loop) for loop in ordered_loops(recording)}
    lines = [
        "# The optimisation ladders, measured and judged",
        "",
        (
            "Made by `python -m benchmarks.ladders run` and `table`; do not edit. Every rung is run in fresh processes "
            "under nsys, in turns with the rungs of its loop that share its GPUs. Values are medians over runs, per "
            "step; `spread` is the range of step_ms over its median. The published speeds are those of the tutorials "
            "that teach with these loops, on another machine: what can be compared is how much faster a rung is than "
            "another."
        ),
        "",
        (
            "A step up is judged by perfgate as an A/B run of the rung with the one before it, a step back with the sides "
            "exchanged, each as a gate of its own. It is as taught where every metric that the tutorial names got "
            "better on the way up and REGRESSED on the way back; at a price where another metric got worse besides, "
            "since a gate then calls the way up REGRESSED. A rung that is taught to change nothing must be PASSED "
            "both ways. Runs are compared on the GPUs that both rungs ran on, if each has three there or more; if not, "
            "all are. Metrics that the tutorial names are in bold."
        ),
        "",
        *_circumstances(recording),
    ]
    found = Counter(step.finding for steps in judged.values() for step in steps)
    if found:
        lines += [
            "",
            f"{found.total()} steps: {', '.join(f'{number} {finding}' for finding, number in found.items())}.",
        ]
    if picture:
        lines += [
            "",
            f"![Speed-up over the first rung of each loop, ours and published; what the GPU did of a step]({PICTURE})",
        ]
    for loop, steps in judged.items():
        lines += _loop(recording, loop, steps)
    return "\n".join(lines) + "\n"


def ordered_loops(recording: Recording) -> list[str]:
    """The recorded loops, those with a ladder first and in its order."""
    known = [loop for loop in LADDERS if loop in recording.loops()]
    return [*known, *(loop for loop in recording.loops() if loop not in known)]


def _circumstances(recording: Recording) -> Iterator[str]:
    used = {run.machine for rung in recording.rungs for run in rung.runs}
    kinds: dict[str, set[tuple[str, ...]]] = {}
    for index in sorted(used):
        machine = recording.machines[index]
        # A script's torch is told without the toolkit that it was built for.
        torch, _, _ = (machine.torch or "unknown").partition("+")
        told = (
            f"{machine.gpu_name}, driver {machine.driver or 'none'}, CUDA {machine.cuda or 'none'}, "
            f"torch {torch}, nsys {machine.nsys} ({' '.join(machine.nsys_options)}), "
            f"Python {machine.python}, {machine.cpu}, {machine.cpu_count} CPUs"
        )
        kinds.setdefault(told, set()).add(tuple(gpu.uuid for gpu in machine.gpus))
    for told, sets in kinds.items():
        yield f"- {told}" + (f"; {len(sets)} different GPUs" if len(sets) > 1 else "")
    runs = [run for rung in recording.rungs for run in rung.runs]
    commits = sorted({run.commit for run in runs if run.commit is not None})
    yield f"- perfgate {recording.perfgate}" + (
        f", commit {', '.join(commits)} (+: with changes)" if commits else ""
    )
    if recording.small:
        yield "- The small variants of the loops: no published number is about these, and none is shown."
    yield f"- {len(runs)} runs, {sum(run.took_s for run in runs):.0f} s of measuring"


def _loop(recording: Recording, loop: str, steps: Sequence[Step]) -> Iterator[str]:
    ladder = LADDERS.get(loop)
    rungs = ordered_rungs(recording, loop)
    yield from ("", f"## {loop}", "")
    if ladder is not None:
        published = (
            f" Published on an {ladder.published_on}."
            if ladder.published_on and not recording.small
            else ""
        )
        yield from (f"{ladder.told}.{published}", "")
    elif loop in SCALED:
        yield from (f"{SCALED[loop]}.", "")
    yield from _speeds(recording, ladder, rungs)
    yield from _remarks(recording, rungs)
    if steps:
        yield ""
        yield from _steps(ladder, steps, small=recording.small)
        yield from _places(steps)
        yield from _remarked(steps)
        if not recording.small:
            yield from _unlike_published(recording, loop, steps)


def _speeds(
    recording: Recording, ladder: Ladder | None, rungs: Sequence[RecordedRung]
) -> Iterator[str]:
    unit = None if ladder is None or recording.small else ladder.unit
    columns: list[tuple[str, Callable[[RecordedRung], str]]] = [
        ("runs", lambda rung: str(len(rung.sound))),
        ("steps/s", lambda rung: _speed(speed(rung))),
    ]
    if ladder is not None and unit is Unit.IMAGES:
        columns.append(("images/s", partial(_images, ladder)))
    if ladder is not None and unit is not None:
        columns.append((f"published {unit}", partial(_published, ladder)))
    columns += [
        (Metric.STEP_MS, partial(_ms, metric=Metric.STEP_MS)),
        ("spread", _spread),
        (Metric.KERNEL_MS, partial(_ms, metric=Metric.KERNEL_MS)),
        ("h2d_share", partial(_share, metric=Metric.H2D_MS)),
        (Metric.H2D_EXPOSED_MS, partial(_ms, metric=Metric.H2D_EXPOSED_MS)),
        *((metric, partial(_ms, metric=metric)) for metric in NCCL if _any(rungs, metric)),
        ("gap_share", partial(_share, metric=Metric.GAP_MS)),
        *(
            (metric, partial(_count, metric=metric))
            for metric in COUNTS
            if metric not in RARE or _any(rungs, metric)
        ),
    ]
    told = [(title, [tell(rung) for rung in rungs]) for title, tell in columns]
    told = [(title, cells) for title, cells in told if any(cell != _NONE for cell in cells)]
    yield _row(["rung", *(title for title, _ in told)])
    yield _row(["---", *["---:"] * len(told)])
    for place, rung in enumerate(rungs):
        yield _row([rung.rung, *(cells[place] for _, cells in told)])


def _remarks(recording: Recording, rungs: Sequence[RecordedRung]) -> Iterator[str]:
    told = [
        f"- {rung.rung} {'failed once' if rung.sound else 'has no run'}: {failure.reason}."
        for rung in rungs
        for failure in rung.failures[-1:]
    ]
    unsound = {
        rung.rung: len(rung.runs) - len(rung.sound)
        for rung in rungs
        if len(rung.runs) > len(rung.sound)
    }
    told += [f"- Runs of {name} that do not count: {number}." for name, number in unsound.items()]
    if len({run.code for rung in rungs for run in rung.sound}) > 1:
        told.append("- The workload's code changed between these runs.")
    told += [*_windows(rungs), *_apart(recording, rungs)]
    if told:
        yield ""
        yield from told


def _windows(rungs: Sequence[RecordedRung]) -> Iterator[str]:
    """How many steps a run measured, which the workload may have changed since."""
    of: dict[tuple[int | None, int], list[str]] = {}
    for rung in rungs:
        of.setdefault((rung.workload.steps, rung.workload.warmup), []).append(rung.rung)
    for (steps, warmup), names in of.items():
        whose = f" of {listed(names)}" if len(of) > 1 else ""
        after = f" after {warmup} of warm-up" if warmup else ""
        yield f"- Each run{whose} measured {steps} steps{after}."


def _apart(recording: Recording, rungs: Sequence[RecordedRung]) -> Iterator[str]:
    """Which rungs were measured on which machine, where not all were on the same."""
    on: dict[int, list[str]] = {}
    for rung in rungs:
        for machine in sorted({_host(recording, run.machine) for run in rung.sound}):
            on.setdefault(machine, []).append(rung.rung)
    if len({tuple(names) for names in on.values()}) > 1:
        told = (
            f"{listed(names)} on machine {machine + 1}" for machine, names in sorted(on.items())
        )
        yield f"- Measured were {'; '.join(told)}."


def _host(recording: Recording, machine: int) -> int:
    """The first machine that has a GPU of this one: of a host, one process may see more GPUs than
    another."""
    gpus = {gpu.uuid for gpu in recording.machines[machine].gpus}
    shared = (gpus & {gpu.uuid for gpu in one.gpus} for one in recording.machines)
    return next((number for number, common in enumerate(shared) if common), machine)


def _steps(ladder: Ladder | None, steps: Sequence[Step], *, small: bool) -> Iterator[str]:
    shows_published = not small and any(step.published is not None for step in steps)
    titles = ["rung", "against", "speed", *(["published"] if shows_published else [])]
    titles += ["step up", "better", "worse", "step back", "worse then", "counts", "lesson"]
    yield _row(titles)
    yield _row(["---", "---", *["---:"] * (1 + shows_published), *["---"] * 7])
    for step in steps:
        lesson = _lesson(ladder, step.rung)
        cells = [step.rung, step.before, _times(step.ratio)]
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
    told = [
        f"- {step.rung}: {metric} {', '.join(moved)}"
        for step in steps
        for metric, changes in step.where.items()
        if (moved := _largest(changes))
    ]
    if told:
        yield from (
            "",
            "What changed in the named metrics on the way up, per step, by innermost range:",
            "",
        )
        yield from told


def _remarked(steps: Sequence[Step]) -> Iterator[str]:
    """What a gate says beside its table of a way up, a line each."""
    told = [
        f"- {step.rung}: {remark}"
        for step in steps
        if step.up is not None
        for remark in step.up.information
    ]
    if told:
        yield from ("", "What the gate remarks on, on the way up:", "")
        yield from told


def _unlike_published(recording: Recording, loop: str, steps: Sequence[Step]) -> Iterator[str]:
    """Where a rung gains more or less than published, a line each, with what the profile shows of
    it."""
    told: list[str] = []
    for step in steps:
        sides = [recording.of(loop, name) for name in (step.before, step.rung)]
        before, now = (None if side is None else shares_of(side) for side in sides)
        if not step.ratio or not step.published or before is None or now is None:
            continue
        if abs(step.ratio / step.published - 1) > OTHERWISE:
            shown = [
                f"{what} {100 * then:.0f} -> {100 * share:.0f} %"
                for what, then, share in (
                    ("computes", before.computing, now.computing),
                    ("copies and nothing else", before.copying, now.copying),
                    ("idles", before.idle, now.idle),
                )
            ]
            gains = f"x{step.ratio:.2f} against x{step.published:.2f}"
            told.append(f"- {step.rung}: {gains}; of a step the GPU {', '.join(shown)}")
    if told:
        yield from (
            "",
            "Where a gain is not the published one, and what the GPU does before and after it:",
            "",
        )
        yield from told


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


def _lesson(ladder: Ladder | None, name: str) -> Lesson | None:
    rung = None if ladder is None else ladder.rung(name)
    return None if rung is None else rung.lesson


def _outcome(verdict: Verdict | None) -> str:
    return _NONE if verdict is None else str(verdict.outcome)


def _metrics(verdict: Verdict | None, outcome: Outcome, lesson: Lesson | None) -> str:
    named = () if lesson is None else lesson.metrics
    rows = () if verdict is None else verdict.metrics
    found = [row.metric for row in rows if row.outcome is outcome]
    return (
        ", ".join(f"**{metric}**" if metric in named else str(metric) for metric in found) or _NONE
    )


def _images(ladder: Ladder, measured: RecordedRung) -> str:
    steps_s = speed(measured)
    return _speed(None if steps_s is None or ladder.batch is None else steps_s * ladder.batch)


def _published(ladder: Ladder, measured: RecordedRung) -> str:
    rung = ladder.rung(measured.rung)
    if rung is None or rung.published is None:
        return _NONE
    told = f"{rung.published:,g}"
    return f"({told})" if rung.in_brackets else told


def _speed(value: float | None) -> str:
    if value is None:
        return _NONE
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2}f}"


def _times(ratio: float | None) -> str:
    return _NONE if ratio is None else f"x{ratio:.2f}"


def _ms(rung: RecordedRung, metric: Metric) -> str:
    values = rung.values(metric)
    return milliseconds(median(values)) if values else _NONE


def _count(rung: RecordedRung, metric: Metric) -> str:
    values = rung.values(metric)
    return count(median(values)) if values else _NONE


def _any(rungs: Sequence[RecordedRung], metric: Metric) -> bool:
    return any(any(rung.values(metric)) for rung in rungs)


def _share(rung: RecordedRung, metric: Metric) -> str:
    both = [(one.run.value(metric), one.run.value(Metric.STEP_MS)) for one in rung.sound]
    shares = [part / whole for part, whole in both if part is not None and whole]
    return f"{100 * median(shares):.1f} %" if shares else _NONE


def _spread(rung: RecordedRung) -> str:
    values = rung.values(Metric.STEP_MS)
    return (
        f"{100 * (max(values) - min(values)) / median(values):.1f} %" if len(values) > 1 else _NONE
    )


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
