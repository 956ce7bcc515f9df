"""nsys's summary reports of a capture: has them made, and reads their CSVs into records."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from perfgate.model.errors import CaptureUnreadable, LayoutUnknown
from perfgate.model.reports import KernelRow, MemTimeRow, NvtxRow, ReportName, Reports, RuleName
from perfgate.profilers.nsys.answers import TIMEOUT_S, answers
from perfgate.profilers.nsys.command import called
from perfgate.profilers.nsys.layouts import COLUMNS, HEADERS, OPERATIONS, ColumnKind
from perfgate.profilers.nsys.tool import NsysTool
from perfgate.profilers.seam import OnTick

Row = NvtxRow | MemTimeRow | KernelRow
Fields = dict[str, float | int | str | None]

_MODELS: Final[Mapping[ReportName, type[Row]]] = {
    ReportName.NVTX_SUM: NvtxRow,
    ReportName.CUDA_GPU_MEM_TIME_SUM: MemTimeRow,
    ReportName.CUDA_GPU_KERN_SUM: KernelRow,
}


def run_reports(
    tool: NsysTool,
    sqlite: Path,
    folder: Path,
    *,
    timeout_s: float = TIMEOUT_S,
    on_tick: OnTick = None,
) -> Reports:
    """Let nsys summarise a capture's export; the CSVs stay in `folder` as `{report}.csv`.

    A report that nsys skipped for want of data is in `Reports.skipped` with its reason.

    Raises:
        CaptureUnreadable: the export is none, or a report is missing or cut.
        LayoutUnknown: a report has columns, units or labels that perfgate does not know.
        StoreFailed: `folder` cannot be written.
    """
    found = answers(
        tool,
        {name: called(name, tool.version) for name in ReportName},
        sqlite,
        folder,
        timeout_s=timeout_s,
        on_tick=on_tick,
    )
    return read_reports(
        {name: found[name].text for name in ReportName if not found[name].skipped},
        skipped={name: why for name in ReportName if (why := found[name].skipped)},
        source=str(sqlite),
    )


def read_reports(
    texts: Mapping[ReportName, str], *, skipped: Mapping[ReportName, str], source: str
) -> Reports:
    """The reports of one capture, from their CSVs; `skipped` has why others were left out.

    They are as `nsys stats --output` wrote them, with times in ns. Rows keep nsys's order, the
    largest total first. Nothing is repaired on the way.

    Raises:
        LayoutUnknown: columns, units or labels that perfgate does not know.
        CaptureUnreadable: it is empty or cut, or its numbers are in another locale's notation.
    """
    rows = {name: _rows_of(text, name, source=f"{source} {name}") for name, text in texts.items()}
    return Reports.model_validate({**rows, "skipped": dict(skipped)})


def _rows_of(text: str, name: ReportName, source: str) -> tuple[Row, ...]:
    model = _MODELS[name]
    rows = []
    for fields in parsed(text, name, source):
        if name is ReportName.NVTX_SUM:
            fields["range"] = str(fields["range"]).removeprefix(":")
        elif name is ReportName.CUDA_GPU_MEM_TIME_SUM:
            operation = str(fields["operation"])
            if operation not in OPERATIONS:
                raise LayoutUnknown("operation-unknown", source=source, operation=operation)
            fields["operation"] = OPERATIONS[operation]
        fields["time_percent"] = fields["time_percent"] or 0.0
        rows.append(model.model_validate(fields))
    return tuple(rows)


def parsed(text: str, name: ReportName | RuleName, source: str) -> Iterator[Fields]:
    """The rows of one CSV of nsys, by field.

    nsys does not write RFC 4180: it wraps a field in quotes when it holds a comma, and escapes
    nothing. So a row is its leading fields, which hold neither, and a name up to the next row:

        2.5,7136210,1,...,PushPop,"quote",comma"        the name is: quote",comma
        0.2,575236,1,...,PushPop,multi                  the name is: multi
        line                                                         line
    """
    header, _, body = text.partition("\n")
    if header and header not in HEADERS[name]:
        raise LayoutUnknown("columns-unknown", source=source, header=header, known=HEADERS[name])
    if not header or not body.endswith("\n"):
        raise CaptureUnreadable("rows-broken", source=source, line="the end of the file")
    columns = [COLUMNS[heading] for heading in header.split(",")]
    kinds = [f"(?:{kind.value})" for kind, _ in columns]
    leading = f"({'),('.join(kinds[:-1])})"
    next_row = f"\n(?={','.join(kinds[:-1])},)"
    row = re.compile(f"{leading},({kinds[-1]})(?:{next_row}|\\Z)")
    rows, at = body[:-1], 0
    while at < len(rows):
        found = row.match(rows, at)
        if found is None:
            line = rows[at:].partition("\n")[0]
            raise CaptureUnreadable("rows-broken", source=source, line=line)
        at = found.end()
        values = zip(columns, found.groups(), strict=True)
        yield {field: _value(text, kind) for (kind, field), text in values if field}


def _value(text: str, kind: ColumnKind) -> float | int | str | None:
    if kind in (ColumnKind.NAME, ColumnKind.LINES):
        return text[1:-1] if "," in text else text
    if text in ("", "None"):
        return None
    if kind is ColumnKind.INTEGER:
        return int(text)
    return text if kind is ColumnKind.WORDS else float(text)
