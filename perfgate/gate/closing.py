"""What a whole invocation amounts to: every expected workload has a verdict that opens the gate, or it is shut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from perfgate.explain.headline import headline
from perfgate.gate.terms import Closing, Policy
from perfgate.judge.family import step_down, still_sharing
from perfgate.judge.time_rows import at_level
from perfgate.model.note import note
from perfgate.model.outcome import Outcome
from perfgate.model.verdict import Verdict

_WHAT_TO_DO: Final = (
    "gate with the variables and options that it was blessed with, or, if it was renamed or deleted on purpose, delete "
    "its baseline"
)


def close(
    expected: Sequence[str],
    verdicts: Mapping[str, Verdict],
    policy: Policy,
    *,
    orphans: Sequence[str] = (),
    gone: Mapping[str, str] | None = None,
    skipped_files: Mapping[str, str] | None = None,
) -> Closing:
    """Say whether the gate opens: every expected workload has a verdict that opens it, and there was at least one.

    `orphans` are baselines of this machine without a workload: it was renamed or deleted, and so not measured, unless
    it is in one of the `skipped_files`, by which there is told why each skipped itself. `gone` are those of which only
    the file, told by workload, was asked for: it no longer declares them.
    """
    shut: list[str] = []
    if not expected:
        shut.append("no workload was collected, so nothing was measured")
    for workload in expected:
        verdict = verdicts.get(workload)
        if verdict is None:
            shut.append(f"{workload}: it was expected, and not measured")
        elif not policy.opens(verdict):
            shut.append(f"{workload}: {verdict.outcome}")
    if skipped_files:
        files = ", ".join(f"{file} ({why})" for file, why in skipped_files.items())
        why = f"and was not collected; it may be in what was skipped: {files}"
    else:
        why = f"and no such workload was collected; {_WHAT_TO_DO}"
    shut += [f"{orphan}: it has a baseline for this machine, {why}" for orphan in orphans]
    for workload, file in (gone or {}).items():
        moved = f"measured from {file}, which does not declare it now; {_WHAT_TO_DO}; if it was moved, bless it where it is"
        shut.append(
            f"{workload}: it has a baseline for this machine, {why if skipped_files else moved}"
        )
    return Closing(opens=not shut, shut_by=tuple(shut))


def step_down_clocks(verdicts: Mapping[str, Verdict], *, workloads: int) -> dict[str, Verdict]:
    """Return the verdicts that change once all are known: Holm's step-down over the workloads of one gate.

    A workload judged before others had been shown to have lost shared the error with them, and may have missed by
    that alone.
    """
    lost = step_down(
        {name: verdict.loss_level for name, verdict in verdicts.items()}, workloads=workloads
    )
    sharing = still_sharing(len(lost) - 1, workloads=workloads)
    return {
        name: _with_loss(verdict, sharing=sharing)
        for name, verdict in verdicts.items()
        if name in lost and verdict.outcome is Outcome.INCONCLUSIVE
    }


def _with_loss(verdict: Verdict, *, sharing: int) -> Verdict:
    """The verdict with its clearest loss shown, at the level of so many workloads that share the error."""
    alpha = None if verdict.loss_alpha is None else verdict.loss_alpha * verdict.workloads / sharing
    rows = [row if alpha is None else at_level(row, alpha) for row in verdict.metrics]
    rows = [
        row.model_copy(
            update={"outcome": Outcome.REGRESSED} if row.metric is verdict.loss_by else {}
        )
        for row in rows
    ]
    update = {
        "outcome": Outcome.REGRESSED,
        "metrics": tuple(rows),
        "loss_alpha": alpha,
        "workloads": sharing,
    }
    found = verdict.model_copy(update=update)
    late = note("shown-by-holm")
    return found.model_copy(
        update={"why": headline(found), "next": None, "notes": (late, *found.notes)}
    )
