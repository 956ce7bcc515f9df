"""What was measured of captures, for `perfgate inspect`: every metric, by process, GPU, range and
kernel, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from perfgate.model.metric import METRICS, PERIODS, Kind, Metric
from perfgate.model.note import Note, Severity
from perfgate.model.sample import UNNAMED, DeviceSample, KernelSample, ProcessSample, RangeSample
from perfgate.render.page import Cell, Page, Row
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
    page.line(Cell(one_line(source, longest=1000), "bold"), f": {text}")
    missing_lines(page, missing or {})
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
    page.line(Cell(f"process {sample.pid}{rank}", "bold"), f": {measured}{window}")
    unit = "per step" if sample.steps else "in all"
    _values(page, sample, unit)
    absent_lines(page, sample.absent)
    range_ms, share = sample.nvtx_step_ms, sample.memory_share_h2d
    ms, part = numbers.milliseconds(range_ms or 0.0), numbers.share(share or 0.0, 1.0)
    invalid = [one for one in sample.notes if one.severity is Severity.INVALID]
    page.facts(
        # Why that may be less than the step is said by the notes, which know where the rest went.
        ("nvtx_sum", "" if range_ms is None else f"the step's range lasts {ms} ms on the CPU"),
        (
            "memory",
            "" if share is None else f"host-to-device is {part} of all memory operation time",
        ),
    )
    invalid_lines(page, invalid)
    page.facts(*(("note", say.fact(one)) for one in sample.notes if one not in invalid))
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


def missing_lines(page: Page, missing: Mapping[str, Note]) -> None:
    """Write what a capture lacks, and why."""
    reasons = {what: say.fact(why) for what, why in missing.items()}
    page.facts(*(("missing", text) for text in _by_reason(reasons)))


def invalid_lines(page: Page, notes: Sequence[Note]) -> None:
    """Write why a gate would not count a run like this."""
    count = "A gate does not count such a run."
    page.facts(*(("INVALID", f"{say.fact(one)}. {count}") for one in notes))


def absent_lines(page: Page, absent: Mapping[Metric, Note]) -> None:
    """Write which metrics could not be measured, and why."""
    reasons = {metric.value: say.fact(absent[metric]) for metric in METRICS if metric in absent}
    page.facts(*(("unmeasured", text) for text in _by_reason(reasons)))


def _by_reason(reasons: Mapping[str, str]) -> Iterator[str]:
    """What shares a reason stands before it, so that each is shown once."""
    for why in dict.fromkeys(reasons.values()):
        yield f"{', '.join(what for what, own in reasons.items() if own == why)}: {why}"


def _devices(page: Page, devices: Sequence[DeviceSample]) -> None:
    rows = [
        (metric.value, *(numbers.value(metric, device.values.get(metric)) for device in devices))
        for metric in METRICS
        if any(metric in device.values for device in devices)
    ]
    if devices:
        page.blank()
        page.table(("metric", *(f">{device.title}" for device in devices)), rows)
        page.facts(*((device.title, one_line(device.name or "")) for device in devices))


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
    is_invalid = [one.severity is Severity.INVALID for one in sample.notes]
    texts = [say.fact(one) for one in sample.notes]
    return {
        **held,
        "absent": {metric: say.fact(why) for metric, why in sample.absent.items()},
        "reasons": held["absent"],
        "information": [text for text, bad in zip(texts, is_invalid, strict=True) if not bad],
        "invalid": [text for text, bad in zip(texts, is_invalid, strict=True) if bad],
    }
