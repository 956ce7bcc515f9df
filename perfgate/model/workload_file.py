"""Reads `workloads/*.yaml`: an existing script as a workload, untouched. Runs nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator, Field, NonNegativeInt, PositiveFloat, ValidationError

from perfgate.model.errors import ConfigInvalid
from perfgate.model.given import refused, wrong
from perfgate.model.record import SomeText
from perfgate.model.settings import Settings
from perfgate.model.workload import CaptureWindow, Declarable, Workload

_SCRIPT: Final = re.compile(r"([^\s/'\"=]+\.py)\b|-m\W+(?:\w+\.)*(\w+)")
"""A Python file, or a module behind `-m`, among the words of a command."""
_Argument = Annotated[str, Field(pattern=r"^[^\x00]*$")]
_Variable = Annotated[str, Field(pattern=r"^[^\x00=]+$")]


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as broken:
        raise ValueError(str(broken)) from broken
    return text


class CommandFile(Declarable):
    """The keys of a YAML workload."""

    command: tuple[_Argument, ...] = Field(min_length=1)
    step: Annotated[SomeText, AfterValidator(_pattern)]
    steps: int = Field(ge=3)
    warmup: NonNegativeInt = 0
    timeout_s: PositiveFloat | None = None
    env: Mapping[_Variable, _Argument] = {}
    cwd: SomeText | None = None


def read_workload_file(file: Path, *, root: Path, settings: Settings) -> Workload:
    """Read one YAML workload; its id is the file's stem.

    Raises:
        ConfigInvalid: the file is no YAML mapping, or holds a key or value that is not accepted.
    """
    source = file.relative_to(root).as_posix() if file.is_relative_to(root) else str(file)
    try:
        declared = CommandFile.model_validate(_mapping(file, source))
    except ValidationError as invalid:
        raise refused(invalid, CommandFile, place=f"{source} ") from None
    if isinstance(declared.capture, CaptureWindow) and (declared.ahead or 1) > 1:
        raise wrong(f"{source} ahead", declared.ahead, "expects-alone")
    if declared.cwd is not None and not (root / declared.cwd).is_dir():
        raise wrong(f"{source} cwd", declared.cwd, "expects-existing-folder")
    given = {**dict(declared), "timeout_s": declared.timeout_s or settings.timeout_s}
    return Workload(id=file.stem, source=source, **given)


def scripts_of(files: Iterable[Path]) -> frozenset[str]:
    """The names of the Python files that the commands of YAML workloads run.

    They are run, and not imported: nobody has guarded what they do. A file that cannot be read
    names none.
    """
    found: set[str] = set()
    for file in files:
        try:
            command = str(_mapping(file, str(file)).get("command"))
        except ConfigInvalid:  # given where it is collected
            continue
        found |= {path or f"{module}.py" for path, module in _SCRIPT.findall(command)}
    return frozenset(found)


def _mapping(file: Path, source: str) -> Mapping[str, object]:
    from perfgate.model import yaml_file  # noqa: PLC0415 - few projects have such files

    return yaml_file.mapping(file, source)
