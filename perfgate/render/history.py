"""The baselines of a workload through git's history, as text and as JSON: no judgement."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from typing import Final

from rich.cells import cell_len

from perfgate.model.history import History, MachineHistory, Version, VersionKind
from perfgate.model.metric import METRICS, Basis, Kind, Metric
from perfgate.render.page import LABEL, Cell, Column, Page, cut
from perfgate.render.records import ci_run, moment
from perfgate.words import numbers
from perfgate.words.escape import one_line
from perfgate.words.names import plural

BLOCKS: Final = "▁▂▃▄▅▆▇█"
DIGITS: Final = "12345678"
"""The same heights where the terminal's encoding has no blocks."""
SMALLEST_SPAN: Final = 0.05
"""What the heights of a time span at least, of the highest value: noise must not look like a cliff.
"""
_GONE: Final = {VersionKind.DELETED: ".", VersionKind.UNREADABLE: "?"}
_WITHOUT: Final = "-"
_PROMINENT: Final = (Metric.STEP_MS, Metric.KERNEL_MS)
_LAYOUTS: Final = (
    (True, _PROMINENT, 40, ()),
    (False, _PROMINENT, 20, ("first",)),
    (False, _PROMINENT[1:], 16, ("first",)),
    (False, (), 16, ("first",)),
    (False, (), 16, ("first", "anchor")),
)
"""The widest first: whether all is shown, metrics next to the one asked for, cells for the reason,
and what is left out where there is more to compare with than `first`."""
_LONGEST_NAME: Final = 10
_LONGEST_LIST: Final = 3
_LONGEST_REASON: Final = 400
_MEANINGS: Final = {
    "change": "against the one before",
    "first": "against the first",
    "anchor": "against the best step blessed until then",
    "code": "checked out then, + if with changes",
    "runs": "of how many occasions",
}


def history_text(history: History, *, width: int, colour: bool, blocks: bool) -> str:
    """Return the baselines of a workload, newest last, in a table a machine; `blocks` draw the
    series."""
    page = Page(width=width, colour=colour)
    for number, machine in enumerate(history.machines):
        if number:
            page.blank()
        _machine(page, machine, history, blocks=blocks)
    notes = [f"There is no more: {history.trouble}."] if history.trouble else []
    if history.shallow:
        notes += [
            "This clone is shallow: what is older is not in it. Fetch it: git fetch --unshallow"
        ]
    for text in notes:
        page.blank()
        page.prose(text, label="history", style="yellow")
    return page.text


def history_json(history: History) -> str:
    """Return the same as JSON in plain ASCII, in the order of the record's fields."""
    return json.dumps(history.model_dump(mode="json"), indent=2, allow_nan=False) + "\n"


def sparkline(machine: MachineHistory, metric: Metric, *, longest: int, blocks: bool) -> str:
    """Return one character a version, newest last: its height, or what it lacks.

    Heights of a time span at least 5 % of the highest value, of a count whatever there is. Of a
    longer series the newest are shown.
    """
    shown = _drawn(machine)[-max(longest, 1) :]
    known = [v.values[metric] for v in shown if metric in v.values]
    if not known:
        return ""
    low, high = min(known), max(known)
    span = high - low
    ramp = BLOCKS if blocks else DIGITS
    if METRICS[metric].kind is Kind.CLOCK and span < SMALLEST_SPAN * high:
        # The middle of the values to the middle of a height, so that they share one.
        least = SMALLEST_SPAN * high
        low, span = low - (least - span) / 2 - least / (2 * len(ramp)), least

    def height(version: Version) -> str:
        if metric not in version.values:
            return _GONE.get(version.kind, _WITHOUT)
        if span <= 0:
            return ramp[len(ramp) // 2]
        share = (version.values[metric] - low) / span
        return ramp[min(int(share * len(ramp)), len(ramp) - 1)]

    return "".join(map(height, shown))


def _drawn(machine: MachineHistory) -> list[Version]:
    """The versions that have a row, and what is in force now."""
    last = machine.versions[-1]
    return [version for version in machine.versions if _is_row(version) or version is last]


def _is_row(version: Version) -> bool:
    return version.is_point or version.kind in _GONE


def _machine(page: Page, machine: MachineHistory, history: History, *, blocks: bool) -> None:
    name = Cell(text=one_line(history.workload), style="bold")
    page.line(name, f" on {one_line(machine.gpu)}: {_summary(machine)}")
    file = one_line(machine.file, longest=1000)
    page.line(Cell(text="file".ljust(LABEL), style="dim"), file, indent=2)
    _series(page, machine, history.metric, blocks=blocks)
    page.blank()
    if shown := [version for version in machine.versions if _is_row(version)]:
        _table(page, shown, history.metric)
    for version in machine.versions:
        _version_notes(page, version)
    _lists(page, machine, history.metric)


def _summary(machine: MachineHistory) -> str:
    """How many blessings there were, over which days, and whether one is in force."""
    blessed = {one.blessing for one in machine.versions if one.blessing is not None}
    days = sorted(_day(blessing.at) for blessing in blessed)
    span = " to ".join(dict.fromkeys((days[0], days[-1]))) if days else ""
    text = ", ".join(filter(None, (plural(len(blessed), "blessing"), span)))
    last = machine.versions[-1].kind
    return f"{text}; {last.value} now" if last in _GONE else text


def _series(page: Page, machine: MachineHistory, metric: Metric, *, blocks: bool) -> None:
    label = metric.value.ljust(LABEL) if len(metric.value) < LABEL else f"{metric.value}  "
    known = [v.values[metric] for v in _drawn(machine) if metric in v.values]
    if not known:
        page.prose(f"no version has {metric}", label=label)
        return
    ends = {"lowest": min(known), "highest": max(known)}
    if (last := machine.versions[-1].values.get(metric)) is not None:
        ends["now"] = last
    text = ", ".join(f"{name} {numbers.value(metric, value)}" for name, value in ends.items())
    room = page.width - 4 - len(label) - len(text)
    drawn = sparkline(machine, metric, longest=room, blocks=blocks)
    page.line(Cell(text=label, style="dim"), f"{drawn}  {text}", indent=2)


# The table

_Shown = tuple[Column, Callable[[Version], str]]


def _table(page: Page, versions: Sequence[Version], metric: Metric) -> None:
    """Write the widest layout in which the reasons still have room."""
    anchored = any(version.since_anchor is not None for version in versions)
    for wide, extras, room, left_out in _LAYOUTS:
        columns = [
            (column, cells)
            for column, of in _columns(metric, extras, wide=wide)
            if any(cells := [of(version) for version in versions])
            and not (anchored and column.title in left_out)
        ]
        if _needed(columns, room) <= page.width:
            break
    rows = [
        [Cell(text=cells[n], style="" if version.blessing else "yellow") for _, cells in columns]
        for n, version in enumerate(versions)
    ]
    page.table([column for column, _ in columns], rows, indent=0)
    _captions(page, metric, {column.title for column, _ in columns})


def _needed(columns: Sequence[tuple[Column, Sequence[str]]], room: int) -> int:
    """Cells of a table whose last column is cut to `room`, one space between its columns."""
    widths = [max(map(cell_len, (column.title, *cells))) for column, cells in columns]
    return sum(widths[:-1]) + len(widths) - 1 + min(widths[-1], room)


def _columns(metric: Metric, extras: Sequence[Metric], *, wide: bool) -> list[_Shown]:
    """The columns, and what stands in them; those in which nothing stands are left out."""
    columns: list[_Shown] = [
        (Column(title="blessed"), lambda v: _when(v, wide=wide)),
        (Column(title="by"), lambda v: _who(v, wide=wide)),
        (Column(title="commit"), lambda v: _commit(v, 12 if wide else 8)),
        (Column(title=metric.value, right=True), lambda v: _state(v, metric)),
        (
            Column(title="change", right=True),
            lambda v: _change(v, metric, v.change, v.before, v.unlike, wide=wide),
        ),
        (
            Column(title="first", right=True),
            lambda v: _change(v, metric, v.since_first, v.first, v.unlike_first, wide=wide),
        ),
        (Column(title="anchor", right=True), _since_anchor),
    ]
    columns += [
        (Column(title=extra.value, right=True), _values_of(extra))
        for extra in extras
        if extra is not metric
    ]
    if wide:
        columns.insert(3, (Column(title="code"), _code))
        columns.append((Column(title="runs", right=True), _runs))
    return [*columns, (Column(title="reason", flexible=True, prose=True), _reason)]


def _when(version: Version, *, wide: bool) -> str:
    at = version.blessing.at if version.blessing is not None else version.at
    if at is None:
        return "now" if version.commit is None else "?"
    return moment(at) if wide else _day(at)


def _day(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d")


def _who(version: Version, *, wide: bool) -> str:
    by = version.blessing.by if version.blessing is not None else version.author
    return one_line(by, longest=40) if wide else cut(one_line(by.partition(" <")[0]), _LONGEST_NAME)


def _commit(version: Version, digits: int = 8) -> str:
    return "none yet" if version.commit is None else one_line(version.commit[:digits])


def _code(version: Version) -> str:
    code = version.blessing.commit if version.blessing is not None else None
    return "" if code is None else f"{one_line(code.sha[:12])}{'+' if code.dirty else ''}"


def _state(version: Version, metric: Metric) -> str:
    if version.blessing is None:
        return "deleted" if version.kind is VersionKind.DELETED else "unread"
    return _values_of(metric)(version) or "none"


def _values_of(metric: Metric) -> Callable[[Version], str]:
    def shown(version: Version) -> str:
        value = version.values.get(metric)
        return "" if value is None else numbers.value(metric, value)

    return shown


def _runs(version: Version) -> str:
    return f"{version.runs}/{version.occasions}" if version.runs else ""


def _since_anchor(version: Version) -> str:
    since = version.since_anchor
    return "" if since is None else numbers.change(since, Basis.LOG.unit)


def _change(
    version: Version,
    metric: Metric,
    change: float | None,
    before: float | None,
    unlike: Sequence[str],
    *,
    wide: bool,
) -> str:
    """A change in the metric's own terms, with a star where the two are not alike."""
    now = version.values.get(metric)
    text = "" if change is None else numbers.change(change, METRICS[metric].basis.unit)
    if METRICS[metric].kind is Kind.COUNT:
        known = before is not None and now is not None
        text = numbers.count_change(metric, before or 0.0, now or 0.0) if known else ""
        text = text if wide else text.partition(" (")[0]
    return f"{text} *" if text and unlike else text


def _reason(version: Version) -> str:
    match version.kind:
        case VersionKind.UNREADABLE:
            text = version.fault
        case VersionKind.DELETED:
            text = version.subject or "not committed"
        case _:
            text = version.blessing.reason if version.blessing is not None else ""
    return _on_one_line(text)


def _on_one_line(text: str) -> str:
    return one_line(" ".join(text.split()), longest=_LONGEST_REASON)


def _captions(page: Page, metric: Metric, titles: Collection[str]) -> None:
    """Say what the columns are that do not say it themselves."""
    shown = [f"{title}: {meaning}" for title, meaning in _MEANINGS.items() if title in titles]
    if "change" in titles and METRICS[metric].basis is Basis.STEP:
        shown.append("pp: percentage points of its step")
    page.prose("; ".join(shown), style="dim")


# Below the table


def _version_notes(page: Page, version: Version) -> None:
    unlike = "; ".join(one_line(one, longest=_LONGEST_REASON) for one in version.unlike)
    cut_off = "this commit or an older one brought it; the clone has no more of its history"
    fault = one_line(version.fault, longest=_LONGEST_REASON)
    recreated = version.kind is VersionKind.RECREATED
    restored = version.kind is VersionKind.RESTORED
    notes = {
        "unreadable": fault if version.kind is VersionKind.UNREADABLE else "",
        "re-created": "blessed anew after the deletion" if recreated else "",
        "restored": "an earlier blessing is the baseline again" if restored else "",
        "* not alike": unlike if version.is_point else "",
        "merged": "a merge left it as neither side had it" if version.merge else "",
        "cut": cut_off if version.at_cut else "",
    }
    for label, text in notes.items():
        style = "yellow" if label == "unreadable" else ""
        if text:
            page.prose(f"{_commit(version)}: {text}", label=label, style=style)


def _lists(page: Page, machine: MachineHistory, metric: Metric) -> None:
    """Of what may be many, the newest few in full."""
    runs = [
        f"{_commit(version)}: {run}"
        for version in machine.versions
        if version.is_point and version.blessing and (run := ci_run(version.blessing))
    ]
    for text in runs[-_LONGEST_LIST:]:
        page.prose(text, label="CI run")
    extended = [v for v in machine.versions if v.kind is VersionKind.EXTENDED]
    added = [
        (version, _occasion(version, n, metric))
        for version in extended
        for n in range(len(version.added))
    ]
    for _, text in added[-_LONGEST_LIST:]:
        page.prose(text, label="occasion")
    older = [version.commit for version, _ in added[:-_LONGEST_LIST] if version.commit is not None]
    rewritten = [v.commit for v in machine.versions if v.kind is VersionKind.REWRITTEN and v.commit]
    for label, text, commits in (
        ("occasions", "added before these", older[::-1]),
        ("rewritten", "without a new blessing, as by perfgate calibrate", rewritten),
        ("dropped", "blessed on a branch, and left out when that was merged", machine.dropped),
    ):
        if commits:
            page.prose(f"{text}: {_commits(commits)}", label=label)


def _occasion(version: Version, number: int, metric: Metric) -> str:
    """Who added an occasion without a new blessing, and what the baseline is then."""
    added = version.added[number]
    value = _values_of(metric)(version)
    parts = [
        f"{_commit(version)}: {moment(added.at)} by {one_line(added.by, longest=40)}",
        f", now {plural(version.runs, 'run')} over {plural(version.occasions, 'occasion')}",
        f", {metric} {value}" if value else "",
        f"; {run}" if (run := ci_run(added)) else "",
        f": {_on_one_line(added.reason)}",
    ]
    return "".join(parts)


def _commits(shas: Sequence[str]) -> str:
    named = ", ".join(one_line(sha[:8]) for sha in shas[:_LONGEST_LIST])
    more = len(shas) - _LONGEST_LIST
    return f"{named} and {more} more" if more > 0 else named
