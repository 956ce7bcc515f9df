"""What the judge says: one verdict a workload, one row a metric."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final

from pydantic import Field, NonNegativeInt, PositiveInt, computed_field

from perfgate.model.diagnosis import Advice, Attribution, Classified
from perfgate.model.metric import METRICS, Basis, Kind, Metric
from perfgate.model.note import NoteOrText, Notes, Severity, Worded
from perfgate.model.outcome import Outcome
from perfgate.model.record import Record
from perfgate.words import say

FEWEST_TO_JUDGE: Final = 3
"""Pairs of an A/B run before which nothing passes, and no loss of a time metric can be shown."""
FEWEST_TO_PASS: Final = 5
"""Runs before which nothing passes against stored ones."""
MOST_BUDGETS: Final = 2.0
"""An INCONCLUSIVE estimate of so many budgets keeps the gate shut, whatever the settings say."""


class Stage(StrEnum):
    """What a candidate's runs were compared with."""

    COUNTS = "counts"
    """The stored baseline's counts alone."""
    SCREEN = "screen"
    """The stored baseline, an A/B run being at hand for what that cannot settle."""
    STORED = "stored"
    """The stored baseline alone, where its commit cannot be run."""
    AB_RUN = "ab_run"
    """Fresh runs of the baseline's commit, made alternately with the candidate's."""
    BLOCKS = "blocks"
    """Processes of the baseline's commit and of the candidate, alive at once, a few steps of each
    in turn."""

    @classmethod
    def _missing_(cls, value: object) -> Stage | None:
        """Of older files."""
        return {"duet": cls.AB_RUN, "interleaved": cls.BLOCKS}.get(str(value))


class MetricVerdict(Worded):
    """One metric of one workload, judged.

    `change`, `low`, `high`, `budget` and `smallest` are fractions in `basis`: relative, or of the
    baseline's step. Counts have neither interval nor p-value; their change is relative to the
    baseline, None where that was zero.
    """

    metric: Metric
    outcome: Outcome | None
    """None: shown, not gated (new, or a time metric without a budget)."""
    baseline: float | None = None
    now: float | None = None
    basis: Basis | None = None
    change: float | None = None
    low: float | None = None
    high: float | None = None
    """Ends of what decides: a loss is shown where `low` is above 0, and a pass where `high` is
    below the budget.

    `low` is the bound at `Verdict.loss_alpha`, `high` that at `Verdict.pass_confidence`, both
    one-sided.
    """
    standard_error: float | None = None
    """Of the change, in `basis`: of its logarithm where that is relative."""
    df: float | None = None
    """Degrees of freedom of `standard_error`."""
    lowest: float | None = None
    highest: float | None = None
    """Of the candidate's runs, where nothing is compared."""
    budget: float | None = None
    p_value: float | None = None
    """One-sided, of the change being above zero."""
    smallest: float | None = None
    """The smallest change that these runs could have shown as a loss."""
    estimate: float | None = None
    """What decides where that is not `change`: of a whole step, or at the SM clock of the blessing.
    """
    exact: bool | None = None
    """Of a count: whether it was the same in every baseline run."""
    note: NoteOrText | None = None
    """Why it is so; None where its numbers say all."""

    NOTES_OF = {"reason": "note"}

    @computed_field  # type: ignore[prop-decorator]
    @property
    def reason(self) -> str:
        """The words of `note`."""
        return "" if self.note is None else say.fact(self.note)

    @property
    def is_count(self) -> bool:
        """Whether it is a count, not a time."""
        return METRICS[self.metric].kind is Kind.COUNT

    @property
    def unit(self) -> str:
        """Of its change and budget, in hundredths: `%` or `pp`."""
        return (self.basis or Basis.LOG).unit

    @property
    def growth(self) -> float:
        """By how much its value grew; what is not known counts as none."""
        return (self.now or 0.0) - (self.baseline or 0.0)

    @property
    def budgets_lost(self) -> float:
        """How many budgets the loss is estimated at; infinite where nothing says how large it is.

        Of what is neither open nor held to a budget, 0. A count has no budget: one that is open
        rose in every run.
        """
        if self.outcome is not Outcome.INCONCLUSIVE and (
            self.outcome is not None or self.budget is None
        ):
            return 0.0
        estimate = self.change if self.estimate is None else self.estimate
        if self.is_count or estimate is None or self.budget is None:
            return math.inf
        if estimate <= 0:
            return 0.0
        return estimate / self.budget if self.budget else math.inf


class Dropped(Record):
    """A run set aside as a gross outlier, for the metric and by the distance that did it; its other
    metrics stay in."""

    side: str
    """`baseline`, `candidate` or `pair`."""
    index: int
    """Of the run on its side, from 0."""
    metric: Metric
    distance: float
    """From the median of its side, as a fraction in the metric's basis; below zero: faster."""


class Blessed(Record):
    """One point on the way from the anchor to now."""

    step_ms: float
    at: datetime
    commit: str | None = None
    reason: str = ""


class Drift(Record):
    """How far step_ms has come from the best ever blessed; fractions, relative."""

    change: float
    low: float
    high: float
    """Ends of what decides: one-sided bounds at 99.5 %; the loss is shown where `low` is above the
    budget."""
    budget: float
    shown: bool
    """Whether the loss is shown to be there and is beyond budget."""
    now: float
    """ms."""
    path: tuple[Blessed, ...] = Field(min_length=1)
    """What was blessed, from the anchor on."""


class ABRun(Record):
    """What an A/B run compared the candidate with."""

    revision: str
    """As it was asked for: the baseline's commit, or the user's own word."""
    commit: str
    """SHA of the commit that was run again."""
    pairs: NonNegativeInt
    screen_runs: NonNegativeInt
    """Runs of the candidate alone, made before its pairs."""


class Verdict(Worded):
    """What the gate says of one workload."""

    workload: str
    outcome: Outcome
    why: NoteOrText
    """Subject left out."""
    next: NoteOrText | None = None
    """What to do about it, where that is not the next step of `why`: its own, or its fact."""
    metrics: tuple[MetricVerdict, ...] = ()
    runs: int = 0
    """The candidate's, in all."""
    baseline_runs: int = 0
    """Of an A/B run those of the commit that was run again, else the blessed ones."""
    stage: Stage | None = None
    """None where nothing was compared."""
    ab_run: ABRun | None = Field(default=None, validation_alias="duet")
    workloads: PositiveInt = 1
    """Among how many workloads of this gate the error was shared when this one was judged (Holm).
    """
    loss_level: float | None = None
    """Of the clearest loss of a time metric: p over what it may be in a gate of one workload; None
    without a loss."""
    loss_by: Metric | None = None
    """The metric that has it."""
    loss_alpha: float | None = None
    """What a time metric's p-value may be at most to show a loss: it sets `low` of each row. None
    where nothing is shown.
    """
    pass_confidence: float = 0.975
    """Of `high` of each row."""
    drift: Drift | None = Field(default=None, validation_alias="creep")
    dropped: tuple[Dropped, ...] = ()
    where_notes: Mapping[Metric, NoteOrText] = {}
    """For metrics that moved: under which range, in which kernel or call."""
    attributions: tuple[Attribution, ...] = ()
    """The same as numbers, with every part."""
    classified: Classified | None = None
    """What the candidate is bound by; None where its figures do not say."""
    advice: tuple[Advice, ...] = ()
    """Where it is not PASSED: what usually helps against what has risen."""
    rank_notes: Notes = ()
    """Of a job of several processes: how far they lie apart, and for which of them the others wait.
    """
    notes: Notes = ()
    """WARN is what must be known to trust it, also where it is PASSED: what was not counted, what
    it cannot find."""
    more: NonNegativeInt = 0
    """Further runs, or pairs, that the judge wants before it settles this."""
    noisy: bool = False
    """Whether runs lie so far apart that an A/B run is better made in blocks."""

    NOTES_OF = {
        "reason": "why",
        "next_step": "next",
        "where": "where_notes",
        "ranks": "rank_notes",
        **dict.fromkeys(("warnings", "caveats", "information", "remarks"), "notes"),
    }

    @computed_field  # type: ignore[prop-decorator]
    @property
    def reason(self) -> str:
        """One or two sentences: the words of `why`."""
        return say.sentences(self.why).removeprefix(f"{self.workload}: ")

    @computed_field  # type: ignore[prop-decorator]
    @property
    def next_step(self) -> str:
        """The words of what to do."""
        if self.next is None:
            return say.next_step(self.why)
        return say.next_step(self.next) or say.fact(self.next)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def where(self) -> dict[Metric, str]:
        """The words of `where_notes`."""
        return {metric: say.fact(one) for metric, one in self.where_notes.items()}

    @computed_field  # type: ignore[prop-decorator]
    @property
    def ranks(self) -> tuple[str, ...]:
        """The words of `rank_notes`."""
        return tuple(map(say.fact, self.rank_notes))

    @computed_field  # type: ignore[prop-decorator]
    @property
    def warnings(self) -> tuple[str, ...]:
        """The words of warnings."""
        return self._worded(Severity.WARN)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def information(self) -> tuple[str, ...]:
        """The words of what else there is to know."""
        return self._worded(Severity.INFO)

    def _worded(self, severity: Severity) -> tuple[str, ...]:
        notes = (one for one in self.notes if one.severity is severity)
        return tuple(say.sentences(one).removesuffix(".") for one in notes)

    @property
    def compared(self) -> int:
        """Runs, or pairs of an A/B run, that were compared with the other side."""
        return self.runs if self.ab_run is None else self.ab_run.pairs

    @property
    def beyond(self) -> tuple[MetricVerdict, ...]:
        """The rows of an INCONCLUSIVE verdict whose loss is estimated at `MOST_BUDGETS` or more,
        the largest first."""
        if self.outcome is not Outcome.INCONCLUSIVE:
            return ()
        rows = [row for row in self.metrics if row.budgets_lost > MOST_BUDGETS * (1 - 1e-9)]
        return tuple(sorted(rows, key=lambda row: -row.budgets_lost))

    @property
    def too_few_runs(self) -> bool:
        """Whether it is INCONCLUSIVE after fewer runs than a verdict needs."""
        fewest = FEWEST_TO_PASS if self.ab_run is None else FEWEST_TO_JUDGE
        return self.outcome is Outcome.INCONCLUSIVE and self.compared < fewest

    def of(self, metric: Metric) -> MetricVerdict | None:
        """The row of one metric."""
        return next((row for row in self.metrics if row.metric is metric), None)
