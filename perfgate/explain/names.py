"""Kernel names that people can read: demangled C++ names without what says nothing; it must not know any metric."""

from __future__ import annotations

import hashlib
import re
from typing import Final

KEPT: Final = 100
"""Characters of a name that a baseline keeps, besides the digest."""
DIGEST: Final = 6
"""Hexadecimal digits that tell apart names which read alike."""

_QUALIFIER: Final = re.compile(r"(?:\b[A-Za-z_]\w*::|\(anonymous namespace\)::|<unnamed>::)+(?=[A-Za-z_~{(<])")
_RETURNED: Final = re.compile(r"(?<![\w*&] )(?<![\w(])(?:void|auto|static|__global__) (?=[A-Za-z_~{(<])")
_CAST: Final = re.compile(r"\((?:unsigned |signed )?(?:bool|char|short|int|long|long long)\)(?=-?\d)")
"""nsys writes a template's numbers as `(int)4`."""
_SPACES: Final = re.compile(r"\s+")
_KEY: Final = re.compile(rf" #[0-9a-f]{{{DIGEST}}}\Z")


def short(name: str) -> str:
    """The name without return type, namespaces and parameters; any name that is no C++ name stays as it is.

    `void at::native::fill<4, at::native::Fill<float>>(int, float*)` becomes `fill<4, Fill<float>>`.
    """
    told = _without_parameters(_SPACES.sub(" ", name.strip()))
    for noise in (_QUALIFIER, _RETURNED, _CAST):
        told = noise.sub("", told)
    return told.replace("> >", ">>") or name


def key(name: str) -> str:
    """What a baseline keeps of a name: readable, and another one for every other name.

    A name that reads in full and is short stays as it is, and so does a key; to others the start of their SHA-256 is
    appended.
    """
    if _KEY.search(name):
        return name
    told = short(name)
    if told == name and len(name) <= KEPT:
        return name
    room = told if len(told) <= KEPT else f"{told[: KEPT - 3]}..."
    return f"{room} #{hashlib.sha256(name.encode()).hexdigest()[:DIGEST]}"


def _without_parameters(name: str) -> str:
    """Cut off the parameter list at a name's end, if its parentheses match; what stands in angle brackets stays."""
    if not name.endswith(")"):
        return name
    depth = 0
    for place in range(len(name) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(name[place], 0)
        if depth == 0:
            return name[:place] if place and name[place - 1] not in " ,<(" else name
    return name
