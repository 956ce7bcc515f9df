"""What pytest's terminal and files show of a gate: tables, the summary, and the document."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from perfgate import __version__
from perfgate.gate import Closing
from perfgate.gate.gate import Gate
from perfgate.model.document import (
    DocumentRun,
    DocumentShard,
    DocumentWorkload,
    GateDocument,
    declared_at,
)
from perfgate.model.loosening import Loosening
from perfgate.model.note import note
from perfgate.model.outcome import Outcome
from perfgate.model.summary import PartChosen
from perfgate.model.verdict import Verdict
from perfgate.render.gate import Judged, choice_text, gate_state
from perfgate.render.junit import properties
from perfgate.render.text import gate_text, verdict_table
from perfgate.views.pages import Paths
from perfgate.words import say


@dataclass(frozen=True, kw_only=True)
class Display:
    """How a gate is shown."""

    gate: Gate
    label: str = ""
    loosening: Loosening | None = None
    """How this gate differs from the base branch's, where whoever started it found out."""
    width: int
    colour: bool
    verbose: bool = False
    """Whether tables of what PASSED are shown as well."""

    @property
    def paths(self) -> Paths:
        """Where results and baselines are kept."""
        return Paths(
            root=self.gate.root, store=self.gate.store, baselines=self.gate.settings.baselines
        )

    def table(self, verdict: Verdict) -> str:
        """Return one workload's verdict as a table."""
        files = self._relative(self.gate.folder(verdict.workload))
        return verdict_table(verdict, width=self.width, colour=self.colour, files=files)

    def properties(self, verdict: Verdict) -> list[tuple[str, object]]:
        """Return one workload's verdict as JUnit properties."""
        return list(properties(verdict))

    def summary(
        self,
        closing: Closing,
        *,
        hidden: Sequence[str] = (),
        ended: str = "",
        choice: PartChosen | None = None,
    ) -> str:
        """Return tables that nothing above has shown, a line a workload, and what else shuts it.

        `hidden` are workloads whose failure pytest does not show; `ended` says why pytest ended
        early, and comes before all other reasons; `choice` is the part of the workloads this is.
        """
        gate, verdicts = self.gate, self.gate.verdicts
        tables = [
            self.table(verdict)
            for name, verdict in verdicts.items()
            if name in hidden or self._is_shown_though_open(verdict)
        ]
        judged = [
            Judged(name=name, verdict=verdict, opens=gate.opens(verdict), workload=None)
            for name, verdict in verdicts.items()
        ]
        state = gate_state(judged, closing.shut_by, opens=closing.opens, ended=ended)
        notes: list[tuple[str, str]] = []
        if gate.sharing > 1 and any(verdict.stage is not None for verdict in verdicts.values()):
            notes.append(("", say.message(note("error-shared", workloads=gate.sharing))))
        if choice is not None and not ended:
            notes.append(("", choice_text(choice)))
        text = gate_text(state, width=self.width, colour=self.colour, notes=notes)
        return "\n".join([*tables, text.removesuffix("\n")])

    def _is_shown_though_open(self, verdict: Verdict) -> bool:
        return self.gate.opens(verdict) and (self.verbose or verdict.outcome is not Outcome.PASSED)

    def document(
        self,
        closing: Closing,
        *,
        exit_status: int,
        shard: DocumentShard | None = None,
        choice: PartChosen | None = None,
    ) -> GateDocument:
        """Return everything found."""
        gate = self.gate
        document = GateDocument(
            perfgate=__version__,
            started_at=gate.started_at,
            ended_at=datetime.now(UTC),
            opens_gate=closing.opens,
            exit_status=exit_status,
            shut_by=closing.shut_by,
            shut_codes=tuple(one.code for one in closing.notes),
            machine=gate.machine,
            commit=gate.checkout.commit,
            label=self.label,
            shard=shard,
            choice=choice,
            loosening=self.loosening,
            settings=gate.settings,
            workloads=tuple(
                self._documented(name, verdict) for name, verdict in gate.verdicts.items()
            ),
        )
        return gate.cleaner.record(document)

    def _documented(self, name: str, verdict: Verdict) -> DocumentWorkload:
        checked = self.gate.checked(name)
        source, line = declared_at(self.gate.workloads[name])
        return DocumentWorkload(
            verdict=verdict,
            opens_gate=self.gate.policy(None).opens(verdict),
            runs=tuple(map(DocumentRun.of, checked.runs)),
            reference_runs=tuple(map(DocumentRun.of, checked.reference_runs)),
            interleaved_runs=tuple(map(DocumentRun.of, checked.interleaved_runs)),
            environment=checked.environment,
            baseline=self._relative(self.gate.baseline_file(name)),
            files=self._relative(self.gate.folder(name)),
            source=source,
            line=line,
        )

    def _relative(self, path: Path | None) -> str | None:
        return None if path is None else os.path.relpath(path, self.gate.root)
