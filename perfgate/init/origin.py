"""Where a runner gets perfgate from: a git URL at a commit, or an archive at its hash; never by name from an index.

Nobody is known to own the name `perfgate` in an index, so that a stranger's package could stand under it.
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

OPTION: Final = "--install-from"
EXAMPLE: Final = "git+https://HOST/OWNER/perfgate.git@COMMIT"
UNKNOWN: Final = "perfgate init does not know where a runner gets perfgate from"
"""By this sentence the install step fails, and is known again."""

_NAMED: Final = re.compile(r"perfgate(?:\[[\w, -]*\])?\s*@\s*", re.IGNORECASE)
_AT_COMMIT: Final = re.compile(r"(.+)@([0-9a-f]{40}|[0-9a-f]{64})")
_HASH: Final = re.compile(r"sha256=([0-9a-f]{64})")


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """Where perfgate comes from."""

    url: str | None
    """As pip takes it behind `perfgate @`; None where nothing is known that a runner can reach."""
    remarks: tuple[str, ...] = ()
    why_not: str = ""
    """Without a URL: a clause without its full stop."""


def origin_of(direct_url: str | None) -> Origin:
    """Return where this perfgate was installed from, by PEP 610's direct_url.json; None is an index's."""
    if direct_url is None:
        return Origin(
            url=None, why_not="this perfgate was installed by its name, which says not from where"
        )
    unreadable = Origin(url=None, why_not="how this perfgate was installed cannot be read")
    try:
        told = json.loads(direct_url)
        url, vcs, archive = str(told["url"]), told.get("vcs_info"), told.get("archive_info")
        subdirectory = told.get("subdirectory")
        below = (
            f"subdirectory={subdirectory}" if isinstance(subdirectory, str) and subdirectory else ""
        )
        if isinstance(vcs, dict):
            return checked_origin(f"{vcs['vcs']}+{url}@{vcs['commit_id']}#{below}")
        if url.startswith("file:"):
            return Origin(
                url=None,
                why_not="this perfgate was installed from a folder or file of this machine",
            )
        sha256 = _sha256(archive) if isinstance(archive, dict) else ""
    except (ValueError, KeyError, TypeError, AttributeError):
        return unreadable
    return checked_origin(f"{url.partition('#')[0]}#{'&'.join(filter(None, (sha256, below)))}")


def folder_of(direct_url: str | None) -> Path | None:
    """Return the folder of this machine that this perfgate was installed from, if it was."""
    try:
        told = json.loads(direct_url or "null")
        parts = urlsplit(str(told["url"]))
    except (ValueError, KeyError, TypeError):
        return None
    return Path(unquote(parts.path)) if parts.scheme == "file" and "dir_info" in told else None


def checked_origin(text: str) -> Origin:
    """Return the origin that a text names, or why it is none that a runner can reach and that stays what it is."""
    said = _NAMED.sub("", text.strip(), count=1)
    if not said.isprintable() or re.search(r"\s", said):
        return Origin(url=None, why_not="the address holds blanks or control characters")
    is_git = said.startswith("git+")
    try:
        parts = urlsplit(said.removeprefix("git+"))
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return Origin(url=None, why_not="the address cannot be read")
    schemes = {"https", "http", "ssh"} if is_git else {"https", "http"}
    if parts.scheme not in schemes or not host:
        return Origin(
            url=None,
            why_not="the address is neither a git URL (git+https://, git+ssh://) nor https://",
        )
    if _is_this_machine(host):
        return Origin(url=None, why_not=f"{host} is this machine, which a runner does not reach")
    if parts.query:
        return Origin(url=None, why_not="the address holds a query, which may be a secret")
    found = dict(one.partition("=")[::2] for one in parts.fragment.split("&"))
    kept = [f"subdirectory={found['subdirectory']}"] if found.get("subdirectory") else []
    if is_git:
        at = _AT_COMMIT.fullmatch(parts.path)
        if at is None:
            return Origin(
                url=None,
                why_not="the git URL does not end with a whole commit: @ and 40 hexadecimal digits",
            )
    elif not _HASH.fullmatch(f"sha256={found.get('sha256', '')}"):
        return Origin(
            url=None, why_not="the archive's hash is not known: its address ends with #sha256=HASH"
        )
    else:
        kept.insert(0, f"sha256={found['sha256']}")
    netloc, remarks = _without_credentials(parts)
    bare = urlunsplit(parts._replace(netloc=netloc, fragment="&".join(kept)))
    if parts.scheme == "ssh":
        remarks = (
            *remarks,
            f"perfgate is installed from {netloc} by ssh: the runners need a key for it.",
        )
    return Origin(url=f"git+{bare}" if is_git else bare, remarks=remarks)


def asked_for(why_not: str) -> str:
    """Return what to tell where no runner can reach the origin: one sentence, whose command ends its line."""
    return f"{UNKNOWN} ({why_not}). Name it: {command()}"


def command(url: str = EXAMPLE) -> str:
    """Return the command that names an origin."""
    return f"perfgate init --force {OPTION} {shlex.quote(url)}"


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
    told = hashes.get("sha256") if isinstance(hashes, dict) else None
    return f"sha256={told}" if told else str(archive.get("hash") or "")


def _without_credentials(parts: SplitResult) -> tuple[str, tuple[str, ...]]:
    """A host without a password, and without the user of an https one, who may be a token."""
    user, at, host = parts.netloc.rpartition("@")
    if not at or (parts.scheme == "ssh" and ":" not in user):
        return parts.netloc, ()
    kept = f"{user.partition(':')[0]}@{host}" if parts.scheme == "ssh" else host
    return kept, ("perfgate's URL held a password here, which was left out.",)
