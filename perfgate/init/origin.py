"""Where a runner gets perfgate from: a git URL at a commit, or an archive at its hash; never by
name from an index.

Nobody is known to own the name `perfgate` in an index, so that a stranger's package could stand
under it.
"""

from __future__ import annotations

import ipaddress
import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from perfgate.model.note import Note, Severity, note

EXAMPLE: Final = "git+https://HOST/OWNER/perfgate.git@COMMIT"

_NAMED: Final = re.compile(r"perfgate(?:\[[\w, -]*\])?\s*@\s*", re.IGNORECASE)
_AT_COMMIT: Final = re.compile(r"(.+)@([0-9a-f]{40}|[0-9a-f]{64})")
_HASH: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """Where perfgate comes from."""

    url: str | None
    """As pip takes it behind `perfgate @`; None where nothing is known that a runner can reach."""
    notes: tuple[Note, ...] = ()
    """What to know of the URL; without one, the first is why."""

    @property
    def unknown(self) -> Note:
        """What to do where no runner can reach it."""
        return note("origin-unknown", Severity.WARN, why=self.notes[0], command=command())


def origin_of(direct_url: str | None) -> Origin:
    """Return where this perfgate was installed from, by PEP 610's direct_url.json; None is an
    index's."""
    if direct_url is None:
        return _none("origin-by-name")
    try:
        held = json.loads(direct_url)
        url, vcs, archive = str(held["url"]), held.get("vcs_info"), held.get("archive_info")
        folder = held.get("subdirectory")
        below = f"subdirectory={folder}" if isinstance(folder, str) and folder else ""
        if isinstance(vcs, dict):
            return checked_origin(f"{vcs['vcs']}+{url}@{vcs['commit_id']}#{below}")
        if url.startswith("file:"):
            return _none("origin-of-this-machine")
        sha256 = _sha256(archive) if isinstance(archive, dict) else ""
    except (ValueError, KeyError, TypeError, AttributeError):
        return _none("origin-no-address")
    return checked_origin(f"{url.partition('#')[0]}#{'&'.join(filter(None, (sha256, below)))}")


def folder_of(direct_url: str | None) -> Path | None:
    """Return the folder of this machine that this perfgate was installed from, if it was."""
    try:
        held = json.loads(direct_url or "null")
        parts = urlsplit(str(held["url"]))
    except (ValueError, KeyError, TypeError):
        return None
    return Path(unquote(parts.path)) if parts.scheme == "file" and "dir_info" in held else None


def checked_origin(text: str) -> Origin:
    """Return the origin that a text names, or why it is none that a runner can reach and that stays
    what it is."""
    address = _NAMED.sub("", text.strip(), count=1)
    is_git = address.startswith("git+")
    try:
        parts = urlsplit(address.removeprefix("git+"))
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return _none("origin-no-address")
    schemes = {"https", "http", "ssh"} if is_git else {"https", "http"}
    is_one = address.isprintable() and " " not in address and parts.scheme in schemes
    if not is_one or not host:
        return _none("origin-no-address")
    if _is_this_machine(host):
        return _none("origin-of-this-machine")
    if parts.query:
        return _none("origin-with-query")  # which may be a secret
    named = dict(one.partition("=")[::2] for one in parts.fragment.split("&"))
    kept = {key: named[key] for key in ("sha256", "subdirectory") if named.get(key)}
    if is_git:
        kept.pop("sha256", None)
    if is_git and not _AT_COMMIT.fullmatch(parts.path):
        return _none("origin-without-commit")
    if not is_git and not _HASH.fullmatch(kept.get("sha256", "")):
        return _none("origin-without-hash")
    netloc = _without_credentials(parts)
    fragment = "&".join(f"{key}={value}" for key, value in kept.items())
    bare = urlunsplit(parts._replace(netloc=netloc, fragment=fragment))
    notes = [note("origin-held-password")] if netloc != parts.netloc else []
    if parts.scheme == "ssh":
        notes.append(note("origin-by-ssh", host=netloc))
    return Origin(url=f"git+{bare}" if is_git else bare, notes=tuple(notes))


def command(url: str = EXAMPLE) -> str:
    """Return the command that names an origin."""
    return f"perfgate init --force --install-from {shlex.quote(url)}"


def _none(code: str) -> Origin:
    return Origin(url=None, notes=(note(code),))


def _is_this_machine(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _sha256(archive: dict[str, object]) -> str:
    hashes = archive.get("hashes")
    found = hashes.get("sha256") if isinstance(hashes, dict) else None
    return f"sha256={found}" if found else str(archive.get("hash") or "")


def _without_credentials(parts: SplitResult) -> str:
    """A host without a password, and without the user of an https one, who may be a token."""
    user, _, host = parts.netloc.rpartition("@")
    return f"{user.partition(':')[0]}@{host}" if user and parts.scheme == "ssh" else host
