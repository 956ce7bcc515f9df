"""Which workloads a project has, found by collecting them as a gate would; measures nothing."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from perfgate.model.errors import ConfigInvalid
from perfgate.model.workload import Declared, Workload
from perfgate.plugin.guards import why_marked_skipped
from perfgate.plugin.state import STATE, WORKLOAD
from perfgate.plugin.typed import worker_options
from perfgate.system.files import temporary_folder


@dataclass(kw_only=True, eq=False)
class Collected:
    """What a gate would start with."""

    workloads: Sequence[Workload] = ()
    """In the order of a gate."""
    declared: Sequence[Declared] = ()
    """Also those that a selection leaves out."""
    worker_options: tuple[str, ...] = ()
    """What the pytest of a worker would share with the gate's."""
    skipped_files: Mapping[str, str] = field(default_factory=dict)
    """Files that skipped themselves, and why: nobody knows which workloads they hold."""

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Take the expected workloads of the gate, and all declarations with their marks."""
        config = session.config
        if STATE not in config.stash:  # it did not start
            return
        state = config.stash[STATE]
        self.workloads, self.skipped_files = state.gate.workloads or (), state.skipped_files
        self.worker_options = worker_options(config)
        self.declared = [
            Declared(workload=item.stash[WORKLOAD], skipped=why_marked_skipped(item))
            for item in state.collected.values()
        ]


def collect(root: Path, *, options: Sequence[str] = ()) -> Collected:
    """The project's workloads, and how a gate would start them, with pytest's `options`.

    Raises:
        ConfigInvalid: they cannot be collected, with the gist of pytest's words.
    """
    found, said = Collected(), io.StringIO()
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
            *options,
            # This process has imported perfgate before pytest could, which a project may have made
            # an error.
            *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
        ]
        try:
            status = pytest.main(arguments, plugins=[found])
        except Warning as warned:  # of the configuration, where the project makes warnings errors
            raise ConfigInvalid("collection-failed", reason=str(warned)) from warned
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise ConfigInvalid("collection-failed", reason=_last_words(said.getvalue()))
    return found


def _last_words(said: str) -> str:
    """The gist of pytest's output in a line: the first error in its summary, or its usage error."""
    lines = [line.strip() for line in said.splitlines()]
    errors = [line.removeprefix("ERROR").lstrip(": ") for line in lines if line.startswith("ERROR")]
    causes = [line.removeprefix("E ").strip() for line in lines if line.startswith("E ")]
    return ": ".join([*errors[:1], *causes[-1:]]) or "pytest does not say why"
