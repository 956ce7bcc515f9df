"""What a change does to its own gate: every setting, declaration and baseline value that differs
from the base's."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from pydantic import Field

from perfgate.model.outcome import OnLoosened
from perfgate.model.record import Record


class Direction(StrEnum):
    """What one difference does to the gate."""

    LOOSENS = "loosens"
    """It lets more through, or nobody can say that it does not."""
    TIGHTENS = "tightens"
    NEITHER = "neither"


class Difference(Record):
    """One thing that is another than in the base. Names and values may be a stranger's."""

    what: str = Field(min_length=1)
    """Such as `setting runs`, `workload mlp: warmup`, `baseline mlp on nvidia-h200: step_ms`."""
    old: str | None = None
    """None: it was not there."""
    new: str | None = None
    """None: it is not there any more."""
    direction: Direction


class Loosening(Record):
    """How the gate of a change differs from that of the branch that it is for."""

    base: str
    """The branch."""
    on: OnLoosened = OnLoosened.FAIL
    """What the base branch has a loosened gate do."""
    approved: bool = False
    """Whether a maintainer has approved this very commit."""
    differences: tuple[Difference, ...] = ()

    @property
    def loosens(self) -> tuple[Difference, ...]:
        """Those that let more through."""
        return tuple(one for one in self.differences if one.direction is Direction.LOOSENS)

    @property
    def shuts(self) -> bool:
        """Whether it keeps the gate shut."""
        return bool(self.loosens) and not self.approved and self.on is OnLoosened.FAIL


class Base(Record):
    """What a gate knows of the branch that its change is for."""

    loosening: Loosening
    expected: Mapping[str, Mapping[str, str | None]] = {}
    """By machine, the workloads that the base has baselines of there, each with its file if that is
    known, less those whose removal was approved."""
