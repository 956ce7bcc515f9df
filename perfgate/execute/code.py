"""Which code a run was of: shown by what its processes say that they loaded, and told by digests."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from perfgate.execute.bench import Bench
from perfgate.execute.copies import executed_code, hold_to_project, loaded_code, neighbours
from perfgate.execute.proof import Witness, have_spoken, prove_command, prove_worker
from perfgate.execute.worktree import Worktree
from perfgate.model.baseline import ALL_TRACKED, code_files
from perfgate.model.errors import RepositoryUnreadable, StoreFailed
from perfgate.model.order import Account
from perfgate.model.workload import Workload
from perfgate.system import git


def proven_code(
    bench: Bench, workload: Workload, witnesses: tuple[Witness, ...], account: Account | None
) -> dict[str, str]:
    """SHA-256 by path of the files that a run loaded; refuses one that was not of the code it was to be of.

    Raises:
        CodeUnproven: it was to be of a commit, which is not shown.
        CodeStale: it was to be of what is in the project, and loaded a copy that is another.
    """
    copied: Mapping[str, str] = {}
    if bench.tree is not None:
        _prove(workload, bench.tree, witnesses, account)
    else:
        copied = hold_to_project(workload, bench.root, witnesses, env=bench.env)
    if account is None:
        return dict(sorted({**copied, **command_code(bench, workload, witnesses)}.items()))
    own = [witness for witness in witnesses if witness.pid == account.pid]
    executed = {
        file for witness in own for file in executed_code(bench.root, witness, env=bench.env)
    }
    beside = neighbours(bench.root, own, env=bench.env)
    return dict(
        sorted({**copied, **_digests({*executed, *beside}, bench.root), **account.code}.items())
    )


def _prove(
    workload: Workload, tree: Worktree, witnesses: Sequence[Witness], account: Account | None
) -> None:
    if workload.form == "command":
        prove_command(workload, tree, witnesses)
    elif account is not None:
        prove_worker(workload, tree, witnesses, pid=account.pid, code=account.code)


def command_code(bench: Bench, workload: Workload, witnesses: Sequence[Witness]) -> dict[str, str]:
    """SHA-256 by path of a command's code: the project's files that it names, and that its Python processes loaded.

    What the runs have written themselves is none: files that are younger than they are, and that git does not track.
    """
    root, env = bench.root, bench.env
    loaded = {*loaded_code(root, witnesses, env=env), *neighbours(root, witnesses, env=env)}
    files = {*loaded, *_named(workload, root.resolve())}
    young = {file for file in files if file.stat().st_mtime > bench.began_at}
    if young:
        with suppress(RepositoryUnreadable):
            young -= _tracked(root, env)
    return _digests(files - young, root)


def code_unsaid(
    bench: Bench, workload: Workload, witnesses: Sequence[Witness], measured: Sequence[int]
) -> dict[str, str]:
    """What to note of the code of a command where a process that took steps did not say what it loaded.

    Args:
        bench: of what is in the project.
        workload: what was run.
        witnesses: what its processes said.
        measured: ids of those that took the steps.
    """
    if workload.form != "command" or bench.tree is not None or have_spoken(witnesses, measured):
        return {}
    return {ALL_TRACKED: _all_tracked(bench.root, bench.settings.baselines, env=bench.env)}


def _named(workload: Workload, root: Path) -> Iterator[Path]:
    """The files below the root that a command or its variables name, also behind `--option=` or in a shell's line."""
    base = root / (workload.cwd or ".")
    for word in (*(workload.command or ()), *workload.env.values()):
        for name in _names(word):
            with suppress(OSError, ValueError):  # too long for a file's name, or with a zero in it
                file = (base / name).resolve()
                if (
                    file.is_file()
                    and file.is_relative_to(root)
                    and not file.is_relative_to(root / ".perfgate")
                ):
                    yield file


def _names(word: str) -> Iterator[str]:
    parts = [word]
    with suppress(ValueError):
        parts += shlex.split(word, comments=False)
    for part in dict.fromkeys(parts):
        yield part
        yield part.partition("=")[2]
        yield part.removeprefix("@")


def is_as_blessed(bench: Bench, code: Mapping[str, str], blessed: Mapping[str, str]) -> bool:
    """Whether a run in a checkout loaded what was blessed, as far as its commit holds it.

    What no commit holds (a build's products, a version that was written) each side makes for itself.

    Raises:
        RepositoryUnreadable: git does not answer.
    """
    tracked = _tracked(bench.root, bench.env)

    def held(files: Mapping[str, str]) -> dict[str, str]:
        return {
            path: digest
            for path, digest in files.items()
            if (bench.root / path).resolve() in tracked
        }

    return held(code_files(code)) == held(blessed)


def _tracked(root: Path, env: Mapping[str, str]) -> set[Path]:
    top = root.resolve()
    within = git.prefix(top, env=env)
    top = top.parents[len(within.parts) - 1] if within.parts else top
    return {(top / name).resolve() for name in git.tracked_files(top, env=env)}


def _all_tracked(root: Path, baselines: str, env: Mapping[str, str] | None = None) -> str:
    """A digest of all that git tracks as it is now, and empty where git does not say."""
    with suppress(RepositoryUnreadable):
        return git.content_digest(root, baselines=baselines, env=env)
    return ""


def code_now(paths: Mapping[str, str], root: Path, *, baselines: str) -> dict[str, str]:
    """SHA-256 by path of the same files as they are now; a file that is gone is left out.

    Args:
        paths: of which files.
        root: the project's root.
        baselines: the folder of the baselines, from there, of which nothing is code.

    Raises:
        StoreFailed: one of them cannot be read.
    """
    found = {ALL_TRACKED: _all_tracked(root, baselines)} if ALL_TRACKED in paths else {}
    try:
        return found | {path: _digest(root / path) for path in paths if (root / path).is_file()}
    except OSError as error:
        raise StoreFailed(
            subject=str(error.filename),
            fact=f"it cannot be read ({error.strerror}), so nobody knows whether it is what was measured",
            next_step="Let this user read it.",
        ) from error


def _digests(files: Collection[Path], root: Path) -> dict[str, str]:
    """SHA-256 by path, from the root, of files of the repository."""
    top = root.resolve()
    return {Path(os.path.relpath(file, top)).as_posix(): _digest(file) for file in sorted(files)}


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
