"""nsys's expert rules on a capture: has them applied, and reads their CSVs into records."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from perfgate.model.reports import Finding, Findings, RuleName
from perfgate.profilers.nsys.answers import TIMEOUT_S, answers
from perfgate.profilers.nsys.command import called
from perfgate.profilers.nsys.reports import parsed
from perfgate.profilers.nsys.tool import NsysTool
from perfgate.profilers.seam import OnTick

MOST_ROWS: Final = 10_000
"""Findings read of one rule. nsys lists the longest first, and all of them if asked."""


def rule_arguments(rule: RuleName, *, gap_ms: int) -> str:
    """Return what a rule is asked for, as nsys takes it behind its name.

    One row more than is read, so that a rule with exactly `MOST_ROWS` findings is not taken for one
    that was cut. `gpu_time_util` is asked for all, 30 a process and device at most: its query
    limits before it sorts (seen with 2024.2).
    """
    rows = f"rows={MOST_ROWS + 1}"
    match rule:
        case RuleName.GPU_GAPS:
            return f"gap={gap_ms}:{rows}"
        case RuleName.GPU_TIME_UTIL:
            return "threshold=50:chunks=30:rows=-1"
        case _:
            return rows


def run_rules(
    tool: NsysTool,
    sqlite: Path,
    folder: Path,
    *,
    gap_ms: int = 0,
    timeout_s: float = TIMEOUT_S,
    on_tick: OnTick = None,
) -> Findings:
    """Let nsys apply its expert rules to a capture's export; the CSVs stay as `{rule}.csv`.

    A rule that nsys skipped for want of data, or does not know, is in `Findings.skipped`. Of a rule
    with more than `MOST_ROWS` findings the first are read. A million operations take nsys 2024.2
    some 30 s.

    Args:
        tool: the nsys to ask.
        sqlite: the export.
        folder: where the CSVs stay; those of an earlier call are replaced or removed.
        gap_ms: gaps of up to this many whole milliseconds are left out.
        timeout_s: for all rules together.
        on_tick: called at least every 0.1 s while nsys runs, and may call it off by raising.

    Raises:
        CaptureUnreadable: the export is none, or nsys failed on it.
        LayoutUnknown: a rule has columns or units that perfgate does not know.
        StoreFailed: `folder` cannot be written.
    """
    found = answers(
        tool,
        {
            rule: f"{called(rule, tool.version)}:{rule_arguments(rule, gap_ms=gap_ms)}"
            for rule in RuleName
        },
        sqlite,
        folder,
        timeout_s=timeout_s,
        on_tick=on_tick,
    )
    rows = {
        rule: parse_rule(found[rule].text, rule=rule, source=f"{sqlite} {rule}")
        for rule in RuleName
        if not found[rule].skipped
    }
    return Findings(
        rows={rule: its[:MOST_ROWS] for rule, its in rows.items()},
        skipped={rule: why for rule in RuleName if (why := found[rule].skipped)},
        cut={rule: MOST_ROWS for rule, its in rows.items() if len(its) > MOST_ROWS},
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
