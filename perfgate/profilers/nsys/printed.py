"""CSV files that nsys prints, reports and rules alike: which layout one has, and what is told of one that has none."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from perfgate.model.errors import CaptureUnreadable, LayoutUnknown

_UNIT: Final = re.compile(r" \(([^()]*)\)$")
_RAW_UNIT: Final = re.compile(r":\w+$|:ratio_%$")
_QUOTED_NUMBER: Final = re.compile(r'"-?\d[\d.,\s\u202f]*"')
_SHOWN: Final = 120
"""Characters of a line that a message shows."""


class Layout(Protocol):
    """The columns of one file in one family of nsys versions."""

    @property
    def versions(self) -> str:
        """The family, as messages name it."""

    @property
    def header(self) -> str:
        """The first line of the file."""


LayoutT = TypeVar("LayoutT", bound=Layout)


@dataclass(frozen=True, kw_only=True, slots=True)
class Printed:
    """One file, as messages tell of it."""

    name: str
    """Of the report or the rule."""
    source: str
    """What the file is called."""
    script: str
    """What prints it when it is run by itself, whose columns have other headings."""
    rerun: str
    """How to have it printed as perfgate reads it."""
    again: str
    """What to do about a file that is not whole."""

    def layout(
        self, header: str, layouts: Sequence[LayoutT], *, retired: Mapping[str, str] | None = None
    ) -> LayoutT:
        """Return the layout that has this header; `retired` are headers of versions that are too old.

        Raises:
            LayoutUnknown: none has, with the likeliest cause.
        """
        for layout in layouts:
            if layout.header == header:
                return layout
        if retired is not None and header in retired:
            raise LayoutUnknown(
                subject=self.source,
                fact=f"{self.name} has the columns of nsys {retired[header]}, which have no medians",
                expectation="perfgate reads reports of nsys 2022.4 and newer",
                next_step="Install a newer nsys; it reads captures of older versions too",
            )
        known = " or ".join(f"{layout.header} (nsys {layout.versions})" for layout in layouts)
        headings = header.split(",")
        plain = {
            tuple(_UNIT.sub("", heading) for heading in layout.header.split(","))
            for layout in layouts
        }
        reads, next_step = f"perfgate reads {known}", self.rerun
        if tuple(_UNIT.sub("", heading) for heading in headings) in plain:
            fact = f"{self.name} is in other units: {header}"
        elif (
            tuple(_RAW_UNIT.sub("", heading) for heading in headings if not heading.startswith("_"))
            in plain
        ):
            fact = (
                f"{self.name} has the raw columns of {self.script} that was run by itself: {header}"
            )
        else:
            fact = f"{self.name} has columns that perfgate does not know: {header[:300]}"
            reads = f"Known are {known}"
            next_step += (
                ". If nsys itself wrote this, perfgate must learn its version: please report it"
            )
        raise LayoutUnknown(subject=self.source, fact=fact, expectation=reads, next_step=next_step)

    def no_row(self, number: int, line: str) -> CaptureUnreadable:
        """Return what is wrong with a line, counted from 1, that is no row."""
        if _QUOTED_NUMBER.search(line):
            return CaptureUnreadable(
                subject=self.source,
                fact=f"{self.name} has numbers in another locale's notation in line {number}: {line[:_SHOWN]}",
                expectation="A comma could part thousands or decimals, so perfgate reads plain numbers only",
                next_step=self.rerun,
            )
        return self.truncated(f"line {number} is no row of it: {line[:_SHOWN]!r}")

    def body(self, header: str, text: str) -> str:
        """Return the lines after the header, at least one, the last one whole.

        Raises:
            CaptureUnreadable: there is none, or the last is cut short.
        """
        if text == f"{header}\n":
            raise self.truncated("it has a header and no rows")
        body = text.partition("\n")[2]
        if not body.endswith("\n"):
            raise self.truncated("its last line is not complete")
        return body

    def truncated(self, how: str) -> CaptureUnreadable:
        """Return the error of a file that is not whole."""
        return CaptureUnreadable(
            subject=self.source,
            fact=f"{self.name} is truncated or damaged: {how}",
            next_step=self.again,
        )
