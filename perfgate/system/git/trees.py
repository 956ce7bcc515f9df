"""The tree of a commit as it would be without the baselines, which blessing changes: by it a squash
is known again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath

from perfgate.system.git.asking import ask, run
from perfgate.system.git.files import prefix


def code_tree(root: Path, sha: str, *, baselines: str, env: Mapping[str, str] | None = None) -> str:
    """Return the SHA of a commit's tree as it would be without the folder of the baselines, which
    blessing changes.

    Raises:
        RepositoryUnreadable: no git, no repository, no such commit, or git refuses.
    """
    tree = ask(root, env, "rev-parse", "--verify", "--quiet", f"{sha}^{{tree}}").strip()
    return without_baselines(root, [tree], baselines, env=env).get(tree, tree)


def _inside(root: Path, baselines: str, env: Mapping[str, str] | None) -> tuple[str, ...]:
    """Where the baselines lie, from the top of the repository; nothing where they are not in the
    project."""
    folder = PurePath(os.path.normpath(baselines))
    if folder.is_absolute() or not folder.parts or ".." in folder.parts:
        return ()
    return (prefix(root, env=env) / folder).parts


def without_baselines(
    root: Path, trees: Sequence[str], baselines: str, *, env: Mapping[str, str] | None = None
) -> Mapping[str, str]:
    """Return the SHA of each tree as it would be without that folder, by its own; of one that
    cannot be read, nothing.

    Raises:
        RepositoryUnreadable: no git, no repository, or git refuses.
    """
    parts = _inside(root, baselines, env)
    if not parts:
        return {}
    levels = range(len(parts))
    asked = [
        f"{tree}:{'/'.join(parts[:level])}" if level else tree for tree in trees for level in levels
    ]
    given = os.fsencode("".join(f"{name}\n" for name in asked))
    answers = _read_trees(run(root, env, "cat-file", "--batch", given=given).stdout)
    found: dict[str, str] = {}
    for tree in trees:
        contents = [next(answers, None) for _ in levels]
        if contents[0] is not None:
            found[tree] = _sha_without(contents, parts, len(tree) // 2, tree)
    return found


def _sha_without(
    contents: Sequence[bytes | None], parts: Sequence[str], width: int, tree: str
) -> str:
    new: bytes | None = None
    for content, part in zip(reversed(contents), reversed(parts), strict=True):
        if content is None:
            continue
        kept = []
        for mode, name, sha in _entries(content, width):
            now = sha if name != os.fsencode(part) else new
            if now is not None:
                kept.append(mode + b" " + name + b"\0" + now)
        raw = b"".join(kept)
        made = hashlib.new(
            "sha1" if width == 20 else "sha256",
            b"tree %d\0" % len(raw) + raw,
            usedforsecurity=False,
        )
        new = made.digest() if kept else None
    return tree if new is None else new.hex()


def _entries(content: bytes, width: int) -> Iterator[tuple[bytes, bytes, bytes]]:
    while content:
        head, _, rest = content.partition(b"\0")
        mode, _, name = head.partition(b" ")
        yield mode, name, rest[:width]
        content = rest[width:]


def _read_trees(told: bytes) -> Iterator[bytes | None]:
    """What `git cat-file --batch` answered, one after the other; None for what is no tree, or not
    there."""
    while told:
        head, _, rest = told.partition(b"\n")
        *_, kind, last = head.split(b" ")
        if not last.isdigit():  # "missing"
            yield None
            told = rest
            continue
        size = int(last)
        yield rest[:size] if kind == b"tree" else None
        told = rest[size + 1 :]
