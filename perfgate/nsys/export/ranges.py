"""NVTX ranges as records: where they end, and what they are called; knows nothing of steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from perfgate.model.timeline import Names, Ranges, SmallInts
from perfgate.nsys.export.cells import text_of
from perfgate.nsys.export.columns import Columns, column
from perfgate.nsys.export.layout import PUSH_POP_EVENTS, RANGES
from perfgate.nsys.export.opening import Export


def ranges_of(
    export: Export, columns: Columns, domains: Mapping[tuple[int, int], str], strings: Mapping[int, str]
) -> Ranges:
    """The ranges; one that was never closed ends with the last moment at which any range begins or ends.

    Args:
        export: has the texts of the ranges.
        columns: all rows of NVTX_EVENTS that are ranges, in their order.
        domains: names by (domain id, process).
        strings: registered names.
    """
    closed = column(columns, "closed", np.bool_)
    start = column(columns, "start", np.int64)
    end = column(columns, "end", np.int64)
    if not closed.all():
        end = np.where(closed, end, end[closed].max(initial=start.max()))
    process = column(columns, "process", np.int32)
    return Ranges(
        start=start,
        end=end,
        process=process,
        thread=column(columns, "thread", np.int64),
        name=_names(export, columns, process, domains, strings),
        push_pop=np.isin(column(columns, "event", np.int64), PUSH_POP_EVENTS),
        closed=closed,
    )


def _names(
    export: Export,
    columns: Columns,
    process: SmallInts,
    domains: Mapping[tuple[int, int], str],
    strings: Mapping[int, str],
) -> Names:
    """`domain:text`, or `text` in the default domain and in one whose name the capture lacks: as nsys itself does."""
    names = np.empty(len(process), dtype=np.object_)
    if not columns:
        return names
    pool: dict[str, str] = {}
    texts = [pool.setdefault(text, text) for text in _texts(export, columns, strings)]
    if domains:
        keys = zip(columns["domain"].tolist(), process.tolist(), strict=True)
        texts = [
            text if domain is None else pool.setdefault(f"{domain}:{text}", f"{domain}:{text}")
            for text, domain in zip(texts, map(domains.get, keys), strict=True)
        ]
    names[:] = texts
    return names


def _texts(export: Export, columns: Columns, strings: Mapping[int, str]) -> Iterator[str]:
    """A registered string where there is one, else the range's own text, else nothing; in the order of the rows."""
    ids: list[int] = columns["text_id"].tolist()
    if "text" not in export.tables[RANGES.name]:
        yield from (strings.get(number, "") for number in ids)
        return
    rows = export.connection.execute(f'SELECT text FROM "{RANGES.name}" WHERE {RANGES.which} ORDER BY rowid')
    for number, (text,) in zip(ids, rows, strict=True):
        yield strings[number] if number in strings else text_of(text) or ""
