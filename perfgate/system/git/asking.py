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
from perfgate.system.files import refused_as

Env = Mapping[str, str] | None
"""The environment of git; None is that of this process."""
TIME_LIMIT_S: Final = 30.0
LIMITS_S: Final[Mapping[str, float]] = {
    "log": 300.0,
    "cat-file": 300.0,
    "worktree": 600.0,
}
"""What a walk through the history of a large repository may take, and a checkout: some files a
filter has to fetch."""
_SETTINGS: Final = (
    *("core.hooksPath=/dev/null", "core.fsmonitor=false", "submodule.recurse=false"),
    *("credential.interactive=false", "gc.auto=0", "maintenance.auto=false"),
    *("log.follow=false", "log.showSignature=false", "core.quotePath=false"),
)
"""Nothing of the project's runs by what is asked: a watcher of files, say, is a program of the
user's, or of whoever had the checkout before."""
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
    given: bytes = b"",
) -> str:
    """Run one git command in `root` and return what it printed; undecodable bytes come as
    surrogates. It reads what is `given`; settings come before the repository's own.

    Raises:
        RepositoryUnreadable: no git, it takes too long, or it refuses.
    """
    verb = question[0]
    limit_s = limit_s or LIMITS_S.get(verb, TIME_LIMIT_S)
    settings_words = (word for setting in (*_SETTINGS, *settings) for word in ("-c", setting))
    try:
        with (
            refused_as(RepositoryUnreadable, "git-not-started", root=str(root)),
            subprocess.Popen(
                ("git", "--no-pager", *settings_words, *question),
                cwd=root,
                env=without_repository(os.environ if env is None else env) | _FIXED,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            ) as process,
        ):
            try:
                out, err = process.communicate(given, timeout=limit_s)
            except BaseException:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # with ssh, a helper for https
                raise
    except subprocess.TimeoutExpired as error:
        raise RepositoryUnreadable(
            "git-timed-out", root=str(root), verb=verb, limit_s=limit_s
        ) from error
    if process.returncode != 0:
        raise _refused(root, verb, process.returncode, os.fsdecode(err))
    return os.fsdecode(out)


def objects(root: Path, env: Env, kind: str, names: Sequence[str]) -> list[bytes | None]:
    """The content of objects, by name; None where there is no object of that kind.

    Raises:
        RepositoryUnreadable: no git, no repository, or it takes too long.
    """
    given = os.fsencode("".join(f"{name}\n" for name in names))
    rest = os.fsencode(ask(root, env, "cat-file", "--batch", given=given))
    found: list[bytes | None] = []
    for _ in names:
        head, _, rest = rest.partition(b"\n")
        *_, kind_there, size = head.split(b" ")
        content = None
        if size.isdigit():  # else "missing"
            content, rest = rest[: int(size)], rest[int(size) + 1 :]
        found.append(content if kind_there == kind.encode() else None)
    return found


_KNOWN: Final = {
    "not a git repository": "no-repository",
    "must be run in a work tree": "not-in-checkout",
    "does not have any commits yet": "no-commit-yet",
}
"""What git says, and the code that this has."""


def _refused(root: Path, verb: str, status: int, said: str) -> RepositoryUnreadable:
    """What to raise where git did not do what it was asked."""
    if "dubious ownership" in said or "safe.directory" in said:
        named = re.search(r"in repository at '(.*)'", said)
        owned = str(root) if named is None else named[1]
        return RepositoryUnreadable("repository-of-another-user", root=str(root), folder=owned)
    for text, code in _KNOWN.items():
        if text in said:
            return RepositoryUnreadable(code, root=str(root))
    # It may quote a URL with a password.
    lines = [line.strip() for line in Cleaner(os.environ).clean(said).splitlines() if line.strip()]
    first = [line for line in lines if line.startswith(("fatal:", "error:"))] or lines
    why = printable(first[0].rstrip(".")) if first else f"exit status {status}"
    return RepositoryUnreadable("git-failed", root=str(root), verb=verb, why=why)


def printable(text: str) -> str:
    """Return what git printed as text that can be written anywhere."""
    return os.fsencode(text).decode(errors="replace")
