"""What the action was given: environment variables, never parts of a command."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from perfgate.model.errors import ConfigInvalid
from perfgate.model.pyproject import load_settings
from perfgate.system import git

INPUT: Final = "PERFGATE_INPUT_"
DEFAULT_NAME: Final = "perfgate"
"""Of a gate, and of its artifact."""

OPTIONS: Final[Mapping[str, str]] = {
    "RUNS": "runs",
    "MAX_RUNS": "max-runs",
    "TIME_BUDGET": "time-budget",
    "INCONCLUSIVE": "inconclusive",
    "NEW": "new",
    "AGAINST": "against",
    "SHARD": "shard",
    "MACHINE": "machine",
    "NSYS": "nsys",
    "NAME": "label",
}
"""By input, the option of pytest (`--perfgate-...`) that it becomes."""
_SETTINGS: Final[Mapping[str, str]] = {
    "RUNS": "runs",
    "MAX_RUNS": "max_runs",
    "TIME_BUDGET": "time_budget_s",
    "INCONCLUSIVE": "inconclusive",
    "NEW": "new",
}
"""By input, the setting that it stands for."""
_FORMS: Final[Mapping[str, str]] = {
    "NAME": r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}",
    "MACHINE": r"[a-z0-9][a-z0-9.-]{0,99}",
    "SHARD": r"[0-9]{1,4}/[0-9]{1,4}",
    "CAPTURES": "true|false",
}
"""By input, what it may be, as a regular expression; what others are is left to the gate."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Inputs:
    """What the action was given, checked."""

    given: Mapping[str, str]
    """By name, those that are one text and not empty."""
    workloads: tuple[str, ...] = ()
    """Paths and node ids, as pytest takes them."""
    budgets: tuple[str, ...] = ()
    """As `step_ms=0.03`."""

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Inputs:
        """Take the inputs from `PERFGATE_INPUT_*`.

        Raises:
            ConfigInvalid: one of them is nothing that it can be.
        """
        every = {
            name.removeprefix(INPUT): value.strip()
            for name, value in env.items()
            if name.startswith(INPUT) and value.strip()
        }
        lines = every.pop("WORKLOADS", "").splitlines()
        workloads = tuple(line.strip() for line in lines if line.strip())
        budgets = tuple(every.pop("BUDGETS", "").split())
        for line in workloads:
            if line.startswith("-"):
                raise _odd("WORKLOADS", line)
        for name, value in every.items():
            is_branch = name != "BASELINE_BRANCH" or git.is_branch(value)
            if not is_branch or not re.fullmatch(_FORMS.get(name, r"(?s:.*)"), value):
                raise _odd(name, value)
        return cls(given={"NAME": DEFAULT_NAME, **every}, workloads=workloads, budgets=budgets)

    @property
    def captures(self) -> bool:
        """Whether the captures of workloads that keep the gate shut are published."""
        return self.given.get("CAPTURES") == "true"

    @property
    def options(self) -> tuple[str, ...]:
        """pytest's options of a gate with these inputs. No input can become another option than its
        own."""
        return (
            *(
                f"--perfgate-{option}={self.given[name]}"
                for name, option in OPTIONS.items()
                if name in self.given
            ),
            *(f"--perfgate-budget={budget}" for budget in self.budgets),
            *self.workloads,
        )

    def check_settings(self, root: Path) -> None:
        """Refuse settings that this gate cannot have, before anything is looked at.

        Raises:
            ConfigInvalid: those of the project, or an input, are not accepted.
        """
        options = {_SETTINGS[name]: self.given[name] for name in _SETTINGS if name in self.given}
        load_settings(root, {**options, "budgets": self.budgets})

    def wants(self, workload: str, source: str | None) -> bool:
        """Whether a workload, declared in this file of the project, is among what is to be gated."""
        for line in self.workloads:
            path, _, named = line.partition("::")
            if (
                workload == named
                or workload.startswith(f"{named}[")
                or (not named and source is not None and PurePosixPath(source).is_relative_to(path))
            ):
                return True
        return not self.workloads


def _odd(name: str, value: str) -> ConfigInvalid:
    return ConfigInvalid("action-input-odd", input=name.lower().replace("_", "-"), value=value)
