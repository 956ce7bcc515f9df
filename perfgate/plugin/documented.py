"""A gate's document, of what pytest knows and of what the gate found."""

from __future__ import annotations

import os
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
from perfgate.model.verdict import Verdict
from perfgate.plugin.state import State


def document_of(state: State, closing: Closing, *, pytest_status: int) -> GateDocument:
    """Return everything found, without secrets."""
    gate = state.gate
    document = GateDocument(
        perfgate=__version__,
        started_at=gate.started_at,
        ended_at=datetime.now(UTC),
        opens_gate=closing.opens,
        exit_status=max(pytest_status, closing.exit_status),
        shut_by=closing.shut_by,
        shut_codes=tuple(one.code for one in closing.notes),
        machine=gate.machine,
        commit=gate.checkout.commit,
        label=state.label,
        shard=_shard_of(state),
        choice=state.part,
        loosening=None if state.base is None else state.base.loosening,
        settings=gate.settings,
        workloads=tuple(_workload(gate, verdict) for verdict in gate.verdicts.values()),
    )
    return gate.cleaner.record(document)


def _shard_of(state: State) -> DocumentShard | None:
    """This shard, so that who merges sees what all of them left out."""
    if state.shard is None:
        return None
    return DocumentShard(
        index=state.shard.index,
        of=state.shard.of,
        workloads=None if state.expected is None else tuple(sorted(state.chosen)),
        skipped=tuple(sorted(state.skipped.keys() - state.gate.verdicts.keys())),
    )


def _workload(gate: Gate, verdict: Verdict) -> DocumentWorkload:
    checked = gate.checked(verdict.workload)
    source, line = declared_at(gate.workloads[verdict.workload])
    return DocumentWorkload(
        verdict=verdict,
        opens_gate=gate.opens(verdict),
        runs=tuple(map(DocumentRun.of, checked.runs)),
        reference_runs=tuple(map(DocumentRun.of, checked.reference_runs)),
        interleaved_runs=tuple(map(DocumentRun.of, checked.interleaved_runs)),
        environment=checked.environment,
        baseline=relative(gate.baseline_file(verdict.workload), gate),
        files=relative(gate.folder(verdict.workload), gate),
        source=source,
        line=line,
    )


def relative(path: Path | None, gate: Gate) -> str | None:
    """Return a path as it is shown: from the project's root."""
    return None if path is None else os.path.relpath(path, gate.root)
