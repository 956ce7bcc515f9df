"""What the action was given: environment variables, never parts of a command."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from perfgate.model.given import wrong
from perfgate.model.options import OPTIONS
from perfgate.model.pyproject import load_settings
from perfgate.system import git

INPUT: Final = "PERFGATE_INPUT_"
DEFAULT_NAME: Final = "perfgate"
"""Of a gate, and of its artifact."""
_FORMS: Final[Mapping[str, tuple[str, str]]] = {
    "name": (r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", "expects-name"),
    "machine": (r"[a-z0-9][a-z0-9.-]{0,99}", "expects-machine"),
    "shard": (r"[0-9]{1,4}/[0-9]{1,4}", "expects-shard"),
    "captures": ("true|false", "expects-boolean"),
}
"""By input, what it may be, as a regular expression and in words; what others are is left to the
gate."""

_OPTIONS: Final = {one.action_input: one for one in OPTIONS if one.action_input is not None}
"""By input, the option of pytest that it becomes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Inputs:
    """What the action was given, checked."""

    given: Mapping[str, str]
    """By name, as in the action, those that are one text and not empty."""
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
            name.removeprefix(INPUT).lower().replace("_", "-"): value.strip()
            for name, value in env.items()
            if name.startswith(INPUT) and value.strip()
        }
        lines = every.pop("workloads", "").splitlines()
        workloads = tuple(line.strip() for line in lines if line.strip())
        budgets = tuple(every.pop("budgets", "").split())
        for line in workloads:
            if line.startswith("-"):
                raise wrong("input workloads", line, "expects-node")
        for name, value in every.items():
            if name == "baseline-branch" and not git.is_branch(value):
                raise wrong(f"input {name}", value, "expects-branch")
            form, expects = _FORMS.get(name, (r"(?s:.*)", ""))
            if not re.fullmatch(form, value):
                raise wrong(f"input {name}", value, expects)
        return cls(given={"name": DEFAULT_NAME, **every}, workloads=workloads, budgets=budgets)

    @property
    def captures(self) -> bool:
        """Whether the captures of workloads that keep the gate shut are published."""
        return self.given.get("captures") == "true"

    @property
    def options(self) -> tuple[str, ...]:
        """pytest's options of a gate with these inputs. No input can become another option than its
        own."""
        return (
            *(
                f"{one.option}={self.given[name]}"
                for name, one in _OPTIONS.items()
                if name in self.given
            ),
            f"--perfgate-label={self.given['name']}",
            *(f"--perfgate-budget={budget}" for budget in self.budgets),
            *self.workloads,
        )

    def check_settings(self, root: Path) -> None:
        """Refuse settings that this gate cannot have, before anything is looked at.

        Raises:
            ConfigInvalid: those of the project, or an input, are not accepted.
        """
        options = {
            one.setting: self.given[name]
            for name, one in _OPTIONS.items()
            if one.setting is not None and name in self.given
        }
        load_settings(root, {**options, "budgets": self.budgets})

    def wants(self, workload: str, source: str | None) -> bool:
        """Whether a workload, declared in this file of the project, is to be gated."""
        for line in self.workloads:
            path, _, named = line.partition("::")
            if (
                workload == named
                or workload.startswith(f"{named}[")
                or (not named and source is not None and PurePosixPath(source).is_relative_to(path))
            ):
                return True
        return not self.workloads
