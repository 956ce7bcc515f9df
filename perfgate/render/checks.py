"""What `perfgate doctor` and `perfgate selftest` found, as text: a line a check, a row a gate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfgate.render.page import Cell, Page, Row
from perfgate.words.escape import one_line

_WORDS = {
    True: Cell(text="ok  ", style="green"),
    False: Cell(text="FAIL", style="bold red"),
    None: Cell(text="note"),
}


def findings_text(page: Page, findings: Sequence[tuple[str, bool | None, str, str]]) -> str:
    """Return the findings as text. Each is its check, whether it holds (None: it decides nothing),
    fact and advice."""
    for check, ok, fact, advice in findings:
        page.line(_WORDS[ok], "  ", Cell(text=check, style="bold"))
        page.prose(fact, indent=6)
        if advice:
            page.prose(advice, label="do", indent=6)
    failed = sum(1 for _, ok, _, _ in findings if ok is False)
    page.blank()
    page.line(
        "All that a first run needs is there."
        if not failed
        else f"{failed} of {len(findings)} checks failed."
    )
    return page.text


COLUMNS = ("", "planted", "expected", "outcome", "regressed*", ">runs", ">s")


@dataclass(frozen=True, kw_only=True, slots=True)
class SelftestRow:
    """One gate."""

    planted: str
    expected: str
    """The outcome, or the metrics that must have regressed."""
    outcome: str
    named: str = ""
    """The metrics that did regress."""
    runs: int = 0
    wall_s: float = 0.0
    ok: bool = False


def selftest_text(page: Page, rows: Sequence[SelftestRow], *, cpu: bool) -> str:
    """Return the table and the selftest's own verdict; `cpu` says that no GPU was gated."""
    page.blank()
    page.table(COLUMNS, [_row(row) for row in rows])
    page.blank()
    failed = sum(1 for row in rows if not row.ok)
    if not failed:
        what = (
            "The path from nsys to a verdict works here, without a GPU"
            if cpu
            else "The gate works on this runner"
        )
        seconds = sum(row.wall_s for row in rows)
        text = (
            f"{what}: {len(rows)} of {len(rows)} gates came out as they must, in {seconds:.0f} s."
        )
        page.prose(text, indent=0, style="green")
    else:
        otherwise = f"{failed} of {len(rows)} gates came out otherwise"
        text = f"The gate does not work on this runner: {otherwise}."
        page.prose(text, indent=0, style="bold red")
    return page.text


def _row(row: SelftestRow) -> Row:
    return (
        Cell(text="ok", style="green") if row.ok else Cell(text="FAIL", style="bold red"),
        row.planted,
        row.expected,
        one_line(row.outcome),
        row.named,
        str(row.runs) if row.runs else "",
        f"{row.wall_s:.0f}",
    )
