"""What a whole invocation comes to: every expected workload has a verdict that opens the gate, or
it is shut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfgate.explain.summary import headline
from perfgate.judge.looks import step_down
from perfgate.judge.rows import at_level
from perfgate.model.note import Note, Severity, note
from perfgate.model.outcome import Outcome
from perfgate.model.settings import Settings
from perfgate.model.verdict import Verdict


def close(
    expected: Sequence[str], verdicts: Mapping[str, Verdict], settings: Settings
) -> list[Note]:
    """Return what keeps the gate shut: nothing only where every expected workload has a verdict
    that opens it, and there was one."""
    shut: list[Note] = [] if expected else [note("nothing-collected", Severity.INVALID)]
    for name in expected:
        verdict = verdicts.get(name)
        if verdict is None:
            shut.append(note("expected-not-measured", Severity.INVALID, workload=name))
        elif not settings.opens(verdict):
            outcome = verdict.outcome
            shut.append(note("workload-shuts", Severity.INVALID, workload=name, outcome=outcome))
    return shut


def step_down_times(verdicts: Mapping[str, Verdict], *, workloads: int) -> dict[str, Verdict]:
    """Return the verdicts that change once all are known: Holm's step-down over a gate's workloads.

    Each workload was judged as if all shared the error, and may have missed by that alone.
    """
    levels = {name: verdict.loss_level for name, verdict in verdicts.items()}
    lost = step_down(levels, workloads=workloads)
    sharing = max(workloads - len(lost) + 1, 1)
    return {
        name: _with_loss(verdict, sharing=sharing)
        for name, verdict in verdicts.items()
        if name in lost and verdict.outcome is Outcome.INCONCLUSIVE
    }


def _with_loss(verdict: Verdict, *, sharing: int) -> Verdict:
    """The verdict with its clearest loss shown, at the level of so many workloads that share."""
    alpha = None if verdict.loss_alpha is None else verdict.loss_alpha * verdict.workloads / sharing
    rows = [row if alpha is None else at_level(row, alpha) for row in verdict.metrics]
    rows = [
        row.model_copy(update={"outcome": Outcome.REGRESSED})
        if row.metric is verdict.loss_by
        else row
        for row in rows
    ]
    found = verdict.model_copy(
        update={
            "outcome": Outcome.REGRESSED,
            "metrics": tuple(rows),
            "loss_alpha": alpha,
            "workloads": sharing,
        }
    )
    late = note("shown-by-holm")
    return found.model_copy(
        update={"why": headline(found), "next": None, "notes": (late, *found.notes)}
    )
