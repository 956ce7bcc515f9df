"""What can come of a gate, and which of it opens the gate."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, assert_never


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


def opens_gate(
    outcome: Outcome,
    *,
    on_inconclusive: OnInconclusive = OnInconclusive.FAIL,
    on_new: OnNew = OnNew.FAIL,
) -> bool:
    """Say whether a workload of this outcome lets the build pass under the user's two policies."""
    match outcome:
        case Outcome.PASSED | Outcome.IMPROVED:
            return True
        case Outcome.INCONCLUSIVE:
            return on_inconclusive is OnInconclusive.WARN
        case Outcome.NO_BASELINE:
            return on_new is OnNew.ALLOW
        case Outcome.REGRESSED | Outcome.INCOMPARABLE | Outcome.INVALID | Outcome.NOT_MEASURED:
            return False
        case _:
            assert_never(outcome)
