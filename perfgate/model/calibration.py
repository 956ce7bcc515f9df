"""What `perfgate calibrate` found of one workload."""

from __future__ import annotations

import math
from datetime import datetime

from pydantic import Field

from perfgate.model.baseline import Baseline, Spread
from perfgate.model.metric import METRICS, Metric
from perfgate.model.note import Note
from perfgate.model.record import Record


class CalibratedTime(Record):
    """One time metric: its SDs, and what a gate can see with them. All numbers are fractions in its
    basis."""

    metric: Metric
    spread: Spread
    budget: float
    smallest: float
    """The loss that stored runs can hold."""
    in_the_end: float
    """The same of all that a gate may measure: an A/B run's pairs where there are any, else the
    stored looks."""

    @property
    def unit(self) -> str:
        """Of its fractions, in hundredths: `%` or `pp`."""
        return METRICS[self.metric].basis.unit

    @property
    def holdable(self) -> float:
        """The least budget that holds: rounded up to a tenth of a per cent."""
        return math.ceil(round(1000 * self.in_the_end, 6)) / 1000


class Calibration(Record):
    """A baseline with what was found, and what should be known of it."""

    baseline: Baseline
    runs: int = Field(ge=2)
    """Unchanged repeats, the baseline's own among them."""
    occasions: int = Field(ge=1)
    first: datetime
    last: datetime
    """When the first and the last occasion began."""
    times: tuple[CalibratedTime, ...]
    gate_runs: int
    """Runs of a gate against stored ones."""
    ab_run: bool
    """Whether a gate may make an A/B run where these do not suffice."""
    notes: tuple[Note, ...] = ()
