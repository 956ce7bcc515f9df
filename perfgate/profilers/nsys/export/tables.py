"""Reads the number columns of an export's large tables as arrays; knows no meaning of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from perfgate.model.arrays import constant, together
from perfgate.model.timeline import Flags, Ints
from perfgate.profilers.nsys.export.columns import Columns, narrow, refuse_impossible
from perfgate.profilers.nsys.export.layout import THREAD_MASK, ExportColumn, ExportTable
from perfgate.profilers.nsys.export.opening import Export
from perfgate.profilers.nsys.export.processes import Processes
from perfgate.profilers.nsys.export.refusing import impossible, without_column
from perfgate.profilers.nsys.export.stored import Part, Stored, reading

Keep = Callable[[Columns], Flags]
"""Which of some rows are wanted."""


def read_tables(
    export: Export,
    tables: Sequence[ExportTable],
    processes: Processes,
    *,
    keep: Sequence[Keep | None] = (),
) -> list[Columns]:
    """The rows of each table, or those of them that are to be kept.

    No columns where there are none.

    The processes of all rows are numbered, also of those that are not kept.
    """
    with reading() as readers:
        begun = [
            stored.each(partial(_columns, stored, table, processes, its), readers)
            for table, its in zip(tables, keep or [None] * len(tables), strict=True)
            for stored in [_stored(export, table)]
        ]
        return [_together([part for part in parts() if part]) for parts in begun]


def rows_of(part: Part, table: ExportTable) -> Part:
    """Of a part those rows that are read of a table at all."""
    if not table.only:
        return part
    kinds = part.integers(table.columns[0].sources[0], called=table.columns[0].field)
    return part.chosen(np.isin(kinds, table.only))


def _stored(export: Export, table: ExportTable) -> Stored:
    stored = Stored.of(export, table.name)
    for column in table.columns if stored.parts else ():
        if column.default is None and not column.flag and not any(map(stored.has, column.sources)):
            raise without_column(
                export.path, table.name, " or ".join(column.sources), export.tables[table.name]
            )
    return stored


def _columns(
    stored: Stored, table: ExportTable, processes: Processes, keep: Keep | None, pages: Ints
) -> Columns:
    read = stored.read(pages, [source for column in table.columns for source in column.sources])
    part = rows_of(read, table)
    if not len(part):
        return {}
    columns: Columns = {column.field: _numbers(part, column) for column in table.columns}
    if "thread" in columns:
        columns["process"] = columns["thread"] & ~THREAD_MASK
        columns["thread"] = columns["thread"] & THREAD_MASK
    columns["process"] = processes.numbered(columns["process"])
    if keep is not None:
        kept = keep(columns)
        columns = {name: values[kept] for name, values in columns.items()} if kept.any() else {}
    if columns:
        refuse_impossible(stored.export.path, table.name, columns)
    return narrow(columns)


def _numbers(part: Part, column: ExportColumn) -> Ints | Flags:
    there = [source for source in column.sources if source in part.values]
    if column.flag:
        return ~part.is_null(there[0]) if there else np.zeros(len(part), np.bool_)
    found: Ints = constant(np.int64(column.default or 0), len(part))
    lacking = np.ones(len(part), np.bool_)
    for source in there:
        if not lacking.any():
            break
        own, is_null = part.integers(source, called=column.field), part.is_null(source)
        found = (
            own if lacking.all() and not is_null.any() else np.where(lacking & ~is_null, own, found)
        )
        lacking &= is_null
    if column.default is None and lacking.any():
        raise impossible(part.table.export.path, part.table.name, column.field, "nothing")
    return found


def _together(parts: list[Columns]) -> Columns:
    """The columns of all parts, each let go of as soon as it stands in the whole."""
    return (
        {name: together([part.pop(name) for part in parts]) for name in list(parts[0])}
        if parts
        else {}
    )
