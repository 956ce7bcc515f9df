"""One gate as pytest runs it: what it was started with, and what came of it so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from perfgate.gate import Closing
from perfgate.gate.gate import Gate
from perfgate.model.loosening import Base
from perfgate.model.shard import Shard
from perfgate.model.summary import PartChosen
from perfgate.model.workload import Workload
from perfgate.plugin.choice import Choice
from perfgate.plugin.display import Display
from perfgate.plugin.outputs import Outputs


@dataclass(kw_only=True)
class State:
    """All that the hooks of one gate share."""

    gate: Gate
    display: Display
    outputs: Outputs
    choice: Choice
    """What was typed to choose workloads: of the others none is missed."""
    shard: Shard | None
    base: Base | None
    """What is known of the branch that this change is for."""
    scripts: frozenset[str]
    """Python files that YAML workloads run: importing one would run it here."""

    collected: dict[str, pytest.Item] = field(default_factory=dict)
    """All workloads that were collected, by id, whatever a selection or a hook leaves of them."""
    chosen: frozenset[str] = frozenset()
    """Those of them that this gate is to measure, or another shard of it."""
    deselected: set[str] = field(default_factory=set)
    """Workloads that somebody deselected with a word to pytest."""
    elsewhere: frozenset[str] = frozenset()
    """Workloads of the other shards: not measured here, and not gone."""
    divided: tuple[str, ...] | None = None
    """All workloads that the shards divide among them, sorted."""
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
    closing: Closing | None = None
    shown: bool = False
    """Whether the terminal shows what the gate has come to."""

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

    @property
    def unmeasured(self) -> dict[str, str]:
        """The files and workloads that were skipped, and why."""
        judged = self.gate.verdicts
        left = {name: why for name, why in self.skipped.items() if name not in judged}
        return self.skipped_files | left

    @property
    def asks_for_orphans(self) -> bool:
        """Whether baselines without a workload are looked for here.

        By one shard, so that one gate says it and not all; but the files that skip themselves on
        one runner need not do so on the others.
        """
        return self.shard is None or self.shard.index == 1 or bool(self.skipped_files)


STATE = pytest.StashKey[State]()
