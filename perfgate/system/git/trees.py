"""The tree of a commit as it would be without the baselines, which blessing changes: by it a squash
is known again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath

from perfgate.system.git.asking import ask, objects
from perfgate.system.git.files import prefix


def code_tree(root: Path, sha: str, *, baselines: str, env: Mapping[str, str] | None = None) -> str:
    """Return the SHA of a commit's tree as it would be without the folder of the baselines.

    Raises:
        RepositoryUnreadable: no git, no repository, no such commit, or git refuses.
    """
    tree = ask(root, env, "rev-parse", "--verify", "--quiet", f"{sha}^{{tree}}").strip()
    return without_baselines(root, [tree], baselines, env=env).get(tree, tree)


def without_baselines(
    root: Path, trees: Sequence[str], baselines: str, *, env: Mapping[str, str] | None = None
) -> Mapping[str, str]:
    """Return the SHA of each tree as it would be without that folder, by its own; of one that
    cannot be read, nothing.

    Raises:
        RepositoryUnreadable: no git, no repository, or git refuses.
    """
    folder = PurePath(os.path.normpath(baselines))
    if folder.is_absolute() or not folder.parts or ".." in folder.parts:
        return {}
    parts = (prefix(root, env=env) / folder).parts
    above = ["/".join(parts[:level]) for level in range(len(parts))]
    found = objects(root, env, [f"{tree}:{path}" for tree in trees for path in above])
    contents = [None if one is None or one[0] != b"tree" else one[1] for one in found]
    reduced = {}
    for place, tree in enumerate(trees):
        levels = contents[place * len(parts) : (place + 1) * len(parts)]
        if levels[0] is not None:
            reduced[tree] = _sha_without(levels, parts, tree)
    return reduced


def _sha_without(levels: Sequence[bytes | None], parts: Sequence[str], tree: str) -> str:
    """The SHA of a tree, by the contents of the folders that lead to the one that is left out."""
    width = len(tree) // 2
    new: bytes | None = None
    for content, part in zip(reversed(levels), reversed(parts), strict=True):
        if content is None:
            continue
        kept = b""
        for mode, name, sha in _entries(content, width):
            now = new if name == os.fsencode(part) else sha
            if now is not None:
                kept += mode + b" " + name + b"\0" + now
        made = hashlib.new("sha1" if width == 20 else "sha256", usedforsecurity=False)
        made.update(b"tree %d\0" % len(kept) + kept)
        new = made.digest() if kept else None
    return tree if new is None else new.hex()


def _entries(content: bytes, width: int) -> Iterator[tuple[bytes, bytes, bytes]]:
    while content:
        head, _, rest = content.partition(b"\0")
        mode, _, name = head.partition(b" ")
        yield mode, name, rest[:width]
        content = rest[width:]
