"""nsys's summary reports of a capture and what its expert rules find: has nsys make them, and reads
their CSVs into records."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from perfgate.model.errors import CaptureUnreadable, LayoutUnknown
from perfgate.model.reports import Finding, ReportName, Reports, RuleName
from perfgate.profilers.nsys.answers import answers
from perfgate.profilers.nsys.command import called
from perfgate.profilers.nsys.layouts import COLUMNS, HEADERS, OPERATIONS, ColumnKind
from perfgate.profilers.nsys.tool import NsysTool
from perfgate.profilers.seam import OnTick
from perfgate.system.process import ignore

MOST_ROWS: Final = 10_000
"""Findings read of one rule. nsys lists the longest first, and all of them if asked."""
Fields = dict[str, float | int | str | None]


def run_reports(tool: NsysTool, sqlite: Path, folder: Path, *, on_tick: OnTick = ignore) -> Reports:
    """Let nsys summarise a capture's export; the CSVs stay in `folder` as `{report}.csv`.

    Raises:
        CaptureUnreadable: the export is none, or a report is missing or cut.
        LayoutUnknown: a report has columns, units or labels that perfgate does not know.
        StoreFailed: `folder` cannot be written.
    """
    asked = {name: called(name, tool.version) for name in ReportName}
    found = answers(tool, asked, sqlite, folder, on_tick=on_tick)
    return read_reports({name: text for name, text in found.items() if text}, source=str(sqlite))


def read_reports(texts: Mapping[ReportName, str], *, source: str) -> Reports:
    """The reports of one capture, from their CSVs; no rows of those that are left out.

    They are as `nsys stats --output` wrote them, with times in ns. Rows keep nsys's order, the
    largest total first. Nothing is repaired on the way.

    Raises:
        LayoutUnknown: columns, units or labels that perfgate does not know.
        CaptureUnreadable: it is empty or cut, or its numbers are in another locale's notation.
    """
    rows: dict[ReportName, list[Fields]] = {}
    for name, text in texts.items():
        rows[name] = list(parsed(text, name, f"{source} {name}"))
        for fields in rows[name]:
            fields["time_percent"] = fields["time_percent"] or 0.0
            if name is ReportName.NVTX_SUM:
                fields["range"] = str(fields["range"]).removeprefix(":")
            elif name is ReportName.CUDA_GPU_MEM_TIME_SUM:
                operation = str(fields["operation"])
                if operation not in OPERATIONS:
                    where = f"{source} {name}"
                    raise LayoutUnknown("operation-unknown", source=where, operation=operation)
                fields["operation"] = OPERATIONS[operation]
    return Reports.model_validate(rows)


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


def run_rules(tool: NsysTool, sqlite: Path, folder: Path) -> tuple[Finding, ...]:
    """Let nsys apply its expert rules to a capture's export; the CSVs stay as `{rule}.csv`.

    A rule that nsys skips for want of data, or does not know, finds nothing. Of one with more than
    `MOST_ROWS` findings the longest are read. A million operations take nsys 2024.2 some 30 s.

    Raises:
        CaptureUnreadable: the export is none, or nsys failed on it.
        LayoutUnknown: a rule has columns or units that perfgate does not know.
        StoreFailed: `folder` cannot be written.
    """
    asked = {rule: f"{called(rule, tool.version)}:rows={MOST_ROWS}" for rule in RuleName}
    found = answers(tool, asked, sqlite, folder)
    return tuple(
        one
        for rule in RuleName
        for one in parse_rule(found[rule], rule=rule, source=f"{sqlite} {rule}")
    )


def parse_rule(text: str, *, rule: RuleName, source: str) -> tuple[Finding, ...]:
    """Read one rule's CSV, as `nsys analyze --output` wrote it with times in ns and sizes in bytes.

    Rows keep nsys's order. A rule without findings is an empty file.

    Raises:
        LayoutUnknown: columns or units that perfgate does not know.
        CaptureUnreadable: it is cut, or its numbers are in another locale's notation.
    """
    if not text:
        return ()
    return tuple(
        Finding.model_validate({"rule": rule, **fields}) for fields in parsed(text, rule, source)
    )
