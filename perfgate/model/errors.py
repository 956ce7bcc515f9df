"""Everything perfgate can fail with: one class a cause, one exit code a class.

A gate that is shut is no error: it is a verdict, and exits with `EXIT_SHUT`.
"""

from __future__ import annotations

from typing import ClassVar

from perfgate.words import say

EXIT_OPEN = 0
EXIT_SHUT = 1
EXIT_USAGE = 2


class PerfgateError(Exception):
    """A failure, as a code and its fields: `raise BaselineMissing("baseline-missing", path=path)`.

    `str(error)` is the whole message that `words` makes of them: `fact. expectation.` and, on a
    line of its own, the next step. A class of its own is for those that somebody catches, and for
    an exit status of its own.
    """

    exit_code: ClassVar[int]

    def __init__(self, code: str, /, **fields: object) -> None:
        self.code = code
        self.fields = fields
        super().__init__(say.message(self))

    @property
    def fact(self) -> str:
        """What is so, without the subject and without a full stop."""
        return say.predicate(self)


class NotMeasured(PerfgateError):
    """What leaves a workload without a measurement; any other error is a bug and stays one."""


class SideMissing(PerfgateError):
    """What leaves a gate without the other side of an A/B run."""


class ConfigInvalid(PerfgateError):
    """`[tool.perfgate]`, a workload file or an option holds what perfgate does not accept."""

    exit_code = 10


class NsysNotFound(NotMeasured):
    """No nsys program in any of the places where perfgate looks."""

    exit_code = 11


class NsysUnsupported(NotMeasured):
    """An nsys whose version is too old, or that does not say one."""

    exit_code = 12


class CaptureFailed(NotMeasured):
    """nsys ran, or should have, and there is no capture of the workload."""

    exit_code = 13


class CaptureUnreadable(NotMeasured):
    """A capture that is no capture: corrupt, truncated, a Git LFS pointer, a foreign file."""

    exit_code = 14


class LayoutUnknown(NotMeasured):
    """An nsys report or export whose columns or units perfgate does not know."""

    exit_code = 15


class WorkloadFailed(NotMeasured):
    """The workload raised, exited, was killed or took the wrong number of steps."""

    exit_code = 16


class WorkloadTimedOut(NotMeasured):
    """The workload, or nsys after it, did not end within its time limit."""

    exit_code = 17


class BaselineMissing(PerfgateError):
    """There is no baseline where one was asked for."""

    exit_code = 18


class BaselineUnreadable(PerfgateError):
    """A baseline file that is broken, edited by hand or of a newer format."""

    exit_code = 19


class ResultMissing(PerfgateError):
    """No kept result of this workload."""

    exit_code = 20


class ResultUnreadable(PerfgateError):
    """A kept result that is broken or of a newer format."""

    exit_code = 21


class BlessRefused(PerfgateError):
    """A result that must not become a baseline as it is."""

    exit_code = 22


class StoreFailed(NotMeasured):
    """The disk did not take what had to be written."""

    exit_code = 23


class GpuTaken(NotMeasured):
    """Another gate holds the GPU and did not let go in time."""

    exit_code = 24


class RepositoryUnreadable(SideMissing):
    """git is missing, or could not say what perfgate asked."""

    exit_code = 25


class StepsNotFound(NotMeasured):
    """A capture without the steps that were asked for."""

    exit_code = 26


class MachineUnreadable(NotMeasured):
    """The GPU driver did not say what perfgate asked of it."""

    exit_code = 27


class RevisionMissing(SideMissing):
    """A commit that is not in this clone: a shallow clone, a rewritten history, a name that says
    nothing to git."""

    exit_code = 28


class WorktreeFailed(SideMissing):
    """A commit that could not be checked out next to the project, or not be made ready to run
    there.
    """

    exit_code = 29


class CodeUnproven(SideMissing):
    """A run of which it is not shown that it ran the code of the commit it was meant for."""

    exit_code = 30


class CalibrationRefused(PerfgateError):
    """Runs that are no unchanged repeats of what is blessed, or too few of them."""

    exit_code = 31


class NsysCrashed(NotMeasured):
    """nsys itself broke down, and left no capture; it does now and then on a busy machine."""

    exit_code = 32


class ActionsContextMissing(PerfgateError):
    """What GitHub Actions tells its jobs is missing, or is not what it should be."""

    exit_code = 33


class PackageMissing(PerfgateError):
    """A package of one of perfgate's extras is not installed."""

    exit_code = 34


class GitHubRefused(PerfgateError):
    """GitHub said no: a permission, something it does not have, a request that it does not
    accept.
    """

    exit_code = 35


class GitHubUnreachable(PerfgateError):
    """GitHub did not answer in time, or only with errors of its own or with rate limits."""

    exit_code = 36


class BranchMoved(PerfgateError):
    """A branch is no longer at the commit that was to be built upon."""

    exit_code = 37


class ArtifactUnreadable(PerfgateError):
    """An artifact that is not read: too large, not a zip file, with members that are not safe, or
    broken."""

    exit_code = 38


class DocumentUnreadable(PerfgateError):
    """A gate's document, or its page's data, that is broken, too large, of another format or of
    another gate."""

    exit_code = 39


class NcuNotFound(PerfgateError):
    """No ncu program in any of the places where perfgate looks."""

    exit_code = 40


class NcuUnsupported(PerfgateError):
    """An ncu whose version is too old, or that does not say one."""

    exit_code = 41


class NcuFailed(PerfgateError):
    """ncu ran, or should have, and has no figures: a permission, a GPU that it does not know, a
    fault of its own."""

    exit_code = 42


class ScaffoldRefused(PerfgateError):
    """A place in the project that `perfgate init` must not write to, or cannot compare."""

    exit_code = 43


class JobNotAdmitted(PerfgateError):
    """A job that this runner does not take: of a fork without approval, or of an event that it does
    not know."""

    exit_code = 44


class CodeStale(NotMeasured):
    """A run in the project that loaded a copy of its code from elsewhere, and that copy is
    another.
    """

    exit_code = 45
