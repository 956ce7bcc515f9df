"""What was measured of captures, for `perfgate inspect`: every metric, by process, GPU, range and
kernel, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from perfgate.model.metric import METRICS, PERIODS, Kind, Metric
from perfgate.model.note import Note, Severity
from perfgate.model.sample import UNNAMED, DeviceSample, KernelSample, ProcessSample, RangeSample
from perfgate.render.page import Page, Row
from perfgate.words import numbers, say
from perfgate.words.escape import one_line
from perfgate.words.numbers import plural

MOST_RANGES: Final = 20
MOST_KERNELS: Final = 10
LONGEST: Final = 400
"""Characters of a name."""

OF_RANGE: Final = {
    Metric.KERNEL_MS: "kernel ms",
    Metric.NCCL_MS: "nccl ms",
    Metric.GAP_MS: "gap ms",
    Metric.H2D_MS: "h2d ms",
    Metric.LAUNCHES: "launches",
    Metric.SYNCS: "syncs",
}


def sample_text(
    page: Page,
    samples: Sequence[ProcessSample],
    *,
    source: str,
    missing: Mapping[str, Note] | None = None,
) -> str:
    """Return all that was measured of one capture.

    Args:
        page: what it is written on.
        samples: one a process, as the metrics room returns them.
        source: the capture's file name.
        missing: what the capture lacks and why, as `Timeline.missing` says.
    """
    text = plural(len(samples), "process", "processes")
    page.heading(source, f": {text}")
    reasons(page, "missing", missing or {})
    for sample in samples:
        page.blank()
        _process(page, sample)
    return page.text


def _process(page: Page, sample: ProcessSample) -> None:
    rank = "" if sample.rank is None else f" (rank {sample.rank})"
    measured = plural(sample.steps, "step")
    if not sample.steps:
        measured = "the whole captured window, as one"
    # Without enough steps for a period there is no window, whose 0 would read as a time.
    window = f", {numbers.milliseconds(sample.window_ms)} ms" if sample.window_ms else ""
    page.heading(f"process {sample.pid}{rank}", f": {measured}{window}")
    unit = "per step" if sample.steps else "in all"
    _values(page, sample, unit)
    reasons(page, "unmeasured", sample.absent)
    invalid = [one for one in sample.notes if one.severity is Severity.INVALID]
    if sample.nvtx_step_ms is not None:
        # Why that may be less than the step is said by the notes, which know where the rest went.
        ms = numbers.milliseconds(sample.nvtx_step_ms)
        page.prose(f"the step's range lasts {ms} ms on the CPU", label="nvtx_sum")
    if sample.memory_share_h2d is not None:
        part = numbers.share(sample.memory_share_h2d, 1.0)
        page.prose(f"host-to-device is {part} of all memory operation time", label="memory")
    invalid_lines(page, invalid)
    page.facts("note", (say.fact(one) for one in sample.notes if one not in invalid))
    _devices(page, sample.devices)
    ranges_table(page, sample.ranges, unit)
    kernels_table(page, sample.kernels, unit)


def _values(page: Page, sample: ProcessSample, unit: str) -> None:
    whole = sample.values.get(Metric.STEP_MS) or (None if sample.steps else sample.window_ms)
    rows: list[Row] = []
    for metric, spec in METRICS.items():
        if (value := sample.values.get(metric)) is None:
            continue
        is_part = spec.kind is Kind.TIME and metric not in PERIODS
        part = numbers.share(value, whole) if whole and is_part else ""
        rows.append((metric.value, numbers.value(metric, value), part, spec.meaning))
    share = "of the step" if sample.steps else "of window"
    page.table(("metric", f">{unit}", f">{share}", "what it is*"), rows)


def reasons(page: Page, label: str, why: Mapping[str, Note] | Mapping[Metric, Note]) -> None:
    """Write what is not there, and why; what shares a reason stands before it, so that each is
    shown once."""
    facts = {what: say.fact(one) for what, one in why.items()}
    for reason in dict.fromkeys(facts.values()):
        of = ", ".join(what for what, own in facts.items() if own == reason)
        page.prose(f"{of}: {reason}", label=label)


def invalid_lines(page: Page, notes: Sequence[Note]) -> None:
    """Write why a gate would not count a run like this."""
    texts = (f"{say.fact(one)}. A gate does not count such a run." for one in notes)
    page.facts("INVALID", texts)


def _devices(page: Page, devices: Sequence[DeviceSample]) -> None:
    rows = [
        (metric.value, *(numbers.value(metric, device.values.get(metric)) for device in devices))
        for metric in METRICS
        if any(metric in device.values for device in devices)
    ]
    if devices:
        page.blank()
        page.table(("metric", *(f">{device.title}" for device in devices)), rows)
        for device in devices:
            page.prose(one_line(device.name or ""), label=device.title)


def ranges_table(page: Page, ranges: Sequence[RangeSample], unit: str) -> None:
    """Write the largest ranges, by their time on the CPU or the GPU; times in ms."""
    ordered = sorted(ranges, key=lambda sample: sample.size_ms, reverse=True)
    rows = [
        (
            one_line(sample.name, longest=LONGEST) or UNNAMED,
            numbers.count(sample.count),
            numbers.milliseconds(sample.cpu_ms),
            *(numbers.value(metric, sample.values.get(metric)) for metric in OF_RANGE),
        )
        for sample in ordered
    ]
    titles = ("range*", f">{unit}", ">CPU ms", *(f">{title}" for title in OF_RANGE.values()))
    _largest(page, titles, rows, MOST_RANGES)


def kernels_table(page: Page, kernels: Sequence[KernelSample], unit: str) -> None:
    """Write the kernels, copies and memsets that took the most GPU time."""
    whole = sum(kernel.gpu_ms for kernel in kernels)
    rows = [
        (
            one_line(kernel.name, longest=LONGEST),
            numbers.count(kernel.count),
            numbers.milliseconds(kernel.gpu_ms),
            numbers.share(kernel.gpu_ms, whole),
        )
        for kernel in sorted(kernels, key=lambda kernel: kernel.gpu_ms, reverse=True)
    ]
    titles = ("kernel, copy or memset*", f">{unit}", ">GPU ms", ">of these")
    _largest(page, titles, rows, MOST_KERNELS)


def _largest(page: Page, titles: Sequence[str], rows: Sequence[Row], most: int) -> None:
    if not rows:
        return
    page.blank()
    page.table(titles, rows[:most])
    if len(rows) > most:
        page.prose(f"and {len(rows) - most:,} smaller", style="dim")


MEASUREMENT_FORMAT: Final = 1
"""History: 1, the first."""


def measurement_text(
    samples: Sequence[ProcessSample], *, source: str, missing: Mapping[str, Note]
) -> str:
    """Return the measurement of one capture as JSON, ending in a newline; `missing` is what it
    lacks, and why."""
    measured = {
        "format": MEASUREMENT_FORMAT,
        "source": source,
        "missing": {what: say.fact(why) for what, why in missing.items()},
        "processes": [_as_json(sample) for sample in samples],
    }
    return json.dumps(measured, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _as_json(sample: ProcessSample) -> dict[str, Any]:
    """A process with its notes in words, and as codes."""
    held = sample.model_dump(mode="json")
    invalid = [one for one in sample.notes if one.severity is Severity.INVALID]
    return {
        **held,
        "absent": {metric: say.fact(why) for metric, why in sample.absent.items()},
        "reasons": held["absent"],
        "information": [say.fact(one) for one in sample.notes if one not in invalid],
        "invalid": [say.fact(one) for one in invalid],
    }
