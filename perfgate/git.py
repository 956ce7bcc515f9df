"""What git says of the measured code, and other commits checked out beside it; the only file that runs git.

It changes nothing of the user's: the one thing that it writes and removes is worktrees of perfgate's own.
"""

from __future__ import annotations

import getpass
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Final

from perfgate.model.baseline import Commit
from perfgate.model.errors import RepositoryUnreadable, RevisionMissing, WorktreeFailed

TIME_LIMIT_S: Final = 30.0
CHECKOUT_LIMIT_S: Final = 600.0
"""What a checkout may take: large repositories, files that a filter has to fetch."""

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
    count, since blessing writes them after the measurement.

    Raises:
        RepositoryUnreadable: no git, no repository, no commit, or git refuses (another owner's repository).
    """
    folder = PurePath(baselines)
    inside = not folder.is_absolute() and ".." not in folder.parts  # git refuses to exclude what lies elsewhere
    excluded = [f":(exclude,literal){folder.as_posix()}"] if inside else []
    question = ("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal", "--", ":(top)", *excluded)
    told = _ask(root, env, *question)
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

    Raises:
        RepositoryUnreadable: no git, no repository, or git refuses.
    """
    told = _ask(root, env, "ls-files", "-z", "--cached", "--", "*.py")
    return tuple(sorted({name for name in told.split("\0") if name and (root / name).is_file()}))


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
    raise RevisionMissing(
        subject=f"commit {revision or repr(revision)}",
        fact="it is not in this clone, which is shallow" if shallow else "it is not in this clone",
        expectation="A commit has to be there to be run again",
        next_step="Fetch the whole history: git fetch --unshallow; in GitHub Actions, set fetch-depth: 0 of checkout."
        if shallow
        else "Fetch it (git fetch --all), or bless anew if the history was rewritten.",
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


def is_tracked(root: Path, path: Path, *, env: Mapping[str, str] | None = None) -> bool:
    """Whether the repository around `root` tracks a file, or anything in a folder.

    Raises:
        RepositoryUnreadable: no git, no repository, or git refuses; a path outside the repository.
    """
    return bool(_ask(root, env, "ls-files", "-z", "--cached", "--", f":(literal){path}"))


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
        _run(root, env, "worktree", "prune")


def without_repository(env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which git asks about the folder that it is run in."""
    return {name: value for name, value in env.items() if name not in ABOUT_ANOTHER_REPOSITORY}


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


def _configured(root: Path, env: Mapping[str, str] | None, key: str) -> str:
    try:
        return _ask(root, env, "config", "--get", key).strip()
    except RepositoryUnreadable:
        return ""


def _ask(root: Path, env: Mapping[str, str] | None, *question: str) -> str:
    """Run one git command in `root` and return what it printed; undecodable bytes come as surrogates."""
    done = _run(root, env, *question)
    if done.returncode != 0:
        raise _refused(root, question[0], os.fsdecode(done.stderr), done.returncode)
    return os.fsdecode(done.stdout)


def _run(
    root: Path,
    env: Mapping[str, str] | None,
    *question: str,
    settings: tuple[str, ...] = (),
    limit_s: float | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run one git command in `root` to its end, good or bad; `settings` come before the repository's own."""
    # GIT_OPTIONAL_LOCKS: status must not write the index under the user's own git.
    fixed = {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    limit_s = TIME_LIMIT_S if limit_s is None else limit_s
    try:
        return subprocess.run(
            ("git", "--no-pager", *(word for setting in settings for word in ("-c", setting)), *question),
            cwd=root,
            env=without_repository(os.environ if env is None else env) | fixed,
            stdin=subprocess.DEVNULL,
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
        return _unreadable(
            root,
            "git refuses it, since it belongs to another user",
            f"If you trust it: git config --global --add safe.directory {root}",
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
