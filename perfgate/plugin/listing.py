"""Which workloads a project has, found by collecting them as a gate would; measures nothing."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from perfgate.model.errors import ConfigInvalid
from perfgate.model.workload import Workload
from perfgate.plugin.gate_side import EXPECTED


class _Listener:
    """Keeps what was collected."""

    def __init__(self) -> None:
        self.workloads: Sequence[Workload] = ()

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Take the expected workloads of the gate."""
        self.workloads = session.config.stash.get(EXPECTED, ())


def collected_workloads(root: Path) -> tuple[Workload, ...]:
    """The project's workloads, in the order of a gate.

    Raises:
        ConfigInvalid: they cannot be collected, with pytest's own words.
    """
    listener, said = _Listener(), io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        arguments = ["--perfgate", "--collect-only", "-q", "-p", "no:cacheprovider", f"--rootdir={root}"]
        status = pytest.main(arguments, plugins=[listener])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise ConfigInvalid(
            subject="workloads",
            fact=f"they cannot be collected: {said.getvalue().strip()}",
            next_step="Correct what pytest complains about: pytest --perfgate --collect-only",
        )
    return tuple(listener.workloads)
