"""What a change may not touch unseen: all that decides about a project's gate, value by value.

Whatever cannot be said to make the gate stricter counts as loosening it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from math import inf
from pathlib import Path
from statistics import median
from typing import Any, Final

from perfgate.model.baseline import Baseline
from perfgate.model.loosening import Difference, Direction
from perfgate.model.metric import METRICS, Kind, Metric, budget_of
from perfgate.model.settings import Settings
from perfgate.model.workload import Declared
from perfgate.words.escape import one_line

LONGEST: Final = 200
"""Characters of a value that are shown."""


_OF_PYTEST_ALONE: Final = (
    *("asyncio_*", "cache_dir", "console_output_style", "doctest_*", "filterwarnings", "junit_*"),
    *("log_*", "markers", "minversion", "tmp_path_*", "verbosity_*"),
)
"""Options of pytest that neither choose workloads nor reach perfgate."""
_FOLLOWS: Final = {
    *("format", "workload", "digest", "code", "source", "breakdown", "has_options", "blessing"),
    *("occasions", "anchor", "code_files"),
}
"""Fields of a baseline that are compared by what they hold, or follow from others."""

Values = Mapping[str, Any]
"""What is known of one thing, by name, as JSON has it."""
State = Mapping[str, Values | str]
"""A project, as far as it decides about its own gate: by what each thing is called (`setting`,
`pytest`, `workload mlp`, `conftest.py`) its values, or what it is as a whole."""


# Which way a value moves the gate


def _grows(old: float | None, new: float | None) -> bool:
    """Of these a larger value lets more through, and none most."""
    return (inf if new is None else new) > (inf if old is None else old)


def _shrinks(old: float | None, new: float | None) -> bool:
    return _grows(new, old)


def _slower(old: Sequence[float] | None, new: Sequence[float] | None) -> bool:
    """Runs whose median or whose highest is higher let more through."""
    return not new or (bool(old) and (median(new) > median(old or ()) or max(new) > max(old or ())))


def _measured_elsewhere(old: Values, new: Values) -> bool | None:
    """What was measured anew was so at another commit, and its values say what that does."""
    return True if old["step_ms"] == new["step_ms"] else None


_Rule = Callable[[Any, Any], bool | None]
_RULES: Final[Mapping[str, _Rule]] = {
    **dict.fromkeys(("anchor_budget", "timeout_s", "warmup", "budget", "anchor"), _grows),
    **dict.fromkeys(("runs", "max_runs", "time_budget_s", "steps", "occasions"), _shrinks),
    **dict.fromkeys(Metric, _slower),
    **dict.fromkeys(("inconclusive", "new", "loosened"), lambda old, _: bool(old == "fail")),
    "ab_run": lambda old, _: bool(old != "off"),
    "skipped": lambda _, new: new is not None,
    "commits": _measured_elsewhere,
}
"""By a value's name, up to its first space: whether another one lets more through; None where
others say what it does. What has no rule loosens."""


def differences(base: State, head: State) -> tuple[Difference, ...]:
    """All that differs, what loosens the gate first."""
    found = [
        difference
        for what in sorted({*base, *head})
        for difference in _compared(what, base.get(what), head.get(what))
    ]
    return tuple(sorted(found, key=lambda one: one.direction is not Direction.LOOSENS))


def _compared(
    what: str, old: Values | str | None, new: Values | str | None
) -> Iterator[Difference]:
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        if old != new:
            # A workload or a baseline more is one more that must pass; of new code nobody knows.
            is_one_more = old is None and isinstance(new, Mapping)
            shown = ("there" if isinstance(one, Mapping) else one for one in (old, new))
            yield _difference(what, *shown, loosens=not is_one_more)
        return
    for name in sorted({*old, *new}):
        was, now = old.get(name), new.get(name)
        if was == now:
            continue
        rule = _RULES.get(name.partition(" ")[0])
        loosens = True if rule is None else rule(was, now)
        if loosens is not None:
            shown_name = f"{what} {name}" if what in {"setting", "pytest"} else f"{what}: {name}"
            yield _difference(shown_name, was, now, loosens=loosens)


def _difference(what: str, old: object, new: object, *, loosens: bool) -> Difference:
    return Difference(
        what=one_line(what, longest=LONGEST),
        old=_text(old),
        new=_text(new),
        direction=Direction.LOOSENS if loosens else Direction.TIGHTENS,
    )


def _text(value: Any) -> str | None:  # noqa: ANN401 - JSON
    match value:
        case None:
            return None
        case str():
            text = value
        case float():
            text = f"{value:.6g}"
        case [float(), *_]:
            text = f"{median(value):.5g}, at most {max(value):.5g}"
        case _:
            text = json.dumps(value, default=str, ensure_ascii=False)
    return one_line(text, longest=LONGEST)


# What is known of each thing


def setting_values(settings: Settings) -> Values:
    """What `[tool.perfgate]` sets."""
    values = settings.model_dump(mode="json", exclude={"budgets"})
    return values | _budgets(settings.budgets)


def _budgets(budgets: Mapping[Metric, float]) -> dict[str, float | None]:
    """Budgets as they count: one that is not set is the metric's own, and a count without one is
    exact."""
    exact = {metric: 0.0 for metric, spec in METRICS.items() if spec.kind is Kind.COUNT}
    return {f"budget {metric}": budget_of(metric, {**exact, **budgets}) for metric in METRICS}


def pytest_values(options: Mapping[str, object]) -> Values:
    """What pytest's configuration file sets, as far as it may reach a gate."""
    return {
        name: value
        for name, value in options.items()
        if not any(fnmatchcase(name, pattern) for pattern in _OF_PYTEST_ALONE)
    }


def code_of(file: Path) -> str:
    """A conftest or a workflow."""
    content = file.read_bytes()
    return f"{len(content.splitlines())} lines ({hashlib.sha256(content).hexdigest()[:12]})"


def workload_values(declared: Declared) -> Values:
    """What a workload's declaration says of how it is measured."""
    workload = declared.workload
    names = {"steps", "warmup", "timeout_s", "pass_env", "cwd"}
    parameters = workload.comparable_parameters()
    return {
        **{f"parameter {name}": parameters[name] for name in parameters.keys() - names},
        **workload.model_dump(mode="json", include=names),
        **_budgets(workload.budgets),
        "skipped": declared.skipped,
    }


def baseline_values(baseline: Baseline) -> Values:
    """What a baseline holds."""
    values: Values = {metric: sorted(baseline.values(metric)) for metric in METRICS}
    shas = {one.commit.sha for one in baseline.occasions if one.commit is not None}
    return {
        **baseline.model_dump(mode="json", exclude=_FOLLOWS),
        **values,
        "runs": len(baseline.runs),
        "occasions": len(baseline.occasions),
        "anchor": None if baseline.anchor is None else baseline.anchor.step_ms,
        "commits": {"shas": sorted(shas), "step_ms": values[Metric.STEP_MS]},
    }
