"""What the words of a command may be: a name that a workload can have, a path that a file can have."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Final, Literal

import click
from click import Context, Parameter

KEPT: Final = ":kept"
"""Behind a workload's name: its newest kept result."""


def workload_name(word: str) -> str:
    """A workload's id as it was typed.

    Raises:
        click.BadParameter: it is empty.
    """
    if not word:
        raise click.BadParameter(
            "it is empty, and every workload has a name. See what there is: perfgate show"
        )
    return word


def subject_name(word: str) -> str:
    """What is to be compared, as it was typed: a path, a workload's id, or that with `:kept` behind it.

    Raises:
        click.BadParameter: it is empty, or names no workload.
    """
    workload_name(word.removesuffix(KEPT))
    return word


class FilePath(click.Path):
    """A path of a file or folder, whether or not that is there."""

    def convert(
        self, value: str | os.PathLike[str], param: Parameter | None, ctx: Context | None
    ) -> Path:
        """Refuse what no file is called, and what this user cannot even look for."""
        path = Path(value)
        try:
            os.lstat(value)
        except (FileNotFoundError, NotADirectoryError):
            if not os.fspath(value):
                self.fail("it is empty, and every file has a name.", param, ctx)
        except OSError as refused:
            self.fail(f"{path} cannot be looked at ({refused.strerror or refused}).", param, ctx)
        return path


PATH: Final = FilePath(path_type=Path)


AUTO: Final = "auto"


class Held(click.ParamType[float | Literal["auto"]]):
    """A budget: a percentage, or what can be held."""

    name = "held"

    def convert(
        self, value: str | float, param: click.Parameter | None, ctx: click.Context | None
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
            self.fail(
                f"{value!r} is no budget: expected auto, or a percentage as in 8%.", param, ctx
            )
        return fraction


HELD: Final = Held()
