"""The baselines of a workload through git's history, as text and as JSON: what was blessed, no judgement."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from rich.cells import cell_len

from perfgate.model.history import History, MachineHistory, Version, VersionKind
from perfgate.model.metric import METRICS, Basis, Kind, Metric
from perfgate.render import numbers
from perfgate.render.page import LABEL, Cell, Column, Page, Row, cut, inert
from perfgate.render.records import moment

BLOCKS: Final = "▁▂▃▄▅▆▇█"
DIGITS: Final = "12345678"
"""The same heights where the terminal's encoding has no blocks."""
SMALLEST_SPAN: Final = 0.05
"""What the heights of a clock span at least, of the highest value: noise must not look like a cliff."""
DELETED: Final = "."
UNREADABLE: Final = "?"
WITHOUT: Final = "-"

_PROMINENT: Final = (Metric.STEP_MS, Metric.KERNEL_MS)
_ROOM: Final = (40, 20, 16)
"""Cells that the reasons are to have at least: in the widest layout, in those between, in the last."""
_LONGEST_NAME: Final = 10
"""Cells of who blessed, where there is little room."""
_LONGEST_LIST: Final = 3
"""Commits that a note names."""


def history_text(history: History, *, width: int, colour: bool, blocks: bool) -> str:
    """Return the baselines of a workload, newest last, in a table a machine; `blocks` or digits draw the series."""
    page = Page(width=width, colour=colour)
    for number, machine in enumerate(history.machines):
        if number:
            page.blank()
        _machine(page, machine, history, blocks=blocks)
    if history.trouble:
        page.blank()
        page.prose(f"There is no more: {history.trouble}.", label="history", style="yellow")
    if history.shallow:
        page.blank()
        told = "This clone is shallow: what is older is not in it. Fetch it: git fetch --unshallow"
        page.prose(told, label="history", style="yellow")
    return page.text


def history_json(history: History) -> str:
    """Return the same as JSON in plain ASCII, in the order of the record's fields, ending in a newline."""
    return json.dumps(history.model_dump(mode="json"), indent=2, allow_nan=False) + "\n"


def read_history_json(text: str) -> History:
    """Return the history in a JSON text.

    Raises:
        pydantic.ValidationError: the text is not one of this format.
    """
    return History.model_validate_json(text)


def sparkline(machine: MachineHistory, metric: Metric, *, longest: int, blocks: bool) -> str:
    """Return one character a version, newest last: its height between the lowest and the highest, or what it lacks.

    Heights of a clock span at least 5 % of the highest value, of a count whatever there is. Of a longer series the
    newest are shown.
    """
    shown = [v for v in machine.versions if v.is_point or v.kind in (VersionKind.DELETED, VersionKind.UNREADABLE)]
    shown = shown[-max(longest, 1) :]
    known = [v.values[metric] for v in shown if metric in v.values]
    if not known:
        return ""
    low, high = min(known), max(known)
    span = high - low
    if METRICS[metric].kind is Kind.CLOCK and span < SMALLEST_SPAN * high:
        low -= (SMALLEST_SPAN * high - span) / 2
        span = SMALLEST_SPAN * high
    ramp = BLOCKS if blocks else DIGITS
    return "".join(_height(version, metric, low=low, span=span, ramp=ramp) for version in shown)


def _height(version: Version, metric: Metric, *, low: float, span: float, ramp: str) -> str:
    match version.kind:
        case VersionKind.DELETED:
            return DELETED
        case VersionKind.UNREADABLE:
            return UNREADABLE
        case _ if metric not in version.values:
            return WITHOUT
        case _ if span <= 0:
            return ramp[len(ramp) // 2 - 1]
        case _:
            return ramp[min(int((version.values[metric] - low) / span * len(ramp)), len(ramp) - 1)]


def _machine(page: Page, machine: MachineHistory, history: History, *, blocks: bool) -> None:
    page.line(Cell(text=inert(history.workload), style="bold"), f" on {inert(machine.gpu)}: {_summary(machine)}")
    page.line(Cell(text="file".ljust(LABEL), style="dim"), inert(machine.file, longest=1000), indent=2)
    _series(page, machine, history.metric, blocks=blocks)
    page.blank()
    shown = [version for version in machine.versions if _is_row(version)]
    if shown:
        _table(page, shown, history.metric)
    _below(page, machine, shown, history.metric)


def _summary(machine: MachineHistory) -> str:
    """How many blessings there were, over which days, and whether one is in force."""
    blessed = {version.blessing: None for version in machine.versions if version.blessing is not None}
    days = sorted(_day(blessing.at) for blessing in blessed)
    told = f"{len(blessed)} blessing{'' if len(blessed) == 1 else 's'}"
    if days:
        told += f", {days[0]}" + (f" to {days[-1]}" if days[0] != days[-1] else "")
    match machine.versions[-1].kind:
        case VersionKind.DELETED:
            return f"{told}; deleted now"
        case VersionKind.UNREADABLE:
            return f"{told}; unreadable now"
        case _:
            return told


def _series(page: Page, machine: MachineHistory, metric: Metric, *, blocks: bool) -> None:
    known = [v.values[metric] for v in machine.versions if v.is_point and metric in v.values]
    if not known:
        page.prose(f"no version has {metric}", label=_label(metric))
        return
    ends = [f"lowest {_value(metric, min(known))}", f"highest {_value(metric, max(known))}"]
    last = machine.versions[-1].values.get(metric)
    if last is not None:
        ends.append(f"now {_value(metric, last)}")
    told = ", ".join(ends)
    room = page.width - 2 - len(_label(metric)) - len(told) - 2
    drawn = sparkline(machine, metric, longest=room, blocks=blocks)
    page.line(Cell(text=_label(metric), style="dim"), f"{drawn}  {told}", indent=2)


def _label(metric: Metric) -> str:
    return metric.value.ljust(LABEL) if len(metric.value) < LABEL else f"{metric.value}  "


def _is_row(version: Version) -> bool:
    return version.is_point or version.kind in (VersionKind.DELETED, VersionKind.UNREADABLE)


# The table


def _table(page: Page, versions: Sequence[Version], metric: Metric) -> None:
    """Write the widest layout in which the reasons still have room."""
    layouts = [_layout(versions, metric, wide=True, extras=_PROMINENT)]
    layouts += [_layout(versions, metric, wide=False, extras=extras) for extras in (_PROMINENT, _PROMINENT[1:], ())]
    for room, (columns, rows) in zip((_ROOM[0], _ROOM[1], _ROOM[1], _ROOM[2]), layouts, strict=True):
        if _needed(columns, rows, room=room) <= page.width:
            break
    page.table(columns, rows, indent=0)


def _needed(columns: Sequence[Column], rows: Sequence[Row], *, room: int) -> int:
    """Cells of a table whose last column is cut to `room`, one space between its columns."""
    widths = [
        max((cell_len(_text(row[n])) for row in rows), default=0) and max(cell_len(_text(row[n])) for row in rows)
        for n in range(len(columns))
    ]
    shown = [max(width, len(column.title)) for width, column in zip(widths, columns, strict=True) if width]
    shown[-1] = min(shown[-1], room)
    return sum(shown) + len(shown) - 1


def _text(cell: str | Cell) -> str:
    return cell.text if isinstance(cell, Cell) else cell


def _layout(
    versions: Sequence[Version], metric: Metric, *, wide: bool, extras: Sequence[Metric]
) -> tuple[list[Column], list[Row]]:
    """Columns and rows; `extras` are the metrics shown beside the one that the changes are of."""
    others = [extra for extra in extras if extra is not metric]
    anchored = any(version.since_anchor is not None for version in versions)
    first = wide or not anchored
    columns = [Column(title="blessed"), Column(title="by"), Column(title="commit")]
    columns += [Column(title="code")] if wide else []
    columns += [Column(title=metric.value, right=True), Column(title="change", right=True)]
    columns += [Column(title="first", right=True)] if first else []
    columns += [Column(title="anchor", right=True)] if anchored else []
    columns += [Column(title=other.value, right=True) for other in others]
    columns += [Column(title="runs", right=True)] if wide else []
    columns.append(Column(title="reason", flexible=True, prose=True))
    rows: list[Row] = []
    before: dict[Metric, float] = {}
    start: float | None = None
    for version in versions:
        value = version.values.get(metric)
        style = "" if version.blessing is not None else "yellow"
        code = version.blessing.commit if version.blessing is not None else None
        cells: list[str | Cell] = [_when(version, wide=wide), _who(version, wide=wide), _commit(version, wide=wide)]
        cells += [f"{inert(code.sha[:12])}{'+' if code.dirty else ''}" if code is not None else ""] if wide else []
        cells.append(_state(version, value, metric))
        cells.append(_change(version.change, metric, before.get(metric), value) + _mark(version.unlike))
        if first:
            since = _change(version.since_first, metric, start, value)
            cells.append(since + _mark(version.unlike_first) if since else "")
        if anchored:
            cells.append("" if version.since_anchor is None else numbers.change(version.since_anchor, Basis.LOG))
        for other in others:
            cells.append(_value(other, version.values[other]) if other in version.values else "")
        cells += [f"{version.runs}/{version.occasions}" if version.runs else ""] if wide else []
        cells.append(_reason(version))
        rows.append([Cell(text=_text(cell), style=style) for cell in cells])
        before.update(version.values)
        start = value if start is None else start
    return columns, rows


def _when(version: Version, *, wide: bool) -> str:
    at = version.blessing.at if version.blessing is not None else version.at
    if at is None:
        return "now" if version.commit is None else "?"
    return moment(at) if wide else _day(at)


def _day(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d")


def _who(version: Version, *, wide: bool) -> str:
    by = version.blessing.by if version.blessing is not None else version.author
    return inert(by, longest=40) if wide else cut(inert(by.partition(" <")[0]), _LONGEST_NAME)


def _commit(version: Version, *, wide: bool) -> str:
    return "none yet" if version.commit is None else inert(version.commit[: 12 if wide else 8])


def _state(version: Version, value: float | None, metric: Metric) -> str:
    if version.blessing is None:
        return "deleted" if version.kind is VersionKind.DELETED else "unread"
    return "none" if value is None else _value(metric, value)


def _change(fraction: float | None, metric: Metric, before: float | None, now: float | None) -> str:
    """A change in the metric's own terms: counts by their difference, clocks in per cent or points of a step."""
    if METRICS[metric].kind is Kind.COUNT:
        return "" if before is None or now is None else numbers.count_change(metric, before, now)
    return "" if fraction is None else numbers.change(fraction, _basis(metric))


def _basis(metric: Metric) -> Basis:
    clock = METRICS[metric].clock
    return clock.basis if clock is not None else Basis.LOG


def _mark(unlike: Sequence[str]) -> str:
    return " *" if unlike else ""


def _value(metric: Metric, amount: float) -> str:
    return numbers.value(metric, amount)


def _reason(version: Version) -> str:
    if version.blessing is None:
        told = version.fault if version.kind is VersionKind.UNREADABLE else version.subject
        told = told or "not committed"
    else:
        told = " ".join(version.blessing.reason.split())
    said = inert(told, longest=400)
    match version.kind:
        case VersionKind.RECREATED | VersionKind.RESTORED:
            return f"{version.kind}: {said}"
        case _:
            return said


# Below the table


def _below(page: Page, machine: MachineHistory, shown: Sequence[Version], metric: Metric) -> None:
    _captions(page, shown, metric)
    for version in machine.versions:
        who = f"{_commit(version, wide=False)}: "
        if version.kind is VersionKind.UNREADABLE:
            page.prose(f"{who}{inert(version.fault, longest=400)}", label="unreadable", style="yellow")
        if version.unlike and version.is_point:
            page.prose(f"{who}{'; '.join(inert(one, longest=400) for one in version.unlike)}", label="* not alike")
        if version.moved_from is not None:
            page.prose(f"{who}from {inert(version.moved_from, longest=400)}", label="moved")
        if version.merge:
            page.prose(f"{who}a merge whose baseline is neither side's", label="merged")
        if version.at_cut:
            page.prose(f"{who}of then or older; this clone has no more of its history", label="cut")
    rewritten = [v for v in machine.versions if v.kind is VersionKind.REWRITTEN and v.commit is not None]
    if rewritten:
        page.prose(f"without a new blessing, as by perfgate calibrate: {_list(rewritten)}", label="rewritten")
    if machine.dropped:
        told = ", ".join(inert(sha[:8]) for sha in machine.dropped[:_LONGEST_LIST])
        page.prose(f"blessed on a branch, and left out when that was merged: {told}", label="dropped")
    if machine.creation is not None:
        gone = ", ".join(inert(name) for name in machine.creation.deleted)
        told = f"{inert(machine.creation.commit[:8])} created it and deleted the baseline of {gone}"
        page.prose(f"{told}: perfgate history shows that one apart", label="renamed?")


def _captions(page: Page, shown: Sequence[Version], metric: Metric) -> None:
    told: list[str] = []
    if any(version.change is not None for version in shown):
        told.append("change: against the one before")
    if any(version.since_first is not None for version in shown) and not all(
        version.since_anchor is not None for version in shown
    ):
        told.append("first: against the first")
    if any(version.since_anchor is not None for version in shown):
        told.append("anchor: against the best step blessed until then")
    if METRICS[metric].kind is Kind.CLOCK and _basis(metric) is Basis.STEP and told:
        told.append("pp: percentage points of the step compared with")
    if told:
        page.prose(f"{'; '.join(told)}", style="dim")


def _list(versions: Sequence[Version]) -> str:
    named = ", ".join(_commit(version, wide=False) for version in versions[:_LONGEST_LIST])
    more = len(versions) - _LONGEST_LIST
    return f"{named} and {more} more" if more > 0 else named
