"""NVTX domains: who created them, their names, and whose ranges nsys's report counts too often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfgate.profilers.nsys.export.cells import text_of, whole_of
from perfgate.profilers.nsys.export.layout import DOMAIN_EVENT, RANGE_EVENTS, RANGES, THREAD_MASK
from perfgate.profilers.nsys.export.opening import Export
from perfgate.profilers.nsys.export.strings import Strings


@dataclass(frozen=True, kw_only=True, slots=True)
class Created:
    """The creation of an NVTX domain."""

    number: int
    process: int
    thread: int
    """`globalTid`."""
    text: str | None
    text_id: int | None


def created_domains(export: Export, index: Mapping[int, int]) -> list[Created]:
    """The domains that processes with events created, the first to be created first.

    `index` is by `globalPid`.
    """
    columns = ("domainId", "globalTid", "text", "textId")
    found: list[Created] = []
    for row in export.rows(
        RANGES.name, columns, where=f"eventType = {DOMAIN_EVENT} ORDER BY start"
    ):
        number, thread = whole_of(row[0]), whole_of(row[1])
        thread = -1 if thread is None else thread
        process = index.get(thread & ~THREAD_MASK)
        if number is not None and process is not None:
            found.append(
                Created(
                    number=number,
                    process=process,
                    thread=thread,
                    text=text_of(row[2]),
                    text_id=whole_of(row[3]),
                )
            )
    return found


def domain_names(strings: Strings, created: Sequence[Created]) -> dict[tuple[int, int], str]:
    """Names of the NVTX domains by (domain id, process).

    The first creation that names one counts.
    """
    registered = strings.named(
        np.array([one.text_id for one in created if one.text_id is not None], np.int64)
    )
    named: dict[tuple[int, int], str] = {}
    for one in created:
        if name := registered.get(-1 if one.text_id is None else one.text_id) or one.text:
            named.setdefault((one.number, one.process), name)
    return named


def ranges_repeated(export: Export, created: Sequence[Created], index: Mapping[int, int]) -> int:
    """How many ranges nsys's `nvtx_sum` counts too many; `index` is by `globalPid`.

    Its script keeps a row for each thread that created a domain, and joins them to the ranges by
    domain and process.
    """
    threads: dict[tuple[int, int], set[int]] = {}
    for one in created:
        threads.setdefault((one.number, one.process), set()).add(one.thread)
    repeated = 0
    ranges = f"eventType IN ({', '.join(map(str, RANGE_EVENTS))})"
    for (number, process), its in threads.items():
        if len(its) > 1:
            pids = ", ".join(str(pid) for pid, one in index.items() if one == process)
            of_domain = (
                f"coalesce(domainId, 0) = {number} "
                f"AND coalesce(globalTid, -1) & {~THREAD_MASK} IN ({pids})"
            )
            ((count,),) = export.query(
                f'SELECT count(*) FROM "{RANGES.name}" WHERE {ranges} AND {of_domain}'
            )
            repeated += (len(its) - 1) * count
    return repeated
