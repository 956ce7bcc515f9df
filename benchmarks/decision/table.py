"""Writes RESULTS.md from what was found; measures and decides nothing but whether a target is held."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.decision.measured import OWN, PERFGATE, Found, Told
from benchmarks.decision.populations import POPULATIONS
from benchmarks.decision.results import Measured, Results, Simulated, interval
from benchmarks.decision.simulate import CLOCKS, RULES, SETTING_OF_PEERS, SLOWDOWNS, Cell

PICTURE: Final = "power.svg"


@dataclass(frozen=True, kw_only=True)
class Target:
    """What perfgate is held to in one population; shares are fractions, `power` is by slowdown."""

    false_alarms: float
    runs: float
    power: Mapping[float, float]


TARGETS: Final[Mapping[str, Target]] = {
    "quiet": Target(false_alarms=0.005, runs=4, power={0.02: 0.95, 0.03: 0.99, 0.05: 1.00}),
    "typical": Target(false_alarms=0.005, runs=5, power={0.02: 0.90, 0.03: 0.99, 0.05: 1.00}),
    "mix": Target(false_alarms=0.007, runs=9, power={0.02: 0.45, 0.03: 0.68, 0.05: 0.90}),
}
"""Of `step_ms alone`, against 10 blessed runs over 5 occasions; nothing is asked of the rest."""
_AS_GOOD_AS_ALL: Final = 0.995
"""A target of 100 % in whole percents."""
_SLOWED: Final = tuple(slowdown for slowdown in SLOWDOWNS if slowdown)


def markdown(results: Results) -> str:
    """Write the whole file."""
    lines = [
        "# How perfgate decides, beside its peers",
        "",
        (
            "Made by `python -m benchmarks.decision all` (needs `pip install -e '.[bench]'`); do not edit. The same "
            "numbers with their intervals are in `results.csv`. What is simulated, and how, is told in "
            "`populations.py`; what of the peers' code is called, in `peers.py`."
        ),
    ]
    if results.simulated is not None:
        lines += _simulated(results.simulated)
    if results.measured is not None:
        lines += _measured(results.measured)
    return "\n".join(lines) + "\n"


def misses(simulated: Simulated, clocks: str = SETTING_OF_PEERS) -> list[str]:
    """Say which targets are missed by these clocks; none is good, by others than `step_ms alone` none is set."""
    return [
        f"{population.name}: {what}"
        for population in POPULATIONS
        for what, held in _held(_Cells(simulated.cells, clocks, population.name, PERFGATE))
        if not held
    ]


class _Cells:
    """One rule in one population, by slowdown."""

    def __init__(self, cells: Sequence[Cell], clocks: str, population: str, rule: str) -> None:
        self._cells = {
            cell.slowdown: cell
            for cell in cells
            if (cell.clocks, cell.population, cell.rule) == (clocks, population, rule)
        }
        self.population = population
        self.rule = rule

    def __bool__(self) -> bool:
        return bool(self._cells)

    def share(self, slowdown: float) -> float:
        return self._cells[slowdown].regressed / self._cells[slowdown].gates

    def interval(self, slowdown: float) -> tuple[float, float]:
        return interval(self._cells[slowdown].regressed, self._cells[slowdown].gates)

    def runs(self, slowdown: float) -> float:
        return self._cells[slowdown].runs / self._cells[slowdown].gates

    def inconclusive(self, slowdown: float) -> float:
        return self._cells[slowdown].inconclusive / self._cells[slowdown].gates

    def screened(self, slowdown: float) -> float:
        return self._cells[slowdown].screened / self._cells[slowdown].gates


def _simulated(simulated: Simulated) -> list[str]:
    populations = "; ".join(f"`{population.name}`: {population.told}" for population in POPULATIONS)
    lines = [
        "",
        "## Simulated",
        "",
        (
            f"{simulated.gates} gates (`--gates {simulated.gates}`) for each slowdown, {2 * simulated.gates} for none; "
            f"seed {simulated.seed}. "
            f"Every gate walks `perfgate.gate.check` with the default policy. {populations}. 10 blessed runs over "
            "5 occasions; the gate is a new occasion. A false alarm is REGRESSED where nothing got slower; power is "
            "the share of REGRESSED where step_ms got slower. Runs are all processes started, a duet's baseline runs "
            "included. The budget of step_ms is 2 %: a slowdown of 1 % is within it, and none of it need be found. "
            "Duets are alternate ones, also of `noisy` and `noisier host`, which a gate would interleave: that form "
            "has no part in this. `against a revision` is a duet alone, of code without a baseline."
        ),
        "",
        " ".join(_missed(simulated)),
        "",
        f"Versions: {_versions(simulated.versions)}.",
    ]
    for clocks in CLOCKS:
        lines += _against_targets(simulated.cells, clocks)
    lines += [
        "",
        f"### Peers on the same workloads, {SETTING_OF_PEERS}",
        "",
        (
            "A peer compares the same 10 blessed runs with as many runs of the candidate as perfgate spent in that "
            "gate in all, its runs of the baseline's commit included. Rows with `8 + 8 runs` compare fresh runs of "
            "both commits, made alternately, always 16: asv's own way. `samples` is `--record-samples`: without it "
            "asv keeps none, and compares intervals. pytest-benchmark takes whole percents. Large slowdowns end at "
            "perfgate's screen, after 3 runs, and then a peer has 3: so tests that need more find 5 % less "
            "often than 3 %. Welch and Mann-Whitney ask whether anything got slower at all, not whether by a budget."
        ),
        "",
        f"![Share of gates called slower, by slowdown]({PICTURE})",
    ]
    for population in POPULATIONS:
        lines += _beside_peers(simulated.cells, population.name)
    return lines


def _missed(simulated: Simulated) -> Iterator[str]:
    yield f"Targets are set for {SETTING_OF_PEERS}; missed: {'; '.join(misses(simulated)) or 'none'}."
    for clocks in CLOCKS:
        if clocks != SETTING_OF_PEERS:
            yield f"Those of one clock are missed by {clocks}: {'; '.join(misses(simulated, clocks)) or 'none'}."


def _against_targets(cells: Sequence[Cell], clocks: str) -> Iterator[str]:
    targeted = clocks == SETTING_OF_PEERS
    yield from ("", f"### {clocks}", "")
    if targeted:
        yield "In brackets the targets (100 % in whole percents); a number in bold misses its own."
    else:
        yield (
            f"Alpha is shared by {len(CLOCKS[clocks])} clocks, of which only step_ms got slower; no target is set "
            "here. A real gate on a GPU shares it by mem_exposed_ms as well. In brackets the targets of one clock; a "
            "number in bold misses its own."
        )
    yield ""
    yield _row("", "false alarms (95 % interval)", "runs, unchanged", *(f"power at {s:.0%}" for s in _SLOWED))
    yield _row("---", *["---:"] * (2 + len(_SLOWED)))
    for population in POPULATIONS:
        for rule in RULES:
            found = _Cells(cells, clocks, population.name, rule)
            if found:
                yield _target_row(found)
    yield ""
    yield _row("", "ended at the screen, unchanged", *(f"INCONCLUSIVE at {s:.0%}" for s in SLOWDOWNS), "runs at 2%")
    yield _row("---", *["---:"] * (2 + len(SLOWDOWNS)))
    for population in POPULATIONS:
        for rule in RULES:
            found = _Cells(cells, clocks, population.name, rule)
            if found:
                shares = (_percent(found.inconclusive(slowdown)) for slowdown in SLOWDOWNS)
                name = _name(found)
                yield _row(name, _percent(found.screened(0.0)), *shares, f"{found.runs(0.02):.1f}")


def _name(found: _Cells) -> str:
    return f"{found.population}{found.rule.removeprefix(PERFGATE)}"


def _target_row(found: _Cells) -> str:
    low, high = found.interval(0.0)
    told = [f"{_percent(found.share(0.0))} ({_percent(low)} to {_percent(high)})", f"{found.runs(0.0):.2f}"]
    told += [_percent(found.share(slowdown)) for slowdown in _SLOWED]
    target = TARGETS.get(found.population)
    if found.rule == PERFGATE and target is not None:
        asked = [f"<= {_percent(target.false_alarms)}", f"<= {target.runs:g}", *(None for _ in _SLOWED)]
        held = [True] * len(asked)
        for place, (_, is_held) in zip((0, 1, *(_place(s) for s in target.power)), _held(found), strict=True):
            held[place] = is_held
        for slowdown, share in target.power.items():
            asked[_place(slowdown)] = f">= {share:.0%}"
        told = [
            (value if is_held else f"**{value}**") + (f" [{want}]" if want else "")
            for value, want, is_held in zip(told, asked, held, strict=True)
        ]
    return _row(_name(found), *told)


def _place(slowdown: float) -> int:
    return 2 + _SLOWED.index(slowdown)


def _held(found: _Cells) -> Iterator[tuple[str, bool]]:
    target = TARGETS.get(found.population)
    if target is None:
        return
    alarms, runs = found.share(0.0), found.runs(0.0)
    yield f"false alarms {_percent(alarms)}, at most {_percent(target.false_alarms)}", alarms <= target.false_alarms
    yield f"{runs:.2f} runs, at most {target.runs:g}", runs <= target.runs
    for slowdown, asked in target.power.items():
        share = found.share(slowdown)
        told = f"power {_percent(share)} at {slowdown:.0%}, at least {asked:.0%}"
        yield told, share >= min(asked, _AS_GOOD_AS_ALL)


def _beside_peers(cells: Sequence[Cell], population: str) -> Iterator[str]:
    rules = list(dict.fromkeys(cell.rule for cell in cells))
    yield from ("", f"#### {population}", "")
    yield _row("rule", "runs, unchanged", "false alarms (95 % interval)", *(f"{slowdown:.0%}" for slowdown in _SLOWED))
    yield _row("---", *["---:"] * (2 + len(_SLOWED)))
    for rule in rules:
        found = _Cells(cells, SETTING_OF_PEERS, population, rule)
        if found:
            low, high = found.interval(0.0)
            alarms = f"{_percent(found.share(0.0))} ({_percent(low)} to {_percent(high)})"
            name = f"**{rule}**" if rule == PERFGATE else rule
            yield _row(name, f"{found.runs(0.0):.2f}", alarms, *(_percent(found.share(s)) for s in _SLOWED))


def _measured(measured: Measured) -> list[str]:
    machine = ", ".join(f"{name} {value}" for name, value in measured.machine.items())
    lines = [
        "",
        "## Real gates",
        "",
        (
            f"{machine}. Made by `python -m benchmarks.decision.collect`, a gate at a time as a user makes one; all "
            "that were begun are counted. perfgate's words are those it gave there."
        ),
        *(f"\n{remark}" for remark in measured.remarks),
        "",
        (
            "Each cell of a rule: gates in which it called the loop slower, of all gates, with the 95 % interval of "
            "that share (Clopper and Pearson), and in brackets the mean number of runs. Peers see step_ms of the same "
            "runs. Where perfgate's word rests on the stored baseline or on alternate runs, they have the blessed runs "
            "and the candidate's. Where it rests on an interleaved duet, in which steps take another time than in the "
            "blessed runs, they have both sides of that duet as two groups that know nothing of pairs, as many runs as "
            "perfgate had there. A peer calls nothing slower on fewer than three runs a side. The budget of step_ms is "
            "2 %, that of kernel_ms 1 %: what is within them need not be found. A gate ends as soon as any clock "
            "settles it, so that another may stay open: `duet of step_ms alone` judges the pairs of the alternate "
            "duets again as if that had been the only one."
        ),
        "",
        f"Versions: {_versions(measured.versions)}.",
    ]
    for loop in dict.fromkeys(found.loop for found in measured.found):
        found = [one for one in measured.found if one.loop == loop]
        slowdowns = sorted({one.slowdown for one in found})
        lines += ["", f"### {loop} ({found[0].kind})", "", " ".join(_sentences(found)), ""]
        lines += _likeness([told for told in measured.told if told.loop == loop])
        lines.append(_row("rule", *("unchanged" if not s else f"{s:.1%} slower" for s in slowdowns)))
        lines.append(_row("---", *["---:"] * len(slowdowns)))
        rules = list(dict.fromkeys(one.rule for one in found))
        for rule in (*(rule for rule in OWN if rule in rules), *(rule for rule in rules if rule not in OWN)):
            by_slowdown = {one.slowdown: one for one in found if one.rule == rule}
            name = f"**{rule}**" if rule in OWN else rule
            lines.append(_row(name, *(_times(by_slowdown.get(slowdown)) for slowdown in slowdowns)))
    return lines


def _sentences(found: Sequence[Found]) -> Iterator[str]:
    """What perfgate did, in words."""
    for one in found:
        if one.rule == PERFGATE:
            what = "False alarms" if not one.slowdown else f"Found at {one.slowdown:.1%}"
            yield f"{what}: {_share(one)}."


def _likeness(told: Sequence[Told]) -> Iterator[str]:
    """What the gates were like: how they went, and what the planted work came to."""
    if not told:
        return
    head = ("planted", "gates", "without verdict", "ended at", "runs", "time, s")
    yield _row(*head, "which came to", "step_ms rose by", "kernel_ms by")
    yield _row("---", *["---:"] * 2, "---", *["---:"] * 5)
    for one in told:
        stages = ", ".join(f"{stage} {number}" for stage, number in one.stages.items())
        told_of = (one.planted_step, one.step_change, one.kernel_change)
        changes = ("" if change is None else f"{change:+.1%}" for change in told_of)
        numbers = (f"{one.gates}", f"{one.spoilt}", stages, f"{one.runs:.1f}", f"{one.took_s:.0f}")
        yield _row("none" if not one.slowdown else f"{one.slowdown:.1%}", *numbers, *changes)
    yield ""


def _times(found: Found | None) -> str:
    if found is None:
        return ""
    doubtful = f", {found.inconclusive} INCONCLUSIVE" if found.inconclusive else ""
    return f"{_share(found)}{doubtful} ({found.runs / found.gates:.1f})"


def _share(found: Found) -> str:
    low, high = interval(found.regressed, found.gates)
    return f"{found.regressed} of {found.gates}: {100 * low:.0f}-{100 * high:.0f} %"


def _versions(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _percent(share: float) -> str:
    """Write a share so that neither a rare event looks like none, nor one miss like no miss."""
    value = 100 * share
    rare = 0 < value < 1 or 99 < value < 100
    return f"{value:.2f} %" if rare else f"{value:.0f} %" if value in (0, 100) else f"{value:.1f} %"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
