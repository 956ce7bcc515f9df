"""What of the environment reaches a workload and nsys itself.

Knows names and values, not what runs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from perfgate.model.secrets import GIT_CONFIG, looks_secret

PROFILER_VARIABLES: Final = frozenset(
    {
        "CUDA_INJECTION32_PATH",
        "CUDA_INJECTION64_PATH",
        "CUPTI_PROFILE_MODE",
        "NSYS_AGENT_TMP_DIR",
        "NSYS_CONTROL_CUPTI_FEATURES",
        "NSYS_CUDA_GPU_TIME_CONVERSION",
        "NSYS_PROFILING_SESSION_ID",
        "NSYS_TARGET_STD_REDIRECT_ACTION",
        "NSYS_TSC_SUPPORT",
        "NVTX_INJECTION32_PATH",
        "NVTX_INJECTION64_PATH",
    }
)
"""What an nsys puts into its workload's environment: left there, the next nsys attaches to the
agent of the first."""

_INJECTIONS = ("libToolsInjection", "libLinuxKeyboardInterceptor")


def withhold_secrets(
    env: Mapping[str, str], pass_env: Collection[str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Split an environment into what a workload may see and the names withheld from it, sorted.

    A capture holds every environment variable of its workload, and captures travel. So what looks
    like a secret, by name or by value, is handed over only where `pass_env` names it.
    """
    withheld = {
        name for name, value in env.items() if name not in pass_env and looks_secret(name, value)
    }
    if any(map(GIT_CONFIG.fullmatch, withheld)):  # git refuses to start with half of it
        withheld |= {name for name in env if name not in pass_env and GIT_CONFIG.fullmatch(name)}
    return {name: value for name, value in env.items() if name not in withheld}, tuple(
        sorted(withheld)
    )


def without_profiler(env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without the traces of an nsys around perfgate itself."""
    kept = {
        name: value
        for name, value in env.items()
        if name not in PROFILER_VARIABLES and not name.startswith(("QUADD_", "NSYS_STATS_"))
    }
    preloaded = re.split(r"[: ]+", kept.pop("LD_PRELOAD", ""))
    if others := [path for path in preloaded if path and not _is_injection(path)]:
        kept["LD_PRELOAD"] = ":".join(others)
    return kept


def for_profile(env: Mapping[str, str], *, tmpdir: str | None) -> dict[str, str]:
    """Return the environment of `nsys profile`, which hands it on to the workload.

    The locale stays the user's: LC_ALL=C here would reach the workload and change what it measures
    (its encoding, number formats, sort orders). perfgate reads no number and no localised word of
    what `nsys profile` prints.

    Args:
        env: the workload's environment.
        tmpdir: where nsys puts its own files, if not where the workload puts its own.
    """
    kept = without_profiler(env)
    return kept if tmpdir is None else {**kept, "TMPDIR": tmpdir}


def for_reports(env: Mapping[str, str], *, tmpdir: str) -> dict[str, str]:
    """Return the environment of `nsys export` and `nsys stats`.

    What they print is read, so it is LC_ALL=C.

    Under de_DE the CSVs hold `"167,772"` for 167.772 MB.
    """
    kept = without_profiler(env)
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", **kept, "TMPDIR": tmpdir, "LC_ALL": "C"}


def _is_injection(path: str) -> bool:
    return path.rpartition("/")[2].startswith(_INJECTIONS)
