"""Which ncu to run: finding it and reading its version; knows nothing of what is profiled with it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from perfgate.model.errors import NcuNotFound, NcuUnsupported

VARIABLE: Final = "PERFGATE_NCU"
"""The environment variable that names the ncu program."""

VERSION_TIMEOUT_S: Final = 60.0
"""ncu is a program of some 90 MB, which a cold network file system takes a while to bring."""

DEFAULT_PLACES: Final[tuple[str, ...]] = (
    "/usr/local/cuda*/bin/ncu",
    "/opt/nvidia/nsight-compute/*/ncu",
    "/usr/local/cuda*/nsight-compute-*/ncu",
    "/usr/local/NVIDIA-Nsight-Compute*/ncu",
    "/opt/nvidia/hpc_sdk/Linux_*/*/compilers/bin/ncu",
    "/usr/lib/nsight-compute/ncu",
    "/usr/lib/*/nsight-compute/target/*/ncu",
)
"""Where NVIDIA's and the distributions' packages put ncu, as globs."""

KEPT_VARIABLES: Final = ("PATH", "HOME", "USER", "LOGNAME", "LD_LIBRARY_PATH", "TMPDIR", "XDG_CONFIG_HOME")
"""All that ncu needs of the environment where it runs no workload."""

_VERSION = re.compile(r"\bversion\s+(\d{4})\.(\d+)(?:\.(\d+))?", re.IGNORECASE)


@dataclass(frozen=True, order=True, slots=True)
class NcuVersion:
    """A version of ncu, ordered: 2025.3.1 is year 2025, major 3, minor 1."""

    year: int
    major: int
    minor: int = 0

    def __str__(self) -> str:
        return f"{self.year}.{self.major}.{self.minor}"

    @classmethod
    def parse(cls, text: str) -> NcuVersion | None:
        """Read what `ncu --version` prints; None where it says no version."""
        found = _VERSION.search(text)
        return cls(*(int(part or 0) for part in found.groups())) if found else None


OLDEST: Final = NcuVersion(2022, 1)
"""The first ncu that has only the options used here; before, kernels were named by others."""

_GET_ONE = (
    "Install Nsight Compute (package nsight-compute, or https://developer.nvidia.com/nsight-compute), "
    f"then put ncu on PATH, or set {VARIABLE}."
)


@dataclass(frozen=True, slots=True)
class NcuTool:
    """An ncu program that answered with a version perfgate supports."""

    path: Path
    version: NcuVersion
    env: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """Variables under which it reads its own reports; never the workload's."""


def find_ncu(
    env: Mapping[str, str], *, places: Sequence[str] = DEFAULT_PLACES, timeout_s: float = VERSION_TIMEOUT_S
) -> NcuTool:
    """Find the ncu to run: `PERFGATE_NCU`, PATH, then the newest in NVIDIA's usual folders.

    What the variable names is taken or is an error, never replaced by another. What was merely come upon is passed
    over if it does not run or is too old.

    Raises:
        NcuNotFound: nothing there, or what was named does not run.
        NcuUnsupported: what was named, or all that was found, is too old or tells no version.
    """
    if named := env.get(VARIABLE):
        return _check(_resolved(named, env), VARIABLE, env, timeout_s)
    refused: list[NcuNotFound | NcuUnsupported] = []
    found: list[NcuTool] = []
    for source, path in _candidates(env, places):
        try:
            tool = _check(path, source, env, timeout_s)
        except (NcuNotFound, NcuUnsupported) as error:
            refused.append(error)
            continue
        if source == "PATH":
            return tool
        found.append(tool)
    if found:
        return max(found, key=lambda tool: tool.version)
    for refusal in refused:
        if isinstance(refusal, NcuUnsupported):
            raise refusal
    looked = ", ".join((VARIABLE, "PATH", *places))
    also = f"; passed over: {'; '.join(f'{each.subject}: {each.fact}' for each in refused)}" if refused else ""
    raise NcuNotFound(subject="ncu", fact=f"not found in {looked}{also}", next_step=_GET_ONE)


def _resolved(named: str, env: Mapping[str, str]) -> Path:
    """Turn what the user named into a path: a bare name is searched on PATH, anything else taken as it is."""
    if "/" not in named and (on_path := shutil.which(named, path=env.get("PATH", ""))) is not None:
        return Path(on_path)
    path = Path(named).expanduser()
    if not path.is_file():
        raise NcuNotFound(
            subject=f"ncu {named} (from {VARIABLE})",
            fact="is a folder" if path.is_dir() else "does not exist",
            expectation="Expected the ncu program",
            next_step=f"Correct {VARIABLE}, or leave it out to search PATH and NVIDIA's usual folders.",
        )
    return path.absolute()


def _candidates(env: Mapping[str, str], places: Sequence[str]) -> Iterator[tuple[str, Path]]:
    seen: set[Path] = set()
    for folder in env.get("PATH", "").split(":"):
        on_path = shutil.which("ncu", path=folder) if folder else None
        if on_path is not None and (path := Path(on_path).absolute()).resolve() not in seen:
            seen.add(path.resolve())
            yield "PATH", path
    for place in places:
        for path in sorted(Path("/").glob(place.lstrip("/"))):
            if path.is_file() and path.resolve() not in seen:
                seen.add(path.resolve())
                yield place, path


def _check(path: Path, source: str, env: Mapping[str, str], timeout_s: float) -> NcuTool:
    subject = f"ncu {path} (from {source})"
    kept = {name: env[name] for name in KEPT_VARIABLES if name in env}
    try:
        answer = subprocess.run(
            [path, "--version"],
            env={**kept, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        fact = f"`ncu --version` gave no answer within {timeout_s:g} s"
        raise NcuNotFound(subject=subject, fact=fact, next_step=_GET_ONE) from None
    except OSError as error:
        fact = f"does not run: {error.strerror or error}"
        raise NcuNotFound(subject=subject, fact=fact, next_step=_GET_ONE) from error
    text = answer.stdout.decode(errors="replace").strip()
    version = NcuVersion.parse(text)
    if version is None and answer.returncode != 0:
        said = text.splitlines()[-1] if text else "it said nothing"
        fact = f"`ncu --version` ended with status {answer.returncode}: {said}"
        raise NcuNotFound(subject=subject, fact=fact, next_step=_GET_ONE)
    if version is None:
        raise NcuUnsupported(
            subject=subject,
            fact=f"`ncu --version` tells no version: {text.splitlines()[0] if text else 'it said nothing'}",
            expectation=f"Expected 'Version {OLDEST.year}.{OLDEST.major}' or newer",
            next_step=_GET_ONE,
        )
    if version < OLDEST:
        raise NcuUnsupported(
            subject=subject,
            fact=f"is version {version}",
            expectation=f"perfgate knows {OLDEST.year}.{OLDEST.major} and newer",
            next_step=_GET_ONE,
        )
    return NcuTool(path, version, kept)
