"""Reads columns of an export's tables, part by part, several parts at the same time.

Knows no meaning of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import numpy as np

from perfgate.model.timeline import Flags, Ints
from perfgate.profilers.nsys.export.opening import Export
from perfgate.profilers.nsys.export.pages import Malformed, Values
from perfgate.profilers.nsys.export.refusing import damaged, impossible

_READERS: Final = min(8, os.cpu_count() or 1)
_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class Stored:
    """A table as its file keeps it."""

    export: Export
    name: str
    parts: Sequence[Ints]
    """Its pages, to be read one part after the other; none of a table that is not there."""
    id_column: str | None
    """The column that is the row id by another name."""

    @classmethod
    def of(cls, export: Export, name: str) -> Stored:
        if not export.has(name):
            return cls(export, name, (), None)
        declared = export.query(f"SELECT name, upper(type), pk FROM pragma_table_info('{name}')")
        keys = [(column, kind) for column, kind, place in declared if place]
        ((root,),) = export.query(
            f"SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = '{name}'"
        )
        with _naming(export, name):
            parts = export.pages.parts(root)
        return cls(
            export, name, parts, keys[0][0] if len(keys) == 1 and keys[0][1] == "INTEGER" else None
        )

    def has(self, column: str) -> bool:
        return self.export.has(self.name) and column in self.export.tables[self.name]

    def read(self, part: Ints, columns: Sequence[str]) -> Part:
        """These columns of the rows of one part, but for those that the table lacks."""
        places = {
            column: place
            for place, column in enumerate(self.export.tables[self.name])
            if column in columns
        }
        with _naming(self.export, self.name):
            rows = self.export.pages.rows(part)
            found = rows.columns(list(places.values()))
        return Part(self, rows.ids, {column: found[place] for column, place in places.items()})

    def each(
        self, read: Callable[[Ints], _Found], readers: ThreadPoolExecutor
    ) -> Callable[[], Iterator[_Found]]:
        """Begin to read all parts.

        The result, once called, gives what was read of each, in their order.
        """
        begun = [readers.submit(read, part) for part in self.parts]
        return lambda: (part.result() for part in begun)


@dataclass(frozen=True, slots=True)
class Part:
    """Columns of some rows of a table."""

    table: Stored
    ids: Ints
    values: Mapping[str, Values]

    def __len__(self) -> int:
        return len(self.ids)

    def chosen(self, rows: Flags) -> Part:
        if rows.all():
            return self
        return replace(
            self,
            ids=self.ids[rows],
            values={name: values.chosen(rows) for name, values in self.values.items()},
        )

    def is_null(self, column: str) -> Flags:
        if column == self.table.id_column:
            return np.zeros(len(self), np.bool_)
        return self.values[column].is_null

    def integers(self, column: str, *, called: str) -> Ints:
        """0 where there is none. Raises CaptureUnreadable for other values than whole numbers."""
        if column == self.table.id_column:
            return self.ids
        found = self.values[column].integers()
        if found is None:
            path, table = self.table.export.path, self.table.name
            raise impossible(path, table, called, "what is no whole number")
        return found

    def texts(self, column: str) -> tuple[Ints, Ints]:
        """Where each text begins in what is held, and how long it is.

        Raises CaptureUnreadable for numbers.
        """
        found = self.values[column].texts()
        if found is None:
            raise impossible(self.table.export.path, self.table.name, column, "a number")
        return found


@contextmanager
def reading() -> Iterator[ThreadPoolExecutor]:
    """What reads several parts at the same time.

    What it has not begun when something is raised is never begun.
    """
    with ThreadPoolExecutor(_READERS, thread_name_prefix="perfgate-read") as readers:
        try:
            yield readers
        finally:
            readers.shutdown(cancel_futures=True)


@contextmanager
def _naming(export: Export, table: str) -> Iterator[None]:
    try:
        yield
    except (Malformed, OSError) as error:
        raise damaged(export.path, f"{table}: {error}") from error
