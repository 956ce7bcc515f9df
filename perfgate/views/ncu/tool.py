"""Which ncu to run; knows nothing of what is profiled with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from perfgate.model.errors import NcuNotFound, NcuUnsupported
from perfgate.profilers.nsys.tool import Program, Tool, Version

VARIABLE: Final = "PERFGATE_NCU"
"""The environment variable that names the ncu program."""

VERSION_TIMEOUT_S: Final = 60.0
"""ncu is a program of some 90 MB, which a cold network file system takes a while to bring."""

NcuVersion = Version
NcuTool = Tool

NCU: Final = Program(
    name="ncu",
    product="Nsight Compute",
    package="nsight-compute",
    variable=VARIABLE,
    # The first that has only the options used here; before, kernels were named by others.
    oldest=Version(2022, 1),
    places=(
        "/usr/local/cuda*/bin/ncu",
        "/opt/nvidia/nsight-compute/*/ncu",
        "/usr/local/cuda*/nsight-compute-*/ncu",
        "/usr/local/NVIDIA-Nsight-Compute*/ncu",
        "/opt/nvidia/hpc_sdk/Linux_*/*/compilers/bin/ncu",
        "/usr/lib/nsight-compute/ncu",
        "/usr/lib/*/nsight-compute/target/*/ncu",
    ),
    kept_variables=(
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "LD_LIBRARY_PATH",
        "TMPDIR",
        "XDG_CONFIG_HOME",
    ),
    not_found=NcuNotFound,
    unsupported=NcuUnsupported,
)


def find_ncu(
    env: Mapping[str, str],
    *,
    places: Sequence[str] = NCU.places,
    timeout_s: float = VERSION_TIMEOUT_S,
) -> NcuTool:
    """Find the ncu to run: `PERFGATE_NCU`, PATH, then the newest in NVIDIA's usual folders.

    Raises:
        NcuNotFound: nothing there, or what was named does not run.
        NcuUnsupported: what was named, or all that was found, is too old or says no version.
    """
    return NCU.find(((VARIABLE, env.get(VARIABLE)),), env, places=places, timeout_s=timeout_s)
