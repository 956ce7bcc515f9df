"""Names of workloads and machines as names of files, and back."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote, unquote

LONGEST_NAME: Final = 200
"""Bytes of a file name before `.json`; file systems take 255."""
NEAR_NAMES: Final = 3
"""Ids that a misspelt one may have meant, that are told."""


def file_name(name: str) -> str:
    """Return a workload's id as a file name without suffix: `mlp[4-64]`, `a%2Fb`; undone by
    `workload_of`.

    Letters, digits and `- _ . = , [ ]` stay, anything else (and a leading dot) is percent-encoded
    as UTF-8. A name of more than 200 bytes is cut and ends in `~` and 16 hex digits of its SHA-256.

    Raises:
        ValueError: the id is empty.
    """
    if not name:
        raise ValueError("A workload without an id has no file name.")
    encoded = quote(name, safe="[]=,", errors="surrogatepass").replace("~", "%7E")
    if encoded.startswith("."):
        encoded = "%2E" + encoded[1:]
    if len(encoded) <= LONGEST_NAME:
        return encoded
    tail = "~" + hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:16]
    head = encoded[: LONGEST_NAME - len(tail)]
    return re.sub(r"%[0-9A-F]?$", "", head) + tail


def near_names(workload: str, known: Sequence[str]) -> list[str]:
    """Return the known ids that one may have meant, three at most: those of its parameters, else
    those like it."""
    of_it = [name for name in known if name.startswith(f"{workload}[")]
    return of_it[:NEAR_NAMES] or difflib.get_close_matches(workload, known, n=NEAR_NAMES)


def workload_of(encoded: str) -> str | None:
    """Return the id that `file_name` made a name of, None where it was cut; of a name that it never
    made, the name."""
    try:
        return None if "~" in encoded else unquote(encoded, errors="surrogatepass")
    except UnicodeDecodeError:
        return encoded
