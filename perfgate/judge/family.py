"""Shares the error among the workloads of one gate, by Holm's step-down; knows a workload only by
its level."""

from __future__ import annotations

from collections.abc import Mapping


def step_down(levels: Mapping[str, float | None], *, workloads: int) -> frozenset[str]:
    """Return the workloads whose clocks are shown to have lost, of so many judged together.

    Holm (1979): by rising level (p over what a single workload may spend), the first against 1/W,
    the next against 1/(W - 1), until one is not reached. A level of None is no loss.
    """
    found: list[str] = []
    ordered = sorted((level, name) for name, level in levels.items() if level is not None)
    for level, name in ordered:
        if level * max(workloads - len(found), 1) > 1:
            break
        found.append(name)
    return frozenset(found)


def still_sharing(lost: int, *, workloads: int) -> int:
    """Return among how many the next workload shares the error, after `lost` of them have been
    shown to have lost.

    Judging in the order of running this way finds no more than `step_down` does at the end: the
    k-th loss found had to reach 1/(W - k + 1), and so do the k smallest levels in their order.
    """
    return max(workloads - lost, 1)
