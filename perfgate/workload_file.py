"""Reads `workloads/*.yaml`: an existing script as a workload, untouched. Runs nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import yaml
from pydantic import Field, ValidationError

from perfgate.model.errors import ConfigInvalid
from perfgate.model.metric import Metric
from perfgate.model.record import Record
from perfgate.model.settings import Settings
from perfgate.model.workload import CaptureMode, CaptureWindow, Workload
from perfgate.settings import check_budgets, check_keys, invalid_value


class CommandFile(Record):
    """The keys of a YAML workload."""

    command: tuple[str, ...] = Field(min_length=1)
    step: str = Field(min_length=1)
    steps: int = Field(ge=3)
    warmup: int = Field(default=0, ge=0)
    capture: CaptureMode | CaptureWindow = CaptureMode.CUDA_PROFILER_API
    timeout_s: float | None = Field(default=None, gt=0)
    budgets: Mapping[Metric, float] = {}
    pass_env: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    cwd: str | None = None


def read_workload_file(file: Path, *, root: Path, settings: Settings) -> Workload:
    """Read one YAML workload; its id is the file's stem.

    Raises:
        ConfigInvalid: the file is no YAML mapping, or holds a key or value that perfgate does not know.
    """
    source = file.relative_to(root).as_posix() if file.is_relative_to(root) else str(file)
    told = _mapping(file, source)
    check_keys(told, known=CommandFile.model_fields, subject=source)
    if isinstance(told.get("command"), str):
        raise ConfigInvalid(
            subject=f"{source} command",
            fact=f"it is the text {told['command']!r}",
            expectation="a list of words: no shell is involved",
            next_step=f"Write command: [{', '.join(str(told['command']).split())}].",
        )
    try:
        declared = CommandFile.model_validate(told)
    except ValidationError as invalid:
        first = invalid.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if not _is_type_name(part))
        raise invalid_value(first, subject=f"{source} {where}") from None
    try:
        re.compile(declared.step)
    except re.error as broken:
        raise ConfigInvalid(
            subject=f"{source} step",
            fact=f"{declared.step!r} is no regular expression ({broken})",
            next_step="Escape what is meant literally with a backslash.",
        ) from broken
    check_budgets(declared.budgets, subject=f"{source} budgets")
    return Workload(
        id=file.stem,
        source=source,
        command=declared.command,
        steps=declared.steps,
        warmup=declared.warmup,
        step=declared.step,
        capture=declared.capture,
        timeout_s=declared.timeout_s or settings.timeout_s,
        budgets=declared.budgets,
        pass_env=declared.pass_env,
        env=declared.env,
        cwd=declared.cwd,
    )


def _mapping(file: Path, source: str) -> dict[str, object]:
    try:
        told = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as broken:
        reason = " ".join(str(broken).split())
        raise ConfigInvalid(
            subject=source, fact=f"it cannot be read as YAML ({reason})", next_step="Correct the file."
        ) from broken
    if not isinstance(told, dict):
        raise ConfigInvalid(
            subject=source,
            fact=f"it holds {'nothing' if told is None else f'a {type(told).__name__}'}",
            expectation="a mapping with the keys command, step and steps",
            next_step="See the README for a YAML workload.",
        )
    return {str(key): value for key, value in told.items()}


def _is_type_name(part: object) -> bool:
    """Whether a piece of pydantic's location names a union's member rather than a key of the file."""
    return part == "CaptureWindow" or (isinstance(part, str) and part.startswith("enum"))
