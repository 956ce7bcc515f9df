"""What was collected, which of it was chosen, and what falls to other shards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from perfgate.model.note import note
from perfgate.model.secrets import Cleaner
from perfgate.model.workload import Workload
from perfgate.plugin.handed_on import restore_process
from perfgate.plugin.items import CommandItem, Lines, WorkloadItem
from perfgate.plugin.refusals import usage_error
from perfgate.plugin.sharding import refuse_empty
from perfgate.plugin.state import State
from perfgate.words import say


def workloads_of(items: Iterable[pytest.Item]) -> list[Workload]:
    """Return the workloads among pytest's items, in their order."""
    return [item.workload for item in items if isinstance(item, WorkloadItem | CommandItem)]


def id_of(item: pytest.Item) -> str | None:
    """Return the workload's id; None of an item that is none."""
    return item.workload.id if isinstance(item, WorkloadItem | CommandItem) else None


def choose(state: State, session: pytest.Session) -> None:
    """Note which workloads were chosen: by what was typed, and not by what a hook leaves of them."""
    by_words = state.choice.of_items(list(state.collected.values()), session.config)
    chosen = workloads_of([*by_words, *session.items])
    state.chosen = frozenset(workload.id for workload in chosen)


def divide(state: State, session: pytest.Session, items: list[pytest.Item]) -> list[pytest.Item]:
    """Leave to other shards what falls to them, and return that.

    Raises:
        pytest.UsageError: two workloads have one name, or there are more shards than workloads.
    """
    choose(state, session)
    shard = state.shard
    if shard is None:
        return []
    _refuse_twins(workloads_of(items))
    if not session.testsfailed:
        refuse_empty(shard, state.chosen)
    state.divided = tuple(sorted(state.chosen))
    state.elsewhere = state.chosen - shard.part(state.chosen)
    others = [item for item in items if id_of(item) in state.elsewhere]
    items[:] = [item for item in items if id_of(item) not in state.elsewhere]
    return others


def expect(state: State, session: pytest.Session) -> None:
    """Note what is expected: from here on, what is missing is missed.

    Raises:
        pytest.UsageError: two workloads have one name, or there are more shards than workloads.
    """
    restore_process(session.config)
    expected = workloads_of(session.items)
    _refuse_twins(expected)
    if state.shard is None:
        choose(state, session)  # again, since only here all hooks are done
    if not session.testsfailed:
        # Again, since only here it keeps pytest from listing them.
        refuse_empty(state.shard, state.chosen)
    left = state.here - {workload.id for workload in expected}
    dropped = [item for name, item in state.collected.items() if name in left]
    why = say.message(note("deselected-by-hook"))
    state.skipped |= dict.fromkeys(sorted(left & state.deselected), why)
    state.expected = (*expected, *workloads_of(dropped))
    state.gate.expect(state.expected, elsewhere=state.elsewhere)


def _refuse_twins(workloads: Sequence[Workload]) -> None:
    """Refuse workloads that would share a baseline."""
    sources: dict[str, list[str]] = {}
    for workload in workloads:
        sources.setdefault(workload.id, []).append(workload.source)
    for name, files in sources.items():
        if len(files) > 1:
            raise usage_error("workload-name-twice", workload=name, sources=tuple(files))


def clean_report(report: pytest.CollectReport | pytest.TestReport, cleaner: Cleaner) -> None:
    """Take secrets out of what pytest, and plugins that write files, show of a failure or skip."""
    if isinstance(report.longrepr, tuple):
        report.longrepr = cleaner.record(report.longrepr)
    elif report.longrepr is not None and cleaner.clean(text := str(report.longrepr)) != text:
        report.longrepr = Lines(cleaner.clean(text))
    report.sections = [(title, cleaner.clean(text)) for title, text in report.sections]
    if isinstance(report, pytest.TestReport):
        report.user_properties = list(cleaner.record(tuple(report.user_properties)))
        if hasattr(report, "wasxfail"):
            report.wasxfail = cleaner.clean(report.wasxfail)


def why_skipped(report: pytest.CollectReport | pytest.TestReport) -> str:
    """Return the reason that a mark, or a call of `pytest.skip`, gives."""
    reason = (
        report.longrepr[2]
        if isinstance(report.longrepr, tuple)
        else getattr(report, "wasxfail", "")
    )
    return " ".join(reason.removeprefix("Skipped: ").split())
