"""The figures that the README and the pages behind it give of the evidence, held to the committed results."""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import median
from typing import Any

TOP = Path(__file__).parents[3]
RESULTS: Any = json.loads((TOP / "benchmarks" / "decision" / "results.json").read_text(encoding="utf-8"))
README = (TOP / "README.md").read_text(encoding="utf-8")
CLOCK, ALL_CLOCKS = "step_ms alone", "all five clocks"
LOOPS = ("gpu_bound", "cpu_bound")
NUMBERS = {8: "eight", 9: "nine"}
WITH_DUET, STORED, AGAINST = "perfgate", "perfgate, stored baseline only", "perfgate, against a revision"


def simulated(clocks: str, rule: str) -> dict[tuple[str, float], dict[str, Any]]:
    cells = RESULTS["simulated"]["cells"]
    return {
        (cell["population"], cell["slowdown"]): cell
        for cell in cells
        if (cell["clocks"], cell["rule"]) == (clocks, rule)
    }


def share(cell: dict[str, Any]) -> float:
    return float(100 * cell["regressed"] / cell["gates"])


def rows_behind(text: str, page: str = README) -> list[list[str]]:
    table = page.partition(text)[2].partition("\n|---")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[1:]]


def test_the_simulated_table() -> None:
    cells = simulated(CLOCK, WITH_DUET)
    told = rows_behind("| population | false alarms |")
    assert [row[0].partition(":")[0] for row in told] == list(dict.fromkeys(population for population, _ in cells))
    for (named, alarms, processes, found), population in zip(
        told, dict.fromkeys(population for population, _ in cells), strict=True
    ):
        unchanged = cells[population, 0.0]
        assert named.startswith(f"{population}:")
        digits = 0.005 if share(unchanged) < 1 else 0.05
        assert abs(float(alarms.removesuffix(" %")) - share(unchanged)) <= digits + 1e-9
        assert float(processes) == round(unchanged["runs"] / unchanged["gates"], 1)
        powers = [float(power) for power in found.removesuffix(" %").split(" / ")]
        for slowdown, power in zip((0.02, 0.03, 0.05), powers, strict=True):
            exact = share(cells[population, slowdown])
            assert (power == 100) == (exact == 100)
            assert abs(power - exact) <= (0.005 if exact > 99 else 0.05) + 1e-9


def test_the_number_of_simulated_gates() -> None:
    assert f"Simulated, {RESULTS['simulated']['gates']} gates a cell" in README


def test_the_table_of_real_gates() -> None:
    told = {(one["loop"], one["slowdown"]): one for one in RESULTS["measured"]["told"]}
    found = {(one["loop"], one["slowdown"]): one for one in RESULTS["measured"]["found"] if one["rule"] == "perfgate"}
    rows = rows_behind("| longer steps, planted |")
    for named, *columns in rows:
        slowdown = 0.0 if named == "none" else float(named.removesuffix(" %")) / 100
        for loop, column in zip(LOOPS, columns, strict=True):
            one, said = told[loop, slowdown], found[loop, slowdown]
            expected = f"{said['regressed']} of {said['gates']} ({one['runs']:.1f} runs, {one['took_s']:.0f} s)"
            assert column.partition(":")[0] == expected
    assert len(rows) * len(LOOPS) == sum(loop in LOOPS for loop, _ in told)


def test_how_often_unchanged_code_is_regressed_at_most() -> None:
    def most(clocks: tuple[str, ...], rules: tuple[str, ...], populations: tuple[str, ...]) -> float:
        return max(
            share(cell)
            for clock in clocks
            for rule in rules
            for (population, slowdown), cell in simulated(clock, rule).items()
            if population in populations and not slowdown
        )

    page = " ".join((TOP / ".github" / "docs" / "decision.md").read_text(encoding="utf-8").split())
    told = re.search(
        r"REGRESSED in at most ([\d.]+) % of gates where runs differ by up to 2 %, ([\d.]+) % where they have two "
        r"speeds "
        r"and ([\d.]+) % where they differ by 2 to 5 %; without a duet in ([\d.]+), ([\d.]+) and ([\d.]+) %; in duets "
        r"against a revision, of code without a baseline, in ([\d.]+), ([\d.]+) and ([\d.]+) %",
        page,
    )
    assert told is not None
    clocks, kinds = (CLOCK, ALL_CLOCKS), (("quiet", "typical", "mix"), ("two speeds",), ("noisy",))
    expected = [most(clocks, (rule,), kind) for rule in (WITH_DUET, STORED, AGAINST) for kind in kinds]
    assert [float(figure) for figure in told.groups()] == [float(f"{figure:.2g}") for figure in expected]


def test_how_far_runs_in_a_row_lie_apart() -> None:
    def apart(values: list[float]) -> float:
        return 100 * (max(values) - min(values)) / median(values)

    recorded = json.loads((TOP / "benchmarks" / "decision" / "h200.json").read_text(encoding="utf-8"))["loops"]
    loops = [[loop["baseline"] for loop in recorded if loop["name"] == name] for name in LOOPS]
    page = (TOP / ".github" / "docs" / "numbers.md").read_text(encoding="utf-8")
    rows = rows_behind("| loop | runs |", page)[1:]
    for (named, runs, *columns), baselines in zip(rows, loops, strict=True):
        assert NUMBERS[len(baselines)] in named.split()
        assert {len(baseline) for baseline in baselines} == {int(runs)}
        for metric, column in zip(("step_ms", "kernel_ms"), columns, strict=True):
            found = [apart([run["values"][metric] for run in baseline]) for baseline in baselines]
            for told, exact in zip(column.removesuffix(" %").split(" to "), (min(found), max(found)), strict=True):
                digits = len(told.partition(".")[2])
                assert abs(float(told) - exact) <= 0.5 / 10**digits + 1e-9


def test_how_often_it_is_on_a_host_that_became_noisier() -> None:
    page = " ".join((TOP / ".github" / "docs" / "decision.md").read_text(encoding="utf-8").split())
    told = re.search(
        r"ten times as much in the gate as when they were blessed, 0.3 % and 3 %, it is ([\d.]+) %, and without a duet "
        r"([\d.]+) % by `step_ms` alone and ([\d.]+) % by five clocks",
        page,
    )
    assert told is not None
    rules = ((ALL_CLOCKS, WITH_DUET), (CLOCK, STORED), (ALL_CLOCKS, STORED))
    expected = [share(simulated(clocks, rule)["noisier host", 0.0]) for clocks, rule in rules]
    assert [float(figure) for figure in told.groups()] == [float(f"{figure:.2g}") for figure in expected]
