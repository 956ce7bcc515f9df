"""How the gate of one workload leaves the path it is on: its measurement, its steps or its duet came to nothing."""

from __future__ import annotations

from perfgate.model.verdict import Verdict


class Ended(Exception):
    """A run came to nothing, and with it the gate of this workload."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        super().__init__(verdict.reason)


class OtherSteps(Exception):
    """What serves as a step is not what served as one on the other side."""

    def __init__(self, differs: str, *, stored: bool) -> None:
        self.differs = differs
        self.stored = stored
        """Whether it is the stored baseline's, or those of its commit, that differ: a bless ends that."""
        super().__init__(differs)


class NoDuet(Exception):
    """There is no other side to compare with."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)
