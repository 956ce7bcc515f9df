"""Runs every variant of the tutorials' optimisation series on this machine, and judges each against
the one before.

    python -m benchmarks.series run OUT.json --seconds 540
    python -m benchmarks.series table OUT.json

`run` measures each variant of workloads/ several times, in fresh processes under nsys, and saves
after each run: run the same command again, and it goes on where it was. On a machine with several
GPUs, start one `run` a GPU, each with its own CUDA_VISIBLE_DEVICES, cores (taskset), loops and
file, and `merge` the files. `table` writes RESULTS.md, next to the published numbers.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import perfgate
from benchmarks.series.lessons import VARIANTS
from benchmarks.series.measuring import Nsys, Turns, collect, commit_of, context_of
from benchmarks.series.recording import Recording, Unusable, load, merge, save
from benchmarks.series.table import markdown
from perfgate.model.errors import PerfgateError

HERE: Final = Path(__file__).resolve().parent
DONE, MISSING, USAGE = 0, 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Do what is asked, and return the exit status."""
    given = parser().parse_args(argv)
    try:
        match given.what:
            case "run":
                return _run(given)
            case "merge":
                return _merge(given)
            case _:
                return _table(given)
    except (Unusable, PerfgateError) as refused:
        sys.stderr.write(f"{refused}\n")
        return USAGE


def parser() -> argparse.ArgumentParser:
    """The command line."""
    whole = argparse.ArgumentParser(
        prog="python -m benchmarks.series",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    kinds = whole.add_subparsers(dest="what", required=True, metavar="{run,merge,table}")

    run = kinds.add_parser(
        "run",
        help="measure variants, and go on where a file already holds some",
        description="Measure variants in turns. Exits 0 if each has its runs, 1 if some are "
        "missing (failed, or no time). Runs that the file holds count, of whichever "
        "code and GPU: to measure a loop anew, begin another file.",
    )
    run.add_argument(
        "out",
        type=Path,
        metavar="OUT.json",
        help="where the samples are kept; read first if it is there",
    )
    run.add_argument(
        "--workload",
        nargs="+",
        metavar="W",
        help=f"loops, by the stem of their file (default: {' '.join(VARIANTS)}); resnet50_ddp "
        "runs on as many GPUs as are visible",
    )
    run.add_argument(
        "--variant",
        nargs="+",
        default=[],
        metavar="R",
        help="only these; `exhaustive` must be named",
    )
    run.add_argument(
        "--runs",
        type=int,
        default=3,
        metavar="N",
        help="of each variant (default: %(default)s)",
    )
    run.add_argument(
        "--seconds",
        type=float,
        metavar="N",
        help="start no run after this time",
    )
    run.add_argument(
        "--project", type=Path, default=Path(), metavar="DIR", help="holds workloads/ (default: .)"
    )

    joined = kinds.add_parser(
        "merge",
        help="make one file of several",
        description="Make one recording of several, OUT.json the first; runs are taken once.",
    )
    joined.add_argument("out", type=Path, metavar="OUT.json", help="read first if it is there")
    joined.add_argument("parts", type=Path, nargs="+", metavar="PART.json")
    table = kinds.add_parser("table", help="judge a recording and write RESULTS.md")
    table.add_argument("file", type=Path, metavar="FILE.json")
    return whole


def _run(given: argparse.Namespace) -> int:
    # From here on: finding the variants takes seconds too.
    ends = None if given.seconds is None else time.monotonic() + given.seconds
    project = given.project.resolve()
    env = dict(os.environ)
    context = context_of(project, env)
    recording = load(given.out) if given.out.exists() else Recording(perfgate=perfgate.__version__)
    loops = list(dict.fromkeys(given.workload or VARIANTS))
    variants = collect(project, loops, given.variant, env=env, machine=context.machine)
    save(recording, given.out)
    with tempfile.TemporaryDirectory(prefix="perfgate-series-") as folder:
        turns = Turns(
            recording=recording,
            variants=variants,
            runs=given.runs,
            measure=Nsys(
                context=context,
                folder=Path(folder),
                variants=tuple(given.variant),
                commit=commit_of(project),
                say=_say,
            ),
            save=lambda now: save(now, given.out),
            say=_say,
            ends=ends,
        )
        turns.take()
    missing = turns.missing()
    if not missing:
        _say(f"all measured: {given.out}")
        return DONE
    _say(f"still to be measured: {', '.join(one.workload.id for one in missing)}")
    return MISSING


def _merge(given: argparse.Namespace) -> int:
    former = [given.out] if given.out.exists() else []
    save(merge([load(part) for part in (*former, *given.parts)]), given.out)
    return DONE


def _table(given: argparse.Namespace) -> int:
    (HERE / "RESULTS.md").write_text(markdown(load(given.file)), encoding="utf-8")
    return DONE


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
