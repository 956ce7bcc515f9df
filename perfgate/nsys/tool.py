"""Which nsys to run: finding it and reading its version; knows nothing of what is profiled with it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from perfgate.model.errors import NsysNotFound, NsysUnsupported

VARIABLE: Final = "PERFGATE_NSYS"
"""The environment variable that names the nsys program."""
SETTING: Final = "[tool.perfgate] nsys"

VERSION_TIMEOUT_S: Final = 20.0
"""`nsys --version` takes some 20 ms; a cold network file system is granted a thousand times that."""

DEFAULT_PLACES: Final[tuple[str, ...]] = (
    "/opt/nvidia/nsight-systems/*/bin/nsys",
    "/opt/nvidia/nsight-systems/*/target-linux-*/nsys",
    "/opt/nvidia/nsight-systems-cli/*/bin/nsys",
    "/opt/nvidia/nsight-systems-cli/*/target-linux-*/nsys",
    "/usr/local/cuda*/bin/nsys",
    "/usr/local/cuda*/nsight-systems-*/bin/nsys",
    "/usr/local/cuda*/nsight-systems-*/target-linux-*/nsys",
    "/usr/local/bin/nsys",
    "/usr/lib/nsight-systems/bin/nsys",
    "/usr/lib/*/nsight-systems/target-linux-*/nsys",
    "/opt/nvidia/nsight-compute/*/host/target-linux-*/nsys",
    "/usr/local/cuda*/nsight-compute-*/host/target-linux-*/nsys",
    "/usr/local/NVIDIA-Nsight-Compute*/host/target-linux-*/nsys",
    "/opt/nvidia/hpc_sdk/Linux_*/*/compilers/bin/nsys",
)
"""Where NVIDIA's and the distributions' packages put nsys, as globs; Nsight Compute brings a copy of its own."""

KEPT_VARIABLES: Final = ("PATH", "HOME", "USER", "LOGNAME", "LD_LIBRARY_PATH", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")
"""All that `nsys --version`, `export` and `stats` need of the environment: so secrets cannot reach their outputs."""

_VERSION = re.compile(r"\bversion\s+(\d{4})\.(\d+)(?:\.(\d+))?(?:\.(\d+))?", re.IGNORECASE)


@dataclass(frozen=True, order=True, slots=True)
class NsysVersion:
    """A version of nsys, ordered: 2024.2.3.38 is year 2024, major 2, minor 3, build 38."""

    year: int
    major: int
    minor: int = 0
    build: int = 0

    def __str__(self) -> str:
        return f"{self.year}.{self.major}.{self.minor}"

    @classmethod
    def parse(cls, text: str) -> NsysVersion | None:
        """Read what `nsys --version` prints; None where it says no version."""
        found = _VERSION.search(text)
        return cls(*(int(part or 0) for part in found.groups())) if found else None


OLDEST: Final = NsysVersion(2022, 4)
"""The first nsys whose reports and exports perfgate knows."""

_GET_ONE = (
    "Install Nsight Systems (package nsight-systems-cli, or https://developer.nvidia.com/nsight-systems), "
    f"then put nsys on PATH, set {VARIABLE}, or pass --perfgate-nsys."
)


@dataclass(frozen=True, slots=True)
class NsysTool:
    """An nsys program that answered with a version perfgate supports."""

    path: Path
    version: NsysVersion
    env: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """The few variables (`KEPT_VARIABLES`) that its exports and reports run under; never the workload's."""


def find_nsys(
    option: str | None,
    env: Mapping[str, str],
    *,
    setting: str | None = None,
    places: Sequence[str] = DEFAULT_PLACES,
    timeout_s: float = VERSION_TIMEOUT_S,
) -> NsysTool:
    """Find the nsys to run: option, `PERFGATE_NSYS`, the project's setting, PATH, the newest in NVIDIA's usual folders.

    What the user named is taken or is an error, never replaced by another. What was merely come upon is passed over
    if it does not run or is too old.

    Raises:
        NsysNotFound: nothing there, or what was named does not run; the message lists where it looked.
        NsysUnsupported: what was named, or all that was found, is older than 2022.4 or tells no version.
    """
    for source, named in (("--perfgate-nsys", option), (VARIABLE, env.get(VARIABLE)), (SETTING, setting)):
        if named:
            return _check(_resolve(named, source, env), source, env, timeout_s)
    refused: list[NsysNotFound | NsysUnsupported] = []
    found: list[NsysTool] = []
    for source, path in _candidates(env, places):
        try:
            tool = _check(path, source, env, timeout_s)
        except (NsysNotFound, NsysUnsupported) as error:
            refused.append(error)
            continue
        if source == "PATH":
            return tool
        found.append(tool)
    if found:
        return max(found, key=lambda tool: tool.version)
    for refusal in refused:
        if isinstance(refusal, NsysUnsupported):
            raise refusal
    looked = ", ".join((f"--perfgate-nsys, {VARIABLE}, PATH", *places))
    also = f"; passed over: {'; '.join(f'{each.subject}: {each.fact}' for each in refused)}" if refused else ""
    raise NsysNotFound(subject="nsys", fact=f"not found in {looked}{also}", next_step=_GET_ONE)


def _resolve(named: str, source: str, env: Mapping[str, str]) -> Path:
    """Turn what the user named into a path: a bare name is searched on PATH, anything else taken as it is."""
    if "/" not in named:
        on_path = shutil.which(named, path=env.get("PATH", ""))
        if on_path is not None:
            return Path(on_path)
    path = Path(named).expanduser()
    if not path.is_file():
        fact = "is a folder" if path.is_dir() else "does not exist"
        raise NsysNotFound(
            subject=f"nsys {named} (from {source})",
            fact=fact,
            expectation="Expected the nsys program",
            next_step=f"Correct {source}, or leave it out to search PATH and NVIDIA's usual folders.",
        )
    return path.absolute()


def _candidates(env: Mapping[str, str], places: Sequence[str]) -> Iterator[tuple[str, Path]]:
    seen: set[Path] = set()
    for folder in env.get("PATH", "").split(":"):
        on_path = shutil.which("nsys", path=folder) if folder else None
        if on_path is not None and (path := Path(on_path).absolute()).resolve() not in seen:
            seen.add(path.resolve())
            yield "PATH", path
    for place in places:
        for path in sorted(Path("/").glob(place.lstrip("/"))):
            if path.is_file() and path.resolve() not in seen:
                seen.add(path.resolve())
                yield place, path


def _check(path: Path, source: str, env: Mapping[str, str], timeout_s: float) -> NsysTool:
    subject = f"nsys {path} (from {source})"
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
        fact = f"`nsys --version` gave no answer within {timeout_s:g} s"
    except OSError as error:
        fact = f"does not run: {error.strerror or error}"
    else:
        text = answer.stdout.decode(errors="replace").strip()
        version = NsysVersion.parse(text)
        if version is None and answer.returncode != 0:
            said = text.splitlines()[-1] if text else "it said nothing"
            fact = f"`nsys --version` ended with status {answer.returncode}: {said}"
        elif version is None:
            raise NsysUnsupported(
                subject=subject,
                fact=f"`nsys --version` tells no version: {text.splitlines()[0] if text else 'it said nothing'}",
                expectation=f"Expected 'NVIDIA Nsight Systems version {OLDEST.year}.{OLDEST.major}' or newer",
                next_step=_GET_ONE,
            )
        elif version < OLDEST:
            raise NsysUnsupported(
                subject=subject,
                fact=f"is version {version}",
                expectation=f"perfgate knows {OLDEST.year}.{OLDEST.major} and newer",
                next_step=_GET_ONE,
            )
        else:
            return NsysTool(path, version, kept)
    raise NsysNotFound(subject=subject, fact=fact, next_step=_GET_ONE)
