"""Every option of a gate, once: pytest's flags, `[tool.perfgate]`, the action's inputs and the
reference; and the names that workflows and commands share.

Standard library only: each pytest that has perfgate installed loads it.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple


class Option(NamedTuple):
    """One thing that a user can set, wherever that is."""

    name: str
    """In snake case: that of the flag."""
    help: str
    metavar: str | None = None
    """None of a switch, and of what has no flag."""
    setting: str | None = None
    """The key in `[tool.perfgate]`; None where it cannot be set there."""
    action_input: str | None = None
    """The input of the GitHub action; None where it has none."""
    is_flag: bool = True
    repeated: bool = False
    """Whether the flag may be given several times."""
    typed: bool = True
    """Whether the flag counts only where it is typed, and not in `addopts`."""

    @property
    def option(self) -> str:
        """The flag: `--perfgate-max-runs`."""
        return f"--perfgate-{self.name.replace('_', '-')}"

    @property
    def dest(self) -> str:
        """Where pytest keeps its value."""
        return f"perfgate_{self.name}"

    @property
    def arguments(self) -> dict[str, Any]:
        """What argparse, and so pytest, gets to know of the flag."""
        if self.metavar is None:
            return {"action": "store_true", "default": False}
        return {"action": "append" if self.repeated else "store", "metavar": self.metavar}


def _setting(name: str, text: str) -> Option:
    return Option(name, text, setting=name, is_flag=False)


OPTIONS: Final = (
    _setting("workloads", "folder of the workloads (default: workloads)"),
    _setting("baselines", "folder of the baselines (default: baselines)"),
    Option(
        "runs",
        "runs of the first look; nothing passes by fewer than 5 (default: 3)",
        "N",
        "runs",
        "runs",
    ),
    Option(
        "max_runs",
        (
            "runs of a workload after which it is INCONCLUSIVE, both sides of an A/B run counted "
            "(default: 29)"
        ),
        "N",
        "max_runs",
        "max-runs",
    ),
    _setting("ahead", "runs that are alive at once (default: as there is room for; 1: one by one)"),
    Option(
        "time_budget",
        "time that the whole gate has: a workload it comes to later is NOT_MEASURED",
        "SECONDS",
        "time_budget_s",
        "time-budget",
    ),
    Option(
        "against",
        "compare with another commit in an A/B run, instead of with the baselines",
        "REV",
        action_input="against",
    ),
    _setting(
        "ab_run", "how an A/B run is made: auto, alternate, interleave or off (default: auto)"
    ),
    _setting("ab_setup", "command, word by word, that makes a checkout ready to run"),
    _setting("ab_python", "the interpreter of a checkout's runs, relative to its root"),
    _setting(
        "anchor_budget", "what step_ms may lose against the best step ever blessed (default: 0.05)"
    ),
    Option(
        "budget",
        "what a metric may lose at most, such as step_ms=0.03",
        "METRIC=FRACTION",
        "budgets",
        "budgets",
        repeated=True,
    ),
    Option("timeout", "time limit of one run, in seconds (default: 600.0)", "SECONDS", "timeout_s"),
    Option(
        "new",
        "what a workload without a baseline does (default: fail)",
        "fail|allow",
        "new",
        "new",
    ),
    Option(
        "inconclusive",
        "what an INCONCLUSIVE workload does (default: fail)",
        "warn|fail",
        "inconclusive",
        "inconclusive",
    ),
    _setting(
        "loosened",
        (
            "what a pull request that loosens its own gate does in GitHub Actions: fail or warn "
            "(default: fail)"
        ),
    ),
    Option("shard", "gate the I-th of N parts of the workloads", "I/N", action_input="shard"),
    Option(
        "label",
        "what to call this gate among others that it is merged with",
        "TEXT",
        typed=False,
    ),
    Option(
        "machine",
        "what this machine must be, or the gate is shut: nvidia-h200-x2, no-gpu",
        "SLUG",
        "machine",
        "machine",
    ),
    Option("nsys", "the nsys program (default: search for it)", "PATH", "nsys", "nsys"),
    _setting(
        "cuda_graph_trace",
        "a CUDA graph as one span (graph) or kernel by kernel (node) (default: graph)",
    ),
    _setting("trace_osrt", "has no effect any more (default: false)"),
    _setting("pass_env", "variables handed to workloads although they look like secrets"),
    _setting(
        "lock_timeout_s",
        "how long to wait for another gate on the same GPU, in seconds (default: 3600.0)",
    ),
    Option("json", "write verdicts and measurements as JSON to FILE", "FILE", typed=False),
    Option("html", "write a page with plots and timelines to FILE", "FILE", typed=False),
    Option("page_data", "write what such a page is made of as JSON to FILE", "FILE", typed=False),
    Option("trace", "write typical steps as a trace for Perfetto to FILE", "FILE", typed=False),
    Option(
        "markdown",
        "append verdicts as Markdown, such as $GITHUB_STEP_SUMMARY, to FILE",
        "FILE",
        typed=False,
    ),
    Option("keep_captures", "keep nsys's own files too; they hold the workload's environment"),
)

APPROVAL: Final = "perfgate-approved"
"""The label by which a maintainer lets a fork's commit run on the GPU runner."""
ARTIFACT: Final = "perfgate"
"""The artifact that the comment shows, and the one that the action publishes unless it is given a
name."""
