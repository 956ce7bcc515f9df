"""One step of one run as it ran: what a page draws. Times are microseconds from where it begins."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from perfgate.model.record import Record


class Bar(Record):
    """One range, GPU operation or idle time; or several neighbours, too small to be drawn apart, as
    one."""

    start_us: float
    length_us: float = Field(ge=0)
    name: str
    """Of several the one that lasted longest."""
    count: int = Field(default=1, ge=1)
    """How many it stands for."""
    busy_us: float | None = None
    """Of several: how long they lasted together, without what lies between them; None of one."""


class Lane(Record):
    """Bars that are drawn on one line: they do not overlap."""

    title: str
    """`CPU`, `GPU 0 stream 7`, `GPU 0 idle`."""
    kind: Literal["range", "kernel", "nccl", "graph", "copy", "memset", "idle"]
    bars: tuple[Bar, ...] = ()

    @property
    def count(self) -> int:
        """How many ranges, operations or idle times there are."""
        return sum(bar.count for bar in self.bars)

    @property
    def busy_us(self) -> float:
        """How long they lasted together."""
        return sum(bar.length_us if bar.busy_us is None else bar.busy_us for bar in self.bars)

    @property
    def longest(self) -> Bar | None:
        """The bar that lasts longest."""
        return max(self.bars, key=lambda bar: bar.length_us, default=None)


class StepView(Record):
    """The ranges of one step's thread, outermost first, if any lie here; then each GPU's streams
    and idle time."""

    label: str
    """Which it is: `run 2, step 14 of 30`."""
    length_us: float
    """From the completion of the step before it to its own; where no period counts, from its
    range's begin."""
    lanes: tuple[Lane, ...]
    operations: int
    """Ranges, GPU operations and idle times there were."""
    drawn: int
    """Bars that stand for them."""
    pixel_us: float = 0
    """Neighbours that begin within this and are each shorter than it are one bar; 0 where none were
    merged."""
    source: str = ""
    """The capture's file, relative to the project."""
