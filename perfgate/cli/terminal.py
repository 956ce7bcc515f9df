"""The terminal: the words that several commands take, and how commands print."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from perfgate.model.errors import PerfgateError, StoreFailed
from perfgate.model.note import Note, Value
from perfgate.model.secrets import Cleaner
from perfgate.words import escape, say

if TYPE_CHECKING:
    from perfgate.render.page import Page, Screen

PATH: Final = click.Path(path_type=Path)
_BEYOND_ASCII: Final = re.compile(r"[^\n -~]")


def screen() -> Screen:
    """Look at what is printed to; without an open stdout there is none."""
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    is_plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    width = shutil.get_terminal_size(fallback=(100, 24)).columns
    return {"width": width, "colour": is_terminal and not is_plain}


def new_page() -> Page:
    """An empty page as wide as what is printed to."""
    from perfgate.render.page import Page  # noqa: PLC0415 - slow, and no error needs it

    return Page(**screen())


def cleaned(text: str) -> str:
    """A text without the secrets of this environment, and without what looks like one."""
    return Cleaner(os.environ).clean(text)


def show(text: str, *, err: bool = False) -> None:
    """Print a text and a line end, without secrets and as the encoding of stdout can hold it."""
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    held = cleaned(text).encode(encoding, errors="backslashreplace").decode(encoding)
    _print(held.removesuffix("\n") + "\n", err=err)


def show_json(text: str) -> None:
    """Print JSON as ASCII, whatever it quotes, without secrets."""
    safe = escape.escape_json(cleaned(text))
    _print(_BEYOND_ASCII.sub(lambda found: json.dumps(found[0]).strip('"'), safe))


def _print(text: str, *, err: bool = False) -> None:
    try:
        click.echo(text, err=err, nl=False)
    except BrokenPipeError:
        raise  # whoever read has seen enough
    except OSError as refused:
        raise StoreFailed("stdout-refused", reason=refused.strerror or str(refused)) from refused


def show_error(error: PerfgateError) -> None:
    """Print an error: nothing that it quotes steers a terminal or a CI."""
    show(escape.message(f"perfgate: {error}"), err=True)


def usage(code: str, /, **fields: Value) -> click.UsageError:
    """Return the error of words that are not accepted, or do not go together."""
    return click.UsageError(say.message(Note(code=code, fields=fields)))
