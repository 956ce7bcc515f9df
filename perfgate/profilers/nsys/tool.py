"""Finding a program of NVIDIA's Nsight family, and its version; which nsys to run.

Knows nothing of what it is run for.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from perfgate.model.errors import NsysNotFound, NsysUnsupported, PerfgateError

_VERSION: Final = re.compile(r"\bversion\s+(\d{4})\.(\d+)(?:\.(\d+))?(?:\.(\d+))?", re.IGNORECASE)


@dataclass(frozen=True, order=True, slots=True)
class Version:
    """A version of a Nsight program, ordered.

    2024.2.3.38 is year 2024, major 2, minor 3, build 38.
    """

    year: int
    major: int
    minor: int = 0
    build: int = 0

    def __str__(self) -> str:
        return f"{self.year}.{self.major}.{self.minor}"

    @classmethod
    def parse(cls, text: str) -> Version | None:
        """Read what a program prints for `--version`; None where it says no version."""
        found = _VERSION.search(text)
        return cls(*(int(part or 0) for part in found.groups())) if found else None


@dataclass(frozen=True, slots=True)
class Tool:
    """A program that answered with a version perfgate supports."""

    path: Path
    version: Version
    env: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """The few variables (`Program.kept_variables`) that it reads captures and reports under; never
    the workload's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """What has to be known of a program to find it."""

    name: str
    product: str
    package: str
    """Debian's, which brings it."""
    variable: str
    """The environment variable that names it."""
    oldest: Version
    places: tuple[str, ...]
    """Where NVIDIA's and the distributions' packages put it, as globs."""
    kept_variables: tuple[str, ...]
    """All of the environment that it needs without a workload: so secrets cannot reach its
    outputs."""
    not_found: type[PerfgateError]
    unsupported: type[PerfgateError]

    def find(
        self,
        named: Sequence[tuple[str, str | None]],
        env: Mapping[str, str],
        *,
        places: Sequence[str],
        timeout_s: float,
    ) -> Tool:
        """Find it: what the user named, then PATH, then the newest in the usual places.

        What the user named is taken or is an error, never replaced by another. What was merely come
        upon is passed over if it does not run or is too old.

        Args:
            named: what names it and what it says, the strongest first.
            env: the environment.
            places: globs, searched in their order.
            timeout_s: how long it may take to print its version, in seconds.

        Raises:
            PerfgateError: `not_found`, nothing there, or what was named does not run;
                `unsupported`, what was named, or all that was found, is too old or has no version.
        """
        for source, name in named:
            if name:
                on_path = None if "/" in name else shutil.which(name, path=env.get("PATH", ""))
                path = Path(on_path or name).expanduser().absolute()
                return self._checked(path, source, env, timeout_s)
        refused: list[PerfgateError] = []
        found: list[Tool] = []
        for source, path in self._candidates(env, places):
            try:
                tool = self._checked(path, source, env, timeout_s)
            except (self.not_found, self.unsupported) as error:
                refused.append(error)
                continue
            if source == "PATH":
                return tool
            found.append(tool)
        if found:
            return max(found, key=lambda tool: tool.version)
        if refused:  # one that runs and is too old says more than one that does not run
            raise max(refused, key=lambda error: isinstance(error, self.unsupported))
        looked = [source for source, _ in named] + ["PATH"]
        looked += dict.fromkeys("/".join(place.split("/")[:3]) for place in places)
        raise self._error(self.not_found, "program-not-found", looked=tuple(looked))

    def _error(
        self, kind: type[PerfgateError], code: str, **fields: str | tuple[str, ...]
    ) -> PerfgateError:
        return kind(
            code,
            name=self.name,
            product=self.product,
            package=self.package,
            variable=self.variable,
            **fields,
        )

    def _candidates(
        self, env: Mapping[str, str], places: Sequence[str]
    ) -> Iterator[tuple[str, Path]]:
        folders = env.get("PATH", "").split(":")
        found = [("PATH", Path(folder, self.name)) for folder in folders if folder]
        for place in places:
            found += [(place, path) for path in sorted(Path("/").glob(place.lstrip("/")))]
        seen: set[Path] = set()
        for source, path in found:
            if path.is_file() and os.access(path, os.X_OK) and path.resolve() not in seen:
                seen.add(path.resolve())
                yield source, path.absolute()

    def _checked(self, path: Path, source: str, env: Mapping[str, str], timeout_s: float) -> Tool:
        kept = {name: env[name] for name in self.kept_variables if name in env}
        try:
            answer = subprocess.run(
                [str(path), "--version"],
                env={**kept, "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=timeout_s,
                check=False,
                start_new_session=True,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            reason = getattr(error, "strerror", None) or str(error)
        else:
            text = answer.stdout.decode(errors="replace").strip()
            version = Version.parse(text)
            if version is not None and version >= self.oldest:
                return Tool(path, version, kept)
            reason = text.splitlines()[-1] if text else f"exit status {answer.returncode}"
            if version is not None or answer.returncode == 0:
                raise self._error(
                    self.unsupported,
                    "program-unsupported",
                    path=str(path),
                    source=source,
                    found=str(version or reason),
                    oldest=f"{self.oldest.year}.{self.oldest.major}",
                )
        raise self._error(
            self.not_found, "program-not-run", path=str(path), source=source, reason=reason
        )


NsysVersion = Version
NsysTool = Tool

VARIABLE: Final = "PERFGATE_NSYS"
"""The environment variable that names the nsys program."""
SETTING: Final = "[tool.perfgate] nsys"

VERSION_TIMEOUT_S: Final = 20.0
"""`nsys --version` takes some 20 ms; a cold network file system gets a thousand times
that."""

KEPT_VARIABLES: Final = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LD_LIBRARY_PATH",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
)
"""All that `nsys --version`, `export` and `stats` need of the environment: so secrets cannot reach
their outputs."""

OLDEST: Final = Version(2022, 4)
"""The first nsys whose reports and exports perfgate knows."""

NSYS: Final = Program(
    name="nsys",
    product="Nsight Systems",
    package="nsight-systems-cli",
    variable=VARIABLE,
    oldest=OLDEST,
    # Nsight Compute brings a copy of its own.
    places=(
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
    ),
    kept_variables=KEPT_VARIABLES,
    not_found=NsysNotFound,
    unsupported=NsysUnsupported,
)


def find_nsys(
    option: str | None,
    env: Mapping[str, str],
    *,
    setting: str | None = None,
    places: Sequence[str] = NSYS.places,
    timeout_s: float = VERSION_TIMEOUT_S,
) -> NsysTool:
    """Find the nsys to run: option, `PERFGATE_NSYS`, the project's setting, PATH.

    After those, the newest in NVIDIA's usual folders.

    Raises:
        NsysNotFound: nothing there, or what was named does not run; the message lists where it
            looked.
        NsysUnsupported: what was named, or all that was found, is older than 2022.4 or says no
            version.
    """
    named = (("--perfgate-nsys", option), (VARIABLE, env.get(VARIABLE)), (SETTING, setting))
    return NSYS.find(named, env, places=places, timeout_s=timeout_s)
