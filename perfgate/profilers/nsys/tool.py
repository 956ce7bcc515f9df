"""Which nsys to run; knows nothing of what is profiled with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from perfgate.model.errors import NsysNotFound, NsysUnsupported
from perfgate.profilers.nsight import Program, Tool, Version

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

NsysVersion = Version
NsysTool = Tool

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
