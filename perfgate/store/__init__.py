"""Baselines and kept results on disk: whole, sealed, never silently overwritten; knows nothing of
how they are judged.

Baselines are files of record and belong in git; kept results are candidates for one and never leave
the machine::

    baselines/<machine slug>/<workload>.json
    .perfgate/.gitignore                                     everything below is ignored
    .perfgate/results/<machine slug>/<workload>/<UTC time>-<random>/result.json, and captures
"""

from __future__ import annotations

from pathlib import Path

from perfgate.store.baselines import Baselines, ListedBaseline
from perfgate.store.disk import Disk, file_name, near_names
from perfgate.store.results import RESULT_FILE, KeptResult, Results
from perfgate.store.sealed import baseline_text

__all__ = [
    "RESULT_FILE",
    "KeptResult",
    "ListedBaseline",
    "Store",
    "baseline_text",
    "file_name",
    "near_names",
]


class Store:
    """The two folders of one project."""

    def __init__(self, root: Path, baselines: str) -> None:
        """Take the project's root and, relative to it, the folder of the baselines."""
        self.root = root
        disk = Disk(root)
        self.baselines = Baselines(disk, root / baselines)
        self.results = Results(disk, root / ".perfgate" / "results")
