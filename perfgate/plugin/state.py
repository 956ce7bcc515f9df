"""One gate as pytest runs it: what it was started with, what is expected of it, what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pytest

from perfgate.gate.gate import Gate
from perfgate.model.document import GateDocument, PartChosen, Shard
from perfgate.model.loosening import Base
from perfgate.model.note import note
from perfgate.model.workload import Workload
from perfgate.plugin.choice import Choice
from perfgate.plugin.outputs import Outputs
from perfgate.plugin.refusals import usage_error
from perfgate.render.page import Screen
from perfgate.words import say

WORKLOAD = pytest.StashKey[Workload]()
"""Of an item: the workload that it is."""


@dataclass(kw_only=True)
class State:
    """All that the hooks of one gate share."""

    gate: Gate
    screen: Screen
    outputs: Outputs
    choice: Choice
    """What was typed to choose workloads: of the others none is missed."""
    shard: Shard | None
    label: str
    """What this gate is called among others; empty where nothing was given."""
    base: Base | None
    """What is known of the branch that this change is for."""
    scripts: frozenset[str]
    """Python files that YAML workloads run: importing one would run it here."""

    collected: dict[str, pytest.Item] = field(default_factory=dict)
    """All workloads that were collected, by id, whatever a selection or a hook leaves of them."""
    chosen: frozenset[str] = frozenset()
    """Those of them that this gate is to measure, or another shard of it."""
    elsewhere: frozenset[str] = frozenset()
    """Those that fall to the other shards: not measured here, and not gone."""
    deselected: set[str] = field(default_factory=set)
    """Workloads that somebody deselected with a word to pytest."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Workloads that a mark or condition skipped, and why."""
    skipped_files: dict[str, str] = field(default_factory=dict)
    """Files that skipped themselves while they were imported, and why."""
    hidden: list[str] = field(default_factory=list)
    """Workloads whose failure pytest does not show: those marked xfail."""
    broken: list[str] = field(default_factory=list)
    """Files that could not be collected."""
    expected: Sequence[Workload] | None = None
    """What is missed from here on where it is missing; None until collection is done."""
    document: GateDocument | None = None
    """What the gate has come to."""
    shown: bool = False
    """Whether the terminal shows what the gate has come to."""

    @property
    def is_first_shard(self) -> bool:
        """Whether this shard, or whole gate, is the one that says what is gone."""
        return self.shard is None or self.shard.index == 1

    @property
    def here(self) -> frozenset[str]:
        """The chosen workloads that fall to no other shard."""
        return self.chosen - self.elsewhere

    @property
    def part(self) -> PartChosen | None:
        """How many of the known workloads were chosen, and by what; None where all were."""
        flags = self.choice.flags
        if not flags or self.expected is None:
            return None
        known = {*self.collected, *self.gate.blessed}
        return PartChosen(by=flags, workloads=len(self.expected), of=len(known))

    def choose(self, items: Iterable[pytest.Item]) -> None:
        """Note which workloads were chosen: by what was typed, and not by what a hook leaves."""
        by_words = self.choice.of_items(list(self.collected.values()))
        self.chosen = frozenset(workload.id for workload in workloads_of([*by_words, *items]))

    def divide(self, items: list[pytest.Item]) -> list[pytest.Item]:
        """Leave to other shards what falls to them, and return that.

        Raises:
            pytest.UsageError: two workloads have one name.
        """
        _refuse_twins(workloads_of(items))
        if self.shard is None:
            return []
        self.choose(items)
        self.elsewhere = self.chosen - self.shard.part(self.chosen)
        others = [item for item in items if id_of(item) in self.elsewhere]
        items[:] = [item for item in items if id_of(item) not in self.elsewhere]
        return others

    def expect(self, session: pytest.Session) -> None:
        """Note what is expected: from here on, what is missing is missed.

        Raises:
            pytest.UsageError: there are more shards than workloads.
        """
        expected = workloads_of(session.items)
        if self.shard is None:
            self.choose(session.items)
        elif not session.testsfailed and 0 < len(self.chosen) < self.shard.of:
            raise usage_error("shards-too-many", value=str(self.shard), workloads=len(self.chosen))
        left = self.here - {workload.id for workload in expected}
        for name in sorted(left & self.deselected):
            self.skipped[name] = say.message(note("deselected-by-hook"))
        dropped = [item for name, item in self.collected.items() if name in left]
        self.expected = (*expected, *workloads_of(dropped))
        self.gate.expect(self.expected, elsewhere=self.elsewhere)


STATE = pytest.StashKey[State]()


def workloads_of(items: Iterable[pytest.Item]) -> list[Workload]:
    """Return the workloads among pytest's items, in their order."""
    return [item.stash[WORKLOAD] for item in items if WORKLOAD in item.stash]


def id_of(item: pytest.Item) -> str | None:
    """Return the workload's id; None of an item that is none."""
    return item.stash[WORKLOAD].id if WORKLOAD in item.stash else None


def _refuse_twins(workloads: Sequence[Workload]) -> None:
    """Refuse workloads that would share a baseline."""
    sources: dict[str, list[str]] = {}
    for workload in workloads:
        sources.setdefault(workload.id, []).append(workload.source)
    for name, files in sources.items():
        if len(files) > 1:
            raise usage_error("workload-name-twice", workload=name, sources=tuple(files))
