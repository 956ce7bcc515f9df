"""The one table of what perfgate says: code -> text. A file a room; a code is there once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from perfgate.words import (
    bless,
    cli,
    doctor,
    execute,
    explain,
    gate,
    github,
    init,
    judge,
    lab,
    machine,
    metrics,
    model,
    plugin,
    profilers,
    selftest,
    store,
    system,
    views,
)
from perfgate.words.text import Rows, Text

_TABLES: Final[tuple[Rows, ...]] = (
    {"quoted": "{text:raw}"},  # of older files, and of what others said
    bless.TEXT,
    cli.TEXT,
    gate.TEXT,
    judge.TEXT,
    lab.TEXT,
    model.TEXT,
    plugin.TEXT,
    selftest.TEXT,
    store.TEXT,
    doctor.TEXT,
    github.TEXT,
    profilers.TEXT,
    execute.TEXT,
    explain.TEXT,
    metrics.TEXT,
    machine.TEXT,
    system.TEXT,
    init.TEXT,
    views.TEXT,
)

TEXT: Final[Mapping[str, Text]] = {
    code: Text(row) if isinstance(row, str) else Text(*row)
    for table in _TABLES
    for code, row in table.items()
}
"""By code, in kebab case."""
