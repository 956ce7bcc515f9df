"""Which code a run was of: shown by what its processes say that they loaded, and told by digests."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from perfgate import git
from perfgate.duet.copies import executed_code, hold_to_project, neighbours, project_code
from perfgate.duet.proof import Witness, prove_command, prove_worker
from perfgate.duet.worktree import Worktree
from perfgate.model.errors import RepositoryUnreadable, StoreFailed
from perfgate.model.order import Account
from perfgate.model.workload import Workload
from perfgate.running.bench import Bench


def proven_code(
    bench: Bench, workload: Workload, witnesses: tuple[Witness, ...], account: Account | None
) -> dict[str, str]:
    """SHA-256 by path of the files that a run loaded; refuses one that was not of the code it was to be of.

    Raises:
        CodeUnproven: it was to be of a commit, which is not shown.
        CodeStale: it was to be of what is in the project, and loaded a copy that is another.
    """
    copied: Mapping[str, str] = {}
    loaded: Collection[Path] = ()
    if bench.tree is not None:
        _prove(workload, bench.tree, witnesses, account)
    else:
        copied = hold_to_project(workload, bench.root, witnesses, env=bench.env)
        loaded = project_code(bench.root, witnesses, env=bench.env) if account is None else ()
    if account is None:
        return dict(sorted({**copied, **command_code(workload, bench.root, loaded, bench.began_at)}.items()))
    own = [witness for witness in witnesses if witness.pid == account.pid]
    executed = {file for witness in own for file in executed_code(bench.root, witness, env=bench.env)}
    root = bench.root.resolve()
    beside = {os.path.relpath(file, root): _digest(file) for file in neighbours(root, own, env=bench.env)}
    return dict(sorted({**copied, **beside, **_digests(executed, bench.root), **account.code}.items()))


def _prove(workload: Workload, tree: Worktree, witnesses: Sequence[Witness], account: Account | None) -> None:
    if workload.form == "command":
        prove_command(workload, tree, witnesses)
    elif account is not None:
        prove_worker(workload, tree, witnesses, pid=account.pid, code=account.code)


def command_code(
    workload: Workload, root: Path, loaded: Collection[Path] = (), began_at: float = math.inf
) -> dict[str, str]:
    """SHA-256 by path of a command's code: files among its words, and the Python files that the repository tracks.

    Others that it `loaded` may be generated, and differ from run to run. Outside a repository nobody says which files
    are the project's, and only those among the words are told, and what was loaded and is older than the runs.
    """
    base = root / (workload.cwd or ".")
    named = [base / word for word in workload.command or ()]
    files = {path.resolve() for path in named if _is_file(path)}
    try:
        files |= {(root / path).resolve() for path in git.tracked_python_files(root)}
    except RepositoryUnreadable:
        files |= {path for path in loaded if path.is_file() and path.stat().st_mtime <= began_at}
    return _digests(files, root)


def code_now(paths: Mapping[str, str], root: Path) -> dict[str, str]:
    """SHA-256 by path of the same files as they are now; a file that is gone is left out.

    Raises:
        StoreFailed: one of them cannot be read.
    """
    try:
        return {path: _digest(root / path) for path in paths if (root / path).is_file()}
    except OSError as error:
        raise StoreFailed(
            subject=str(error.filename),
            fact=f"it cannot be read ({error.strerror}), so nobody knows whether it is what was measured",
            next_step="Let this user read it.",
        ) from error


def _digests(files: Collection[Path], root: Path) -> dict[str, str]:
    """SHA-256 by path of those of some files that lie below the root."""
    top = root.resolve()
    return {
        path.relative_to(top).as_posix(): _digest(path)
        for path in sorted(files)
        if path.is_relative_to(top) and path.is_file()
    }


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _is_file(path: Path) -> bool:
    """Whether there is such a file; words of a command may be too long to be a file's name."""
    try:
        return path.is_file()
    except OSError:
        return False
