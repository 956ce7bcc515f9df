"""What a whole invocation comes to: every expected workload has a verdict that opens the gate, or
it is shut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfgate.explain.summary import headline
from perfgate.judge.looks import step_down
from perfgate.judge.rows import at_level
from perfgate.model.errors import EXIT_OPEN, EXIT_SHUT
from perfgate.model.note import Note, Severity, note
from perfgate.model.outcome import Outcome
from perfgate.model.record import Record
from perfgate.model.settings import Settings
from perfgate.model.verdict import Verdict
from perfgate.words import say


class Closing(Record):
    """What a whole invocation comes to."""

    opens: bool
    notes: tuple[Note, ...] = ()
    """One for each thing that keeps the gate shut."""

    @property
    def shut_by(self) -> tuple[str, ...]:
        """The same in words."""
        return tuple(say.in_one_line(one) for one in self.notes)

    @property
    def exit_status(self) -> int:
        """0 only where every expected workload was measured and opens the gate."""
        return EXIT_OPEN if self.opens else EXIT_SHUT

    def but(self, *notes: Note) -> Closing:
        """The same with what else keeps the gate shut."""
        return Closing(opens=False, notes=(*self.notes, *notes)) if notes else self


def close(expected: Sequence[str], verdicts: Mapping[str, Verdict], settings: Settings) -> Closing:
    """Return whether every expected workload has a verdict that opens, and there was one."""
    shut: list[Note] = [] if expected else [note("nothing-collected", Severity.INVALID)]
    for name in expected:
        verdict = verdicts.get(name)
        if verdict is None:
            shut.append(note("expected-not-measured", Severity.INVALID, workload=name))
        elif not settings.opens(verdict):
            outcome = verdict.outcome
            shut.append(note("workload-shuts", Severity.INVALID, workload=name, outcome=outcome))
    return Closing(opens=not shut, notes=tuple(shut))


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
