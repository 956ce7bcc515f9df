"""NVTX ranges as records: where they end, and what they are called; knows nothing of steps."""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing

import numpy as np

from perfgate.model.names import APART, RangeNames, Texts
from perfgate.model.timeline import Ranges
from perfgate.nsys.export.cells import decoded, text_of
from perfgate.nsys.export.columns import Columns, column
from perfgate.nsys.export.layout import PUSH_POP_EVENTS, RANGES, STRINGS, THREAD_MASK
from perfgate.nsys.export.opening import Export, read_only_uri
from perfgate.nsys.export.refusing import damaged

_AT_ONCE = 1 << 16
"""Row ids whose names are read at once."""
_READERS = 2


def ranges_of(
    export: Export, columns: Columns, domains: Mapping[tuple[int, int], str], index: Mapping[int, int]
) -> Ranges:
    """The ranges; one that was never closed ends with the last moment at which any range begins or ends.

    Args:
        export: has the texts of the ranges.
        columns: all rows of NVTX_EVENTS that are ranges, in their order. Those that no range has are let go of.
        domains: names by (domain id, process).
        index: processes by `globalPid`.
    """
    closed = column(columns, "closed", np.bool_)
    start = column(columns, "start", np.int64)
    end = column(columns, "end", np.int64)
    push_pop = np.isin(column(columns, "event", np.int64), PUSH_POP_EVENTS)
    columns.pop("event", None)
    if not closed.all():
        end = np.where(closed, end, end[closed].max(initial=start.max()))
    named = {(number, pid): name for (number, one), name in domains.items() for pid, its in index.items() if its == one}
    names = RangeNames.joined(_texts(export, named) if columns else ())
    if len(names) != len(start):
        raise damaged(export.path, f"{STRINGS} has an id twice")
    return Ranges(
        start=start,
        end=end,
        process=column(columns, "process", np.int32),
        thread=column(columns, "thread", np.int64),
        name=names,
        push_pop=push_pop,
        closed=closed,
    )


def _texts(export: Export, domains: Mapping[tuple[int, int], str]) -> Iterator[Texts]:
    """`domain:text`, or `text` in the default domain and in one whose name the capture lacks: as nsys itself does.

    A registered string where there is one, else the range's own text, else nothing; in the order of the rows. Domains
    are by (domain id, `globalPid`).
    """
    name, told = _named(export, domains)
    of_row = f'SELECT {name} AS name FROM "{RANGES.name}" AS r{_joined(export)} WHERE {{}} ORDER BY r.rowid'
    with ThreadPoolExecutor(_READERS, thread_name_prefix="perfgate-names") as readers:
        ahead: deque[Future[Texts]] = deque()
        for first in _begins(export):
            which = f"r.rowid BETWEEN {first} AND {first + _AT_ONCE - 1} AND ({RANGES.which})"
            ahead.append(readers.submit(_texts_of, export, of_row.format(which), told))
            if len(ahead) > _READERS:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def _begins(export: Export) -> Iterator[int]:
    """Row ids at which parts begin. There may be holes, so each is sought behind the end of the one before."""
    end = None
    while True:
        behind = "" if end is None else f"rowid > {end} AND "
        ((first,),) = export.query(f'SELECT min(rowid) FROM "{RANGES.name}" WHERE {behind}({RANGES.which})')
        if first is None:
            return
        yield first
        end = first + _AT_ONCE - 1


def _texts_of(export: Export, rows: str, told: Sequence[str]) -> Texts:
    """The names that some SQL selects; SQLite puts them together, so that none becomes an object of its own."""
    with closing(sqlite3.connect(read_only_uri(export.path), uri=True)) as connection:
        connection.text_factory = decoded
        packed = f"SELECT count(*), CAST(group_concat(name, CAST(x'{APART.hex()}' AS TEXT)) AS BLOB) FROM ({rows})"
        ((count, buffer),) = connection.execute(packed, told)
        texts = _split(buffer, count)
        return Texts.of(text_of(text) or "" for (text,) in connection.execute(rows, told)) if texts is None else texts


def _split(buffer: bytes, count: int) -> Texts | None:
    """So many texts; None where they hold what no UTF-8 does."""
    try:
        buffer.replace(APART, b"\n").decode()
    except UnicodeDecodeError:
        return None
    found = Texts.split(buffer + APART)
    return found if len(found) == count else None


def _named(export: Export, domains: Mapping[tuple[int, int], str]) -> tuple[str, list[str]]:
    """SQL for the name of a row, and its parameters."""
    has = export.tables[RANGES.name]
    name = "coalesce(r.text, '')" if "text" in has else "''"
    if _joined(export):
        name = f"CASE WHEN s.id IS NULL THEN {name} ELSE coalesce(s.value, '') END"
    if not domains or "domainId" not in has:
        return name, []
    process = f"coalesce(r.globalTid, -1) & {~THREAD_MASK}" if "globalTid" in has else str(~THREAD_MASK)
    cases = " ".join(f"WHEN coalesce(r.domainId, 0) = {number} AND {process} = {pid} THEN ?" for number, pid in domains)
    return f"CASE {cases} ELSE '' END || {name}", [f"{domain}:" for domain in domains.values()]


def _joined(export: Export) -> str:
    """SQL that finds the registered strings; nothing where there is none."""
    if "textId" not in export.tables[RANGES.name] or not export.has(STRINGS):
        return ""
    return f' LEFT JOIN "{STRINGS}" AS s ON s.id = r.textId'
