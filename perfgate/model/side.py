"""One of two things that are compared without judging: a baseline, a kept result or a capture."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Annotated

from pydantic import AfterValidator

from perfgate.model.baseline import Baseline
from perfgate.model.machine import Machine
from perfgate.model.metric import METRICS, Metric
from perfgate.model.note import Note, NoteOrText, quoted, sayable
from perfgate.model.record import Record
from perfgate.model.sample import Breakdown


def _sayable(label: Note) -> Note:
    if label.code != "quoted" and sayable(label) is None:
        raise ValueError("expected a label whose words are known")
    return label


class Side(Record):
    """One of two things to be compared: its values run by run, what they are made of, and where
    they come from."""

    label: Annotated[NoteOrText, AfterValidator(_sayable)]
    values: Mapping[Metric, tuple[float, ...]]
    """One value a run; of several processes the worst."""
    machine: Machine | None = None
    parameters: Mapping[str, str] | None = None
    breakdown: Breakdown = Breakdown()
    gpus: frozenset[str] = frozenset()
    """Of a capture: the models of the GPUs that its steps used, so far as it names them."""
    missing: Mapping[str, NoteOrText] = {}
    """Of a capture: what it lacks and why, as `Timeline.missing` says."""
    absent: Mapping[Metric, NoteOrText] = {}
    """Why a metric could not be measured, from the first process that says so; empty of a baseline.
    """
    invalid: tuple[NoteOrText, ...] = ()
    """Of a capture: why a gate would not count it as a run; each once."""

    @classmethod
    def of_baseline(cls, label: Note | str, baseline: Baseline) -> Side:
        """Take a baseline."""
        return cls(
            label=quoted(label),
            values={metric: baseline.values(metric) for metric in METRICS},
            machine=baseline.machine,
            parameters=baseline.parameters,
            breakdown=baseline.breakdown,
        )

    def gpu_models(self) -> frozenset[str]:
        """Return the models of its GPUs; none where they are not known."""
        return (
            self.gpus if self.machine is None else frozenset(gpu.name for gpu in self.machine.gpus)
        )

    def medians(self) -> dict[Metric, float]:
        """Return the median over the runs of every metric that there is."""
        return {metric: median(values) for metric in METRICS if (values := self.values.get(metric))}
