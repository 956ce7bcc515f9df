"""Records the captures of `perfgate demo` on the GPU of this machine, by the real gate.

Usage: python benchmarks/record_demo.py TARGET
Runs `pytest --perfgate` on workloads/small_loops.py three times (baseline, unchanged, with the
regressions pageable and item), and packs the kept exports, which hold no environment, and nsys's
summaries into TARGET.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from perfgate.demo.replay import EXPORT, MANIFEST, Manifest, RecordedRun, Recording
from perfgate.model.baseline import Result
from perfgate.store import Store

WORKLOAD = "mlp"
FILE = "small_loops.py"
RUNS = 5
TITLES = {
    "baseline": "A first gate: measured, and nothing to compare with",
    "unchanged": "The same loop again, unchanged",
    "regressed": (
        "The same loop with a planted regression: its input is pageable, and each step "
        "asks for loss.item()"
    ),
}
REGRESSIONS = {"baseline": "", "unchanged": "", "regressed": "pageable,item"}


def pack(run_folder: Path, archive: Path) -> None:
    """Pack one kept run, its scrubbed export and nsys's summaries, as a reproducible tar.xz."""
    with tarfile.open(archive, "w:xz", preset=9) as packed:
        _add(packed, run_folder / "capture-0.sqlite", EXPORT)
        for report in sorted((run_folder / "capture-0-reports").glob("*.csv")):
            _add(packed, report, report.name)


def _add(packed: tarfile.TarFile, file: Path, name: str) -> None:
    content = file.read_bytes()
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    entry.mode = 0o644
    packed.addfile(entry, io.BytesIO(content))


def record(name: str, project: Path, target: Path) -> tuple[Recording, Result]:
    """Run one gate in a scratch project, and pack its runs."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--perfgate",
        "-k",
        WORKLOAD,
        f"--perfgate-runs={RUNS}",
    ]
    subprocess.run(
        command, cwd=project, env={**os.environ, "SMALL_REGRESSION": REGRESSIONS[name]}, check=False
    )
    kept = Store(project, "baselines").results.latest(WORKLOAD)
    if kept is None or len(kept.result.runs) != RUNS:
        raise SystemExit(f"{name}: the gate kept no result of {RUNS} runs")
    runs: list[RecordedRun] = []
    for index, run in enumerate(kept.result.runs):
        archive = f"{name}-{index + 1}.tar.xz"
        pack(kept.folder / f"run-{index + 1}", target / archive)
        runs.append(
            RecordedRun(
                archive=archive,
                started_at=run.started_at,
                wall_s=run.wall_s,
                conditions=run.conditions,
            )
        )
    return Recording(title=TITLES[name], runs=tuple(runs)), kept.result


def main(target: Path) -> None:
    """Record all three gates."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="perfgate-record-") as folder:
        project = Path(folder)
        (project / "pyproject.toml").write_text("[tool.perfgate]\n", encoding="utf-8")
        (project / "workloads").mkdir()
        source = Path(__file__).parents[1] / "workloads" / FILE
        shutil.copy(source, project / "workloads")
        recorded = {name: record(name, project, target) for name in TITLES}
    result = recorded["baseline"][1]
    manifest = Manifest(
        workload=result.workload,
        machine=result.machine,
        baseline=recorded["baseline"][0],
        unchanged=recorded["unchanged"][0],
        regressed=recorded["regressed"][0],
    )
    (target / MANIFEST).write_text(manifest.model_dump_json(indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
