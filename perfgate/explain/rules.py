"""What nsys's rules find in one capture beside another: rows of both put together, nothing judged."""

from __future__ import annotations

from collections import defaultdict

from perfgate.model.findings import PlacedFinding, Placing, RuleChange, RuleChanges, RuleName


def rule_changes(before: Placing | None, now: Placing) -> RuleChanges:
    """Put what was found now beside what was found before, by rule and range, the mean over the processes."""
    then = {} if before is None else _by_place(before)
    rows = [
        RuleChange(rule=rule, range=name, before=then.get((rule, name)), now=found)
        for (rule, name), found in _by_place(now).items()
    ]
    order = list(RuleName)
    rows.sort(key=lambda row: (order.index(row.rule), -row.now.ms, row.range))
    return RuleChanges(rows=tuple(rows), compared=before is not None)


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
