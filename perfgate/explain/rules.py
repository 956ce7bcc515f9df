"""What nsys's rules find in one capture and in another: rows of both put together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from perfgate.explain.traces import graphs_unlike
from perfgate.model.comparison import Side
from perfgate.model.metric import Metric
from perfgate.model.note import Note, note
from perfgate.model.reports import PlacedFinding, Placing, RuleChange, RuleChanges, RuleName


def rule_changes(
    before: Placing | None, now: Placing, *, why_alone: Note | None = None
) -> RuleChanges:
    """Put what was found now next to what was found before, by rule and range, the mean over the
    processes.

    `why_alone` says why there is nothing from before.
    """
    then = {} if before is None else _by_place(before)
    rows = [
        RuleChange(rule=rule, range=name, before=then.get((rule, name)), now=found)
        for (rule, name), found in _by_place(now).items()
    ]
    order = list(RuleName)
    rows.sort(key=lambda row: (order.index(row.rule), -row.now.ms, row.range))
    return RuleChanges(rows=tuple(rows), compared=before is not None, why_alone=why_alone)


def why_blind(side: Side) -> tuple[str, ...]:
    """Return which of what the rules look at a side's capture lacks."""
    return _lacks(side, ("kernels", "calls"))


def recorded_unlike(before: Side, now: Side) -> Note | None:
    """Return what one capture lacks and the other has, of what findings are placed by."""
    if graphs_unlike(before.breakdown, now.breakdown):
        return note("rules-graphs-unlike")
    lacking = [_lacks(side, ("kernels", "calls", "ranges")) for side in (before, now)]
    if lacking[0] == lacking[1]:
        return None
    sides = [
        note("capture-lacks", side=name, kinds=kinds)
        for name, kinds in zip("ab", lacking, strict=True)
        if kinds
    ]
    return note("rules-recorded-unlike", sides=tuple(sides))


def _lacks(side: Side, kinds: Sequence[str]) -> tuple[str, ...]:
    is_lacking = {"kernels": Metric.KERNEL_MS in side.absent, **dict.fromkeys(side.missing, True)}
    return tuple(kind for kind in kinds if is_lacking.get(kind))


def _by_place(placing: Placing) -> dict[tuple[RuleName, str], PlacedFinding]:
    found: defaultdict[tuple[RuleName, str], list[PlacedFinding]] = defaultdict(list)
    for process in placing.processes:
        for row in process.rows:
            found[row.rule, row.range].append(row)
    among = max(len(placing.processes), 1)
    return {
        place: PlacedFinding(
            rule=place[0],
            range=place[1],
            count=sum(row.count for row in rows) / among,
            ms=sum(row.ms for row in rows) / among,
            bytes=sum(row.bytes for row in rows) / among,
            steps=max(row.steps for row in rows),
        )
        for place, rows in found.items()
    }
