"""Read what `moods.py` wrote and print, as Markdown, how well each estimator compares two processes.

    python benchmarks/moods/analyse.py benchmarks/moods/h200.npz benchmarks/moods/h200-same-layout.npz

An estimate is a log ratio of step times, B over A, of one pair of processes; both run the same code, so its truth is 0,
but for planted work, whose truth is measured in place. All spreads are in per cent, of logs.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

Floats = NDArray[np.float64]
CLOCKS = {"wall_us": "wall", "main_us": "CPU of main thread", "process_us": "CPU of process"}
EFFECT, P_VALUE, POWER, MOST_PAIRS = np.log(1.02), 0.0007, 0.9, 8
SLOW_OTHERS, NO_IDLE = 0.85, 0.04
"""Where modes part: CPU time of other threads over the main thread's; share of a step in which no thread runs."""


@dataclass(frozen=True, kw_only=True)
class Data:
    """`steps` has a row per step with its block, side and place in the turn; `blocks` and `turns` a row each."""

    info: dict[str, Any]
    blocks: pd.DataFrame
    turns: pd.DataFrame
    steps: pd.DataFrame


@dataclass(frozen=True, kw_only=True)
class Estimator:
    """From step times, arrays of (turns, k), to one log ratio, second over first; the first side's turns came first."""

    name: str
    ratio: Callable[[Floats, Floats], float]


def load(paths: list[Path]) -> Data:
    """Tables of the files, numbered on from file to file and joined so that each step knows its block."""
    loaded = [load_one(path, number) for number, path in enumerate(paths)]
    blocks, turns, steps = (
        pd.concat([getattr(data, name) for data in loaded], ignore_index=True)
        for name in ("blocks", "turns", "steps")
    )
    return Data(info=loaded[0].info, blocks=blocks, turns=turns, steps=steps)


def load_one(path: Path, number: int) -> Data:
    """Pairs, blocks, processes and turns of the n-th file start at n million."""
    with np.load(path) as file:
        info = json.loads(str(file["info"]))
        tables = {
            table: pd.DataFrame(
                {
                    key.partition(".")[2]: file[key]
                    for key in file.files
                    if key.startswith(f"{table}.")
                }
            )
            for table in ("turns", "steps")
        }
    blocks = pd.DataFrame(info["blocks"])
    offset = number * 1_000_000
    blocks["pair"] += offset * np.sign(blocks["pair"] + 0.5).astype(int)
    blocks[["block", "a_process"]] += offset
    tables["turns"][["turn", "block", "process"]] += offset
    tables["steps"]["turn"] += offset
    design = blocks[
        [
            "block",
            "pair",
            "order",
            "k",
            "cores",
            "plant_percent",
            "loop",
            "planted_side",
            "a_process",
        ]
    ]
    turns = tables["turns"].merge(design, on="block")
    turns["side"] = np.where(turns["process"] == turns["a_process"], "A", "B")
    steps = tables["steps"].merge(turns, on="turn")
    steps["place"] = steps.groupby("turn").cumcount()
    return Data(info=info, blocks=blocks, turns=turns, steps=steps)


# Estimators ----------------------------------------------------------------------------------------------------------


def pooled(quantile: float, drop: int = 0) -> Callable[[Floats, Floats], float]:
    """Ratio of a quantile over all steps of all turns."""

    def ratio(a: Floats, b: Floats) -> float:
        a, b = dropped(a, drop), dropped(b, drop)
        return float(np.log(np.quantile(b, quantile) / np.quantile(a, quantile)))

    return ratio


def paired(centre: Callable[[Floats], float], drop: int = 0) -> Callable[[Floats, Floats], float]:
    """Centre, over turns, of the log ratios of the medians of neighbouring turns."""
    return lambda a, b: centre(turn_ratios(a, b, drop))


def turn_ratios(a: Floats, b: Floats, drop: int = 0) -> Floats:
    """A log ratio per turn."""
    ratios: Floats = np.log(
        np.median(dropped(b, drop), axis=1) / np.median(dropped(a, drop), axis=1)
    )
    return ratios


def bracketed(a: Floats, b: Floats) -> float:
    """Hodges-Lehmann over turns, each compared with the mean of those before and after it, so that a drift cancels."""
    x, y = np.log(np.median(a, axis=1)), np.log(np.median(b, axis=1))
    return hodges_lehmann(y[:-1] - (x[:-1] + x[1:]) / 2)


def of_neighbours(centre: Callable[[Floats], float]) -> Callable[[Floats, Floats], float]:
    """Centre of the log ratios of each turn to the other side's before and after it."""

    def ratio(a: Floats, b: Floats) -> float:
        x, y = np.log(np.median(a, axis=1)), np.log(np.median(b, axis=1))
        return centre(np.concatenate([y - x, y[:-1] - x[1:]]))

    return ratio


def dropped(times: Floats, drop: int) -> Floats:
    """Without the first steps of each turn, as long as one stays."""
    return times[:, min(drop, times.shape[1] - 1) :]


def median(values: Floats) -> float:
    """As a plain float."""
    return float(np.median(values))


def hodges_lehmann(values: Floats) -> float:
    """Median of the means of all pairs of values, each with itself too."""
    first, second = np.triu_indices(len(values))
    return float(np.median((values[first] + values[second]) / 2))


ESTIMATORS = [
    Estimator(name="pooled median", ratio=pooled(0.5)),
    Estimator(name="pooled median, drop 1", ratio=pooled(0.5, 1)),
    Estimator(name="pooled median, drop 2", ratio=pooled(0.5, 2)),
    Estimator(name="median of turns", ratio=paired(median)),
    Estimator(name="HL of turns", ratio=paired(hodges_lehmann)),
    Estimator(name="HL of turns, drop 1", ratio=paired(hodges_lehmann, 1)),
    Estimator(name="HL of turns, drop 2", ratio=paired(hodges_lehmann, 2)),
    Estimator(name="HL of turns, between two", ratio=bracketed),
    Estimator(name="median of neighbours", ratio=of_neighbours(median)),
    Estimator(name="HL of neighbours", ratio=of_neighbours(hodges_lehmann)),  # perfgate's
    Estimator(name="pooled 25 %", ratio=pooled(0.25)),
    Estimator(name="pooled 10 %", ratio=pooled(0.10)),
    Estimator(name="minimum", ratio=pooled(0.0)),
]
HL = ESTIMATORS[4]


def estimate(block: pd.DataFrame, clock: str, ratio: Callable[[Floats, Floats], float]) -> float:
    """Of one block's steps, B over A; the estimator sees the side whose turn came first as its first."""
    sides = times_of(block, clock)
    if block["side"].iloc[0] == "A":
        return ratio(sides["A"], sides["B"])
    return -ratio(sides["B"], sides["A"])


def times_of(block: pd.DataFrame, clock: str) -> dict[str, Floats]:
    """Times of one block as (turns, k) arrays, by side; steps come in the order in which they were made."""
    k = int(block["k"].iloc[0])
    return {
        str(side): times[clock].to_numpy(float).reshape(-1, k)
        for side, times in block.groupby("side")
    }


def by_pair(
    data: Data, design: dict[str, object], clock: str, ratio: Callable[[Floats, Floats], float]
) -> Floats:
    """One estimate per pair, in their order."""
    chosen = select(data.steps, {"order": "turns", "plant_percent": 0, "loop": "launch"} | design)
    return np.array([estimate(block, clock, ratio) for _, block in chosen.groupby("pair")])


def select(table: pd.DataFrame, where: dict[str, object]) -> pd.DataFrame:
    """Rows in which all columns have these values."""
    mask = np.logical_and.reduce([table[column] == value for column, value in where.items()])
    return table[mask]


def designs(data: Data, **where: object) -> list[dict[str, object]]:
    """The kinds of turns in the file: cores and k."""
    turns = select(data.blocks, {"order": "turns", "plant_percent": 0, "loop": "launch"} | where)
    found = turns[["cores", "k"]].drop_duplicates().sort_values(["cores", "k"])
    return [{"cores": int(cores), "k": int(k)} for cores, k in found.itertuples(index=False)]


def label(design: dict[str, object]) -> str:
    """As a row of a table begins."""
    return f"{cores_label(design['cores'])}, k = {design['k']}"


def cores_label(cores: object) -> str:
    """Zero cores is no pinning."""
    return {0: "free", 1: "same core"}.get(int(str(cores)), f"same {cores} cores")


# Numbers -------------------------------------------------------------------------------------------------------------


def sd(values: Floats) -> float:
    """About their own mean."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")


def pairs_needed(deviation: float, *, known: bool) -> int:
    """Pairs that show 2 % at p < 0.0007, one-sided, in 9 of 10 gates; t test, or z where the SD is known."""
    for n in range(1 if known else 2, 100_000):
        shift = EFFECT * np.sqrt(n) / deviation
        if known:
            power = stats.norm.sf(stats.norm.isf(P_VALUE) - shift)
        else:
            power = stats.nct.sf(stats.t.isf(P_VALUE, n - 1), n - 1, shift)
        if power >= POWER:
            return n
    return 100_000


def percent(value: float, digits: int = 2) -> str:
    """A log ratio or its SD, times 100."""
    return f"{100 * value:.{digits}f}"


def interval(deviation: float, n: int) -> str:
    """The 90 % interval of a standard deviation, in per cent."""
    low, high = (deviation * np.sqrt((n - 1) / stats.chi2.ppf(q, n - 1)) for q in (0.95, 0.05))
    return f"{percent(low)}-{percent(high)}"


def mean_and_error(values: Floats) -> str:
    """The mean, and its standard error."""
    return f"{percent(float(np.mean(values)))} ± {percent(sd(values) / len(values) ** 0.5)}"


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Markdown."""
    head = list(head)
    lines = [head, ["---"] * len(head), *([str(cell) for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


# Tables --------------------------------------------------------------------------------------------------------------


def one_after_another(data: Data) -> str:
    """Processes alone: the spread of their values, and of differences of neighbours."""
    statistics = [("wall_us", "median", 0.5), ("wall_us", "25 %", 0.25), ("wall_us", "10 %", 0.1)]
    statistics += [
        ("wall_us", "minimum", 0.0),
        ("main_us", "median", 0.5),
        ("process_us", "median", 0.5),
    ]
    rows = []
    alone = select(data.steps, {"loop": "launch", "cores": 0})
    fresh = alone[(alone["pair"] < 0) & (alone["order"] == "A")]
    waiting = alone[(alone["pair"] >= 0) & alone["order"].isin(["A", "B"])]
    for clock, name, q in statistics:
        by_process = np.log(fresh.groupby("process")[clock].quantile(q))
        x = by_process.to_numpy(float)
        neighbours = np.diff(x)[np.diff(by_process.index) == 1]
        y = np.log(waiting.groupby(["pair", "side", "block"])[clock].quantile(q))
        first = y.groupby(["pair", "side"]).first().unstack("side")
        abba = y.groupby(["pair", "side"]).mean().unstack("side")
        rows.append(
            (
                f"{CLOCKS[clock]}, {name}",
                f"{np.exp(np.mean(x)) / 1000:.2f}",
                percent(sd(x)),
                percent(sd(neighbours)),
                percent(sd(y.groupby(["pair", "side"]).first().to_numpy(float))),
                percent(sd((first["B"] - first["A"]).to_numpy(float))),
                percent(sd((abba["B"] - abba["A"]).to_numpy(float))),
            )
        )
    head = ["value of a process", "ms", "SD, alone on the machine", "SD of neighbours' differences"]
    return table(
        [*head, "SD, the other waiting", "SD of B - A, 150 steps each", "the same, A B ... B A"],
        rows,
    )


def spread(data: Data) -> str:
    """SD over pairs of each estimator and design."""
    kinds = designs(data)
    rows: list[tuple[str, ...]] = []
    for clock, clock_name in CLOCKS.items():
        for e in ESTIMATORS:
            if clock == "wall_us" or e.name in (
                "pooled median",
                "HL of turns",
                "pooled 25 %",
                "pooled 10 %",
            ):
                cells = [percent(sd(by_pair(data, kind, clock, e.ratio))) for kind in kinds]
                rows.append((f"{clock_name}: {e.name}", *cells))
    hl = [by_pair(data, kind, "wall_us", HL.ratio) for kind in kinds]
    rows.append(("90 % interval of the SD (wall, HL)", *(interval(sd(v), len(v)) for v in hl)))
    rows.append(("mean ± its error (wall, HL)", *map(mean_and_error, hl)))
    return table(["", *map(label, kinds)], rows)


def first_turns(turns: int) -> Callable[[Floats, Floats], float]:
    """The estimate that a shorter block would have given."""
    return lambda a, b: HL.ratio(a[:turns], b[:turns])


def components(data: Data) -> str:
    """What does not shrink with more turns, from estimates on the odd and the even turns of a block."""
    rows = []
    for kind in designs(data):
        whole = by_pair(data, kind, "wall_us", HL.ratio)
        odd = by_pair(data, kind, "wall_us", lambda a, b: HL.ratio(a[::2], b[::2]))
        even = by_pair(data, kind, "wall_us", lambda a, b: HL.ratio(a[1::2], b[1::2]))
        first = by_pair(
            data, kind, "wall_us", lambda a, b: HL.ratio(a[: len(a) // 2], b[: len(b) // 2])
        )
        second = by_pair(
            data, kind, "wall_us", lambda a, b: HL.ratio(a[len(a) // 2 :], b[len(b) // 2 :])
        )
        turns = int(
            select(data.blocks, {"order": "turns", "plant_percent": 0, "loop": "launch"} | kind)[
                "turns"
            ].iloc[0]
        )
        noise = float(np.sqrt(np.mean(((odd - even) / 2) ** 2)))
        drift = float(np.sqrt(np.mean(((first - second) / 2) ** 2)))
        stays = max(sd(whole) ** 2 - noise**2, 0.0)
        useful = f"{turns * noise**2 / stays:.0f}" if stays else "more"
        growth = [by_pair(data, kind, "wall_us", first_turns(t)) for t in (2, 5, 10, 20, 40)]
        curve = " / ".join(
            percent(sd(g)) if t <= turns else "-"
            for t, g in zip((2, 5, 10, 20, 40), growth, strict=True)
        )
        rows.append(
            (
                label(kind),
                turns,
                percent(sd(whole)),
                percent(noise),
                percent(drift),
                percent(stays**0.5),
                useful,
                curve,
            )
        )
    head = [
        "design",
        "turns",
        "SD of the ratio",
        "of it noise of turns",
        "noise and drift",
        "not cancelled by turns",
    ]
    return table(
        [*head, "turns at which both are equal", "SD with the first 2 / 5 / 10 / 20 / 40 turns"],
        rows,
    )


def truth_of(block: pd.DataFrame, clock: str) -> float:
    """What the planted work adds, B over A, from its own time in each step."""
    side = "AB"[int(block["planted_side"].iloc[0])]
    mine = block[block["side"] == side]
    added = float(np.log(mine[clock].median() / (mine[clock] - mine["spin_us"]).median()))
    return added if side == "B" else -added


def between_blocks(data: Data) -> str:
    """Ratios of the same pair in different blocks on the same core: what they share belongs to the processes."""
    rows = []
    for name, pairs in {
        "all": data.blocks["pair"] >= 0,
        "first file": data.blocks["pair"].between(0, 999_999),
        "second file": data.blocks["pair"] >= 1_000_000,
    }.items():
        blocks = data.blocks[
            pairs & (data.blocks["cores"] == 1) & (data.blocks["order"] == "turns")
        ]
        if blocks.empty:
            continue
        found: dict[tuple[int, int], list[float]] = {}
        for _, block in data.steps[data.steps["block"].isin(blocks["block"])].groupby("block"):
            plant = int(block["plant_percent"].iloc[0])
            truth = truth_of(block, "wall_us") if plant else 0.0
            found.setdefault((int(block["k"].iloc[0]), plant), []).append(
                estimate(block, "wall_us", HL.ratio) - truth
            )
        values = np.array(list(found.values()))
        covariance, n = np.cov(values), len(values)
        shared = (covariance.sum() - np.trace(covariance)) / (n * (n - 1))
        own = np.trace(covariance) / n - shared
        cells = (max(shared, 0.0) ** 0.5, max(own, 0.0) ** 0.5, sd(values.mean(axis=0)))
        rows.append((name, values.shape[1], *map(percent, cells)))
    head = ["", "pairs", "SD that a pair's three blocks share", "SD of a block's own"]
    return table(
        [*head, "SD of the mean of the three (55 turns, and 40 with planted work taken off)"], rows
    )


def planted(data: Data) -> str:
    """Estimates with planted work, less its truth in place; signs turned so that the planted side is on top."""
    rows = []
    names = (
        "pooled median",
        "median of turns",
        "HL of turns",
        "pooled 25 %",
        "pooled 10 %",
        "minimum",
    )
    found = select(data.blocks, {"order": "turns"})
    kinds = found[found["plant_percent"] > 0][["cores", "k", "plant_percent"]].drop_duplicates()
    for cores, k, plant in kinds.sort_values(["cores", "plant_percent"]).itertuples(index=False):
        chosen = select(
            data.steps, {"order": "turns", "cores": cores, "k": k, "plant_percent": plant}
        )
        blocks = [block for _, block in chosen.groupby("pair")]
        signs = [2 * int(block["planted_side"].iloc[0]) - 1 for block in blocks]
        for name in names:
            ratio = next(e.ratio for e in ESTIMATORS if e.name == name)
            row = [f"{cores_label(cores)}, k = {k}, +{plant} %", name]
            for clock in CLOCKS:
                truths = np.array(
                    [sign * truth_of(b, clock) for sign, b in zip(signs, blocks, strict=True)]
                )
                found_ratios = np.array(
                    [
                        sign * estimate(b, clock, ratio)
                        for sign, b in zip(signs, blocks, strict=True)
                    ]
                )
                row.append(
                    f"{percent(float(np.mean(truths)))}: {mean_and_error(found_ratios - truths)}"
                )
            rows.append(row)
    return table(
        ["design", "estimator", *(f"{name}, truth: error" for name in CLOCKS.values())], rows
    )


def moods(data: Data) -> str:
    """What goes with the step time: correlations of logs over processes and blocks, and within a block over turns."""
    turns = select(data.turns, {"loop": "launch", "plant_percent": 0})
    wall = data.steps.groupby("turn")["wall_us"].median().rename("wall")
    main = data.steps.groupby("turn")["main_us"].median().rename("main_cpu")
    process = data.steps.groupby("turn")["process_us"].median().rename("process_cpu")
    joined = turns.merge(pd.concat([wall, main, process], axis=1), left_on="turn", right_index=True)
    for column in ("minor_faults", "voluntary_switches", "involuntary_switches"):
        joined[column] /= joined["k"]
    logs = [
        "canary_python_ns",
        "canary_syscall_ns",
        "canary_launch_ns",
        "wall",
        "main_cpu",
        "process_cpu",
    ]
    joined[logs] = np.log(joined[logs].clip(lower=1.0))
    causes = [
        "canary_python_ns",
        "canary_syscall_ns",
        "canary_launch_ns",
        "main_cpu",
        "process_cpu",
    ]
    causes += ["minor_faults", "voluntary_switches", "involuntary_switches"]
    rows = []
    blocks = joined.groupby(["cores", "block", "process"])[[*causes, "wall"]].median()
    for cause in causes:
        row: list[object] = [cause]
        for cores in (0, 4, 1):
            at = blocks.loc[cores] if cores in blocks.index.get_level_values(0) else blocks.iloc[:0]
            row.append(correlation(at[cause], at["wall"]))
        within = joined[joined["k"] == 3]
        centred = within[[cause, "wall"]] - within.groupby(["block", "process"])[
            [cause, "wall"]
        ].transform("median")
        row.append(correlation(centred[cause].rank(), centred["wall"].rank()))
        shown = blocks[cause]
        row.append(
            f"{np.exp(shown.median()) / 1000:.1f} us"
            if cause.startswith("canary")
            else f"{shown.mean():.2f}"
        )
        row.append(percent(sd(shown.loc[0].to_numpy(float))) if cause in logs else "")
        rows.append(row)
    head = [
        "",
        "free",
        "same 4 cores",
        "same core",
        "within a block, over turns (k = 3)",
        "typical",
        "SD of log, free, %",
    ]
    return table(head, rows)


def modes(data: Data) -> str:
    """How the two threads of a step share it; a block of a process keeps one of three ways."""
    chosen = select(data.steps, {"loop": "launch", "order": "turns", "plant_percent": 0})
    keys = ["cores", "k", "pair", "side"]
    at = chosen.groupby(keys)[["wall_us", "main_us", "process_us"]].median().reset_index()
    at["idle"] = 1 - at["process_us"] / at["wall_us"]
    at["others"] = at["process_us"] / at["main_us"] - 1
    at["mode"] = np.select(
        [at["others"] > SLOW_OTHERS, at["idle"] < NO_IDLE], ["slow", "one core"], "two cores"
    )
    rows = []
    for mode in ("two cores", "one core", "slow"):
        part = at[at["mode"] == mode]
        rows.append(
            (
                mode,
                *(
                    f"{(part['cores'] == cores).sum()} of {(at['cores'] == cores).sum()}"
                    for cores in (0, 4, 1)
                ),
                *(f"{part[c].median() / 1000:.2f}" for c in ("wall_us", "main_us")),
                f"{(part['process_us'] - part['main_us']).median() / 1000:.2f}",
                f"{(part['wall_us'] - part['process_us']).median() / 1000:.2f}",
            )
        )
    by_side = at.set_index(["cores", "k", "pair", "side"])
    times, kept = by_side["wall_us"].unstack("side"), by_side["mode"].unstack("side")
    ratio = (times["B"] / times["A"]).to_frame("ratio")
    spreads = []
    for name, part in (("all", ratio), ("both sides in one mode", ratio[kept["A"] == kept["B"]])):
        logs = [np.log(part.loc[cores]["ratio"].to_numpy(float)) for cores in (0, 4, 1)]
        spreads.append((name, *(f"{percent(sd(log))} ({len(log)})" for log in logs)))
    head = [
        "mode of a process in a block",
        "free",
        "same 4 cores",
        "same core",
        "step, ms",
        "CPU of main thread",
    ]
    first = table([*head, "CPU of other threads", "neither"], rows)
    second = table(
        ["SD of the ratio of medians (blocks)", "free", "same 4 cores", "same core"], spreads
    )
    return f"{first}\n\n{second}"


def normalised(data: Data) -> str:
    """One process's step time over what its core took for fixed work between its turns: no other process is needed."""
    turns = select(data.turns, {"loop": "launch", "plant_percent": 0})
    wall = data.steps.groupby("turn")["wall_us"].median().rename("wall")
    turns = turns.merge(wall, left_on="turn", right_index=True)
    kinds = {
        "alone, fresh": turns["pair"] < 0,
        "free, k = 3": (turns["order"] == "turns") & (turns["cores"] == 0) & (turns["k"] == 3),
        "same core, k = 3": (turns["cores"] == 1) & (turns["k"] == 3),
        "same core, k = 10": (turns["cores"] == 1) & (turns["k"] == 10),
    }
    rows = []
    for name, kind in kinds.items():
        by_process = turns[kind].groupby("process")
        level = np.log(by_process["wall"].median())
        if level.empty:
            continue
        canaries = [
            by_process[f"canary_{work}_ns"].quantile(0.25)
            for work in ("python", "syscall", "launch")
        ]
        over = [percent(sd((level - np.log(canary)).to_numpy(float))) for canary in canaries]
        rows.append((name, len(level), percent(sd(level.to_numpy(float))), *over))
    head = [
        "SD between processes",
        "processes",
        "step time",
        "over Python loop",
        "over system calls",
    ]
    return table([*head, "over kernel launches"], rows)


def correlation(one: pd.Series[float], other: pd.Series[float]) -> str:
    """Or a dash, where one of them is constant."""
    if len(one) < 3 or one.nunique() < 2 or other.nunique() < 2:
        return "-"
    return f"{np.corrcoef(one.to_numpy(float), other.to_numpy(float))[0, 1]:.2f}"


def shared_mood(data: Data) -> str:
    """How alike neighbouring turns are: the spread of one side's turns, and what is left of it in the ratio."""
    rows = []
    for kind in designs(data):
        chosen = select(data.steps, {"order": "turns", "plant_percent": 0, "loop": "launch"} | kind)
        one, ratio, link, level = [], [], [], []
        for _, block in chosen.groupby("pair"):
            times = times_of(block, "wall_us")
            x, y = (np.log(np.median(times[side], axis=1)) for side in "AB")
            one.append(float(np.var(x, ddof=1) + np.var(y, ddof=1)) / 2)
            ratio.append(float(np.var(y - x, ddof=1)))
            link.append(float(np.corrcoef(x, y)[0, 1]))
            level.append((float(np.median(x)), float(np.median(y))))
        across = np.array(level)
        rows.append(
            (
                label(kind),
                f"{np.exp(across.mean()) / 1000:.2f}",
                percent(sd(across[:, 0])),
                f"{np.corrcoef(across.T)[0, 1]:.2f}",
                percent(float(np.median(one)) ** 0.5),
                percent(float(np.median(ratio)) ** 0.5),
                f"{np.median(link):.2f}",
            )
        )
    head = [
        "design",
        "ms",
        "SD of A over pairs",
        "correlation of A and B over pairs",
        "SD of one side's turns",
    ]
    return table([*head, "SD of their ratios", "correlation of neighbouring turns"], rows)


def switching(data: Data) -> str:
    """Steps by their place in a turn, over the median of places 5 to 9 of turns of ten by a process alone."""
    rows = []
    chosen = select(data.steps, {"plant_percent": 0})
    chosen = chosen[chosen["pair"] >= 0]
    for (loop, order, cores, k), group in chosen.groupby(
        ["loop", chosen["order"].where(chosen["order"] == "turns", "alone"), "cores", "k"]
    ):
        at = group.groupby("place")["wall_us"].median() / 1000
        settled = at[at.index >= min(5, int(str(k)) - 1)].median()
        cells = [f"{at[i]:.3f}" if i in at.index else "" for i in (0, 1, 2, 3)]
        kind = "alone" if order == "alone" else "turns"
        name = "GPU-bound" if loop == "gpu" else "CPU-bound"
        rows.append((name, f"{kind}, {cores_label(cores)}, k = {k}", *cells, f"{settled:.3f}"))
    return table(
        ["loop", "turns", "step 1, ms", "step 2", "step 3", "step 4", "6th on (or last)"], rows
    )


def gpu_bound(data: Data) -> str:
    """The GPU-bound loop: its times in turns beside alone, and the spread of its ratios."""
    chosen = select(data.steps, {"loop": "gpu"})
    in_turns = chosen[(chosen["order"] == "turns") & (chosen["place"] >= 1)]
    stages = {
        "A alone, its steps 1-10": chosen[(chosen["order"] == "A") & (chosen["place"] < 10)],
        "A alone, its steps 31-40": chosen[(chosen["order"] == "A") & (chosen["place"] >= 30)],
        "then in turns, first turn of each": in_turns[in_turns["index"] == 0],
        "then in turns, fifth turn of each": in_turns[in_turns["index"] == 4],
        "then in turns, tenth turn of each": in_turns[in_turns["index"] == 9],
        "then B alone, its steps 31-40": chosen[(chosen["order"] == "B") & (chosen["place"] >= 30)],
    }
    rows: list[tuple[object, ...]] = []
    for name, stage in stages.items():
        log = np.log(stage.groupby("pair")["wall_us"].median().to_numpy(float))
        rows.append(
            (f"{name}: ms (SD over pairs)", f"{np.exp(log.mean()) / 1000:.3f} ({percent(sd(log))})")
        )
    turns = chosen[chosen["order"] == "turns"]
    over = turns["wall_us"] / turns.groupby("turn")["wall_us"].transform("median")
    for place in range(3):
        at_place = over[turns["place"] == place].groupby(turns["pair"]).median()
        rows.append(
            (
                f"step {place + 1} of a turn over its median",
                mean_and_error(np.log(at_place.to_numpy(float))),
            )
        )
    for estimator in ESTIMATORS:
        values = by_pair(data, {"loop": "gpu", "k": 10}, "wall_us", estimator.ratio)
        rows.append(
            (
                f"SD (mean) of the ratio in turns, {estimator.name}",
                f"{percent(sd(values))} ({mean_and_error(values)})",
            )
        )
    return table(["", ""], rows)


def needed(data: Data) -> str:
    """Pairs to show 2 %."""
    rows: list[tuple[object, ...]] = []
    alone = select(data.steps, {"loop": "launch", "cores": 0})
    fresh = np.log(
        alone[(alone["pair"] < 0)].groupby("process")["wall_us"].median().to_numpy(float)
    )
    candidates = []
    if len(fresh) > 1:
        candidates.append(("one after another, difference of medians", sd(fresh) * 2**0.5, ""))
    for kind in designs(data):
        values = by_pair(data, kind, "wall_us", HL.ratio)
        candidates.append(
            (f"turns, {label(kind)}, HL", sd(values), interval(sd(values), len(values)))
        )
    core = [by_pair(data, kind, "wall_us", HL.ratio) for kind in designs(data, cores=1)]
    if core:
        mean = np.mean(core, axis=0)
        candidates.append(
            (
                "turns, same core, mean of both blocks (55 turns)",
                sd(mean),
                interval(sd(mean), len(mean)),
            )
        )
    for name, deviation, within in candidates:
        counts = pairs_needed(deviation, known=False), pairs_needed(deviation, known=True)
        power = stats.nct.sf(
            stats.t.isf(P_VALUE, MOST_PAIRS - 1),
            MOST_PAIRS - 1,
            EFFECT * MOST_PAIRS**0.5 / deviation,
        )
        rows.append((name, percent(deviation), within, *counts, f"{100 * power:.0f} %"))
    head = ["design", "SD of a pair", "90 % interval", "pairs, t test", "pairs, SD known"]
    return table([*head, f"power of a t test on {MOST_PAIRS} pairs"], rows)


def main() -> None:
    """Print everything."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, nargs="+")
    data = load(parser.parse_args().file)
    pairs = data.blocks[data.blocks["pair"] >= 0]["pair"].nunique()
    alone = data.blocks[data.blocks["pair"] < 0]["pair"].nunique()
    stolen = int(data.blocks["steal_jiffies"].sum())
    print(f"{data.info['machine']}\n{data.info['settings']}")
    print(
        f"{pairs} pairs, {alone} processes alone, {len(data.steps)} steps, {stolen} jiffies stolen"
    )
    for title, text in (
        *([("Processes one after another", one_after_another(data))] if alone else []),
        ("SD of a pair's ratio in turns", spread(data)),
        (
            "Pairs needed to show 2 % at p < 0.0007, one-sided, with power 90 % (HL of turns)",
            needed(data),
        ),
        ("What more turns do not cancel (wall, HL)", components(data)),
        ("What a pair keeps from block to block (same core, wall, HL)", between_blocks(data)),
        ("Planted work: truth: estimate - truth ± standard error", planted(data)),
        ("Three modes", modes(data)),
        ("What goes with the wall time: correlations of logs", moods(data)),
        ("The mood measured by fixed work", normalised(data)),
        ("Is the mood shared?", shared_mood(data)),
        ("Steps after a switch", switching(data)),
        ("GPU-bound loop", gpu_bound(data)),
    ):
        print(f"\n## {title}\n\n{text}")


if __name__ == "__main__":
    main()
