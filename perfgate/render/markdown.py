"""One gate as GitHub-flavoured Markdown, for a job summary or a comment.

Names and sentences may come from the code of a stranger's pull request: all of them are escaped.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from typing import TYPE_CHECKING, Final

from perfgate.model.document import GateDocument
from perfgate.model.outcome import Outcome
from perfgate.model.secrets import Cleaner
from perfgate.render import verdict
from perfgate.render.filling import environment
from perfgate.render.gate import choice_text, counts_text, state_of
from perfgate.render.records import extent
from perfgate.render.text import gate_cells
from perfgate.words import numbers
from perfgate.words.escape import markdown, markdown_code
from perfgate.words.numbers import plural
from perfgate.words.say import fact, message, sentences

if TYPE_CHECKING:
    from jinja2 import Environment

LONGEST: Final = 60_000
"""Characters of the whole: a comment may have 65,536."""
LONGEST_SENTENCE: Final = 1500
LONGEST_NAME: Final = 120

MARKS: Final = defaultdict(
    lambda: "\u274c",
    {
        Outcome.PASSED: "\u2705",
        Outcome.IMPROVED: "\u2705",
        Outcome.INCONCLUSIVE: "\u26a0\ufe0f",
        Outcome.NO_BASELINE: "\u26a0\ufe0f",
    },
)
"""Next to the word, which alone would do."""

_CLEANER: Final = Cleaner()
"""Before a text is escaped: what parts its characters hides what they are."""


class Trusted(str):
    """Markdown that is put in as it is."""

    __slots__ = ()


def filled(template: str, **values: object) -> str:
    """Return a document of the templates that end in `.md.j2`, as much as GitHub takes."""
    return _shortened(_environment().get_template(template).render(**values))


def gate_markdown(document: GateDocument, *, page: str | None = None) -> str:
    """Return the gate's outcome, a line a workload, and what there is to say of each not PASSED.

    Args:
        document: all that the gate found.
        page: an address of the HTML page, trusted; named where it is known.
    """
    return filled("gate.md.j2", document=document, state=state_of(document), page=page)


def _shortened(text: str) -> str:
    """Return a text of lines, of which each stands for itself, that GitHub takes as a comment.

    Characters beyond the first plane count as two: GitHub does not say how it counts.
    """
    units = text.encode("utf-16-le")
    if len(units) <= 2 * LONGEST:
        return text
    kept = units[: 2 * LONGEST].decode("utf-16-le", "ignore")
    return f"{kept.rpartition(chr(10))[0]}\n\nThe rest is too long.\n"


def prose(text: str, longest: int = LONGEST_SENTENCE) -> str:
    """Return a sentence from elsewhere, without secrets and escaped."""
    return Trusted(markdown(_CLEANER.clean(text), longest=longest))


def name(text: str) -> str:
    """Return a name from elsewhere as code, without secrets and escaped."""
    return Trusted(markdown_code(_CLEANER.clean(text), longest=LONGEST_NAME))


@cache
def _environment() -> Environment:
    """Return Jinja2's environment: all text is escaped, and what is missing is a fault."""
    return environment(
        escape=lambda shown: shown if isinstance(shown, Trusted) else prose(str(shown)),
        names={
            "marks": MARKS,
            "verdicts": verdict,
            "choice_text": choice_text,
            "counts_text": counts_text,
            "gate_cells": gate_cells,
            "plural": plural,
        },
        filters={
            "prose": prose,
            "name": name,
            "trusted": Trusted,
            "extent": extent,
            "fact": fact,
            "message": message,
            "sentences": sentences,
            "value": lambda amount, metric: numbers.value(metric, amount),
        },
    )
