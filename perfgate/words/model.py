"""What is said of settings, options and workload files that are not accepted."""

from __future__ import annotations

from typing import Final

from perfgate.words.text import Rows

TEXT: Final[Rows] = {
    # Values; `place` is where one stands: a file and key, or an option
    "value-invalid": (
        "{place:quote}: the value is {value}",
        "It should be {expected}",
        "Correct it.",
    ),
    "value-refused": ("{place:quote}: the value is {value}", "{problem:quote}", "Correct it."),
    "value-missing": ("{place:quote}: it is not there", "It has no default", "Add it."),
    "expects-words": "a list of words, since no shell is involved: [python, train.py]",
    "expects-fraction": "a fraction above 0 and below 1, such as 0.02 or 2%",
    "expects-budgets": (
        "a fraction above 0 and below 1, such as 0.03 or 3%, of a metric that has a budget: "
        "{metrics:list}"
    ),
    "expects-folder-within": "a folder, without '..' on the way to it",
    "expects-own-folder": (
        "a folder of its own in the project, since what changes there is not taken for code: "
        'baselines = "baselines"'
    ),
    "expects-pattern": "a regular expression",
    "expects-existing-folder": "a folder that is there, relative to the project's root",
    "expects-capture": (
        "cudaProfilerApi, all, or delay and duration in seconds, of a tenth each and of a day at "
        "most: {{delay: 10, duration: 10}}"
    ),
    "expects-alone": (
        "1 with a window by the clock, which would open while the run waits for its turn"
    ),
    # Keys
    "key-unknown": (
        "{place:quote}: unknown key '{key}'",
        "Known are {known:list}",
        "Correct or remove it.",
    ),
    "runs-contradict": (
        "runs: the first look takes {runs:run|runs}, but no more than {max_runs} are allowed",
        "max_runs must be at least runs",
        "Raise max_runs (--perfgate-max-runs) or lower runs (--perfgate-runs).",
    ),
    "setting-budget-without-effect": (
        (
            "the budget of {metric} in [tool.perfgate] has no effect any more: it is a part of "
            "step_ms, and shown only"
        ),
        "",
        "Remove it.",
    ),
    "setting-renamed": (
        "{old} in [tool.perfgate] is called {new} now",
        "",
        "Rename it; the old name still counts.",
    ),
    "trace-without-effect": (
        (
            "trace_osrt in [tool.perfgate] has no effect any more: perfgate showed nothing of what "
            "it recorded"
        ),
        "",
        "Remove it; a baseline that was blessed with it must be measured and blessed again.",
    ),
    # Files
    "table-misspelt": (
        "pyproject.toml [{table}]: no table of this name is known to perfgate",
        "Perhaps you meant [tool.perfgate]",
        "Write [tool.perfgate], or give a table of another tool next to an empty [tool.perfgate].",
    ),
    "table-invalid": (
        "pyproject.toml [tool.perfgate]: it is of type {type}",
        "Expected a table",
        "Write [tool.perfgate] and keys below it.",
    ),
    "toml-unreadable": (
        "{file}: it cannot be read as TOML ({problem:quote})",
        "",
        "Correct the file.",
    ),
    "workload-file-unreadable": (
        "{file:quote}: it cannot be read as YAML ({problem:quote})",
        "",
        "Correct the file: indent with spaces, and in double quotes write a backslash twice.",
    ),
    "workload-file-empty": (
        "{file:quote}: it holds no mapping",
        "Expected a mapping with the keys command, step and steps",
        "See docs/first-workload.md for a YAML workload.",
    ),
    "yaml-key-twice": "the key '{key}' is there twice",
    "yaml-alias": "it has an alias (*), which perfgate does not read",
}
