"""What a project sets for perfgate, with each default written down once; the policy for one
workload that is made of it; and how a value that users wrote is refused, wherever they wrote it."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Final, TypeVar

from pydantic import AliasChoices, Field, ValidationError

from perfgate.model.baseline import FEWEST_RUNS
from perfgate.model.errors import ConfigInvalid
from perfgate.model.metric import METRICS, NO_LONGER_GATED, Budget, Metric
from perfgate.model.note import Note, note
from perfgate.model.outcome import OnInconclusive, OnLoosened, OnNew
from perfgate.model.record import Record
from perfgate.model.verdict import Verdict
from perfgate.model.workload import Workload


class GraphTrace(StrEnum):
    """nsys's `--cuda-graph-trace`: a CUDA graph as one span, or kernel by kernel."""

    GRAPH = "graph"
    NODE = "node"


class ABForm(StrEnum):
    """How another commit and the candidate are run next to one another."""

    AUTO = "auto"
    """Interleaved where the workload can be, and a step keeps one CPU core busy at most or its runs
    differ much; else alternately."""
    ALTERNATE = "alternate"
    """In fresh processes one after another, in ABBA order."""
    INTERLEAVE = "interleave"
    """In processes that are alive at once and take turns of a few steps on one CPU core."""
    OFF = "off"


OLD_NAMES: Final = {"duet": "ab_run", "duet_setup": "ab_setup", "duet_python": "ab_python"}
"""What keys of `[tool.perfgate]` were called, and are called now."""


class Settings(Record):
    """The project's settings, after `[tool.perfgate]` and options have been merged."""

    workloads: str = Field(default="workloads", min_length=1)
    """Folder of the workloads, relative to the project's root."""
    baselines: str = Field(default="baselines", min_length=1)
    """Folder of the baselines, relative to the project's root."""
    runs: int = Field(default=3, ge=1, le=10)
    """Runs of the first look; nothing passes by fewer than 5."""
    max_runs: int = Field(default=29, ge=1, le=100)
    """Runs of one workload in one gate, an A/B run's baseline runs included: 5 and 12 pairs by
    default.
    """
    ahead: int | None = Field(default=None, ge=1, le=16)
    """Runs that are alive at once; as many as there is room for where it is not set."""
    time_budget_s: float | None = Field(default=None, gt=0)
    """Seconds that a whole gate may take; what does not fit is INCONCLUSIVE or NOT_MEASURED."""
    ab_run: ABForm = Field(default=ABForm.AUTO, validation_alias=AliasChoices("ab_run", "duet"))
    """How the baseline's commit is run again next to the candidate where stored values do not
    settle a gate."""
    ab_setup: tuple[str, ...] = Field(
        default=(), validation_alias=AliasChoices("ab_setup", "duet_setup")
    )
    """A command, word by word, that makes a fresh checkout of the project ready to run; run in its
    root."""
    ab_python: str | None = Field(
        default=None, min_length=1, validation_alias=AliasChoices("ab_python", "duet_python")
    )
    """The interpreter of a checkout's runs, relative to its root; by default the gate's own."""
    anchor_budget: Budget = Field(default=0.05, gt=0, lt=1)
    """What step_ms may lose against the best ever blessed, as a fraction: where many small losses
    end."""
    timeout_s: float = Field(default=600.0, gt=0)
    """Time limit of one run where the workload sets none."""
    inconclusive: OnInconclusive = OnInconclusive.FAIL
    new: OnNew = OnNew.FAIL
    loosened: OnLoosened = OnLoosened.FAIL
    """What a change that loosens its own gate does to it in GitHub Actions; read from the branch
    that it is for."""
    budgets: Mapping[Metric, Budget] = {}
    """Budgets of the project, as fractions."""
    machine: str | None = Field(default=None, min_length=1)
    """The machine that a gate must run on, as the folder of its baselines is called:
    `nvidia-h200-x2`, `no-gpu`."""
    nsys: str | None = Field(default=None, min_length=1)
    """The nsys program, where it is not to be searched for."""
    trace_osrt: bool = False
    """Of older projects: has no effect, since nothing was read of what it recorded."""
    cuda_graph_trace: GraphTrace = GraphTrace.GRAPH
    pass_env: tuple[str, ...] = ()
    """Variables handed to workloads although their names look like secrets."""
    old_names: tuple[str, ...] = Field(default=(), exclude=True)
    """Keys that the file has by their old names."""
    lock_timeout_s: float = Field(default=3600.0, gt=0)
    """How long to wait for another gate on the same GPU."""


class Policy(Record):
    """What the user decided about runs, budgets and doubtful outcomes."""

    runs: int = Field(default=3, ge=1)
    new_runs: int = Field(default=FEWEST_RUNS, ge=1)
    """Runs where there is no baseline to compare with."""
    max_runs: int = Field(default=29, ge=1)
    """Of both sides together."""
    stops_early: bool = True
    """Whether a count that rose, and rose again, ends the gate before its first look.

    Not where runs were asked for.
    """
    budgets: Mapping[Metric, float] = {}
    anchor_budget: float = Field(default=0.05, gt=0)
    """What step_ms may lose against the best ever blessed."""
    workloads: int = Field(default=1, ge=1)
    """Among how many workloads of this gate the time metrics share the error."""
    own_packages: bool = False
    """Whether another commit brings its own: else both sides run with today's torch and CUDA."""
    on_inconclusive: OnInconclusive = OnInconclusive.FAIL
    on_new: OnNew = OnNew.FAIL

    @classmethod
    def from_settings(
        cls,
        settings: Settings,
        workload: Workload | None,
        *,
        runs_given: bool,
        budgets_given: Collection[Metric] = (),
        workloads: int = 1,
    ) -> Policy:
        """The policy for one workload; `runs_given` tells a user's own number of runs from the
        default.

        The workload's own budgets win over those of the settings, and over both those
        `budgets_given` by an option.
        """
        own = {} if workload is None else workload.budgets
        default_new = min(max(settings.runs, FEWEST_RUNS), settings.max_runs)
        return cls(
            runs=settings.runs,
            new_runs=settings.runs if runs_given else default_new,
            max_runs=max(settings.max_runs, settings.runs),
            stops_early=not runs_given,
            budgets={
                **settings.budgets,
                **{metric: budget for metric, budget in own.items() if metric not in budgets_given},
            },
            anchor_budget=settings.anchor_budget,
            workloads=workloads,
            own_packages=bool(settings.ab_setup) or settings.ab_python is not None,
            on_inconclusive=settings.inconclusive,
            on_new=settings.new,
        )

    def opens(self, verdict: Verdict) -> bool:
        """Whether a verdict lets the build pass."""
        return verdict.opens(on_inconclusive=self.on_inconclusive, on_new=self.on_new)


Validated = TypeVar("Validated", bound=Record)

WITH_BUDGET: Final = tuple(metric for metric, spec in METRICS.items() if spec.gated)
_EXPECTED: Final[Mapping[str, tuple[str, str | None]]] = {
    "int": ("expects-integer", None),
    "float": ("expects-number", None),
    "finite_number": ("expects-finite", None),
    "bool": ("expects-boolean", None),
    "string_type": ("expects-text", None),
    "tuple": ("expects-list", None),
    "list": ("expects-list", None),
    "dict": ("expects-mapping", None),
    "mapping": ("expects-mapping", None),
    "model": ("expects-mapping", None),
    "greater_than_equal": ("expects-at-least", "ge"),
    "greater_than": ("expects-more", "gt"),
    "less_than_equal": ("expects-at-most", "le"),
    "less_than": ("expects-less", "lt"),
    "too_short": ("expects-some", None),
    "string_too_short": ("expects-some", None),
    "value_error": ("expects-fraction", None),
}
"""By how the type of pydantic's error begins: the code, and which of its facts is the limit."""


def wrong(place: str, value: object, expects: str, **fields: str | float) -> ConfigInvalid:
    """Return the error of a value that is not what it should be."""
    expected = Note(code=expects, fields=fields)
    return ConfigInvalid("value-invalid", place=place, value=_short(value), expected=expected)


def validated(record: type[Validated], given: Mapping[str, object], *, place: str) -> Validated:
    """Return the record of what was given.

    Raises:
        ConfigInvalid: one value is not accepted.
    """
    try:
        return record.model_validate(given)
    except ValidationError as invalid:
        raise first_of(invalid, place=place) from None


def first_of(invalid: ValidationError, *, place: str) -> ConfigInvalid:
    """Return the first of pydantic's errors as one of ours; `place` ends where its key begins."""
    first = invalid.errors()[0]
    where = f"{place}{'.'.join(map(str, first['loc']))}"
    is_fraction = "budgets" in first["loc"][:-1] or first["loc"] == ("anchor_budget",)
    if first["type"] == "missing":
        return ConfigInvalid("value-missing", place=where)
    return ConfigInvalid(
        "value-invalid",
        place=where,
        value=_short(first["input"]),
        expected=note("expects-fraction")
        if is_fraction
        else _expected(first["type"], first.get("ctx", {})),
    )


def _expected(kind: str, facts: Mapping[str, object]) -> Note:
    if "expected" in facts:
        return note("expects-one-of", choices=str(facts["expected"]))
    code, limit = next(
        found
        for start, found in (*_EXPECTED.items(), ("", ("expects-text", None)))
        if kind.startswith(start)
    )
    return note(code) if limit is None else note(code, limit=float(str(facts[limit])))


def check_keys(given: Mapping[str, object], *, known: Collection[str], place: str) -> None:
    """Refuse keys that nobody reads.

    Raises:
        ConfigInvalid: names the first unknown key, and the one that was perhaps meant.
    """
    for key in given:
        if key not in known:
            nearest = difflib.get_close_matches(str(key), known, n=1)
            fields = {"place": place, "key": key, "known": sorted(known)}
            if nearest:
                raise ConfigInvalid("key-misspelt", nearest=nearest[0], **fields)
            raise ConfigInvalid("key-unknown", **fields)


def check_budgets(budgets: object, *, place: str) -> None:
    """Refuse budgets of what has none, and budgets that are no fractions.

    What is no mapping at all, or no number, is left to the record.

    Raises:
        ConfigInvalid: names the metric.
    """
    if not isinstance(budgets, Mapping):
        return
    check_keys({name: 0 for name in budgets if name not in METRICS}, known=WITH_BUDGET, place=place)
    for metric, budget in budgets.items():
        if metric not in (*WITH_BUDGET, *NO_LONGER_GATED):
            raise ConfigInvalid(
                "metric-without-budget", place=place, metric=str(metric), known=WITH_BUDGET
            )
        if isinstance(budget, float | int) and not 0 < budget < 1:
            raise wrong(f"{place} {metric}", budget, "expects-fraction")


def _short(value: object) -> str:
    """Show a refused value: enough to find it, however large or deep it is."""
    short = reprlib.Repr()
    short.maxstring = short.maxother = 80
    short.maxlevel = 2
    return short.repr(value)
