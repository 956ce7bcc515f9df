"""What the plugin says: refusals of a command line, of what was collected, and why a gate is
shut.
"""

from __future__ import annotations

from typing import Final

from perfgate.words.text import Rows

_NOT_MEASURED: Final = "Workloads are plain functions, and this one would not be measured"

TEXT: Final[Rows] = {
    # Options
    "option-without-gate": (
        "{option} does nothing without --perfgate",
        "",
        "Add --perfgate, or leave it out.",
    ),
    "option-not-in-a-gate": (
        "--perfgate with {option}: a gate measures its workloads one by one, and knows all of them",
        "They would measure one another, or go missing unseen",
        "Leave {option} out. To gate some workloads, name their files, or use -k or -m.",
    ),
    "worker-option": (
        "--perfgate-worker is what a gate passes to its own runs",
        "",
        "Leave it out.",
    ),
    "plugin-off": (
        "-p no:{plugin}: it is switched off, and a gate needs it",
        "",
        "Leave it out, or leave --perfgate out; -q prints least.",
    ),
    "base-unreadable": ("--perfgate-base: {file:quote} cannot be read", "", "Leave it out."),
    "shard-invalid": (
        "--perfgate-shard: the value is '{value}'",
        "It should be I/N: the I-th, from 1, of N parts",
        "Correct it.",
    ),
    "shards-too-many": (
        "--perfgate-shard: the value is '{value}', and the number of workloads is {workloads}",
        "Some shards would measure nothing",
        "Ask for {workloads:shard|shards} at most.",
    ),
    "options-not-heeded": (
        "perfgate: a gate heeds what is typed on its command line, so not {options:list}"
    ),
    # The project
    "root-misled": (
        (
            "--perfgate: pytest takes {root:quote} for the project, by the files that were named "
            "or a word that reads as one"
        ),
        "Where it was started, in {start:quote}, the project is {project:quote}",
        (
            "Start it in the project, or name that with --rootdir; join each option and its value: "
            "--perfgate-json=FILE"
        ),
    ),
    "workloads-folder-missing": (
        "--perfgate: there is no folder {folder:quote}. Workloads are collected from there",
        "The project is {root:quote}",
        (
            "Make one with a workload in it, or set workloads in [tool.perfgate]. To have a "
            "project elsewhere, give its folder a configuration of pytest's own."
        ),
    ),
    # Files that are written
    "output-unwritable": (
        "{option}: {file:quote} cannot be written",
        "",
        "Give it a file in a folder that can be written to.",
    ),
    "file-unwritten": (
        "{file:quote}: it cannot be written ({reason})",
        "",
        "Give a file that can be written.",
    ),
    # Collection
    "workload-name-twice": (
        "{workload}: {sources:list} have a workload of this name",
        "Baselines are kept by name, so it must be unique",
        "Rename all but one; where a file imports another's, import the module.",
    ),
    "workload-left": (
        (
            "{source:quote}: sys.exit({status}) ended it as it was imported, as a file of "
            "workloads is before anything is measured"
        ),
        "",
        'Put what it runs under if __name__ == "__main__":, or keep it in another folder.',
    ),
    "workload-id-secret": (
        "{source:quote}: @workload on {workload}: its name holds a secret: {name}",
        "Names of workloads stand in baselines and verdicts, which are published",
        "Give the parameter a name: pytest.param(..., id=NAME)",
    ),
    "parameter-without-id": (
        (
            "{source:quote}: @workload on {workload}: the value of {parameter} is of type {type}, "
            "and has no id"
        ),
        (
            "Two measurements are compared by their parameters: numbers, texts and the like by "
            "their values, any other by its id"
        ),
        "Give each value an id: parametrize(..., ids=[...]), or pytest.param(..., id=NAME)",
    ),
    "collection-failed": (
        "workloads: they cannot be collected ({reason:quote})",
        "",
        "See what pytest says: pytest --perfgate --collect-only",
    ),
    "deselected-by-hook": "deselected by a conftest or plugin",
    # Why the gate is shut
    "left-while-loading": (
        (
            "--perfgate: a conftest or plugin left with sys.exit(0) while it was loaded, so "
            "nothing was measured"
        ),
        "That is no success",
        "Let it raise, or skip what it cannot run.",
    ),
    "left-before-verdict": (
        (
            "GATE SHUT: pytest was ended with exit status 0 before the gate's verdict was shown: "
            "by pytest.exit or pytest_cmdline_main in a conftest or plugin, for one"
        ),
        "That is no success",
        "Let it raise, or skip what it cannot run.",
    ),
    "exited-before-verdict": (
        (
            "GATE SHUT: os._exit(0) at {place:quote} ended pytest before its verdict, so nothing "
            "was shown"
        ),
        "That is no success",
        (
            "Call it where only the workload's own process comes by, or gate the script by a "
            "workload file."
        ),
    ),
    "base-not-measured": (
        "{workload}: {branch} has a baseline of it for this machine, and it was not measured"
    ),
    "files-uncollected": "files that cannot be collected: {files:list}",
    "pytest-interrupted": "interrupted",
    "pytest-not-started": "pytest did not start, see its error",
    "pytest-broke-down": "pytest broke down, see its traceback",
    "pytest-failed": "pytest failed next to the workloads, see above (exit status {exit_status})",
    "error-shared": (
        "Among {workloads} workloads, times share the 1 % of false alarms that a gate may give "
        "(Holm)"
    ),
}
