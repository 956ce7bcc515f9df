"""NVTX ranges as records: where they end, and what they are called; knows nothing of steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from perfgate.model.arrays import constant, is_constant
from perfgate.model.names import RangeNames, Texts
from perfgate.model.timeline import Ints, Ranges
from perfgate.profilers.nsys.export.columns import Columns, column
from perfgate.profilers.nsys.export.layout import NO_TEXT, PUSH_POP_EVENTS, RANGES, THREAD_MASK
from perfgate.profilers.nsys.export.opening import Export
from perfgate.profilers.nsys.export.stored import Part, Stored, reading
from perfgate.profilers.nsys.export.strings import Strings
from perfgate.profilers.nsys.export.tables import rows_of


def ranges_of(
    export: Export,
    columns: Columns,
    strings: Strings,
    domains: Mapping[tuple[int, int], str],
    index: Mapping[int, int],
) -> Ranges:
    """The ranges; one that was never closed ends when the last of all begins or ends.

    Args:
        export: has the texts of the ranges.
        columns: all rows of NVTX_EVENTS that are ranges, in their order. Those that no range has
            are dropped.
        strings: those of `text_id`.
        domains: names by (domain id, process).
        index: processes by `globalPid`.
    """
    closed = column(columns, "closed")
    start = column(columns, "start")
    end = column(columns, "end")
    event = column(columns, "event")
    push_pop = np.isin(event[:1] if is_constant(event) else event, PUSH_POP_EVENTS)
    for name in ("event", "text_id"):
        columns.pop(name, None)
    if not closed.all():
        end = np.where(closed, end, end[closed].max(initial=start.max()))
    named = {
        (number, pid): name
        for (number, one), name in domains.items()
        for pid, its in index.items()
        if its == one
    }
    stored = Stored.of(export, RANGES.name)
    with reading() as readers:
        names = RangeNames.joined(stored.each(partial(_texts, stored, strings, named), readers)())
    return Ranges(
        start=start,
        end=end,
        process=column(columns, "process"),
        thread=column(columns, "thread"),
        name=names,
        push_pop=np.broadcast_to(push_pop, len(event)) if len(push_pop) < len(event) else push_pop,
        closed=closed,
    )


def _texts(
    stored: Stored, strings: Strings, domains: Mapping[tuple[int, int], str], pages: Ints
) -> Texts:
    """`domain:text`, as nsys itself does; `text` in the default domain and in a nameless one.

    A registered string where there is one, else the range's own text, else nothing; in the order of
    the rows. Domains are by (domain id, `globalPid`).
    """
    part = rows_of(
        stored.read(pages, ("eventType", "text", "textId", "domainId", "globalTid")), RANGES
    )
    held = part.values["text"].held if "text" in part.values else np.empty(0, np.uint8)
    begins, lengths = (
        part.texts("text") if "text" in part.values else np.zeros((2, len(part)), np.int64)
    )
    if "textId" in part.values and len(strings.ids):
        ids = np.where(part.is_null("textId"), NO_TEXT, part.integers("textId", called="text_id"))
        found = strings.places(ids)
        if (registered := found >= 0).any():
            used, which = np.unique(found[registered], return_inverse=True)
            local = strings.texts.taken(used)
            begins, lengths = begins.copy(), lengths.copy()
            begins[registered] = len(held) + local.starts[which]
            lengths[registered] = np.diff(local.starts)[which] - 1
            held = np.concatenate((held, np.frombuffer(local.buffer, np.uint8)))
    begins, lengths = begins[:, None], lengths[:, None]
    if domains and "domainId" in part.values:
        prefixes = Texts.of(["", *(f"{domain}:" for domain in domains.values())])
        of = _domains(part, list(domains))
        begins = np.column_stack((len(held) + prefixes.starts[of], begins))
        lengths = np.column_stack((np.diff(prefixes.starts)[of] - 1, lengths))
        held = np.concatenate((held, np.frombuffer(prefixes.buffer, np.uint8)))
    return Texts.gathered(held, begins, lengths)


def _domains(part: Part, domains: Sequence[tuple[int, int]]) -> Ints:
    """The domain of each row, from 1; 0 where it is none of these."""
    number = np.where(part.is_null("domainId"), 0, part.integers("domainId", called="domain"))
    process: Ints = constant(np.int64(~THREAD_MASK), len(part))
    if "globalTid" in part.values:
        process = (
            np.where(part.is_null("globalTid"), -1, part.integers("globalTid", called="thread"))
            & ~THREAD_MASK
        )
    found = np.zeros(len(part), np.int64)
    for place, (its, pid) in enumerate(domains, 1):
        found[(number == its) & (process == pid)] = place
    return found
