"""nsys's expert rules on an export: the command, its log and its CSVs, into records; judges nothing they found."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from perfgate.model.errors import CaptureUnreadable
from perfgate.model.findings import Finding, Findings, RuleName
from perfgate.profilers.nsys.files import fault_of_sqlite, literal, workshop
from perfgate.profilers.nsys.output import ended
from perfgate.profilers.nsys.printed import Printed
from perfgate.profilers.nsys.profile import EXPORT_TIMEOUT_S, is_excuse, run_quietly
from perfgate.profilers.nsys.tool import NsysTool, NsysVersion
from perfgate.system.process import Finished

MOST_ROWS: Final = 10_000
"""Findings read of one rule. nsys lists the longest first, and all of them if asked: one row a copy, call or gap."""

OLD_NAMES: Final[Mapping[RuleName, str]] = {
    RuleName.CUDA_MEMCPY_ASYNC: "cuda-async-memcpy",
    RuleName.CUDA_MEMCPY_SYNC: "cuda-sync-memcpy",
    RuleName.CUDA_MEMSET_SYNC: "cuda-sync-memset",
    RuleName.CUDA_API_SYNC: "cuda-sync-api",
    RuleName.GPU_GAPS: "gpu-starv",
    RuleName.GPU_TIME_UTIL: "gpu-low-util",
}
"""What the rules are called in 2022.4."""

NEW_NAMES: Final[Mapping[RuleName, str]] = {rule: rule.value for rule in RuleName}

NAMES_SINCE: Final[Sequence[tuple[NsysVersion, tuple[Mapping[RuleName, str], ...]]]] = (
    (NsysVersion(2022, 4), (OLD_NAMES,)),
    (NsysVersion(2022, 5), (NEW_NAMES, OLD_NAMES)),
    (NsysVersion(2023, 4), (NEW_NAMES,)),
)
"""Which names a version knows, from its first version on, to be tried in this order: 2022.4 has only the old ones,
2023.4 both, 2024.2 only the new. When between they came is not known, so there both are tried."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """One column of a rule: its heading, the field of `Finding` it fills (None: read and left), and how it looks."""

    heading: str
    field: str | None
    pattern: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RuleLayout:
    """The columns of one rule in one family of nsys versions. None of them holds a comma."""

    versions: str
    columns: tuple[Column, ...]

    @property
    def header(self) -> str:
        """The first line of the file."""
        return ",".join(column.heading for column in self.columns)


_INTEGER = r"-?\d+"
_NUMBER = r"-?\d+(?:\.\d+)?"
_ID = r"(?:-?\d+|None)?"
"""NULL is an empty field, and the word None in 2022.4."""
_WORDS = r'[^,"]*'

_TIMES = (
    Column(heading="Duration (ns)", field="duration_ns", pattern=_INTEGER),
    Column(heading="Start (ns)", field="start_ns", pattern=_INTEGER),
)
_PID = Column(heading="PID", field="pid", pattern=_INTEGER)
_DEVICE = Column(heading="Device ID", field="device", pattern=_INTEGER)
_CONTEXT = Column(heading="Context ID", field=None, pattern=_ID)
_GREEN = Column(heading="Green Context ID", field=None, pattern=_ID)
_STREAM = Column(heading="Stream ID", field=None, pattern=_ID)
_API = Column(heading="API Name", field="api", pattern=r'[^,"]+')
_BYTES = Column(heading="Bytes (B)", field="bytes", pattern=_INTEGER)
_ROW = Column(heading="Row#", field=None, pattern=r"\d+")


def _of_memory(*kinds: Column) -> tuple[RuleLayout, ...]:
    on = (*_TIMES, *kinds, _BYTES, _PID, _DEVICE, _CONTEXT)
    return (
        RuleLayout(versions="2023.4 and newer", columns=(*on, _GREEN, _STREAM, _API)),
        RuleLayout(versions="2022.4", columns=(*on, _STREAM, _API)),
    )


_COPIES = _of_memory(
    Column(heading="Src Kind", field="source", pattern=_WORDS),
    Column(heading="Dst Kind", field="target", pattern=_WORDS),
)

RULE_LAYOUTS: Final[Mapping[RuleName, tuple[RuleLayout, ...]]] = {
    RuleName.CUDA_MEMCPY_ASYNC: _COPIES,
    RuleName.CUDA_MEMCPY_SYNC: _COPIES,
    RuleName.CUDA_MEMSET_SYNC: _of_memory(
        Column(heading="Memory Kind", field="target", pattern=_WORDS)
    ),
    RuleName.CUDA_API_SYNC: (
        RuleLayout(
            versions="2022.4 and newer",
            columns=(*_TIMES, _PID, Column(heading="TID", field="tid", pattern=_INTEGER), _API),
        ),
    ),
    RuleName.GPU_GAPS: (
        RuleLayout(versions="2022.4 and newer", columns=(_ROW, *_TIMES, _PID, _DEVICE, _CONTEXT)),
    ),
    RuleName.GPU_TIME_UTIL: (
        RuleLayout(
            versions="2022.4 and newer",
            columns=(
                _ROW,
                Column(heading="In-Use (%)", field="in_use_percent", pattern=_NUMBER),
                *_TIMES,
                _PID,
                _DEVICE,
                _CONTEXT,
            ),
        ),
    ),
}

_RERUN = (
    "Let perfgate apply the rules itself, or write them with: "
    "LC_ALL=C nsys analyze --format csv:mem=B --timeunit nsec --rule RULE"
)
_AGAIN = "Delete the file and write it again; if the disk is full, free some space first"


def rule_names(version: NsysVersion) -> tuple[Mapping[RuleName, str], ...]:
    """Return what this version of nsys may call the rules, in the order to try."""
    return next(names for since, names in reversed(NAMES_SINCE) if version >= since)


def rule_arguments(rule: RuleName, *, gap_ms: int) -> str:
    """Return what a rule is asked for, as nsys takes it behind its name.

    One row more than is read, so that a rule with exactly `MOST_ROWS` findings is not taken for one that was cut.
    `gpu_time_util` is asked for all, 30 a process and device at most: its query limits before it sorts (seen with
    2024.2: of seven rows the first and the sixth). That of `gpu_gaps` is written so, too; where CUDA alone was traced,
    SQLite sorts first all the same (seen with 2022.4, 2023.4 and 2024.2).
    """
    rows = f"rows={MOST_ROWS + 1}"
    match rule:
        case RuleName.GPU_GAPS:
            return f"gap={gap_ms}:{rows}"
        case RuleName.GPU_TIME_UTIL:
            return "threshold=50:chunks=30:rows=-1"
        case _:
            return rows


def analyze_command(
    nsys: Path, rules: Sequence[str], *, source: str, output: str
) -> tuple[str, ...]:
    """Return the command that applies rules (`name:argument:argument`) to a SQLite file, in ns and bytes.

    It writes one `{output}_{name}_{arguments}.csv` a rule.
    """
    return (
        str(nsys),
        "analyze",
        *(f"--rule={rule}" for rule in rules),
        "--format=csv:mem=B",
        "--timeunit=nsec",
        "--force-overwrite=true",
        f"--output={output}",
        source,
    )


def run_rules(
    tool: NsysTool,
    sqlite: Path,
    folder: Path,
    *,
    gap_ms: int = 0,
    timeout_s: float = EXPORT_TIMEOUT_S,
    on_tick: Callable[[], None] | None = None,
) -> Findings:
    """Let nsys apply its expert rules to a capture's export, and read its CSVs; they stay in `folder` as `{rule}.csv`.

    A rule that nsys skipped for want of data, or does not know, is in `Findings.skipped` with the reason. Of a rule
    with more than `MOST_ROWS` findings the first are read. `on_tick` is called at least every 0.1 s, and may call it
    off by raising. A million operations take nsys 2024.2 some 30 s, of which `gpu_time_util` has four fifths.

    Args:
        tool: the nsys to ask.
        sqlite: the export.
        folder: where the CSVs stay; those of an earlier call are replaced or removed.
        gap_ms: gaps of up to this many whole milliseconds are left out.
        timeout_s: for all rules together.
        on_tick: called while nsys runs.

    Raises:
        CaptureUnreadable: the export is no SQLite file, or nsys failed on it.
        LayoutUnknown: a rule has columns or units that perfgate does not know.
        StoreFailed: `folder` cannot be written.
        ValueError: `gap_ms` is negative.
    """
    if gap_ms < 0:
        raise ValueError(f"gap_ms is {gap_ms}, and no gap is shorter than 0 ms")
    fault = fault_of_sqlite(sqlite)
    if fault is not None:
        raise CaptureUnreadable(
            subject=str(sqlite),
            fact=fault,
            expectation="Expected a SQLite export of an nsys capture",
            next_step=f"Export the capture again: {tool.path} export --type=sqlite CAPTURE.nsys-rep",
        )
    rows: dict[RuleName, tuple[Finding, ...]] = {}
    skipped: dict[RuleName, str] = {}
    cut: dict[RuleName, int] = {}
    with workshop(folder) as work, literal(work) as plain:
        (work / "capture.sqlite").symlink_to(sqlite.absolute())
        wanted = list(RuleName)
        for names in rule_names(tool.version):
            asked = {
                rule: f"{names[rule]}:{rule_arguments(rule, gap_ms=gap_ms)}" for rule in wanted
            }
            command = analyze_command(
                tool.path,
                tuple(asked.values()),
                source=str(plain / "capture.sqlite"),
                output=str(plain / "rule"),
            )
            told, finished = run_quietly(tool, command, work, timeout_s, on_tick)
            answers = [
                _Answer(
                    tool=tool,
                    rule=rule,
                    asked=asked[rule],
                    sqlite=sqlite,
                    told=told,
                    finished=finished,
                )
                for rule in wanted
            ]
            wanted = [answer.rule for answer in answers if answer.is_unknown]
            for answer in (answer for answer in answers if not answer.is_unknown):
                rule, kept = answer.rule, folder / f"{answer.rule}.csv"
                text = answer.text(work, timeout_s=timeout_s)
                kept.unlink(missing_ok=True)
                if text is None:
                    skipped[rule] = answer.reason or ""
                elif not text:
                    rows[rule] = ()
                else:
                    found = parse_rule(text, rule=rule, source=f"{sqlite} {rule}")
                    answer.file(work).replace(kept)
                    rows[rule] = found[:MOST_ROWS]
                    if len(found) > MOST_ROWS:
                        cut[rule] = MOST_ROWS
            if not wanted:
                break
        for rule in wanted:
            (folder / f"{rule}.csv").unlink(missing_ok=True)
            skipped[rule] = f"nsys {tool.version} does not know this rule"
    return Findings(rows=rows, skipped=skipped, cut=cut)


def parse_rule(text: str, *, rule: RuleName, source: str) -> tuple[Finding, ...]:
    """Read one rule's CSV, as `nsys analyze --output` wrote it with times in ns and sizes in bytes.

    `text` is the whole file, `source` is what messages call it. Rows keep nsys's order. There is at least one: a rule
    without findings is an empty file, and so is one that was skipped or failed. Only nsys's log tells these apart, so
    the caller must not pass an empty one here.

    Raises LayoutUnknown for columns or units that perfgate does not know, CaptureUnreadable for an empty or truncated
    file and for numbers in another locale's notation.
    """
    if not text.strip():
        raise CaptureUnreadable(
            subject=source,
            fact=f"{rule} is empty",
            expectation="nsys leaves an empty file where a rule found nothing, was skipped or failed",
            next_step="Look for SKIPPED or ERROR in the output of nsys analyze",
        )
    printed = Printed(
        name=rule, source=source, script="a rule's script", rerun=_RERUN, again=_AGAIN
    )
    header = text.partition("\n")[0]
    layout = printed.layout(header, RULE_LAYOUTS[rule])
    found = tuple(_findings(printed.body(header, text), layout, rule, printed))
    if len(found) > MOST_ROWS and not _longest_first(found):
        raise CaptureUnreadable(
            subject=source,
            fact=f"{rule} has more than {MOST_ROWS} findings, and the longest do not come first",
            expectation="Where not all can be read, those that matter most are",
            next_step="Capture fewer steps, or look at all of them: nsys analyze --rule=NAME:rows=-1",
        )
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class _Answer:
    """What nsys made of one rule: its part of the log, and its file."""

    tool: NsysTool
    rule: RuleName
    asked: str
    sqlite: Path
    told: Sequence[str]
    finished: Finished

    @property
    def spelled(self) -> str:
        return self.asked.partition(":")[0]

    @property
    def is_unknown(self) -> bool:
        return any(f"'{self.spelled}' could not be found" in line for line in self.told)

    @property
    def log(self) -> str:
        """What nsys printed of this rule.

        `Processing [...] with [.../gpu_gaps.py](gap=0:rows=9) to [...]... `, and then what came of it. Up to 2024
        nothing follows where a rule found nothing, not even the end of the line: the next rule goes on there.
        """
        named = re.compile(rf"\] with \[(?:.*/)?{re.escape(self.spelled)}(?:\.py)?\]")
        parts = "\n".join(self.told).split("Processing [")[1:]
        return "".join(part for part in parts if named.search(part.partition("\n")[0]))

    @property
    def reason(self) -> str | None:
        """nsys's own for skipping the rule."""
        found = re.search(r"SKIPPED: (.*)", self.log)
        return re.sub(r"^.*?capture\.sqlite\s+", "", found[1]).strip() if found else None

    @property
    def error(self) -> str | None:
        own = (f"'{self.spelled}'", f"'{self.spelled}.py'")
        named = [
            line for line in self.told if "ERROR" in line and any(name in line for name in own)
        ]
        found = [
            *named,
            *(
                line
                for line in self.log.splitlines()
                if "ERROR" in line and "could not be found" not in line
            ),
        ]
        return found[0].strip().rstrip(".") if found else None

    def file(self, work: Path) -> Path:
        """The CSV; its name ends in the arguments, in nsys's spelling."""
        return next(work.glob(f"rule_{self.spelled}*.csv"), work / f"rule_{self.spelled}.csv")

    def text(self, work: Path, *, timeout_s: float) -> str | None:
        """The CSV's text, "" where the rule was applied and found nothing, None where it was skipped.

        Raises:
            CaptureUnreadable: nsys neither wrote it nor said why, or what it wrote may not be all.
        """
        csv = self.file(work)
        text = csv.read_bytes().decode(errors="replace") if csv.is_file() else None
        is_whole = not self.finished.timed_out and self.finished.returncode == 0
        if self.error is None:
            if text and (is_whole or "PROCESSED" in self.log):
                return text
            if not text and self.reason is not None and not is_excuse(self.reason, self.sqlite):
                return None
            if text == "" and self.reason is None and is_whole and self.log:
                return ""
        raise self._failure(text, timeout_s)

    def _failure(self, text: str | None, timeout_s: float) -> CaptureUnreadable:
        said = (
            self.error
            or next((line.strip() for line in self.told if "ERROR" in line), None)
            or self.reason
        )
        status = self.finished.returncode
        how = ended("nsys analyze", status)
        if self.finished.timed_out:
            fact = f"nsys analyze did not end within {timeout_s:g} s"
        elif text:
            fact = f"may be cut short: {said or how}"
        else:
            fact = "left no file" if text is None else "left an empty file"
            fact += (
                f": {said.rstrip('. ')}"
                if said
                else f", and {how}"
                if status
                else " and did not say why"
            )
        return CaptureUnreadable(
            subject=f"rule {self.rule} of {self.sqlite}",
            fact=fact,
            expectation=f"Expected nsys {self.tool.version} to apply it, or to say what it lacks",
            next_step=f"Run it by hand: LC_ALL=C {self.tool.path} analyze --rule={self.asked} {self.sqlite}",
        )


def _findings(body: str, layout: RuleLayout, rule: RuleName, printed: Printed) -> Iterator[Finding]:
    row = re.compile(",".join(f"({column.pattern})" for column in layout.columns))
    for number, line in enumerate(body[:-1].split("\n"), start=2):
        found = row.fullmatch(line)
        if found is None:
            raise printed.no_row(number, line)
        texts = zip(found.groups(), layout.columns, strict=True)
        fields = {
            column.field: _value(text, column) for text, column in texts if column.field is not None
        }
        yield Finding.model_validate({"rule": rule, **fields})


def _value(text: str, column: Column) -> int | float | str | None:
    if column.pattern == _INTEGER:
        return int(text)
    if column.pattern == _NUMBER:
        return float(text)
    return None if text in ("", "None") else text


def _longest_first(found: Sequence[Finding]) -> bool:
    if found[0].rule is RuleName.GPU_TIME_UTIL:
        return all(
            (a.in_use_percent or 0.0) <= (b.in_use_percent or 0.0) for a, b in pairwise(found)
        )
    return all(a.duration_ns >= b.duration_ns for a, b in pairwise(found))
