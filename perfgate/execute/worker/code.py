"""Which code a worker has loaded: the project's files among its modules, told by their digests."""

from __future__ import annotations

import contextlib
import hashlib
import sys
from collections.abc import Collection
from pathlib import Path

from perfgate.model.order import is_installed


def digest_of(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


class ProjectFiles:
    """Tells which files are the project's: no virtual environment inside it, nothing that perfgate keeps there, and not
    perfgate where it gates itself."""

    def __init__(self, root: Path, vendored: Collection[str] = ()) -> None:
        self._root = root.resolve()
        self._vendored = [self._root / folder for folder in vendored]
        prefixes = [
            Path(prefix).resolve() for prefix in {sys.prefix, sys.base_prefix, sys.exec_prefix}
        ]
        self._foreign = [
            prefix
            for prefix in prefixes
            if prefix.is_relative_to(self._root) and prefix != self._root
        ]
        self._foreign += [Path(__file__).resolve().parents[2], self._root / ".perfgate"]

    def relative(self, file: object) -> Path | None:
        """A file's path relative to the project's root; None of one that is not the project's, or of no path."""
        if not isinstance(file, str):
            return None
        path = Path(file).resolve()
        if not path.is_relative_to(self._root):
            return None
        inner = path.relative_to(self._root)
        if is_installed(inner) and not any(
            path.is_relative_to(folder) for folder in self._vendored
        ):
            return None
        return None if any(path.is_relative_to(prefix) for prefix in self._foreign) else inner


def loaded_code(root: Path, vendored: Collection[str] = ()) -> dict[str, str]:
    """SHA-256, by path relative to `root`, of the project's files among the loaded modules, of archives as a whole."""
    files = ProjectFiles(root, vendored)
    digests: dict[str, str] = {}
    for module in list(sys.modules.values()):
        # Not getattr: it would wake up modules that import themselves lazily.
        path = files.relative(getattr(module, "__dict__", {}).get("__file__"))
        found = (
            None
            if path is None
            else next((one for one in (path, *path.parents) if (root / one).is_file()), None)
        )
        if found is not None:
            with contextlib.suppress(OSError):
                digests[found.as_posix()] = digest_of(root / found)
    return dict(sorted(digests.items()))
