"""What commands share: the project they stand in, the screen they print to, and what is kept."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from perfgate.model.baseline import Baseline, Result
from perfgate.model.errors import ConfigInvalid, ResultMissing
from perfgate.model.pyproject import find_root, load_settings
from perfgate.model.secrets import Cleaner
from perfgate.model.settings import Settings
from perfgate.model.workload import Workload
from perfgate.profilers.nsys.tool import NsysTool, find_nsys
from perfgate.store import KeptResult, Store, near_names
from perfgate.words.escape import is_invisible

_PERHAPS_ESCAPED: Final = re.compile(r"[^\n -~]")
"""All but what JSON's own lines are made of."""


@dataclass(frozen=True, kw_only=True)
class Project:
    """What every command needs of the project it stands in."""

    root: Path
    store: Store
    settings: Settings

    @property
    def baselines(self) -> str:
        """The folder of the baselines, relative to the root."""
        return self.settings.baselines


def project() -> Project:
    """The project around the working directory."""
    root = find_root(Path.cwd())
    settings = load_settings(root, {})
    return Project(root=root, store=Store(root, settings.baselines), settings=settings)


def screen() -> tuple[int, bool]:
    """Width and colour of what is printed to."""
    # Without an open stdout there is none.
    terminal = sys.stdout is not None and sys.stdout.isatty()
    width = shutil.get_terminal_size(fallback=(100, 24)).columns
    return width, terminal and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def latest(store: Store, workload: str) -> KeptResult:
    """Return the newest kept result of a workload.

    Raises:
        ResultMissing: none is kept.
    """
    latest = store.results.latest(workload)
    if latest is None:
        kept = store.results.workloads()
        if near := near_names(workload, kept):
            raise ResultMissing("result-misspelt", subject=workload, nearest=tuple(near))
        if kept:
            raise ResultMissing("result-unknown", subject=workload, known=tuple(kept))
        raise ResultMissing("results-none")
    return latest


def kept_results(store: Store, baseline: Baseline) -> tuple[list[Result], int]:
    """What is kept of a baseline's workload on its machine, newest first, and how much of it cannot
    be read."""
    listed = store.results.listed(baseline.workload, baseline.machine.slug)
    found = [one.found for one in listed if isinstance(one.found, Result)]
    return found, len(listed) - len(found)


def printable(text: str) -> str:
    """A text as the encoding of what is printed to can hold it; what it cannot is spelled out."""
    encoding = _encoding()
    return cleaned(text).encode(encoding, errors="backslashreplace").decode(encoding)


def cleaned(text: str) -> str:
    """A text without the secrets of this environment, and without what looks like one."""
    return Cleaner(os.environ).clean(text)


def printable_json(text: str) -> str:
    """The same JSON as what is printed to can hold it, with nothing in it that steers a terminal."""
    encoding = _encoding()
    return _PERHAPS_ESCAPED.sub(lambda found: _escaped(found[0], encoding), cleaned(text))


def _escaped(character: str, encoding: str) -> str:
    if not is_invisible(character):
        with suppress(UnicodeEncodeError):
            character.encode(encoding)
            return character
    # Beyond the basic plane JSON takes two escapes, as json.dumps writes them.
    return json.dumps(character).strip('"') if character != "\x7f" else "\\u007f"


def _encoding() -> str:
    # There may be nothing to print to.
    return getattr(sys.stdout, "encoding", None) or "ascii"


def print_text(text: str) -> None:
    """Print a text as it can be shown."""
    click.echo(printable(text), nl=False)


def print_json(text: str) -> None:
    """Print JSON as it can be shown."""
    click.echo(printable_json(text), nl=False)


def workload_of(name: str, workloads: Sequence[Workload]) -> Workload:
    """Return the workload of a name.

    Raises:
        ConfigInvalid: there is none.
    """
    by_id = {workload.id: workload for workload in workloads}
    if name in by_id:
        return by_id[name]
    if by_id:
        raise ConfigInvalid("workload-unknown", subject=name, known=tuple(sorted(by_id)))
    raise ConfigInvalid("workload-unknown-and-none", subject=name)


def find_tool() -> NsysTool:
    """Find the nsys of this project."""
    return find_nsys(None, os.environ, setting=load_settings(find_root(Path.cwd()), {}).nsys)


def readable(name: str) -> str:
    """A file's name as text: its bytes need not be UTF-8."""
    return os.fsencode(name).decode(errors="replace")
