"""What was measured of captures as text, for `perfgate inspect`: every metric, by process, GPU,
range and kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from perfgate.model.metric import METRICS, PERIODS, Kind, Metric
from perfgate.model.note import Note, Severity
from perfgate.model.sample import UNNAMED, DeviceSample, KernelSample, ProcessSample, RangeSample
from perfgate.render.page import Cell, Page, Row, columns
from perfgate.words import numbers, say
from perfgate.words.escape import one_line
from perfgate.words.names import plural

MOST_RANGES: Final = 20
MOST_KERNELS: Final = 10
_DEVICES_A_TABLE: Final = 4
_SHARED: Final = tuple(metric for metric, spec in METRICS.items() if spec.kind is Kind.CLOCK)
_NAME_ROOM: Final = 20_000
"""Cells of a name before the table shortens it further: a terminal may be wide."""

_OF_RANGE: Final = (
    (Metric.KERNEL_MS, "kernel"),
    (Metric.NCCL_MS, "nccl"),
    (Metric.GAP_MS, "gap"),
    (Metric.H2D_MS, "h2d"),
    (Metric.LAUNCHES, "launches"),
    (Metric.SYNCS, "syncs"),
)


def sample_text(
    samples: Sequence[ProcessSample],
    *,
    source: str,
    width: int,
    colour: bool,
    missing: Mapping[str, str] | None = None,
    remarks: Sequence[str] = (),
) -> str:
    """Return all that was measured of one capture.

    Args:
        samples: one a process, as the metrics room returns them.
        source: the capture's file name.
        width: cells of a line.
        colour: whether escape codes may be used.
        missing: what the capture lacks and why, as `Timeline.missing` says.
        remarks: what else there is to say, such as nsys's own diagnostics.
    """
    page = Page(width=width, colour=colour)
    text = plural(len(samples), "process", "processes")
    page.line(Cell(text=one_line(source, longest=1000), style="bold"), f": {text}")
    missing_lines(page, missing or {})
    for remark in remarks:
        page.prose(remark, label="note")
    for sample in samples:
        page.blank()
        _process(page, sample)
    return page.text


def _process(page: Page, sample: ProcessSample) -> None:
    rank = "" if sample.rank is None else f" (rank {sample.rank})"
    if sample.steps:
        unit = "per step"
        measured = plural(sample.steps, "step")
    else:
        unit = "in all"
        measured = "the whole captured window, as one"
    # Without enough steps for a period there is no window, whose 0 would read as a time.
    window = (
        f"{measured}, {numbers.milliseconds(sample.window_ms)} ms" if sample.window_ms else measured
    )
    page.line(Cell(text=f"process {sample.pid}{rank}", style="bold"), f": {window}")
    _values(page, sample, unit)
    absent_lines(page, sample.absent)
    if sample.nvtx_step_ms is not None:
        # Why that may be less than the step is said by the notes, which know where the rest went.
        text = f"the step's range lasts {numbers.milliseconds(sample.nvtx_step_ms)} ms on the CPU"
        page.prose(text, label="nvtx_sum")
    if sample.memory_share_h2d is not None:
        text = (
            f"host-to-device is {100 * sample.memory_share_h2d:.1f} % of all memory operation time"
        )
        page.prose(text, label="memory")
    invalid = [one for one in sample.notes if one.severity is Severity.INVALID]
    complaint_lines(page, invalid)
    for one in sample.notes:
        if one not in invalid:
            page.prose(say.fact(one), label="note")
    _devices(page, sample.devices)
    ranges_table(page, sample.ranges, unit)
    kernels_table(page, sample.kernels, unit)


def _values(page: Page, sample: ProcessSample, unit: str) -> None:
    whole = sample.values.get(Metric.STEP_MS) or (None if sample.steps else sample.window_ms)
    rows: list[Row] = []
    for metric in METRICS:
        if (value := sample.values.get(metric)) is None:
            continue
        part = (
            numbers.share(value, whole)
            if whole and metric in _SHARED and metric not in PERIODS
            else ""
        )
        rows.append((metric.value, numbers.value(metric, value), part, METRICS[metric].meaning))
    share = "of the step" if sample.steps else "of window"
    if rows:
        page.table(columns("metric", f">{unit}", f">{share}", "what it is~"), rows)


def missing_lines(page: Page, missing: Mapping[str, str]) -> None:
    """Write what a capture lacks, and why."""
    for why, what in _by_reason(missing).items():
        page.prose(f"{', '.join(what)}: {why}", label="missing")


def complaint_lines(page: Page, notes: Sequence[Note]) -> None:
    """Write why a gate would not count a run like this."""
    for one in notes:
        page.prose(f"{say.fact(one)}. A gate does not count such a run.", label="INVALID")


def absent_lines(page: Page, absent: Mapping[Metric, Note]) -> None:
    """Write which metrics could not be measured, and why."""
    reasons = {metric.value: say.fact(absent[metric]) for metric in METRICS if metric in absent}
    for reason, metrics in _by_reason(reasons).items():
        page.prose(f"{', '.join(metrics)}: {reason}", label="unmeasured")


def _by_reason(reasons: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
    """What shares a reason, so that each is shown once."""
    shared: dict[str, list[str]] = {}
    for what, why in reasons.items():
        shared.setdefault(why, []).append(what)
    return shared


def _devices(page: Page, devices: Sequence[DeviceSample]) -> None:
    for start in range(0, len(devices), _DEVICES_A_TABLE):
        some = devices[start : start + _DEVICES_A_TABLE]
        rows: list[Row] = [
            (metric.value, *(_known(metric, device.values) for device in some))
            for metric in METRICS
            if any(metric in device.values for device in some)
        ]
        if rows:
            page.blank()
            page.table(columns("metric", *(f">{device.title}" for device in some)), rows)
        for device in some:
            if device.name is not None:
                page.prose(one_line(device.name), label=device.title)


def ranges_table(page: Page, ranges: Sequence[RangeSample], unit: str) -> None:
    """Write the largest ranges, by their time on the CPU or the GPU; times in ms."""
    if not ranges:
        return
    ordered = sorted(ranges, key=lambda sample: sample.size_ms, reverse=True)
    shown = (
        f">{title}{' ms' if METRICS[metric].kind is Kind.CLOCK else ''}"
        for metric, title in _OF_RANGE
    )
    rows: list[Row] = [
        (
            one_line(sample.name, longest=_NAME_ROOM) or UNNAMED,
            numbers.count(sample.count),
            numbers.milliseconds(sample.cpu_ms),
            *(_known(metric, sample.values, zero="") for metric, _ in _OF_RANGE),
        )
        for sample in ordered[:MOST_RANGES]
    ]
    page.blank()
    page.table(columns("range*", f">{unit}", ">CPU ms", *shown), rows)
    if len(ordered) > MOST_RANGES:
        page.prose(f"and {plural(len(ordered) - MOST_RANGES, 'smaller range')}", style="dim")


def kernels_table(page: Page, kernels: Sequence[KernelSample], unit: str) -> None:
    """Write the kernels, copies and memsets that took the most GPU time."""
    if not kernels:
        return
    ordered = sorted(kernels, key=lambda kernel: kernel.gpu_ms, reverse=True)
    whole = sum(kernel.gpu_ms for kernel in ordered)
    rows: list[Row] = [
        (
            one_line(kernel.name, longest=_NAME_ROOM),
            numbers.count(kernel.count),
            numbers.milliseconds(kernel.gpu_ms),
            numbers.share(kernel.gpu_ms, whole),
        )
        for kernel in ordered[:MOST_KERNELS]
    ]
    page.blank()
    page.table(columns("kernel, copy or memset*", f">{unit}", ">GPU ms", ">of these"), rows)
    if len(ordered) > MOST_KERNELS:
        page.prose(f"and {len(ordered) - MOST_KERNELS} more", style="dim")


def _known(metric: Metric, values: Mapping[Metric, float], *, zero: str | None = None) -> str:
    if (value := values.get(metric)) is None:
        return ""
    return zero if zero is not None and value == 0 else numbers.value(metric, value)
