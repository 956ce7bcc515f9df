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


_OUTCOMES = {
    True: Cell(text="ok", style="green"),
    False: Cell(text="FAIL", style="bold red"),
    None: Cell(text="-"),
}
COLUMNS = ("", "planted", "expected", "outcome", "regressed*", ">runs", ">s")


@dataclass(frozen=True, kw_only=True, slots=True)
class SelftestRow:
    """One gate. `ok` is None where it was not run."""

    planted: str
    expected: str
    """The outcome, or the metrics that must have regressed."""
    outcome: str
    named: str = ""
    """The metrics that did regress."""
    runs: int = 0
    wall_s: float | None = None
    ok: bool | None = None


def selftest_text(page: Page, rows: Sequence[SelftestRow], *, cpu: bool) -> str:
    """Return the table and the selftest's own verdict; `cpu` says that no GPU was gated."""
    page.blank()
    page.table(COLUMNS, [_row(row) for row in rows])
    page.blank()
    ok, not_run = (sum(row.ok is of for row in rows) for of in (True, None))
    if rows and ok == len(rows):
        works = "The path from nsys to a verdict works here, without a GPU"
        seconds = sum(row.wall_s or 0.0 for row in rows)
        page.prose(
            f"{works if cpu else 'The gate works on this runner'}: {ok} of {ok} gates came out as "
            f"they must, in {seconds:.0f} s.",
            indent=0,
            style="green",
        )
    else:
        rest = f", {not_run} were not run" if not_run else ""
        otherwise = f"{len(rows) - ok - not_run} of {len(rows)} gates came out otherwise{rest}"
        text = f"The gate does not work on this runner: {otherwise}."
        page.prose(text, indent=0, style="bold red")
    return page.text


def _row(row: SelftestRow) -> Row:
    return (
        _OUTCOMES[row.ok],
        row.planted,
        row.expected,
        one_line(row.outcome),
        row.named,
        str(row.runs) if row.runs else "",
        f"{row.wall_s:.0f}" if row.wall_s is not None else "",
    )
