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
    "value-missing": ("{place:quote}: it is not there", "It has no default", "Add it."),
    "expects-integer": "a whole number",
    "expects-number": "a number",
    "expects-finite": "a finite number",
    "expects-boolean": "true or false",
    "expects-text": "text",
    "expects-list": "a list",
    "expects-words": "a list of words, since no shell is involved: {words:quote}",
    "expects-mapping": "a mapping",
    "expects-one-of": "{choices:raw}",
    "expects-more": "greater than {limit:count}",
    "expects-at-least": "at least {limit:count}",
    "expects-less": "less than {limit:count}",
    "expects-at-most": "at most {limit:count}",
    "expects-some": "not empty",
    "expects-fraction": "a fraction above 0 and below 1, such as 0.02 or 2%",
    "expects-budget": "a metric and a fraction, such as step_ms=0.03 or step_ms=3%",
    "expects-folder-within": "a folder, without '..' on the way to it",
    "expects-own-folder": (
        "a folder of its own in the project, since what changes there is not taken for code: "
        'baselines = "baselines"'
    ),
    "expects-no-nul": "without a NUL, which no path and no program's argument can hold",
    "expects-pattern": "a regular expression ({problem:quote})",
    "expects-variable": "the name of a variable",
    "expects-existing-folder": "a folder that is there, relative to the project's root",
    "expects-capture": (
        "cudaProfilerApi, all, or delay and duration in seconds: {{delay: 10, duration: 10}}"
    ),
    "expects-alone": (
        "1 with a window by the clock, which would open while the run waits for its turn"
    ),
    "expects-tenths": (
        "a multiple of 0.1 s, as nsys takes it, from {least:count} s to a day ({most:count} s)"
    ),
    # Keys
    "key-unknown": ("{place:quote}: unknown key '{key}'", "Known are {known:list}", "Remove it."),
    "key-misspelt": (
        "{place:quote}: unknown key '{key}'",
        "Known are {known:list}",
        "Perhaps you meant '{nearest}'.",
    ),
    "metric-without-budget": (
        "{place:quote} {metric}: this metric has no budget: it is shown only",
        "Metrics with a budget are {known:list}",
        "Remove it.",
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
    "setting-twice": (
        "{old} and {new} in [tool.perfgate] are one setting",
        "expected one of them",
        "Remove {old}, its old name.",
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
        "pyproject.toml [tool.{table}]: no tool of this name is known to perfgate",
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
    "workload-file-at": (
        "{file:quote}: it cannot be read as YAML (line {line}, column {column}: {problem:quote})",
        "",
        "Correct the file: indent with spaces, and in double quotes write a backslash twice.",
    ),
    "workload-file-large": (
        "{file:quote}: it has {bytes:count} bytes",
        "A workload file has at most {most_bytes:count}",
        "Keep other files out of the folder of workloads.",
    ),
    "workload-file-empty": (
        "{file:quote}: it holds no mapping",
        "Expected a mapping with the keys command, step and steps",
        "See docs/first-workload.md for a YAML workload.",
    ),
    "yaml-key-no-text": "a key is no text",
    "yaml-key-twice": "the key '{key}' is there twice",
    "yaml-too-large": "it holds itself, or more than {most:count} values, by its aliases",
}
