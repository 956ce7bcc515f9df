"""What `perfgate doctor` found, as text: one line a check, and what to do where one failed."""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.render.page import Cell, Page

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
