"""What the unused plugin adds to a pytest start, by pairs of starts with and without it. Knows
nothing of GPUs.

    python benchmarks/plugin_start.py [PAIRS]

Each pair runs `python -m pytest` on a project of one empty test, once with the plugin and once with
`-p no:perfgate`, in alternating order; exits 1 if the median of the differences is above the limit.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import numpy as np
from scipy.stats import quantile_test

LIMIT_MS: Final = 5.0
"""CPU time that a project which merely has perfgate installed may pay at each start."""
WARM_UP_PAIRS: Final = 3
"""Pairs that fill the file cache and write bytecode; not counted."""
COVERAGE: Final = 0.95

WITH: Final = ()
WITHOUT: Final = ("-p", "no:perfgate")


def _cpu_ms() -> float:
    """What the processes that this one has started and seen end have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (used.ru_utime + used.ru_stime)


def start_ms(project: Path, options: tuple[str, ...]) -> float:
    """Start pytest once in `project`, and return its CPU time, ms: others on the machine add to
    wall time what they like.
    """
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    before = _cpu_ms()
    done = subprocess.run(
        command, cwd=project, env=env, capture_output=True, text=True, check=False
    )
    taken = _cpu_ms() - before
    if done.returncode != 0 or "1 passed" not in done.stdout:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return taken


def differences_ms(project: Path, pairs: int) -> list[tuple[float, float]]:
    """Measure `pairs` pairs of (with, without), ms; every other pair starts with the other one."""
    measured: list[tuple[float, float]] = []
    for pair in range(-WARM_UP_PAIRS, pairs):
        if pair % 2:
            without = start_ms(project, WITHOUT)
            with_plugin = start_ms(project, WITH)
        else:
            with_plugin = start_ms(project, WITH)
            without = start_ms(project, WITHOUT)
        if pair >= 0:
            measured.append((with_plugin, without))
    return measured


def main() -> int:
    """Measure, print, and return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "pairs", type=int, nargs="?", default=40, metavar="PAIRS", help="default: 40"
    )
    pairs: int = parser.parse_args().pairs
    with tempfile.TemporaryDirectory(prefix="perfgate-start-") as folder:
        project = Path(folder)
        (project / "test_nothing.py").write_text(
            "def test_nothing():\n    pass\n", encoding="utf-8"
        )
        (project / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        measured = differences_ms(project, pairs)
    differences = [with_plugin - without for with_plugin, without in measured]
    # The order statistics that hold the median, whatever the distribution (sign test).
    low, high = np.array(quantile_test(differences).confidence_interval(COVERAGE))
    median = statistics.median(differences)
    print(
        f"pytest without the plugin: "
        f"{statistics.median(without for _, without in measured):.1f} ms (median)"
    )
    print(
        f"pytest with it, unused:    "
        f"{statistics.median(with_plugin for with_plugin, _ in measured):.1f} ms (median)"
    )
    print(
        f"difference, {pairs} pairs: {median:+.1f} ms (median; {COVERAGE:.0%} interval "
        f"{low:+.1f} to {high:+.1f} ms)"
    )
    print(f"limit: {LIMIT_MS:.0f} ms: {'kept' if median <= LIMIT_MS else 'broken'}")
    return 0 if median <= LIMIT_MS else 1


if __name__ == "__main__":
    sys.exit(main())
