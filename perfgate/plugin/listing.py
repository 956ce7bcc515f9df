"""Which workloads a project has, found by collecting them as a gate would; measures nothing."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from _pytest.skipping import evaluate_skip_marks

from perfgate.model.errors import ConfigInvalid
from perfgate.model.workload import Declared, Workload
from perfgate.plugin.items import CommandItem, WorkloadItem
from perfgate.plugin.start import worker_options
from perfgate.plugin.state import STATE
from perfgate.system.temporary import temporary_folder


@dataclass(frozen=True, kw_only=True)
class Collected:
    """What a gate would start with."""

    workloads: Sequence[Workload] = ()
    """In the order of a gate."""
    worker_options: tuple[str, ...] = ()
    """What the pytest of a worker would share with the gate's."""
    skipped_files: Mapping[str, str] = field(default_factory=dict)
    """Files that skipped themselves, and why: nobody knows which workloads they hold."""
    configuration: Path | None = None
    """The file in which pytest has found its configuration."""


class _Listener:
    """Keeps what was collected."""

    def __init__(self) -> None:
        self.collected = Collected()

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Take the expected workloads of the gate."""
        state = session.config.stash.get(STATE, None)
        self.collected = Collected(
            workloads=() if state is None else state.expected or (),
            worker_options=worker_options(session.config),
            skipped_files={} if state is None else state.skipped_files,
            configuration=session.config.inipath,
        )


class _Declarations:
    """Keeps what is declared, also what a selection leaves out."""

    def __init__(self) -> None:
        self._items: list[WorkloadItem | CommandItem] = []
        self.found: tuple[Declared, ...] = ()

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Note a workload."""
        if isinstance(item, WorkloadItem | CommandItem):
            self._items.append(item)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self) -> None:
        """Take them with their marks, to which a hook may have added."""
        self.found = tuple(
            Declared(workload=item.workload, skipped=_why_skipped(item)) for item in self._items
        )


def _why_skipped(item: pytest.Item) -> str | None:
    try:
        skip = evaluate_skip_marks(item)
    except BaseException as broken:  # noqa: BLE001 - a condition that fails, by pytest's own outcomes too, skips nothing
        return f"its condition cannot be evaluated: {type(broken).__name__}"
    return None if skip is None else skip.reason


def declared(root: Path, *, options: Sequence[str] = ()) -> tuple[Declared, ...]:
    """All workloads that the project declares, with pytest's `options`.

    Raises:
        ConfigInvalid: they cannot be collected, with the gist of pytest's words.
    """
    listener = _Declarations()
    _collect(root, listener, options)
    return listener.found


def collected_workloads(root: Path) -> tuple[Workload, ...]:
    """The project's workloads, in the order of a gate.

    Raises:
        ConfigInvalid: they cannot be collected, with the gist of pytest's words.
    """
    return tuple(collect(root).workloads)


def collect(root: Path) -> Collected:
    """The project's workloads, and how a gate would start them.

    Raises:
        ConfigInvalid: they cannot be collected, with the gist of pytest's words.
    """
    listener = _Listener()
    _collect(root, listener)
    return listener.collected


def _collect(root: Path, listener: object, options: Sequence[str] = ()) -> None:
    said = io.StringIO()
    # As `python -m pytest` does, by which alone a project may be gated; behind all that `pytest`
    # itself would find.
    if str(root) not in sys.path:
        sys.path.append(str(root))
    with redirect_stdout(said), redirect_stderr(said), temporary_folder("cache") as cache:
        # pytest's cache is not switched off: `addopts` may have its options, such as --lf.
        arguments = [
            "--perfgate",
            "--collect-only",
            "-q",
            f"--override-ini=cache_dir={cache}",
            f"--rootdir={root}",
        ]
        arguments += options
        # This process has imported perfgate before pytest could, which a project may have made an
        # error.
        arguments += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
        try:
            status = pytest.main(arguments, plugins=[listener])
        except Warning as warned:  # of the configuration, where the project makes warnings errors
            raise _uncollected(str(warned)) from warned
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise _uncollected(_last_words(said.getvalue()))


def _uncollected(why: str) -> ConfigInvalid:
    return ConfigInvalid("collection-failed", reason=why)


def _last_words(said: str) -> str:
    """What pytest complained of, in a line: the first error in its summary, or its usage error."""
    lines = [line.strip() for line in said.splitlines()]
    errors = [line.removeprefix("ERROR").lstrip(": ") for line in lines if line.startswith("ERROR")]
    causes = [line.removeprefix("E ").strip() for line in lines if line.startswith("E ")]
    if errors and " - " in errors[0]:
        return errors[0]
    return ": ".join([*errors[:1], *causes[-1:]]) or "pytest does not say why"
