"""What git says of the measured code; the only file that runs git, and it never writes."""

from __future__ import annotations

import getpass
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Final

from perfgate.model.baseline import Commit
from perfgate.model.errors import RepositoryUnreadable

TIME_LIMIT_S: Final = 30.0

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


def _configured(root: Path, env: Mapping[str, str] | None, key: str) -> str:
    try:
        return _ask(root, env, "config", "--get", key).strip()
    except RepositoryUnreadable:
        return ""


def _ask(root: Path, env: Mapping[str, str] | None, *question: str) -> str:
    """Run one git command in `root` and return what it printed; undecodable bytes come as surrogates."""
    given = os.environ if env is None else env
    environment = {name: value for name, value in given.items() if name not in ABOUT_ANOTHER_REPOSITORY}
    # GIT_OPTIONAL_LOCKS: status must not write the index under the user's own git.
    environment |= {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    command = ("git", "--no-pager", *question)
    try:
        done = subprocess.run(
            command,
            cwd=root,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIME_LIMIT_S,
            check=False,
        )
    except FileNotFoundError as error:
        if not root.is_dir():
            raise _unreadable(root, "there is no such folder", "Run perfgate inside the project.") from error
        raise _unreadable(root, "there is no git on the PATH", "Install git.") from error
    except subprocess.TimeoutExpired as error:
        fact = f"git {question[0]} took longer than {TIME_LIMIT_S:g} s"
        raise _unreadable(root, fact, f"See what it waits for: git -C {root} {question[0]}") from error
    except OSError as error:
        raise _unreadable(root, f"git could not be started: {error.strerror}", "Install git.") from error
    if done.returncode != 0:
        raise _refused(root, question[0], os.fsdecode(done.stderr), done.returncode)
    return os.fsdecode(done.stdout)


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
