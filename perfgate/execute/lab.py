"""What a gate sees of whoever makes its runs: fresh ones of this machine (`fresh`), recorded or
prepared ones."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from perfgate.execute.worktree import SHOWN_SHA
from perfgate.model.baseline import Baseline
from perfgate.model.errors import NsysCrashed, RevisionMissing
from perfgate.model.machine import Machine
from perfgate.model.note import Note
from perfgate.model.sample import Form, Run
from perfgate.model.settings import Settings


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """One run of each side of an A/B run, made one right after the other or both at once."""

    reference: Run
    candidate: Run


@dataclass(frozen=True, kw_only=True, slots=True)
class Against:
    """Another commit to compare with."""

    revision: str
    """As it was asked for."""
    commit: str
    """SHA."""
    tree: str | None = None
    """That of its files without the baselines, where it was noted."""


Asked = tuple[Form | None, int]
"""A number of pairs in a form, or of runs of the candidate."""


class Lab(Protocol):
    """Makes the runs of one workload in one gate; numbers of runs and pairs are of further ones."""

    @property
    def machine(self) -> Machine:
        """The machine, with the versions that the runs so far have really loaded."""

    @property
    def forms(self) -> frozenset[Form]:
        """Forms of an A/B run that may be had: pairs, blocks, or none."""

    @property
    def commit(self) -> Against:
        """The other one; known once a pair was made."""

    def prepare(self, *asked: Asked) -> None:
        """Know what will be asked for next, to start runs of several stages together; they need not
        all be asked for."""

    def runs(self, number: int) -> Generator[Run]:
        """Make runs of the candidate, some of them ahead: closing it ends those. Raises
        `NotMeasured`."""

    def pairs(self, form: Form, number: int) -> Generator[Pair]:
        """Make pairs; raises `NotMeasured` for the candidate, `SideMissing` for the other commit.

        Form.ALONE: a run of either side as it is without an A/B run, for blocks to be held against.
        """


class Listener(Protocol):
    """Hears of the runs of one workload after another, and shows them in its own way."""

    def of(self, workload: str) -> AbstractContextManager[None]:
        """Hear of one workload's runs inside the block."""

    def plan(self, stages: Sequence[Note]) -> None:
        """Hear what is to be spent on it."""

    def run(self, title: str) -> AbstractContextManager[None]:
        """Hear that a run goes on, for as long as the block lasts."""

    def crashed(self, crash: NsysCrashed) -> None:
        """Hear that nsys broke down in a run, which is made again."""

    def done(self, title: str, run: Run) -> None:
        """Hear what a run measured."""

    def say(self, line: str) -> None:
        """Hear anything else, in a line."""


def blessed_at(baseline: Baseline) -> Against:
    """The commit that a baseline was measured at, the last that holds all of its code.

    Raises:
        RevisionMissing: nobody noted it, or it had uncommitted changes.
    """
    if not baseline.commits:
        raise RevisionMissing("baseline-without-commit")
    last = baseline.commits[-1]
    shown = last.sha[:SHOWN_SHA]
    if last.dirty:
        raise RevisionMissing("baseline-of-uncommitted-changes", commit=shown)
    return Against(revision=f"the baseline's commit {shown}", commit=last.sha, tree=last.tree)


@dataclass(frozen=True, kw_only=True)
class Invocation:
    """What somebody started a gate with."""

    root: Path
    settings: Settings
    env: Mapping[str, str]
    worker_env: Mapping[str, str]
    """What the workloads' processes get, but for secrets."""
    nsys: str | None = None
    pytest_options: tuple[str, ...] = ()
    """What the pytest inside a worker must share with the one around the gate."""
    against: Against | None = None
    """The commit to compare with, in place of each baseline's."""
    keep_captures: bool = False
