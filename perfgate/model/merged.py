"""What a document or a page that was merged of several gates says of each, and how it names their
workloads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from pydantic import Field

from perfgate.model.machine import Machine
from perfgate.model.record import Moment, Record
from perfgate.model.verdict import Verdict


class MergedGate(Record):
    """One of the gates that were merged."""

    label: str
    """Its own, or else the folder that it was found in."""
    opens_gate: bool
    started_at: Moment
    ended_at: Moment
    machine: Machine | None = None
    """None where it ended before it was read."""
    workloads: int = Field(ge=0)


class Placed(Protocol):
    """A workload of a document or of a page."""

    @property
    def verdict(self) -> Verdict:
        """What was said of it."""

    @property
    def machine(self) -> Machine | None:
        """Where it was measured, of several."""

    @property
    def gate(self) -> str:
        """By which gate, of several."""


def shown_names(workloads: Sequence[Placed]) -> tuple[str, ...]:
    """What each workload is called next to the others, in their order.

    That is its own name; where they are of several machines its GPU with it, and where that does
    not tell them apart the gate that it came from.
    """
    slugs = {one.machine.slug for one in workloads if one.machine is not None}
    placed = [
        one.verdict.workload
        + (f" on {one.machine.gpu_name}" if one.machine is not None and len(slugs) > 1 else "")
        for one in workloads
    ]
    counted = Counter(placed)
    return tuple(
        f"{name} ({one.gate})" if counted[name] > 1 and one.gate else name
        for name, one in zip(placed, workloads, strict=True)
    )
