"""Reads nsys's summary reports from CSV text into records; runs nothing and opens no file."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, overload

from perfgate.model.errors import CaptureUnreadable, LayoutUnknown
from perfgate.model.reports import (
    ApiRow,
    KernelRow,
    MemSizeRow,
    MemTimeRow,
    NvtxRow,
    ReportName,
    Reports,
    TimeRow,
)
from perfgate.profilers.nsys.layouts import (
    OPERATIONS,
    REPORT_LAYOUTS,
    RETIRED_HEADERS,
    Column,
    Kind,
    ReportLayout,
)
from perfgate.profilers.nsys.printed import Printed

Row = NvtxRow | MemTimeRow | MemSizeRow | KernelRow | ApiRow
Fields = dict[str, float | int | str]

_MODELS: Mapping[ReportName, type[Row]] = {
    ReportName.NVTX_SUM: NvtxRow,
    ReportName.CUDA_GPU_MEM_TIME_SUM: MemTimeRow,
    ReportName.CUDA_GPU_MEM_SIZE_SUM: MemSizeRow,
    ReportName.CUDA_GPU_KERN_SUM: KernelRow,
    ReportName.CUDA_API_SUM: ApiRow,
}
_RERUN = "Let perfgate run the reports itself, or write them with: LC_ALL=C nsys stats --format csv:mem=B --timeunit nsec"
_AGAIN = "Delete the file and write the report again; if the disk is full, free some space first"
_SHARE_ROUNDING = 0.051


@overload
def parse_report(
    text: str, *, name: Literal[ReportName.NVTX_SUM], source: str
) -> tuple[NvtxRow, ...]: ...
@overload
def parse_report(
    text: str, *, name: Literal[ReportName.CUDA_GPU_MEM_TIME_SUM], source: str
) -> tuple[MemTimeRow, ...]: ...
@overload
def parse_report(
    text: str, *, name: Literal[ReportName.CUDA_GPU_MEM_SIZE_SUM], source: str
) -> tuple[MemSizeRow, ...]: ...
@overload
def parse_report(
    text: str, *, name: Literal[ReportName.CUDA_GPU_KERN_SUM], source: str
) -> tuple[KernelRow, ...]: ...
@overload
def parse_report(
    text: str, *, name: Literal[ReportName.CUDA_API_SUM], source: str
) -> tuple[ApiRow, ...]: ...
@overload
def parse_report(text: str, *, name: ReportName, source: str) -> tuple[Row, ...]: ...
def parse_report(text: str, *, name: ReportName, source: str) -> tuple[Row, ...]:
    """Read one report, as `nsys stats --output` wrote it with times in ns and sizes in bytes.

    `text` is the whole file, its line ends untouched (decode its bytes: a range name may hold any of them); `source` is
    what messages call it. Rows keep nsys's order, the largest total first. There is at least one row:
    a report that nsys skipped is an empty file, and only its log can tell that from a failure, so the caller
    must not pass it here.

    nsys does not write RFC 4180: it wraps a field in quotes when it holds a comma, and escapes nothing. So a row is
    its leading fields, which hold neither, and then the name up to the next row:

        2.5,7136210,1,...,PushPop,"quote",comma"        the name is: quote",comma
        0.2,575236,1,...,PushPop,multi                  the name is: multi
        line                                                         line

    Raises LayoutUnknown for columns, units or labels that perfgate does not know, CaptureUnreadable for an empty or
    truncated report and for numbers in another locale's notation. Nothing is converted or repaired on the way.
    """
    if not text.strip():
        raise CaptureUnreadable(
            subject=source,
            fact=f"{name} is empty",
            expectation="nsys leaves an empty file where it skipped the report or could not write it",
            next_step="Look for SKIPPED or ERROR in the output of nsys stats",
        )
    printed = Printed(
        name=name, source=source, script="a report script", rerun=_RERUN, again=_AGAIN
    )
    header = text.partition("\n")[0]
    layout = printed.layout(header, REPORT_LAYOUTS[name], retired=RETIRED_HEADERS)
    body = printed.body(header, text)
    model = _MODELS[name]
    leading = _leading(body, layout)
    rows = [
        model.model_validate(_fields(row, layout, leading, name=name, printed=printed))
        for row in _rows(body, layout, leading, printed)
    ]
    _check_shares(
        [row for row in rows if isinstance(row, TimeRow)],
        printed,
        are_told=leading == layout.leading,
    )
    if layout.per_launch_size:
        return tuple(_merge_launch_sizes([row for row in rows if isinstance(row, KernelRow)]))
    return tuple(rows)


def read_reports(
    texts: Mapping[ReportName, str], *, skipped: Mapping[ReportName, str], source: str
) -> Reports:
    """All five reports of one capture, from their CSV texts; `skipped` has nsys's reason for each that it left out.

    Raises CaptureUnreadable when a report is neither there nor skipped, and what `parse_report` raises.
    """
    absent = [name for name in ReportName if name not in texts and name not in skipped]
    if absent:
        raise CaptureUnreadable(
            subject=source,
            fact=f"nsys wrote no {', '.join(absent)} and does not say that it skipped any of them",
            expectation="Each of the five reports is either written or skipped with a reason",
            next_step="Look for ERROR in the output of nsys stats",
        )
    rows = {
        str(name): parse_report(text, name=name, source=f"{source} {name}")
        for name, text in texts.items()
        if name not in skipped
    }
    return Reports.model_validate({**rows, "skipped": dict(skipped)})


def _leading(body: str, layout: ReportLayout) -> tuple[Column, ...]:
    """The leading columns of this report's rows. Either every row says its share of the time, or none does."""
    without = layout.without_shares
    return without if re.match(f"{_pattern(without)},", body) else layout.leading


def _pattern(leading: Sequence[Column]) -> str:
    return ",".join(f"({column.kind.value})" for column in leading)


def _rows(
    body: str, layout: ReportLayout, leading: Sequence[Column], printed: Printed
) -> Iterator[re.Match[str]]:
    """Each row as a match of its leading fields (named by column number) and `name`, still as nsys wrote it."""
    row = re.compile(f"{_pattern(leading)},(?P<name>.*)", re.DOTALL)
    begins = re.compile(f"{_pattern(leading)},")
    pending = ""
    for number, line in enumerate(body[:-1].split("\n"), start=2):
        if begins.match(line) and not _is_open(pending, row):
            if pending:
                yield _match(row, pending)
            pending = line
        elif pending and layout.spans_lines:
            pending += "\n" + line
        else:
            raise printed.no_row(number, line)
    yield _match(row, pending)


def _is_open(pending: str, row: re.Pattern[str]) -> bool:
    """Whether the name so far must go on: nsys opened a quote (it holds a comma) and has not closed it."""
    found = row.match(pending)
    if found is None:
        return False
    name = found["name"]
    return name.startswith('"') and "," in name and (len(name) == 1 or not name.endswith('"'))


def _match(row: re.Pattern[str], text: str) -> re.Match[str]:
    found = row.fullmatch(text)
    if found is None:  # `begins` matched its first line, and a name may hold anything
        raise AssertionError(text)
    return found


def _fields(
    row: re.Match[str],
    layout: ReportLayout,
    leading: Sequence[Column],
    *,
    name: ReportName,
    printed: Printed,
) -> Fields:
    fields: Fields = {
        column.field: _value(text, column)
        for text, column in zip(row.groups(), leading, strict=False)
        if column.field is not None
    }
    fields[layout.name_field] = _name(row["name"], name, printed)
    return fields


def _value(text: str, column: Column) -> float | int | str:
    match column.kind:
        case Kind.NOTHING:
            return 0.0
        case Kind.INTEGER:
            return int(text)
        case Kind.NUMBER:
            return float(text)
        case Kind.WORD | Kind.SIZES:
            return text


def _name(text: str, name: ReportName, printed: Printed) -> str:
    if "," in text:
        if len(text) < 2 or not (text.startswith('"') and text.endswith('"')):
            raise printed.truncated(f"a name with a comma is not in quotes: {text[:120]!r}")
        text = text[1:-1]
    match name:
        case ReportName.NVTX_SUM:
            return text.removeprefix(":")
        case ReportName.CUDA_GPU_MEM_TIME_SUM | ReportName.CUDA_GPU_MEM_SIZE_SUM:
            if text not in OPERATIONS:
                raise LayoutUnknown(
                    subject=printed.source,
                    fact=f"{name} names a memory operation that perfgate does not know: {text[:120]}",
                    expectation=f"Known are {', '.join(OPERATIONS)}",
                    next_step="perfgate must learn it: please report it with the version of nsys",
                )
            return OPERATIONS[text]
        case ReportName.CUDA_GPU_KERN_SUM | ReportName.CUDA_API_SUM:
            return text


def _check_shares(rows: Sequence[TimeRow], printed: Printed, *, are_told: bool) -> None:
    """Raise when the rows cannot be all rows: nsys prints each row's share of the sum, rounded to 0.1 %.

    A file cut at the end of a line looks whole; this is what gives it away. Shares of nothing are not told.
    """
    whole = sum(row.total_ns for row in rows)
    if whole and not are_told:
        raise printed.truncated(f"its rows do not say what share of the {whole} ns they are")
    for row in rows:
        share = 100 * row.total_ns / whole if whole else 0.0
        if abs(share - row.time_percent) > _SHARE_ROUNDING:
            raise printed.truncated(
                f"a row says that it is {row.time_percent} % of the time, and it is {share:.1f} % of the rows"
            )


def _merge_launch_sizes(rows: Sequence[KernelRow]) -> list[KernelRow]:
    """One row per kernel from nsys 2022.4's one per kernel, grid and block size.

    Count, total, minimum, maximum and mean are exact. The deviation is pooled from the groups' (sample) deviations
    and means, so it carries their rounding to 0.1 ns. A median of several groups cannot be known from theirs: None.
    """
    groups: dict[str, list[KernelRow]] = {}
    for row in rows:
        groups.setdefault(row.name, []).append(row)
    whole = sum(row.total_ns for row in rows)
    merged = [_merge(group, whole) if len(group) > 1 else group[0] for group in groups.values()]
    return sorted(merged, key=lambda row: -row.total_ns)


def _merge(group: Sequence[KernelRow], whole: int) -> KernelRow:
    count = sum(row.count for row in group)
    total = sum(row.total_ns for row in group)
    mean = total / count
    squares = math.fsum(
        (row.count - 1) * row.stddev_ns**2 + row.count * (row.total_ns / row.count - mean) ** 2
        for row in group
    )
    return KernelRow(
        time_percent=round(100 * total / whole, 1) if whole else 0.0,
        total_ns=total,
        count=count,
        avg_ns=round(mean, 1),
        med_ns=None,
        min_ns=min(row.min_ns for row in group),
        max_ns=max(row.max_ns for row in group),
        stddev_ns=round(math.sqrt(squares / (count - 1)), 1),
        name=group[0].name,
    )
