"""What can come of a gate, and what a project may say of it."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Outcome(StrEnum):
    """The outcome of one workload, or of one of its metrics."""

    PASSED = "PASSED"
    IMPROVED = "IMPROVED"
    REGRESSED = "REGRESSED"
    INCONCLUSIVE = "INCONCLUSIVE"
    NO_BASELINE = "NO_BASELINE"
    INCOMPARABLE = "INCOMPARABLE"
    INVALID = "INVALID"
    NOT_MEASURED = "NOT_MEASURED"


WORST_FIRST: Final = (
    Outcome.REGRESSED,
    Outcome.NOT_MEASURED,
    Outcome.INVALID,
    Outcome.INCOMPARABLE,
    Outcome.NO_BASELINE,
    Outcome.INCONCLUSIVE,
    Outcome.IMPROVED,
    Outcome.PASSED,
)
PASSING: Final[tuple[Outcome, ...]] = (Outcome.PASSED, Outcome.IMPROVED)


class OnInconclusive(StrEnum):
    """What an INCONCLUSIVE workload does to the gate."""

    WARN = "warn"
    FAIL = "fail"


class OnNew(StrEnum):
    """What a workload without a baseline does to the gate."""

    FAIL = "fail"
    ALLOW = "allow"


class OnLoosened(StrEnum):
    """What a change that loosens its own gate does to it, in GitHub Actions."""

    WARN = "warn"
    FAIL = "fail"
