"""Which workloads a project has, found by collecting them as a gate would; measures nothing."""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from perfgate.model.errors import ConfigInvalid
from perfgate.model.workload import Workload
from perfgate.plugin.gate_side import EXPECTED, SKIPPED_FILES, worker_options


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
        expected = session.config.stash.get(EXPECTED, ())
        skipped = session.config.stash.get(SKIPPED_FILES, {})
        self.collected = Collected(
            workloads=expected,
            worker_options=worker_options(session.config),
            skipped_files=skipped,
            configuration=session.config.inipath,
        )


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
    listener, said = _Listener(), io.StringIO()
    # As `python -m pytest` does, by which alone a project may be gated; behind all that `pytest` itself would find.
    if str(root) not in sys.path:
        sys.path.append(str(root))
    with redirect_stdout(said), redirect_stderr(said), tempfile.TemporaryDirectory() as cache:
        # pytest's cache is not switched off: `addopts` may have its options, such as --lf.
        arguments = ["--perfgate", "--collect-only", "-q", f"--override-ini=cache_dir={cache}", f"--rootdir={root}"]
        # This process has imported perfgate before pytest could, which a project may have made an error.
        arguments += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
        try:
            status = pytest.main(arguments, plugins=[listener])
        except Warning as warned:  # of the configuration, where the project makes warnings errors
            raise _uncollected(str(warned)) from warned
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise _uncollected(_last_words(said.getvalue()))
    return listener.collected


def _uncollected(why: str) -> ConfigInvalid:
    return ConfigInvalid(
        subject="workloads",
        fact=f"they cannot be collected ({why})",
        next_step="See what pytest says: pytest --perfgate --collect-only",
    )


def _last_words(said: str) -> str:
    """What pytest complained of, in a line: the first error in its summary, or its usage error."""
    lines = [line.strip() for line in said.splitlines()]
    errors = [line.removeprefix("ERROR").lstrip(": ") for line in lines if line.startswith("ERROR")]
    causes = [line.removeprefix("E ").strip() for line in lines if line.startswith("E ")]
    if errors and " - " in errors[0]:
        return errors[0]
    return ": ".join([*errors[:1], *causes[-1:]]) or "pytest does not say why"
