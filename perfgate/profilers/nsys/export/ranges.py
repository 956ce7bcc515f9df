"""NVTX ranges as records: where they end, and what they are called; and the symbols of kernels.

Knows nothing of steps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from perfgate.model.arrays import RangeNames
from perfgate.model.timeline import Ranges
from perfgate.profilers.nsys.export.file import Export, open_export
from perfgate.profilers.nsys.export.layout import (
    DOMAIN_EVENT,
    KERNELS,
    NO_END,
    PUSH_POP_EVENTS,
    RANGES,
    STRINGS,
    THREAD_MASK,
)
from perfgate.profilers.nsys.export.tables import Columns

_SYMBOL = "mangledName"


def read_ranges(export: Export, columns: Columns, index: Mapping[int, int]) -> tuple[Ranges, int]:
    """The ranges, and how many more of them nsys's `nvtx_sum` counts.

    One that was never closed ends when the last of all begins or ends. nsys's script keeps a row
    for each thread that created a domain, and joins them to the ranges by domain and process.

    Args:
        export: has the texts of the ranges.
        columns: all rows of NVTX_EVENTS that are ranges, in their order.
        index: processes by `globalPid`.
    """
    start, end = columns["start"], columns["end"]
    closed = end != NO_END
    if not closed.all():
        end = np.where(closed, end, end[closed].max(initial=start.max()))
    process, number = columns["process"], columns["domain"]
    prefixes, repeated = [""], 0
    prefix = np.zeros(len(start), np.int64)
    for (domain, its_process), creations in _domains(export, index).items():
        its = (number == domain) & (process == its_process)
        repeated += (len({thread for thread, _ in creations}) - 1) * int(its.sum())
        if name := next((name for _, name in creations if name), b""):
            prefix[its] = len(prefixes)
            prefixes.append(f"{name.decode(errors='replace')}:")
    ranges = Ranges(
        start=start,
        end=end,
        process=process,
        thread=columns["thread"],
        name=_names(export, prefix, prefixes),
        push_pop=np.isin(columns["event"], PUSH_POP_EVENTS),
        closed=closed,
    )
    return ranges, repeated


def _domains(
    export: Export, index: Mapping[int, int]
) -> dict[tuple[int, int], list[tuple[int, bytes]]]:
    """The creations of each domain, by its number and process: the `globalTid` of the thread, and
    the name. The first that names it counts."""
    if not export.has(RANGES.name, "domainId"):
        return {}
    thread = "globalTid" if export.has(RANGES.name, "globalTid") else "NULL"
    of_domains = f"eventType = {DOMAIN_EVENT} ORDER BY start"
    rows = export.connection.execute(
        f"SELECT domainId, {thread} FROM {RANGES.name} WHERE {of_domains}"
    )
    names = _texts(export, of_domains)
    found: defaultdict[tuple[int, int], list[tuple[int, bytes]]] = defaultdict(list)
    for (number, tid), name in zip(rows, names, strict=True):
        creator = tid if isinstance(tid, int) else -1
        process = index.get(creator & ~THREAD_MASK)
        if isinstance(number, int) and process is not None:
            found[number, process].append((creator, name))
    return found


def _names(export: Export, prefix: NDArray[np.int64], prefixes: list[str]) -> RangeNames:
    """`domain:text`, as nsys itself does; `text` in the default domain and in a nameless one."""
    if not len(prefix):
        return RangeNames.of(())
    of_ranges = f"eventType IN ({', '.join(map(str, RANGES.only))}) ORDER BY event.rowid"
    plain = RangeNames.of(_texts(export, of_ranges))
    if len(prefixes) == 1:
        return plain
    pairs, which = np.unique(plain.codes * len(prefixes) + prefix, return_inverse=True)
    names = RangeNames.of(
        prefixes[pair % len(prefixes)] + plain.texts[pair // len(prefixes)]
        for pair in pairs.tolist()
    )
    return RangeNames(names.texts, names.codes[which])


def _texts(export: Export, condition: str) -> Iterator[bytes]:
    """What some events are called: a registered string, else a text of their own, else nothing."""
    own = "event.text" if export.has(RANGES.name, "text") else "NULL"
    joined = ""
    if export.has(STRINGS) and export.has(RANGES.name, "textId"):
        own = f"string.value, {own}"
        joined = f"LEFT JOIN {STRINGS} AS string ON string.id = event.textId"
    found = export.connection.execute(
        f"SELECT CAST(coalesce({own}, '') AS BLOB) FROM {RANGES.name} AS event {joined} "
        f"WHERE {condition}"
    )
    return chain.from_iterable(found)


def kernel_symbols(path: Path) -> Mapping[str, str]:
    """The mangled name of each kernel, by the name that the timeline gives it.

    Empty where the export holds none. Of two kernels that read alike (`[lambda(float) (instance
    1)]` of two files), the one that ran longer counts. Raises as `read_timeline` does.
    """
    with open_export(path) as export:
        if not export.has(KERNELS.name, _SYMBOL):
            return {}
        rows = export.connection.execute(
            f"SELECT name.value, symbol.value FROM {KERNELS.name} AS kernel "
            f"JOIN {STRINGS} AS name ON name.id = kernel.demangledName "
            f"JOIN {STRINGS} AS symbol ON symbol.id = kernel.{_SYMBOL} "
            "GROUP BY name.value, symbol.value "
            "ORDER BY sum(kernel.end - kernel.start), symbol.value"
        )
        return {name: symbol for name, symbol in rows if name and symbol}
