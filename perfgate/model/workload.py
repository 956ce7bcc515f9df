"""What a workload is once it is collected: the record that the gate, the worker and the store agree
on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Literal, NotRequired, TypedDict

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from perfgate.model.metric import Budgets
from perfgate.model.record import LONGEST_ID, Record

STEP_RANGE = "step"
"""The NVTX range of one measured turn of a decorated workload."""
WARMUP_RANGE = "perfgate warm-up"
"""The NVTX range of one warm-up turn; never matched as a step."""
START_RANGE = "perfgate start"
"""The empty NVTX range before the first measured turn: what follows it on its thread, by the step's
name, is perfgate's own."""
WAIT_RANGE = "perfgate wait"
"""The NVTX range, between two measured steps, in which one side of an A/B run waits while the other
takes its turn."""
END_RANGE = "perfgate end"
"""The empty NVTX range after the last measured turn: whatever begins after it is no longer
measured, although nsys goes on to record it.
"""
OWN_RANGES = (START_RANGE, WARMUP_RANGE, WAIT_RANGE, END_RANGE)
"""What perfgate draws around the steps; none of it is ever a step."""


LONGEST_S: Final = 86_400
"""Of a window by the clock and of the time before it; nsys 2024.2 refuses 50 days."""
TENTH_S: Final = 0.1
"""To which nsys rounds them."""


class CaptureMode(StrEnum):
    """What opens the capture window."""

    CUDA_PROFILER_API = "cudaProfilerApi"
    ALL = "all"


class CaptureWindow(Record):
    """A window by the clock: seconds from the start of the process, and how long."""

    delay: float = Field(ge=0, le=LONGEST_S, multiple_of=TENTH_S)
    duration: float = Field(gt=0, le=LONGEST_S, multiple_of=TENTH_S)


class StepRule(TypedDict):
    """Which NVTX ranges of a capture are the steps, and which of those are measured; see
    `metrics.steps.find_steps`."""

    step: str | None
    is_pattern: NotRequired[bool]
    warmup: NotRequired[int]
    steps: NotRequired[int | None]


class Declarable(Record):
    """What a decorator and a file may both say of a workload."""

    capture: CaptureMode | CaptureWindow = CaptureMode.CUDA_PROFILER_API
    ahead: int | None = Field(default=None, ge=1, le=16)
    """Runs that may be alive at once; where it is not said, as the project has it, and of a command
    one."""
    budgets: Budgets = {}
    """Budgets of this workload, as fractions; they come before the project's."""
    pass_env: tuple[str, ...] = ()


class Workload(Declarable):
    """One workload with its parameters resolved: one pytest item, one baseline."""

    id: str = Field(min_length=1, max_length=LONGEST_ID)
    """`function[parameters]` of a decorated function, the file's stem of a YAML workload. Unique in
    a project."""
    source: str
    """The file that declares it, POSIX, relative to the project's root."""
    line: int | None = None
    nodeid: str | None = None
    """The pytest node to run in the worker; None for a command."""
    command: tuple[str, ...] | None = None
    steps: PositiveInt | None
    """Measured steps; None as many as are worth a process, which its first run chooses."""
    warmup: NonNegativeInt
    step: str = STEP_RANGE
    """A decorated workload's range name, or a command's regular expression over range names
    (`re.fullmatch`)."""
    parameters: Mapping[str, str] = {}
    by_id: tuple[str, ...] = Field(default=(), validation_alias="untold")
    """Parameters of which only their type and id are compared: no text tells what they hold."""
    options: Mapping[str, str] | None = None
    """Options that a conftest declares and that were given, by name; None where that was not noted.
    """
    timeout_s: PositiveFloat = 600.0
    env: Mapping[str, str] = {}
    cwd: str | None = None

    @property
    def form(self) -> Literal["function", "command"]:
        """Which of the two forms of a workload this is."""
        return "function" if self.command is None else "command"

    @property
    def step_rule(self) -> StepRule:
        """Which ranges of a capture are its steps. Those of a command match a pattern; its warm-up
        steps match too, so that the first `warmup` are dropped."""
        is_command = self.command is not None
        return {
            "step": self.step,
            "is_pattern": is_command,
            "warmup": self.warmup if is_command else 0,
            "steps": self.steps,
        }

    def comparable_parameters(self) -> dict[str, str]:
        """What two measurements must agree on to be compared, as text by name, sorted by name."""
        compared = {
            "steps": "auto" if self.steps is None else str(self.steps),
            "warmup": str(self.warmup),
            "step": self.step,
            "capture": self.capture.value
            if isinstance(self.capture, CaptureMode)
            else f"delay {self.capture.delay:g} s, duration {self.capture.duration:g} s",
            **{f"parameter {name}": value for name, value in self.parameters.items()},
            **{f"option {name}": value for name, value in (self.options or {}).items()},
        }
        if self.command is not None:
            compared["command"] = json.dumps(list(self.command))
        compared |= {f"env {name}": value for name, value in self.env.items()}
        return dict(sorted(compared.items()))

    def digest(self) -> str:
        """SHA-256 of `comparable_parameters`, 16 hex digits."""
        canonical = json.dumps(self.comparable_parameters(), sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]


class Declared(Record):
    """One workload as a project declares it, whether or not it would be measured."""

    workload: Workload
    skipped: str | None = None
    """Why a mark or condition skips it; None where none does."""
