"""Refuses a table that holds a row twice, which would count double."""

from __future__ import annotations

from typing import Final

import numpy as np

from perfgate.model.timeline import MANAGED_COPIES
from perfgate.model.words import plural
from perfgate.profilers.nsys.export.columns import Columns
from perfgate.profilers.nsys.export.layout import COPIES, PAGE, ExportTable
from perfgate.profilers.nsys.export.opening import Export
from perfgate.profilers.nsys.export.refusing import damaged

_MIXING: Final = np.int64(-7046029254386353131)
"""2^64 over the golden ratio: products of it are spread over all that 64 bits hold (Knuth, 6.4)."""


def refuse_twins(export: Export, table: ExportTable, columns: Columns) -> None:
    """Raise for a table that holds a row twice; rows are compared whole where any look alike.

    What CUPTI could not time has nothing to be told apart by, and counts as no time; nor have moves of managed memory
    where their page is not told.
    """
    if not columns or bool((columns["start"][1:] > columns["start"][:-1]).all()):
        return
    timed = columns["end"] != 0
    told_apart = '"end" <> 0'
    if table is COPIES and PAGE not in export.tables[table.name]:
        timed &= ~np.isin(columns["kind"], MANAGED_COPIES)
        told_apart += (
            f" AND copyKind NOT IN ({', '.join(str(int(kind)) for kind in MANAGED_COPIES)})"
        )
    # One number for a row, to be sorted once: rows that are alike have the same one, others hardly ever.
    keys = columns["correlation"] * _MIXING
    keys += columns["end"]
    keys *= _MIXING
    keys += columns["start"]
    ordered = np.sort(keys if timed.all() else keys[timed])
    alike = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(alike):
        return
    starts = columns["start"][timed & np.isin(keys, alike)]
    quoted = (name.replace('"', '""') for name in export.tables[table.name])
    every = ", ".join(f'"{name}"' for name in quoted)
    between = f"start BETWEEN {starts.min()} AND {starts.max()}"
    again = f'SELECT count(*) - 1 FROM "{table.name}" WHERE {told_apart} AND {between} GROUP BY {every} HAVING count(*) > 1'
    number = sum(count for (count,) in export.query(again))
    if number:
        told = plural(number, "row that is", "rows that are")
        raise damaged(export.path, f"{table.name} has {told} in it already, equal in every column")
