"""Whether a gate is open and why, its workloads as every form of a gate shows them, and how a
change differs from the gate of its base branch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from perfgate.model.document import DocumentWorkload, GateDocument, PartChosen
from perfgate.model.loosening import Direction, Loosening
from perfgate.model.outcome import PASSING, WORST_FIRST, Outcome
from perfgate.model.pagedata import PageData, PageWorkload
from perfgate.model.verdict import Verdict
from perfgate.render.verdict import counted_text
from perfgate.words.numbers import listed, plural

NOT_SHOWN = {
    Outcome.INCONCLUSIVE: "not shown to be within budget",
    Outcome.NO_BASELINE: "compared with nothing",
}
"""What an outcome that the settings let through leaves open."""


def shown_names(workloads: Sequence[DocumentWorkload | PageWorkload]) -> tuple[str, ...]:
    """What each workload is called next to the others, in their order.

    That is its own name; where they are of several machines its GPU with it, and where that does
    not tell them apart the gate that it came from.
    """
    slugs = {one.machine.slug for one in workloads if one.machine is not None}
    placed = [
        one.verdict.workload
        + (f" on {one.machine.gpu_name}" if one.machine is not None and len(slugs) > 1 else "")
        for one in workloads
    ]
    counted = Counter(placed)
    return tuple(
        f"{name} ({one.gate})" if counted[name] > 1 and one.gate else name
        for name, one in zip(placed, workloads, strict=True)
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """A workload's verdict, under the name that it has among the others."""

    name: str
    verdict: Verdict
    opens: bool
    workload: Any
    """Of a document or a page."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GateState:
    """What a gate came to."""

    word: str
    """`GATE OPEN` or `GATE SHUT`."""
    judged: Sequence[Judged]
    """The worst first."""
    opens: bool
    others: Sequence[str]
    """Why it is shut, where a workload's outcome does not say it."""
    listed: Sequence[str]
    """These, where `why` has not said them."""
    shutting: Counter[Outcome]
    """How many workloads of each outcome keep it shut."""
    ended: str = ""
    """Why it ended early, where it did: that comes before all other reasons."""

    def why(self, place: str = "above") -> str:
        """Say why it is open or shut; other reasons are listed `above` or `below` it."""
        if self.opens:
            return self._why_open() or "nothing was measured"
        if self.ended:
            return self.ended
        counted = counted_text(self.shutting)
        if self.listed:
            more = plural(len(self.others), "other reason" if counted else "reason")
            return ", and ".join(filter(None, (counted, f"{more} {place}")))
        if counted:
            return f"{counted} of {plural(len(self.judged), 'workload')}"
        if self.others:
            return self.others[0]
        if self.judged:
            return "not every workload that was expected has a verdict"
        return "no workload was measured"

    def _why_open(self) -> str:
        counted = Counter(one.verdict.outcome for one in self.judged)
        passing = counted_text({one: counted[one] for one in PASSING})
        lenient = [
            f"{counted[one]} {one}{f' ({NOT_SHOWN[one]})' if one in NOT_SHOWN else ''}"
            for one in WORST_FIRST
            if counted[one] and one not in PASSING
        ]
        through = f"{', '.join(lenient)} let through by the settings" if lenient else ""
        return "; ".join(filter(None, (passing, through)))


def state_of(gate: GateDocument | PageData, *, ended: str = "") -> GateState:
    """Return the state of a gate's document or page; `ended` says why it ended early."""
    workloads: Sequence[DocumentWorkload | PageWorkload] = gate.workloads
    judged = [
        Judged(name=name, verdict=one.verdict, opens=one.opens_gate, workload=one)
        for name, one in zip(shown_names(workloads), workloads, strict=True)
    ]
    said = {f"{one.name}: {one.verdict.outcome}" for one in judged}
    others = () if ended else tuple(reason for reason in gate.shut_by if reason not in said)
    shutting = Counter(one.verdict.outcome for one in judged if not one.opens)
    return GateState(
        word="GATE OPEN" if gate.opens_gate else "GATE SHUT",
        judged=sorted(judged, key=lambda one: WORST_FIRST.index(one.verdict.outcome)),
        opens=gate.opens_gate,
        others=others,
        listed=others if len(others) > 1 or shutting else (),
        shutting=shutting,
        ended=ended,
    )


def choice_text(choice: PartChosen) -> str:
    """Return which part of the workloads this is: "3 of 7 workloads, chosen by -k"."""
    return f"{choice.workloads} of {plural(choice.of, 'workload')}, chosen by {listed(choice.by)}"


MOST_NAMED: Final = 5
NONE: Final = "not set"


def loosening_text(loosening: Loosening, *, label: str) -> str:
    """Return a sentence, without its full stop, of what loosens the gate and how to approve it."""
    named = [
        f"{one.what} from {one.old or NONE} to {one.new or NONE}"
        for one in loosening.loosens[:MOST_NAMED]
    ]
    more = len(loosening.loosens) - MOST_NAMED
    parts = "; ".join([*named, *([f"{more} more"] if more > 0 else [])])
    return (
        f"this change loosens its own gate against {loosening.base}: {parts}. "
        f"A maintainer who has read it approves it with the label {label}"
    )


def counts_text(loosening: Loosening) -> str:
    """Return a sentence, without its full stop, of how many differences there are."""
    loosens = Counter(one.direction for one in loosening.differences)[Direction.LOOSENS]
    approved = loosens and loosening.approved
    state = ", and a maintainer has approved this commit" if approved else ""
    return (
        f"{plural(len(loosening.differences), 'difference')} to the gate of {loosening.base}, "
        f"of which {loosens or 'none'} may loosen it{state}"
    )
