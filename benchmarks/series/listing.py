"""Prints the workloads of some files of a project as JSON; a process of its own, since collecting
imports them.

    python -P listing.py ROOT FILE...

Exits 1, with the reason on stderr, where they cannot be collected. It imports nothing of perfgate:
pytest warns of a plugin that was imported before it, and a project may turn warnings into errors.
"""

from __future__ import annotations

import importlib
import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout

import pytest


class Listener:
    """Keeps what was collected, as JSON."""

    def __init__(self) -> None:
        self.shown = "[]"

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Take the expected workloads of the gate."""
        key = importlib.import_module("perfgate.plugin.state").STATE
        state = session.config.stash.get(key, None)
        found = () if state is None else state.expected or ()
        self.shown = json.dumps([workload.model_dump(mode="json") for workload in found])


def main() -> int:
    """Collect as a gate would, and print."""
    root, *files = sys.argv[1:]
    listener, said = Listener(), io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        options = [
            "--perfgate",
            "--collect-only",
            "-q",
            "-p",
            "no:cacheprovider",
            f"--rootdir={root}",
        ]
        status = pytest.main([*options, *files], plugins=[listener])
    if status != pytest.ExitCode.OK:
        sys.stderr.write(_gist(said.getvalue()))
        return 1
    print(listener.shown)
    return 0


def _gist(said: str) -> str:
    """The last error that pytest names, or all it said."""
    causes = [
        line.removeprefix("E ").strip()
        for line in said.splitlines()
        if line.startswith(("E ", "ERROR"))
    ]
    raised = [line for line in causes if not line.startswith("ERROR")]
    return (raised or causes or [" ".join(said.split())])[-1]


if __name__ == "__main__":
    sys.exit(main())
