"""The baselines of a workload through git's history, as text and as JSON: what was blessed, no judgement."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Final

from rich.cells import cell_len

from perfgate.model import numbers
from perfgate.model.history import History, MachineHistory, Version, VersionKind
from perfgate.model.metric import METRICS, Basis, Kind, Metric
from perfgate.model.words import plural
from perfgate.render.page import LABEL, Cell, Column, Page, Row, cut, inert
from perfgate.render.records import ci_run, moment

BLOCKS: Final = "▁▂▃▄▅▆▇█"
DIGITS: Final = "12345678"
"""The same heights where the terminal's encoding has no blocks."""
SMALLEST_SPAN: Final = 0.05
"""What the heights of a clock span at least, of the highest value: noise must not look like a cliff."""
DELETED: Final = "."
UNREADABLE: Final = "?"
WITHOUT: Final = "-"

_PROMINENT: Final = (Metric.STEP_MS, Metric.KERNEL_MS)
_ROOM: Final = (40, 20, 16, 16, 16)
"""Cells that the reasons are to have at least, by layout, the widest first; the last is taken whatever they have."""
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


def sparkline(machine: MachineHistory, metric: Metric, *, longest: int, blocks: bool) -> str:
    """Return one character a version, newest last: its height between the lowest and the highest, or what it lacks.

    Heights of a clock span at least 5 % of the highest value, of a count whatever there is. Of a longer series the
    newest are shown.
    """
    shown = _drawn(machine)
    shown = shown[-max(longest, 1) :]
    known = [v.values[metric] for v in shown if metric in v.values]
    if not known:
        return ""
    low, high = min(known), max(known)
    span = high - low
    ramp = BLOCKS if blocks else DIGITS
    if METRICS[metric].kind is Kind.CLOCK and span < SMALLEST_SPAN * high:
        # The middle of the values to the middle of a height, so that they do not lie on both sides of an edge.
        least = SMALLEST_SPAN * high
        low, span = low - (least - span) / 2 - least / (2 * len(ramp)), least
    return "".join(_height(version, metric, low=low, span=span, ramp=ramp) for version in shown)


def _drawn(machine: MachineHistory) -> list[Version]:
    """What a series draws: the versions that have a row, and what is in force now, if occasions made that of them."""
    return [
        version
        for version in machine.versions
        if _is_row(version) or version is machine.versions[-1]
    ]


def _height(version: Version, metric: Metric, *, low: float, span: float, ramp: str) -> str:
    match version.kind:
        case VersionKind.DELETED:
            return DELETED
        case VersionKind.UNREADABLE:
            return UNREADABLE
        case _ if metric not in version.values:
            return WITHOUT
        case _ if span <= 0:
            return ramp[len(ramp) // 2]
        case _:
            return ramp[min(int((version.values[metric] - low) / span * len(ramp)), len(ramp) - 1)]


def _machine(page: Page, machine: MachineHistory, history: History, *, blocks: bool) -> None:
    page.line(
        Cell(text=inert(history.workload), style="bold"),
        f" on {inert(machine.gpu)}: {_summary(machine)}",
    )
    page.line(
        Cell(text="file".ljust(LABEL), style="dim"), inert(machine.file, longest=1000), indent=2
    )
    _series(page, machine, history.metric, blocks=blocks)
    page.blank()
    shown = [version for version in machine.versions if _is_row(version)]
    if shown:
        _table(page, shown, history.metric)
    _below(page, machine, history.metric)


def _summary(machine: MachineHistory) -> str:
    """How many blessings there were, over which days, and whether one is in force."""
    blessed = {
        version.blessing: None for version in machine.versions if version.blessing is not None
    }
    days = sorted(_day(blessing.at) for blessing in blessed)
    told = plural(len(blessed), "blessing")
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
    known = [v.values[metric] for v in _drawn(machine) if metric in v.values]
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
    layouts += [
        _layout(versions, metric, wide=False, extras=extras)
        for extras in (_PROMINENT, _PROMINENT[1:], ())
    ]
    layouts.append(_layout(versions, metric, wide=False, extras=(), since=False))
    for room, (columns, rows) in zip(_ROOM, layouts, strict=True):
        if _needed(columns, rows, room=room) <= page.width:
            break
    page.table(columns, rows, indent=0)
    _captions(
        page,
        metric,
        {column.title for n, column in enumerate(columns) if any(_text(row[n]) for row in rows)},
    )


def _needed(columns: Sequence[Column], rows: Sequence[Row], *, room: int) -> int:
    """Cells of a table whose last column is cut to `room`, one space between its columns."""
    widths = [max(cell_len(_text(row[n])) for row in rows) for n in range(len(columns))]
    shown = [
        max(width, len(column.title))
        for width, column in zip(widths[:-1], columns, strict=False)
        if width
    ]
    return sum(shown) + len(shown) + min(widths[-1], room)


def _text(cell: str | Cell) -> str:
    return cell.text if isinstance(cell, Cell) else cell


def _layout(
    versions: Sequence[Version],
    metric: Metric,
    *,
    wide: bool,
    extras: Sequence[Metric],
    since: bool = True,
) -> tuple[list[Column], list[Row]]:
    """Columns and rows; `extras` are the metrics beside the one that the changes are of, which `since` adds to."""
    others = [extra for extra in extras if extra is not metric]
    anchored = since and any(version.since_anchor is not None for version in versions)
    first = since and (wide or not anchored)
    columns = [Column(title="blessed"), Column(title="by"), Column(title="commit")]
    columns += [Column(title="code")] if wide else []
    columns += [Column(title=metric.value, right=True), Column(title="change", right=True)]
    columns += [Column(title="first", right=True)] if first else []
    columns += [Column(title="anchor", right=True)] if anchored else []
    columns += [Column(title=other.value, right=True) for other in others]
    columns += [Column(title="runs", right=True)] if wide else []
    columns.append(Column(title="reason", flexible=True, prose=True))
    rows: list[Row] = []
    for version in versions:
        value = version.values.get(metric)
        style = "" if version.blessing is not None else "yellow"
        code = version.blessing.commit if version.blessing is not None else None
        cells: list[str | Cell] = [
            _when(version, wide=wide),
            _who(version, wide=wide),
            _commit(version, wide=wide),
        ]
        cells += (
            [f"{inert(code.sha[:12])}{'+' if code.dirty else ''}" if code is not None else ""]
            if wide
            else []
        )
        cells.append(_state(version, value, metric))
        cells.append(
            _mark(_change(version.change, metric, version.before, value, wide=wide), version.unlike)
        )
        if first:
            gain = _change(version.since_first, metric, version.first, value, wide=wide)
            cells.append(_mark(gain, version.unlike_first))
        if anchored:
            cells.append(
                ""
                if version.since_anchor is None
                else numbers.change(version.since_anchor, Basis.LOG)
            )
        for other in others:
            cells.append(_value(other, version.values[other]) if other in version.values else "")
        cells += [f"{version.runs}/{version.occasions}" if version.runs else ""] if wide else []
        cells.append(_reason(version))
        rows.append([Cell(text=_text(cell), style=style) for cell in cells])
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


def _change(
    fraction: float | None, metric: Metric, before: float | None, now: float | None, *, wide: bool
) -> str:
    """A change in the metric's own terms; of counts the difference, and where there is room how much that is."""
    if METRICS[metric].kind is Kind.COUNT:
        told = "" if before is None or now is None else numbers.count_change(metric, before, now)
        return told if wide else told.partition(" (")[0]
    return "" if fraction is None else numbers.change(fraction, METRICS[metric].basis)


def _mark(told: str, unlike: Sequence[str]) -> str:
    return f"{told} *" if told and unlike else told


def _value(metric: Metric, amount: float) -> str:
    return numbers.value(metric, amount)


def _reason(version: Version) -> str:
    match version.kind:
        case VersionKind.UNREADABLE:
            told = version.fault
        case VersionKind.DELETED:
            told = version.subject or "not committed"
        case _:
            told = version.blessing.reason if version.blessing is not None else ""
    return inert(" ".join(told.split()), longest=400)


# Below the table


def _below(page: Page, machine: MachineHistory, metric: Metric) -> None:
    for version in machine.versions:
        who = f"{_commit(version, wide=False)}: "
        if version.kind is VersionKind.UNREADABLE:
            page.prose(
                f"{who}{inert(version.fault, longest=400)}", label="unreadable", style="yellow"
            )
        if version.kind is VersionKind.RECREATED:
            page.prose(f"{who}blessed anew after the deletion", label="re-created")
        if version.kind is VersionKind.RESTORED:
            page.prose(f"{who}an earlier blessing is the baseline again", label="restored")
        if version.unlike and version.is_point:
            page.prose(
                f"{who}{'; '.join(inert(one, longest=400) for one in version.unlike)}",
                label="* not alike",
            )
        if version.moved_from is not None:
            page.prose(f"{who}from {inert(version.moved_from, longest=400)}", label="moved")
        if version.merge:
            page.prose(f"{who}a merge left it as neither side had it", label="merged")
        if version.at_cut:
            page.prose(
                f"{who}this commit or an older one brought it; the clone has no more of its history",
                label="cut",
            )
    _runs_in_ci(page, [version for version in machine.versions if version.is_point])
    _extended(
        page,
        [version for version in machine.versions if version.kind is VersionKind.EXTENDED],
        metric,
    )
    rewritten = [
        v.commit
        for v in machine.versions
        if v.kind is VersionKind.REWRITTEN and v.commit is not None
    ]
    if rewritten:
        page.prose(
            f"without a new blessing, as by perfgate calibrate: {_commits(rewritten)}",
            label="rewritten",
        )
    if machine.dropped:
        told = _commits(machine.dropped)
        page.prose(
            f"blessed on a branch, and left out when that was merged: {told}", label="dropped"
        )
    if machine.creation is not None:
        gone = machine.creation.deleted
        told = f"{inert(machine.creation.commit[:8])} created it and deleted the baseline of {_names(gone)}"
        look = (
            f", whose history is its own: perfgate history {shlex.quote(inert(gone[0]))}"
            if len(gone) == 1
            else ""
        )
        page.prose(f"{told}{look}", label="renamed?")


def _runs_in_ci(page: Page, versions: Sequence[Version]) -> None:
    """Say which CI run measured what was blessed, of the newest few."""
    told = [(v, run) for v in versions if v.blessing is not None and (run := ci_run(v.blessing))]
    for version, run in told[-_LONGEST_LIST:]:
        page.prose(f"{_commit(version, wide=False)}: {run}", label="CI run")


def _extended(page: Page, versions: Sequence[Version], metric: Metric) -> None:
    """Say which occasions were added without a new blessing: of the newest few all that is known, of the rest which."""
    told = [(version, added) for version in versions for added in version.added]
    for version, added in told[-_LONGEST_LIST:]:
        size = f"{plural(version.runs, 'run')} over {plural(version.occasions, 'occasion')}"
        size += (
            f", {metric} {_value(metric, version.values[metric])}"
            if metric in version.values
            else ""
        )
        who = f"{moment(added.at)} by {inert(added.by, longest=40)}"
        run = f"; {run}" if (run := ci_run(added)) else ""
        why = inert(" ".join(added.reason.split()), longest=400)
        page.prose(
            f"{_commit(version, wide=False)}: {who}, now {size}{run}: {why}", label="occasion"
        )
    older = [version.commit for version, _ in told[:-_LONGEST_LIST] if version.commit is not None]
    if older:
        page.prose(f"added before these: {_commits(older[::-1])}", label="occasions")


def _names(names: Sequence[str]) -> str:
    return ", ".join(inert(name) for name in names)


def _captions(page: Page, metric: Metric, titles: Collection[str]) -> None:
    """Say what the columns are, of those that are shown and do not say it themselves."""
    told = [f"{title}: {meaning}" for title, meaning in _MEANINGS if title in titles]
    if (
        "change" in titles
        and METRICS[metric].kind is Kind.CLOCK
        and METRICS[metric].basis is Basis.STEP
    ):
        told.append("pp: percentage points of its step")
    if told:
        page.prose("; ".join(told), style="dim")


_MEANINGS: Final = (
    ("change", "against the one before"),
    ("first", "against the first"),
    ("anchor", "against the best step blessed until then"),
    ("code", "checked out then, + if with changes"),
    ("runs", "of how many occasions"),
)


def _commits(shas: Sequence[str]) -> str:
    named = ", ".join(inert(sha[:8]) for sha in shas[:_LONGEST_LIST])
    more = len(shas) - _LONGEST_LIST
    return f"{named} and {more} more" if more > 0 else named
