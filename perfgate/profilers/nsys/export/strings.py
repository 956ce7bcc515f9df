"""Reads the strings that an export's rows name by number: kernels, calls, registered names.

Knows no row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfgate.model.names import Texts
from perfgate.model.timeline import Ints
from perfgate.profilers.nsys.export.layout import STRINGS
from perfgate.profilers.nsys.export.opening import Export
from perfgate.profilers.nsys.export.refusing import without_column
from perfgate.profilers.nsys.export.stored import Part, Stored, reading


@dataclass(frozen=True, slots=True)
class Strings:
    """Some strings of an export. The rest may be large, and secret."""

    ids: Ints
    """In order."""
    texts: Texts

    @classmethod
    def of(cls, export: Export, ids: Ints) -> Strings:
        """Those with these ids, which are in order; of ids that no string has there is none."""
        stored = Stored.of(export, STRINGS)
        for column in ("id", "value"):
            if export.has(STRINGS) and not stored.has(column):
                raise without_column(export.path, STRINGS, column, export.tables[STRINGS])
        if not len(ids):
            return cls(ids, Texts.of(()))

        def read(pages: Ints) -> tuple[Ints, Texts]:
            part = stored.read(pages, ("id", "value"))
            numbers = part.integers("id", called="id")
            wanted = part.chosen(ids.take(np.searchsorted(ids, numbers), mode="clip") == numbers)
            return wanted.integers("id", called="id"), texts_of(wanted, "value")

        with reading() as readers:
            parts = list(stored.each(read, readers)())
        found = np.concatenate([*(numbers for numbers, _ in parts), np.empty(0, np.int64)])
        texts = Texts.together([texts for _, texts in parts])
        if not bool((found[1:] > found[:-1]).all()):
            order = np.argsort(found, kind="stable")
            found, texts = found[order], texts.taken(order)
        return cls(found, texts)

    def places(self, ids: Ints) -> Ints:
        """Where among them the strings with these ids are, -1 where there is none."""
        if not len(self.ids):
            return np.full(len(ids), -1)
        found = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return np.where(self.ids[found] == ids, found, -1)

    def named(self, ids: Ints) -> dict[int, str]:
        """The strings with some of these ids, by id."""
        found = self.places(ids)
        return {
            one: self.texts[place]
            for one, place in zip(ids.tolist(), found.tolist(), strict=True)
            if place >= 0
        }


def texts_of(part: Part, column: str) -> Texts:
    """A column of texts; of no bytes where there is none."""
    begins, lengths = part.texts(column)
    return Texts.gathered(part.values[column].held, begins[:, None], lengths[:, None])
