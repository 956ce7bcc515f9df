"""What nsys's rules find in one capture beside another: rows of both put together, nothing judged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from perfgate.explain.traces import graphs_unlike
from perfgate.model.findings import PlacedFinding, Placing, RuleChange, RuleChanges, RuleName
from perfgate.model.metric import Metric
from perfgate.model.side import Side


def rule_changes(before: Placing | None, now: Placing, *, why_alone: str = "") -> RuleChanges:
    """Put what was found now beside what was found before, by rule and range, the mean over the processes.

    `why_alone` says, in a phrase, why there is nothing from before.
    """
    then = {} if before is None else _by_place(before)
    rows = [
        RuleChange(rule=rule, range=name, before=then.get((rule, name)), now=found)
        for (rule, name), found in _by_place(now).items()
    ]
    order = list(RuleName)
    rows.sort(key=lambda row: (order.index(row.rule), -row.now.ms, row.range))
    return RuleChanges(rows=tuple(rows), compared=before is not None, why_alone=why_alone)


def why_blind(side: Side) -> str:
    """Say which of what the rules look at a side's capture lacks; empty where it lacks none of it."""
    return _lacks(side, ("kernels", "calls"))


def recorded_unlike(before: Side, now: Side) -> str:
    """Say what one capture lacks and the other has, of what findings are told by; empty where they are alike."""
    if graphs_unlike(before.breakdown, now.breakdown):
        return "not compared: CUDA graphs were traced unlike"
    told = [_lacks(side, ("kernels", "calls", "ranges")) for side in (before, now)]
    if told[0] == told[1]:
        return ""
    return "not compared: " + ", ".join(
        f"{name} {why}" for name, why in zip("ab", told, strict=True) if why
    )


def _lacks(side: Side, kinds: Sequence[str]) -> str:
    is_lacking = {"kernels": Metric.KERNEL_MS in side.absent, **dict.fromkeys(side.missing, True)}
    lacking = [kind for kind in kinds if is_lacking.get(kind)]
    return f"lacks {' and '.join(lacking)}" if lacking else ""


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
