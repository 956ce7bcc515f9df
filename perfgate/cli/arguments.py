"""What the words of a command may be: a name that a workload can have, a path that a file can have."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Final, Literal

import click
from click import Context, Parameter

from perfgate.model.note import Note, Value
from perfgate.words import say

KEPT: Final = ":kept"
"""Behind a workload's name: its newest kept result."""


def bad(code: str, /, **fields: Value) -> click.BadParameter:
    """Return the error of a word that is not accepted."""
    return click.BadParameter(say.message(Note(code=code, fields=fields)))


def workload_name(word: str) -> str:
    """Return a workload's id as it was typed.

    Raises:
        click.BadParameter: it is empty.
    """
    if not word:
        raise bad("name-empty")
    return word


def subject_name(word: str) -> str:
    """Return what is to be compared, as it was typed: a path, an id, or that with `:kept`.

    Raises:
        click.BadParameter: it is empty, or names no workload.
    """
    workload_name(word.removesuffix(KEPT))
    return word


class FilePath(click.Path):
    """A path of a file or folder, whether or not that is there."""

    def convert(
        self,
        value: str | os.PathLike[str],
        param: Parameter | None,  # noqa: ARG002 - click gives it
        ctx: Context | None,  # noqa: ARG002 - click gives it
    ) -> Path:
        """Refuse what no file is called, and what this user cannot even look for."""
        path = Path(value)
        try:
            os.lstat(value)
        except (FileNotFoundError, NotADirectoryError):
            if not os.fspath(value):
                raise bad("path-empty") from None
        except OSError as refused:
            reason = refused.strerror or str(refused)
            raise bad("path-unseen", path=str(path), reason=reason) from None
        return path


PATH: Final = FilePath(path_type=Path)


AUTO: Final = "auto"


class Held(click.ParamType[float | Literal["auto"]]):
    """A budget: a percentage, or what can be held."""

    name = "held"

    def convert(
        self,
        value: str | float,
        param: click.Parameter | None,  # noqa: ARG002 - click gives it
        ctx: click.Context | None,  # noqa: ARG002 - click gives it
    ) -> float | Literal["auto"]:
        if isinstance(value, float):
            return value
        if value == AUTO:
            return AUTO
        try:
            fraction = float(value.removesuffix("%")) / 100
        except ValueError:
            fraction = math.nan
        if not 0 < fraction < 1:
            raise bad("hold-invalid", value=value)
        return fraction


HELD: Final = Held()
