"""The figures that the pages give of the evidence, held to the committed results."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

TOP = Path(__file__).parents[3]
RESULTS: Any = json.loads(
    (TOP / "benchmarks" / "decision" / "results.json").read_text(encoding="utf-8")
)
EVIDENCE = (TOP / "docs" / "evidence.md").read_text(encoding="utf-8")
LOOPS = ("gpu_bound", "cpu_bound")
NUMBERS = {8: "eight", 9: "nine"}
A_B = ("A/B run", "5x1", 1)
CHANGES = ("unchanged", "gap_ms +2 %")


def share(cell: dict[str, Any]) -> float:
    return float(100 * cell["regressed"] / cell["gates"])


def rows_behind(text: str, page: str = EVIDENCE) -> list[list[str]]:
    table = page.partition(text)[2].partition("\n|---")[2].partition("\n\n")[0]
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[1:]
    ]


def test_the_simulated_table() -> None:
    cells = {
        (cell["population"], cell["change"]): cell
        for cell in RESULTS["simulated"]["cells"]
        if (cell["gate"], cell["baseline"], cell["workloads"]) == A_B
    }
    names = sorted({population for population, _ in cells}, key=len, reverse=True)
    shown = rows_behind("| population: run SD / occasion SD in % of a step |")
    assert shown
    for named, alarms, processes, found in shown:
        population = next(name for name in names if named.startswith(name))
        unchanged = cells[population, "unchanged"]
        made = sum(int(number) * gates for number, gates in unchanged["processes"].items())
        assert float(processes) == round(made / unchanged["gates"], 1)
        shares = [alarms, *found.split(" / ")]
        for share_shown, change in zip(
            shares, ("unchanged", *(f"gap_ms +{loss} %" for loss in (2, 3, 5))), strict=True
        ):
            figure, exact = share_shown.removesuffix(" %"), share(cells[population, change])
            assert (float(figure) in (0, 100)) == (exact in (0, 100))
            assert abs(float(figure) - exact) <= 0.5 / 10 ** len(figure.partition(".")[2]) + 1e-9
    gates = {
        cell["change"] == "unchanged": cell["gates"]
        for cell in cells.values()
        if cell["change"] in CHANGES
    }
    assert (
        f"Simulated, {gates[True]} gates of unchanged code a row and {gates[False]} of slower code"
        in EVIDENCE
    )


def test_the_goals_are_those_of_the_committed_results() -> None:
    results = (TOP / "benchmarks" / "decision" / "RESULTS.md").read_text(encoding="utf-8")
    table = results.partition("|  | goal |")[2].partition("\n\n")[0]
    assert table.count("\n") > 20
    page = (TOP / "docs" / "how-it-decides.md").read_text(encoding="utf-8")
    assert table in page, (
        "the goals' table of docs/how-it-decides.md is that of benchmarks/decision/RESULTS.md"
    )


def test_the_table_of_real_gates() -> None:
    shown = {(one["loop"], one["slowdown"]): one for one in RESULTS["measured"]["summaries"]}
    found = {
        (one["loop"], one["slowdown"]): one
        for one in RESULTS["measured"]["found"]
        if one["rule"].endswith("as it was then")
    }
    rows = rows_behind("| longer steps, planted |")
    for named, *columns in rows:
        slowdown = 0.0 if named == "none" else float(named.removesuffix(" %")) / 100
        for loop, column in zip(LOOPS, columns, strict=True):
            one, said = shown[loop, slowdown], found[loop, slowdown]
            expected = (
                f"{said['regressed']} of {said['gates']} ({one['runs']:.1f} runs, "
                f"{one['took_s']:.0f} s)"
            )
            assert column.partition(":")[0] == expected
    assert len(rows) * len(LOOPS) == sum(loop in LOOPS for loop, _ in shown)


def test_how_far_runs_in_a_row_lie_apart() -> None:
    def apart(values: list[float]) -> float:
        return 100 * (max(values) - min(values)) / median(values)

    recorded = json.loads(
        (TOP / "benchmarks" / "decision" / "h200.json").read_text(encoding="utf-8")
    )["loops"]
    loops = [[loop["baseline"] for loop in recorded if loop["name"] == name] for name in LOOPS]
    page = (TOP / "docs" / "numbers.md").read_text(encoding="utf-8")
    rows = rows_behind("| loop | runs |", page)[1:]
    for (named, runs, *columns), baselines in zip(rows, loops, strict=True):
        assert NUMBERS[len(baselines)] in named.split()
        assert {len(baseline) for baseline in baselines} == {int(runs)}
        for metric, column in zip(("step_ms", "kernel_ms"), columns, strict=True):
            found = [apart([run["values"][metric] for run in baseline]) for baseline in baselines]
            for shown, exact in zip(
                column.removesuffix(" %").split(" to "), (min(found), max(found)), strict=True
            ):
                digits = len(shown.partition(".")[2])
                assert abs(float(shown) - exact) <= 0.5 / 10**digits + 1e-9
