"""What became of the baselines of one workload: through git's history, and what `perfgate
calibrate` found of them."""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal

from pydantic import Field, PositiveInt

from perfgate.model.baseline import Baseline, Spread
from perfgate.model.metric import METRICS, Metric, Values
from perfgate.model.note import Note, Notes
from perfgate.model.record import Record

HISTORY_FORMAT: Final = 2
"""History: 1, the first; 2: a row is a blessing, a deletion or what cannot be read."""


class BlessedVersion(Record):
    """One version of a baseline's file. All values are medians over the blessed runs, per step."""

    state: Literal["blessed", "deleted", "unreadable"]
    commit: str | None
    """The commit that brought it; None of what is not committed."""
    at: datetime | None = None
    """When it was blessed, or an occasion was added; of others when the commit was made."""
    by: str = ""
    reason: str = ""
    """Why it was blessed; of others the first line of the commit's message."""
    runs: int = 0
    values: Values = {}
    change: float | None = None
    """The gain of the history's metric against the row before, a fraction in the metric's basis."""
    since_anchor: float | None = None
    """The gain of step_ms against the best step ever blessed, as the baseline itself names it."""
    unlike: Notes = ()
    """What makes it incomparable with the baseline before: nsys and its options, parameters."""
    why: Note | None = None
    """Why it cannot be read."""


class MachineHistory(Record):
    """The versions of one workload's baseline on one machine, newest last."""

    slug: str
    gpu: str
    """The GPUs of the newest version that can be read; the slug where none can."""
    versions: tuple[BlessedVersion, ...]


class History(Record):
    """The baselines of one workload on all machines that have or had one."""

    format: Literal[2] = HISTORY_FORMAT
    workload: str
    metric: Metric
    """The metric that the changes are of."""
    shallow: bool = False
    """Whether this clone does not have what is older."""
    machines: tuple[MachineHistory, ...]


class Point(Record):
    """One point of a series."""

    at: datetime
    """When it was blessed."""
    value: float
    """The median over the blessed runs, per step."""
    by: str
    reason: str
    commit: str | None
    """The commit that brought it; None of what is not committed."""
    joined: bool
    """Whether a line may lead here from the point before: nothing was deleted or unreadable
    between, and it is comparable."""


class CalibratedTime(Record):
    """One time metric: its SDs, and what a gate can see with them. All numbers are fractions in its
    basis."""

    metric: Metric
    spread: Spread
    budget: float
    smallest: float
    """The loss that stored runs can hold."""

    @property
    def unit(self) -> str:
        """Of its fractions, in hundredths: `%` or `pp`."""
        return METRICS[self.metric].basis.unit


class Calibration(Record):
    """A baseline with what was found, and what should be known of it."""

    baseline: Baseline
    runs: int = Field(ge=2)
    """Unchanged repeats, the baseline's own among them."""
    occasions: PositiveInt
    first: datetime
    last: datetime
    """When the first and the last occasion began."""
    times: tuple[CalibratedTime, ...]
    gate_runs: int
    """Runs of a gate against stored ones."""
    notes: Notes = ()
