"""How git is asked: the only file that runs it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from perfgate.model.errors import RepositoryUnreadable
from perfgate.model.secrets import Cleaner

Env = Mapping[str, str] | None
"""The environment of git; None is that of this process."""
TIME_LIMIT_S: Final = 30.0
HISTORY_LIMIT_S: Final = 300.0
"""What a walk through the history of a large repository may take."""
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
"""What git sets for its hooks: a gate started from one must ask about `root`. GIT_CONFIG_* stays:
CI passes safe.directory by it."""
_FIXED: Final = {
    "LC_ALL": "C",
    "GIT_OPTIONAL_LOCKS": "0",  # status must not write the index under the user's own git
    # A remote that wants a password has nobody to ask.
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "false",
    "SSH_ASKPASS": "false",
    "SSH_ASKPASS_REQUIRE": "never",
    # `git --literal-pathspecs` hands itself on to hooks: `:(top)` would be a file's name.
    **{f"GIT_{kind}_PATHSPECS": "0" for kind in ("LITERAL", "GLOB", "NOGLOB", "ICASE")},
}


def without_repository(env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which git asks about the folder that it is run in."""
    return {name: value for name, value in env.items() if name not in ABOUT_ANOTHER_REPOSITORY}


def ask(
    root: Path,
    env: Env,
    *question: str,
    settings: tuple[str, ...] = (),
    limit_s: float | None = None,
) -> str:
    """Run one git command in `root` and return what it printed; undecodable bytes come as
    surrogates.

    Raises:
        RepositoryUnreadable: no git, it takes too long, or it refuses.
    """
    done = run(root, env, *question, settings=settings, limit_s=limit_s)
    if done.returncode != 0:
        raise refused(root, question[0], done)
    return os.fsdecode(done.stdout)


def run(
    root: Path,
    env: Env,
    *question: str,
    settings: tuple[str, ...] = (),
    limit_s: float | None = None,
    given: bytes = b"",
) -> subprocess.CompletedProcess[bytes]:
    """Run one git command in `root` to its end, good or bad; `settings` come before the
    repository's own.

    Raises:
        RepositoryUnreadable: no git, or it takes too long.
    """
    limit_s = TIME_LIMIT_S if limit_s is None else limit_s
    settings_words = (word for setting in settings for word in ("-c", setting))
    argv = ("git", "--no-pager", *settings_words, *question)
    try:
        with subprocess.Popen(
            argv,
            cwd=root,
            env=without_repository(os.environ if env is None else env) | _FIXED,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        ) as process:
            try:
                out, err = process.communicate(given, timeout=limit_s)
            except BaseException:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # with ssh, a helper for https
                raise
        return subprocess.CompletedProcess(argv, process.returncode, out, err)
    except subprocess.TimeoutExpired as error:
        raise RepositoryUnreadable(
            "git-timed-out", root=str(root), verb=question[0], limit_s=limit_s
        ) from error
    except OSError as error:
        raise RepositoryUnreadable(
            "git-not-started", root=str(root), why=error.strerror or str(error)
        ) from error


def objects(
    root: Path, env: Env, kind: bytes, names: Sequence[str], *, limit_s: float | None = None
) -> list[bytes | None]:
    """The content of objects, by name; None where there is no object of that kind.

    Raises:
        RepositoryUnreadable: no git, or it takes too long.
    """
    given = os.fsencode("".join(f"{name}\n" for name in names))
    rest = run(root, env, "cat-file", "--batch", given=given, limit_s=limit_s).stdout
    found: list[bytes | None] = []
    for _ in names:
        head, _, rest = rest.partition(b"\n")
        *_, kind_there, size = head.split(b" ")
        if size.isdigit():
            found.append(rest[: int(size)] if kind_there == kind else None)
            rest = rest[int(size) + 1 :]
        else:  # "missing"
            found.append(None)
    return found


def refused(
    root: Path, verb: str, done: subprocess.CompletedProcess[bytes]
) -> RepositoryUnreadable:
    """What to raise where git did not do what it was asked."""
    said = os.fsdecode(done.stderr)
    if "dubious ownership" in said or "safe.directory" in said:
        named = re.search(r"in repository at '(.*)'", said)
        owned = str(root) if named is None else named[1]
        return RepositoryUnreadable("repository-of-another-user", root=str(root), folder=owned)
    if "not a git repository" in said:
        return RepositoryUnreadable("no-repository", root=str(root))
    # It may quote a URL with a password.
    lines = [line.strip() for line in Cleaner(os.environ).clean(said).splitlines() if line.strip()]
    first = [line for line in lines if line.startswith(("fatal:", "error:"))] or lines
    why = printable(first[0].rstrip(".")) if first else f"exit status {done.returncode}"
    return RepositoryUnreadable("git-failed", root=str(root), verb=verb, why=why)


def printable(text: str) -> str:
    """Return what git printed as text that can be written anywhere."""
    return os.fsencode(text).decode(errors="replace")
