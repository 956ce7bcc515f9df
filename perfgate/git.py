"""What git says of the measured code and its history, and other commits checked out; the only file that runs git.

It changes nothing of the user's: what it writes is worktrees of perfgate's own, which it also removes, and in CI the
remote's branch that baselines are compared with.
"""

from __future__ import annotations

import getpass
import os
import re
import shutil
import subprocess
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Final

from perfgate.model.baseline import Commit
from perfgate.model.errors import RepositoryUnreadable, RevisionMissing, WorktreeFailed
from perfgate.model.order import INSTALLED

TIME_LIMIT_S: Final = 30.0
CHECKOUT_LIMIT_S: Final = 600.0
"""What a checkout may take: large repositories, files that a filter has to fetch."""
HISTORY_LIMIT_S: Final = 300.0
"""What a walk through the history of a large repository may take."""
LARGEST_BLOB: Final = 4 << 20
"""Bytes of a file's version that is still read; a baseline is a few KB."""

ABOUT_ANOTHER_REPOSITORY: Final = frozenset(
    {
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_DIR",
        "GIT_INDEX_FILE",
        "GIT_NAMESPACE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_WORK_TREE",
    }
)
"""What git sets for its hooks: a gate started from one must ask about `root`. GIT_CONFIG_* stays: CI passes
safe.directory by it."""


PROJECT_FILES: Final = ("pyproject.toml", "setup.cfg", "setup.py")
"""What says how the Python project around it is installed."""

_SHA: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True, slots=True)
class FileChange:
    """What one commit did to one file. Blobs are object ids, None where there was no file."""

    commit: str
    parents: tuple[str, ...]
    at: datetime | None
    """When its author made it; None where the commit holds no date that there is."""
    author: str
    """As `Name <email>`, after the repository's mailmap."""
    subject: str
    path: str
    """From the top of the repository, POSIX."""
    before: tuple[str | None, ...]
    """What each parent had there; of a commit without parents one None."""
    blob: str | None
    is_file: bool
    """Whether what it left is a file, not a link or a submodule."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Blob:
    """What a file held in some commit, or why that cannot be told."""

    content: bytes | None
    fault: str = ""


def read_commit(root: Path, *, env: Mapping[str, str] | None = None, baselines: str = "baselines") -> Commit | None:
    """Return the commit checked out at `root`, where knowing it is welcome but not needed.

    None outside a repository, without git, before the first commit, or where git refuses to tell (see
    `require_commit`, whose definition of `dirty` holds here too).
    """
    try:
        return require_commit(root, env=env, baselines=baselines)
    except RepositoryUnreadable:
        return None


def require_commit(root: Path, *, env: Mapping[str, str] | None = None, baselines: str = "baselines") -> Commit:
    """Return the commit checked out at `root`.

    `dirty` means that what was measured is not what the commit holds: any change to a tracked file of the whole
    repository, or any file neither tracked nor ignored. Files in the folder `baselines` (relative to `root`) do not
    count, since blessing writes them after the measurement, nor does what Python keeps in a `__pycache__`.

    Raises:
        RepositoryUnreadable: no git, no repository, no commit, or git refuses (another owner's repository).
    """
    where = _where(baselines)
    question = ("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal", _SUBMODULES, *where)
    told = _ask(root, env, *question, settings=_LOOK_YOURSELF)
    headers: dict[str, str] = {}
    dirty = False
    for entry in told.split("\0"):
        if entry.startswith("# "):
            key, _, value = entry[2:].partition(" ")
            headers[key] = value
        elif entry:
            dirty = True
    sha = headers.get("branch.oid", "(initial)")
    if sha == "(initial)":
        raise RepositoryUnreadable(
            subject=str(root),
            fact="the repository has no commit yet",
            expectation="A measurement names the commit that it measured",
            next_step="Commit the code, then run again.",
        )
    dirty = dirty or bool(_unwatched(root, env, *where))
    branch = headers.get("branch.head")
    return Commit(sha=sha, dirty=dirty, branch=None if branch == "(detached)" else branch)


def author(root: Path, *, env: Mapping[str, str] | None = None) -> str:
    """Say who is at work, as `Name <email>`: git's environment, git's configuration, or the login name."""
    environment = os.environ if env is None else env
    name = environment.get("GIT_AUTHOR_NAME") or _configured(root, env, "user.name")
    email = environment.get("GIT_AUTHOR_EMAIL") or _configured(root, env, "user.email")
    if name and email:
        return f"{name} <{email}>"
    if name or email:
        return name or email
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container's numeric user without a name; Python < 3.13 says KeyError
        return f"user {os.getuid()}"


def tracked_python_files(root: Path, *, env: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return the tracked `*.py` files under `root` that are there, as sorted POSIX paths relative to it.

    Those of submodules, of any depth, are among them.

    Raises:
        RepositoryUnreadable: no git, no repository, or git refuses.
    """
    told = _ask(root, env, "ls-files", "-z", "--cached", "--recurse-submodules", "--", "*.py")
    return tuple(sorted({name for name in told.split("\0") if name and (root / name).is_file()}))


def project_folders(root: Path, *, env: Mapping[str, str] | None = None) -> tuple[Path, ...]:
    """Return the folders at or below `root` in which git tracks what makes one a Python project, sorted.

    Raises:
        RepositoryUnreadable: no git, no repository, or git refuses.
    """
    told = _ask(root, env, "ls-files", "-z", "--cached", "--", *(f":(glob)**/{name}" for name in PROJECT_FILES))
    return tuple(sorted({(root / name).parent for name in told.split("\0") if name}))


_NO_BRANCH: Final = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|^[/.-]|[/.]\Z|\.lock(?:/|\Z)")
"""What git accepts in no name of a branch (git-check-ref-format)."""


def is_branch(name: str) -> bool:
    """Whether a branch may have a name."""
    return 0 < len(name) <= 255 and name != "@" and _NO_BRANCH.search(name) is None


def resolve(root: Path, revision: str, *, env: Mapping[str, str] | None = None) -> str:
    """Return the full SHA of the commit that a revision names: a SHA, a branch, a tag, `HEAD~3`.

    Raises:
        RevisionMissing: no commit of this clone has that name.
        RepositoryUnreadable: no git, no repository, or git refuses.
    """
    shallow = _ask(root, env, "rev-parse", "--is-shallow-repository").strip() == "true"
    if revision and not revision.startswith("-") and "\0" not in revision:
        done = _run(root, env, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
        if done.returncode == 0:
            return os.fsdecode(done.stdout).strip()
    named = _SHA.fullmatch(revision) is None
    raise RevisionMissing(
        subject=f"commit {revision or repr(revision)}",
        fact="it is not in this clone, which is shallow" if shallow else "it is not in this clone",
        expectation="A commit has to be there to be run again",
        next_step="Fetch the whole history: git fetch --unshallow; in GitHub Actions, set fetch-depth: 0 of checkout."
        if shallow
        else "Look for its name (git branch --all, git tag), or fetch it: git fetch --all --tags"
        if named
        else f"Fetch it (git fetch origin {revision}), or bless anew if the history was rewritten.",
    )


def prefix(root: Path, *, env: Mapping[str, str] | None = None) -> PurePath:
    """Return where `root` lies in its repository: `.` at the top, `services/train` in a monorepo.

    Raises:
        RepositoryUnreadable: no git, no repository, no checkout of one (a bare repository), or git refuses.
    """
    inside, _, told = _ask(root, env, "rev-parse", "--is-inside-work-tree", "--show-prefix").partition("\n")
    if inside != "true":
        raise _unreadable(root, "it is in no checkout of its repository", "Run perfgate in a checkout of the project.")
    return PurePath(told.removesuffix("\n"))


def is_same_repository(one: Path, other: Path, *, env: Mapping[str, str] | None = None) -> bool:
    """Whether two folders lie in working trees or clones of one repository: of clones, by their first commits.

    Raises:
        RepositoryUnreadable: no git, no repository, no commit, or git refuses.
    """
    shared = (Path(_ask(folder, env, "rev-parse", "--git-common-dir").removesuffix("\n")) for folder in (one, other))
    of_one, of_other = (os.path.realpath(folder / told) for folder, told in zip((one, other), shared, strict=True))
    if of_one == of_other:
        return True
    # By first parents: a library that was merged with its history has brought its own first commit.
    first = (_ask(folder, env, "rev-list", "--max-parents=0", "--first-parent", "HEAD") for folder in (one, other))
    return len(set(first)) == 1


def default_branch(root: Path, *, env: Mapping[str, str] | None = None) -> str | None:
    """Return the branch that others branch from: origin's HEAD, else main or master, else the current one, if any.

    Raises:
        RepositoryUnreadable: no git, no repository, or git refuses.
    """
    origins = "refs/remotes/origin/"
    told = _run(root, env, "symbolic-ref", "--quiet", f"{origins}HEAD")
    if told.returncode == 0:
        return _text(os.fsdecode(told.stdout).strip().removeprefix(origins))
    refs = set(_ask(root, env, "for-each-ref", "--format=%(refname)", "refs/heads", origins).split("\n"))
    for name in ("main", "master"):
        if refs & {f"refs/heads/{name}", f"{origins}{name}"}:
            return name
    _, current = checked_out(root, env=env)
    return None if current is None else _text(current)


def is_tracked(root: Path, path: Path, *, env: Mapping[str, str] | None = None) -> bool:
    """Whether the repository around `root` tracks a file, or anything in a folder.

    Raises:
        RepositoryUnreadable: no git, no repository, or git refuses; a path outside the repository.
    """
    return bool(_ask(root, env, "ls-files", "-z", "--cached", "--", f":(literal){path}"))


def ignored(root: Path, paths: Collection[str], *, env: Mapping[str, str] | None = None) -> set[str]:
    """Return those of some paths, relative to `root` or absolute, that git ignores; what it tracks is none of them.

    Raises:
        RepositoryUnreadable: no git, no repository, or git refuses.
    """
    if not paths:
        return set()
    given = b"".join(os.fsencode(path) + b"\0" for path in sorted(paths))
    done = _run(root, env, "check-ignore", "-z", "--stdin", given=given)
    if done.returncode not in (0, 1):  # 1: none of them
        raise _refused(root, "check-ignore", os.fsdecode(done.stderr), done.returncode)
    return {name for name in os.fsdecode(done.stdout).split("\0") if name}


def vendored(root: Path, *, env: Mapping[str, str] | None = None) -> frozenset[PurePath]:
    """Return the folders below `root`, relative to it, that are named as those of installed packages, and are tracked.

    Raises:
        RepositoryUnreadable: no git, no repository, or git refuses.
    """
    named = (f":(glob)**/{name}/**" for name in INSTALLED)
    told = _ask(root, env, "ls-files", "-z", "--cached", "--", *named)
    files = (PurePath(name) for name in told.split("\0") if name)
    return frozenset(
        PurePath(*file.parts[: 1 + min(file.parts.index(name) for name in INSTALLED if name in file.parts)])
        for file in files
    )


def lfs_files(root: Path, *, env: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return the tracked files below `root` that Git LFS is to keep, as POSIX paths relative to it.

    Raises:
        RepositoryUnreadable: no git, no repository, or git refuses.
    """
    told = _ask(root, env, "ls-files", "-z", "--cached", "--", ":(attr:filter=lfs)")
    return tuple(name for name in told.split("\0") if name)


def add_worktree(root: Path, folder: Path, commit: str, *, env: Mapping[str, str] | None = None) -> None:
    """Check a commit out into a new folder, without the project's hooks and submodules.

    Raises:
        WorktreeFailed: git could not; what it left behind is `remove_worktree`'s to remove.
    """
    subject = f"commit {commit[:12]}"
    expectation = "It is checked out to be run beside the project"
    try:
        done = _run(
            root,
            env,
            *("worktree", "add", "--detach", "--force", str(folder), commit),
            settings=("core.hooksPath=/dev/null", "core.fsmonitor=false", "submodule.recurse=false"),
            limit_s=CHECKOUT_LIMIT_S,
        )
    except RepositoryUnreadable as error:
        raise WorktreeFailed(
            subject=subject, fact=error.fact, expectation=expectation, next_step=error.next_step
        ) from error
    if done.returncode != 0:
        fact, next_step = _why_no_checkout(root, os.fsdecode(done.stderr), done.returncode)
        raise WorktreeFailed(subject=subject, fact=fact, expectation=expectation, next_step=next_step)


def remove_worktree(root: Path, folder: Path, *, env: Mapping[str, str] | None = None) -> None:
    """Make git forget a worktree, and remove what is left of its folder; what fails is left to the next time.

    Raises:
        RepositoryUnreadable: no git, or it takes too long.
    """
    # Twice: one that was interrupted while it was made is still locked.
    done = _run(root, env, "worktree", "remove", "--force", "--force", str(folder), limit_s=CHECKOUT_LIMIT_S)
    if done.returncode != 0:
        _forget(root, folder, env)


def _forget(root: Path, folder: Path, env: Mapping[str, str] | None) -> None:
    """Remove what git has noted of one worktree; `git worktree prune` would forget those on unplugged disks as well."""
    told = _run(root, env, "rev-parse", "--git-common-dir")
    if told.returncode != 0:
        return
    noted = root / os.fsdecode(told.stdout).removesuffix("\n") / "worktrees"
    for entry in noted.glob("*/gitdir"):
        with suppress(OSError):
            leads_to = entry.parent / entry.read_text(encoding="utf-8", errors="surrogateescape").removesuffix("\n")
            if os.path.realpath(leads_to) == os.path.realpath(folder / ".git"):
                shutil.rmtree(entry.parent, ignore_errors=True)


def fetch_branch(root: Path, branch: str, *, env: Mapping[str, str] | None = None) -> None:
    """Fetch a branch of the remote `origin` with its whole history, as `refs/remotes/origin/<branch>`.

    All its files come with it: a clone without them (`--filter=blob:none`) would ask the remote again whenever a commit
    is checked out, in a job that has no token any more.

    Raises:
        RepositoryUnreadable: no git, no repository, no such remote or branch, or the remote refuses.
    """
    shallow = _ask(root, env, "rev-parse", "--is-shallow-repository").strip() == "true"
    words = ("fetch", "--quiet", "--no-tags", "--no-recurse-submodules", *(("--unshallow",) if shallow else ()))
    _ask(
        root,
        env,
        *(*words, "origin", f"+refs/heads/{branch}:refs/remotes/origin/{branch}"),
        settings=("core.hooksPath=/dev/null", "credential.interactive=false"),
        limit_s=HISTORY_LIMIT_S,
    )


def changed_since(root: Path, revision: str, path: str, *, env: Mapping[str, str] | None = None) -> Mapping[str, bool]:
    """Return the files at or below a path from the top that HEAD has changed since it left a revision's history.

    By their path from the top, whether HEAD has a file there.

    Raises:
        RepositoryUnreadable: no git, no repository, no such revision, no common commit, or git refuses.
    """
    words = ("diff", "--name-status", "-z", "--no-renames", "--no-ext-diff", "--end-of-options", f"{revision}...HEAD")
    tokens = _ask(root, env, *words, "--", f":(top,literal){path}").split("\0")
    return {name: status != "D" for status, name in zip(tokens[::2], tokens[1::2], strict=False)}


def changes(root: Path, *, env: Mapping[str, str] | None = None, baselines: str | None = None) -> tuple[str, ...]:
    """Return the paths from the top whose files are not as HEAD has them, or that are neither tracked nor ignored.

    Also of files that git was told not to look at; but for what `require_commit` passes over.

    Raises:
        RepositoryUnreadable: no git, no repository, or git refuses.
    """
    where = _where(baselines)
    words = ("status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=normal", _SUBMODULES, *where)
    told = [entry[3:] for entry in _ask(root, env, *words, settings=_LOOK_YOURSELF).split("\0") if entry]
    told += [name for name in _unwatched(root, env, *where) if name not in told]
    return tuple(map(_text, told))


def _where(baselines: str | None) -> tuple[str, ...]:
    """Where a change counts: in the whole repository, but not in the folder of the baselines and in Python's own."""
    folder = PurePath(".." if baselines is None else baselines)
    inside = not folder.is_absolute() and ".." not in folder.parts  # git refuses to exclude what lies elsewhere
    excluded = [f":(exclude,literal){folder.as_posix()}"] if inside else []
    return ("--", ":(top)", ":(top,exclude,glob)**/__pycache__/**", *excluded)


_SUBMODULES: Final = "--ignore-submodules=none"
"""Whatever .gitmodules or the user's configuration says."""

_LOOK_YOURSELF: Final = ("core.fsmonitor=false",)
"""A watcher is a program of the user's, or of whoever had the checkout before: its word is not taken for the files'."""


def _unwatched(root: Path, env: Mapping[str, str] | None, *where: str) -> tuple[str, ...]:
    """Return the changed files, from the top, that `git status` passes over: assume-unchanged or skip-worktree is set.

    One that is not there is a change only of the former: the latter is how a sparse checkout leaves files out.
    """
    told = _ask(root, env, "ls-files", "-v", "-s", "-z", "--full-name", *where, settings=_LOOK_YOURSELF)
    top: Path | None = None
    files: dict[str, str] = {}
    changed: list[str] = []
    for entry in told.split("\0"):
        facts, _, name = entry.partition("\t")
        if not name or not (facts[0].islower() or facts[0] == "S"):
            continue
        if top is None:
            top = Path(_ask(root, env, "rev-parse", "--show-toplevel").removesuffix("\n"))
        _, mode, blob, _ = facts.split(" ")
        if not os.path.lexists(top / name):
            changed += [] if facts[0] in "Ss" else [name]
        elif mode.startswith("100") and not (top / name).is_symlink() and "\n" not in name:
            files[name] = blob
        else:
            changed.append(name)  # a link or a submodule, which no one hash tells of
    if top is not None and files:
        given = "".join(f"{name}\n" for name in files).encode(errors="surrogateescape")
        done = _run(top, env, "hash-object", "--stdin-paths", given=given, settings=_LOOK_YOURSELF)
        found = os.fsdecode(done.stdout).split()
        changed += [name for name, now in zip(files, [*found, *[""] * len(files)], strict=False) if now != files[name]]
    return tuple(changed)


def without_repository(env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which git asks about the folder that it is run in."""
    return {name: value for name, value in env.items() if name not in ABOUT_ANOTHER_REPOSITORY}


# What was


def checked_out(root: Path, *, env: Mapping[str, str] | None = None) -> tuple[str | None, str | None]:
    """Return the SHA that HEAD names, None before the first commit, and the branch, None where HEAD is detached.

    Raises:
        RepositoryUnreadable: no git, no repository, or git refuses.
    """
    _ask(root, env, "rev-parse", "--git-dir")  # tells an empty repository, which is no trouble, from none
    sha = _run(root, env, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    branch = _run(root, env, "symbolic-ref", "--quiet", "--short", "HEAD")
    return os.fsdecode(sha.stdout).strip() or None, os.fsdecode(branch.stdout).strip() or None


def cuts(root: Path, *, env: Mapping[str, str] | None = None) -> frozenset[str]:
    """Return the commits beyond which a shallow clone has no history; empty of a whole clone.

    Raises:
        RepositoryUnreadable: no git, no repository, or git refuses.
    """
    file = root / _ask(root, env, "rev-parse", "--git-path", "shallow").removesuffix("\n")
    try:
        return frozenset(file.read_text(encoding="ascii").split())
    except FileNotFoundError:
        return frozenset()
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(root, f"{file} cannot be read", "Make it a file that this user may read.") from error


def file_changes(
    root: Path, path: str, *, revision: str = "HEAD", dropped: bool = False, env: Mapping[str, str] | None = None
) -> tuple[FileChange, ...]:
    """Return the commits that led to what `revision` has at a path from the repository's top, newest first.

    Of a merge that took one side's file, that side. A merge that made a file of its own is one of the commits, and
    both sides are. With `dropped`, both sides of every merge: also what a merge dropped. No rename is followed.

    Raises:
        RepositoryUnreadable: no git, no repository, no such revision, or git refuses.
    """
    told = _history(root, env, *(("--full-history",) if dropped else ()), revision, "--", f":(top,literal){path}")
    return tuple(_changes(told))


def files_ever(root: Path, folder: str, *, env: Mapping[str, str] | None = None) -> set[str]:
    """Return every path, from the repository's top, that was ever in a folder, in the history of HEAD.

    Raises:
        RepositoryUnreadable: no git, no repository, no commit, or git refuses.
    """
    told = _history(root, env, "--full-history", "HEAD", "--", f":(top,literal){folder}")
    return {change.path for change in _changes(told)}


def deleted_by(root: Path, commit: str, *, env: Mapping[str, str] | None = None) -> Mapping[str, str]:
    """Return the blobs of the files that a commit of one parent deleted or moved away, by path from the top.

    Raises:
        RepositoryUnreadable: no git, no repository, no such commit, or git refuses.
    """
    words = ("diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-commit-id", "--no-renames", "--diff-filter=D")
    tokens = _ask(root, env, *words, commit, limit_s=HISTORY_LIMIT_S).split("\0")
    return {path: meta.split()[2] for meta, path in zip(tokens[::2], tokens[1::2], strict=False) if meta[:1] == ":"}


def read_blobs(
    root: Path, blobs: Collection[str], *, env: Mapping[str, str] | None = None, largest: int = LARGEST_BLOB
) -> Mapping[str, Blob]:
    """Return what blobs hold, each of them with its content or why it cannot be read: too large, or not there.

    Raises:
        RepositoryUnreadable: no git, or it takes too long.
    """
    sizes: dict[str, int] = {}
    found: dict[str, Blob] = {}
    asked = _batch(root, env, "--batch-check", blobs)
    for line in os.fsdecode(asked.stdout).splitlines():
        blob, kind, *size = line.split()
        if kind == "missing":
            found[blob] = Blob(content=None, fault="it is not in this clone")
        elif int(size[0]) > largest:
            found[blob] = Blob(content=None, fault=f"it has {int(size[0]):,} bytes")
        else:
            sizes[blob] = int(size[0])
    read = _batch(root, env, "--batch", sizes)
    rest = read.stdout
    for blob, size_bytes in sizes.items():
        head, newline, rest = rest.partition(b"\n")
        if not newline or not head.startswith(blob.encode()) or len(rest) < size_bytes:
            break
        found[blob] = Blob(content=rest[:size_bytes])
        rest = rest[size_bytes + 1 :]
    lines = os.fsdecode(asked.stderr + read.stderr).strip().splitlines()
    unread = Blob(content=None, fault=f"git cannot read it: {lines[0].rstrip('.')}" if lines else "git cannot read it")
    return {blob: found.get(blob, unread) for blob in blobs}


def differs_from_head(root: Path, path: str, *, env: Mapping[str, str] | None = None) -> bool:
    """Whether the file at a path from the repository's top is not as HEAD has it: changed, new, ignored or deleted.

    Raises:
        RepositoryUnreadable: no git, no repository, or git refuses.
    """
    words = ("status", "--porcelain=v2", "-z", "--untracked-files=all", "--ignored")
    return bool(_ask(root, env, *words, "--", f":(top,literal){path}"))


def _history(root: Path, env: Mapping[str, str] | None, *words: str) -> str:
    """Ask for the raw changes of commits, newest first, whatever the user's configuration of `git log` is."""
    settings = ("log.follow=false", "log.showRoot=true", "log.showSignature=false")
    fields = f"{_COMMIT}%x00%H%x00%P%x00%aI%x00%aN <%aE>%x00%s"
    form = ("-c", "--raw", "-z", "--no-abbrev", "--no-renames", "--no-color", "--encoding=UTF-8", f"--format={fields}")
    return _ask(root, env, "log", "--topo-order", *form, *words, settings=settings, limit_s=HISTORY_LIMIT_S)


_COMMIT: Final = "commit"
_FIELDS: Final = 5
"""Of a commit, behind the word `commit`: SHA, parents, time, author, subject."""


def _changes(told: str) -> Iterator[FileChange]:
    """Read what `_history` asked for: of each commit its fields, then of each file `:modes blobs status` and path.

    A merge has one colon, mode and blob for each parent.
    """
    tokens = iter(told.split("\0"))
    commit: list[str] = []
    for token in tokens:
        word = token.strip("\n")
        if word == _COMMIT:
            commit = [next(tokens) for _ in range(_FIELDS)]
        elif word.startswith(":"):
            sides = len(word) - len(word.lstrip(":"))
            parts = word.lstrip(":").split(" ")
            modes, blobs = parts[: sides + 1], parts[sides + 1 : 2 * sides + 2]
            sha, parents, at, author, subject = commit
            yield FileChange(
                commit=sha,
                parents=tuple(parents.split()),
                at=_moment(at),
                author=_text(author),
                subject=_text(subject),
                path=next(tokens),
                before=tuple(None if set(blob) == {"0"} else blob for blob in blobs[:-1]),
                blob=None if set(blobs[-1]) == {"0"} else blobs[-1],
                is_file=modes[-1].startswith("100"),
            )


def _moment(told: str) -> datetime | None:
    try:
        return datetime.fromisoformat(told).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _text(told: str) -> str:
    """Return what git printed as text that can be written anywhere."""
    return os.fsencode(told).decode(errors="replace")


def _batch(
    root: Path, env: Mapping[str, str] | None, form: str, blobs: Collection[str]
) -> subprocess.CompletedProcess[bytes]:
    given = "".join(f"{blob}\n" for blob in blobs).encode()
    return _run(root, env, "cat-file", form, given=given, limit_s=HISTORY_LIMIT_S)


def _why_no_checkout(root: Path, complaint: str, status: int) -> tuple[str, str]:
    """The cause and the next step, the surest sign first; git's last words where no sign is known."""
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    for sign, fact, next_step in _CHECKOUT_CAUSES:
        if any(sign in line for line in lines):
            return fact, next_step
    told = [line for line in lines if line.startswith(("fatal:", "error:"))] or lines
    fact = f"git worktree failed: {told[0].rstrip('.')}" if told else f"git worktree exited with {status}"
    return fact, f"See what git says: git -C {root} worktree add --detach FOLDER COMMIT"


_CHECKOUT_CAUSES: Final = (
    ("No space left on device", "the disk is full", "Free some space, then run again."),
    ("Disk quota exceeded", "the disk quota is used up", "Free some space, then run again."),
    ("Read-only file system", "the file system is read-only", "Run where the repository can be written to."),
    ("Permission denied", "this user may not write there or to .git", "Make both writable for this user."),
    ("git-lfs: not found", "its files need Git LFS, which is not installed", "Install git-lfs, or fetch them before."),
    (
        "smudge filter lfs failed",
        "Git LFS could not fetch its files",
        "Fetch them before (git lfs fetch origin COMMIT), or set GIT_LFS_SKIP_SMUDGE=1 and pull them in duet_setup.",
    ),
    (
        "promisor remote",
        "this clone is partial, and the files of that commit could not be fetched",
        "Clone without --filter, or let git reach its remote.",
    ),
)
"""What git prints, by sign: the fact and the next step."""


_PATHS_AS_WRITTEN: Final = {f"GIT_{kind}_PATHSPECS": "0" for kind in ("LITERAL", "GLOB", "NOGLOB", "ICASE")}
"""`git --literal-pathspecs` hands itself on to hooks: `:(top)` would be a file's name."""


def _configured(root: Path, env: Mapping[str, str] | None, key: str) -> str:
    try:
        return _ask(root, env, "config", "--get", key).strip()
    except RepositoryUnreadable:
        return ""


def _ask(
    root: Path,
    env: Mapping[str, str] | None,
    *question: str,
    settings: tuple[str, ...] = (),
    limit_s: float | None = None,
) -> str:
    """Run one git command in `root` and return what it printed; undecodable bytes come as surrogates."""
    done = _run(root, env, *question, settings=settings, limit_s=limit_s)
    if done.returncode != 0:
        raise _refused(root, question[0], os.fsdecode(done.stderr), done.returncode)
    return os.fsdecode(done.stdout)


def _run(
    root: Path,
    env: Mapping[str, str] | None,
    *question: str,
    settings: tuple[str, ...] = (),
    limit_s: float | None = None,
    given: bytes = b"",
) -> subprocess.CompletedProcess[bytes]:
    """Run one git command in `root` to its end, good or bad; `settings` come before the repository's own."""
    # GIT_OPTIONAL_LOCKS: status must not write the index under the user's own git.
    fixed = {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", **_PATHS_AS_WRITTEN}
    limit_s = TIME_LIMIT_S if limit_s is None else limit_s
    try:
        return subprocess.run(
            ("git", "--no-pager", *(word for setting in settings for word in ("-c", setting)), *question),
            cwd=root,
            env=without_repository(os.environ if env is None else env) | fixed,
            input=given,
            capture_output=True,
            timeout=limit_s,
            check=False,
        )
    except FileNotFoundError as error:
        if not root.is_dir():
            raise _unreadable(root, "there is no such folder", "Run perfgate inside the project.") from error
        raise _unreadable(root, "there is no git on the PATH", "Install git.") from error
    except subprocess.TimeoutExpired as error:
        fact = f"git {question[0]} took longer than {limit_s:g} s"
        raise _unreadable(root, fact, f"See what it waits for: git -C {root} {question[0]}") from error
    except OSError as error:
        raise _unreadable(root, f"git could not be started: {error.strerror}", "Install git.") from error


def _refused(root: Path, verb: str, complaint: str, status: int) -> RepositoryUnreadable:
    if "dubious ownership" in complaint or "safe.directory" in complaint:
        named = re.search(r"in repository at '(.*)'", complaint)
        return _unreadable(
            root,
            "git refuses it, since it belongs to another user",
            f"If you trust it: git config --global --add safe.directory {root if named is None else named[1]}",
        )
    if "not a git repository" in complaint:
        return _unreadable(root, "it is not in a git repository", "Run perfgate in a checkout of the project.")
    lines = complaint.strip().splitlines()
    fact = f"git {verb} failed: {lines[0].rstrip('.')}" if lines else f"git {verb} exited with {status}"
    return _unreadable(root, fact, f"See what git says: git -C {root} {verb}")


def _unreadable(root: Path, fact: str, next_step: str) -> RepositoryUnreadable:
    return RepositoryUnreadable(
        subject=str(root),
        fact=fact,
        expectation="perfgate asks git which code it measures",
        next_step=next_step,
    )
