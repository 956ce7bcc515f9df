"""What of the environment reaches a workload and nsys itself; knows names and values, not what runs."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

NEVER_WITHHELD: Final = frozenset(
    {
        "CONDA_PREFIX",
        "CUDA_HOME",
        "CUDA_PATH",
        "CUDA_VISIBLE_DEVICES",
        "HOME",
        "LANG",
        "LANGUAGE",
        "LC_ALL",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "LOGNAME",
        "OLDPWD",
        "PATH",
        "PWD",
        "PYTHONHOME",
        "PYTHONPATH",
        "SHELL",
        "TMPDIR",
        "USER",
        "VIRTUAL_ENV",
        "AWS_CA_BUNDLE",
        "AWS_DEFAULT_REGION",
        "AWS_REGION",
    }
)
"""Names without which a workload does not start, or that only look like a secret's."""

SECRET_PREFIXES: Final = ("AWS_",)
"""Families of names that are about access as a whole."""

SECRET_PARTS: Final = (
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "SECRET",
    "CREDENTIAL",
    "APIKEY",
    "ACCESSKEY",
    "PRIVATEKEY",
)
"""Found anywhere in a name: PGPASSWORD, CLIENTSECRET, GOOGLE_APPLICATION_CREDENTIALS."""

SECRET_WORDS: Final = frozenset({"CREDS", "DSN", "JWT", "PASS", "PAT", "PWD", "WEBHOOK"})
"""Found as a whole word of a name: DB_PASS, SENTRY_DSN."""

DOUBTFUL_WORDS: Final = frozenset(
    {"AUTH", "BEARER", "COOKIE", "COOKIES", "KEY", "KEYS", "OAUTH", "PRIVATE", "TOKEN", "TOKENS"}
)
"""Words of secrets, but of settings too (MAX_TOKENS=4096): not withheld where the value is a number or a switch.
TOKENIZERS, KEYBOARD, MONKEY, AUTHOR and XAUTHORITY are other words."""

OTHER_WORDS: Final = frozenset({"TIKTOKEN"})
"""Words that end as a secret's do, and are none."""

_GIT_CONFIG = re.compile(r"GIT_CONFIG_(COUNT|(KEY|VALUE)_\d+)")
_GIT_CONFIG_KEY = re.compile(r"GIT_CONFIG_KEY_\d+")
"""Names of settings of git's, such as `safe.directory`; their values may be secrets."""
_SWITCH = re.compile(r"[+-]?\d{1,9}(\.\d+)?|true|false|yes|no|on|off|none|auto", re.IGNORECASE)

SECRET_VALUES: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"[A-Za-z][A-Za-z0-9+.-]*://[^/\s@]*:[^/\s@]+@",  # user and password in a URL or connection string
        r"[?&](?:sig|signature|token|access_token|api_?key|key|password|secret)=[^&\s]{8,}",  # or in its query
        r"(?i)\bpassword=[^;\s]+",  # key=value connection strings
        r"(?i)\bauthorization:\s*(?:basic|bearer|token)\s",
        r"(?<![A-Za-z0-9])gh[oprsu]_[A-Za-z0-9]{16,}",  # GitHub
        r"(?<![A-Za-z0-9])github_pat_[A-Za-z0-9_]{16,}",
        r"(?<![A-Za-z0-9])glpat-[A-Za-z0-9_-]{16,}",  # GitLab
        r"(?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{16,}",  # model providers
        r"(?<![A-Za-z0-9])hf_[A-Za-z0-9]{16,}",  # Hugging Face
        r"(?<![A-Za-z0-9])nvapi-[A-Za-z0-9_-]{16,}",  # NVIDIA
        r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{12,}",  # AWS
        r"(?<![A-Za-z0-9])AIza[A-Za-z0-9_-]{30,}",  # Google
        r"(?<![A-Za-z0-9])xox[abeoprs]-[A-Za-z0-9-]{8,}",  # Slack
        r"(?<![A-Za-z0-9])npm_[A-Za-z0-9]{30,}",
        r"(?<![A-Za-z0-9])pypi-[A-Za-z0-9_-]{30,}",
        r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.",  # JSON web tokens
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
    )
)
"""What secrets look like, whatever their variable is called."""

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
"""What an nsys puts into its workload's environment: left there, the next nsys attaches to the agent of the first."""

_INJECTIONS = ("libToolsInjection", "libLinuxKeyboardInterceptor")
_WORD = re.compile(r"[A-Z0-9]+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


def withhold_secrets(env: Mapping[str, str], pass_env: Collection[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Split an environment into what a workload may see and the names withheld from it, sorted.

    A capture holds every environment variable of its workload, and captures travel. So what looks like a secret, by
    name or by value, is handed over only where `pass_env` names it.
    """
    withheld = {name for name, value in env.items() if name not in pass_env and looks_secret(name, value)}
    if any(map(_GIT_CONFIG.fullmatch, withheld)):  # git refuses to start with half of it
        withheld |= {name for name in env if name not in pass_env and _GIT_CONFIG.fullmatch(name)}
    return {name: value for name, value in env.items() if name not in withheld}, tuple(sorted(withheld))


def looks_secret(name: str, value: str) -> bool:
    """Whether a variable looks like a secret, by the tables above; an empty one never does."""
    if not value or name in NEVER_WITHHELD or _GIT_CONFIG_KEY.fullmatch(name):
        return False
    told = _CAMEL.sub("_", name).upper()
    words = _WORD.findall(told)
    if (
        told.startswith(SECRET_PREFIXES)
        or any(part in told.replace("_", "") for part in SECRET_PARTS)
        or not SECRET_WORDS.isdisjoint(words)
    ):
        return True
    doubtful = not DOUBTFUL_WORDS.isdisjoint(words) or any(
        word.endswith("TOKEN") for word in words if word not in OTHER_WORDS
    )
    if doubtful and not _SWITCH.fullmatch(value):
        return True
    return any(pattern.search(value) for pattern in SECRET_VALUES)


def without_profiler(env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without the traces of an nsys around perfgate itself."""
    kept = {
        name: value
        for name, value in env.items()
        if name not in PROFILER_VARIABLES and not name.startswith(("QUADD_", "NSYS_STATS_"))
    }
    if "LD_PRELOAD" in kept:
        others = [path for path in re.split(r"[: ]+", kept["LD_PRELOAD"]) if path and not _is_injection(path)]
        if others:
            kept["LD_PRELOAD"] = ":".join(others)
        else:
            del kept["LD_PRELOAD"]
    return kept


def for_profile(env: Mapping[str, str], *, tmpdir: str | None) -> dict[str, str]:
    """Return the environment of `nsys profile`, which hands it on to the workload.

    The locale stays the user's: LC_ALL=C here would reach the workload and change what it measures (its encoding,
    number formats, sort orders). perfgate reads no number and no localised word of what `nsys profile` prints.

    Args:
        env: the workload's environment.
        tmpdir: where nsys puts its own files, if not where the workload puts its own.
    """
    kept = without_profiler(env)
    return kept if tmpdir is None else {**kept, "TMPDIR": tmpdir}


def for_reports(env: Mapping[str, str], *, tmpdir: str) -> dict[str, str]:
    """Return the environment of `nsys export` and `nsys stats`, whose numbers and messages are read: LC_ALL=C.

    Under de_DE the CSVs hold `"167,772"` for 167.772 MB.
    """
    kept = without_profiler(env)
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", **kept, "TMPDIR": tmpdir, "LC_ALL": "C"}


def _is_injection(path: str) -> bool:
    return path.rpartition("/")[2].startswith(_INJECTIONS)
