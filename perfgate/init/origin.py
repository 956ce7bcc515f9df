"""Where a runner gets perfgate from: a git URL at a commit, or an archive at its hash; never by
name from an index.

Nobody is known to own the name `perfgate` in an index, so that a stranger's package could stand
under it.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import Final

from perfgate.model.errors import ConfigInvalid

EXAMPLE: Final = "git+https://HOST/OWNER/perfgate.git@COMMIT"

_HOST: Final = r"(?!localhost\b|127\.|0\.0\.0\.0)[\w.-]+(?::\d+)?"
_FOLDER: Final = r"subdirectory=[\w./-]+"
_ADDRESS: Final = re.compile(
    rf"git\+(?:https?|ssh)://(?:\w+@)?{_HOST}/[\w./~%+-]+"
    rf"@(?:[0-9a-f]{{40}}|[0-9a-f]{{64}})(?:#{_FOLDER})?"
    rf"|https?://{_HOST}/[\w./~%+-]+#sha256=[0-9a-f]{{64}}(?:&{_FOLDER})?"
)
_CREDENTIALS: Final = re.compile(r"(?<=http://)[^/@]+@|(?<=https://)[^/@]+@")


def address_of(text: str) -> str | None:
    """Return an address as pip takes it behind `perfgate @`, without credentials; None of one that
    no runner reaches, or under which something else may lie tomorrow."""
    address = _CREDENTIALS.sub("", text.strip())
    return address if _ADDRESS.fullmatch(address) else None


def given_address(text: str) -> str:
    """Return the address that somebody names.

    Raises:
        ConfigInvalid: it is none.
    """
    address = address_of(text)
    if address is None:
        raise ConfigInvalid("install-from-odd", example=EXAMPLE)
    return address


def installed_from(direct_url: str | None) -> str | None:
    """Return where this perfgate was installed from, by PEP 610's direct_url.json; None of an
    index, and of what no runner reaches."""
    try:
        held = json.loads(direct_url or "")
        if "vcs_info" in held:
            vcs = held["vcs_info"]
            address, mark = f"{vcs['vcs']}+{held['url']}@{vcs['commit_id']}", "#"
        else:
            archive = held["archive_info"]
            hashes = archive.get("hashes") or dict([archive["hash"].split("=")])
            address, mark = f"{held['url']}#sha256={hashes['sha256']}", "&"
        if "subdirectory" in held:
            address += f"{mark}subdirectory={held['subdirectory']}"
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return address_of(address)


def command(address: str = EXAMPLE) -> str:
    """Return the command that names an address."""
    return f"perfgate init --force --install-from {shlex.quote(address)}"
