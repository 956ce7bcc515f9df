"""Starts the workload under nsys as it would start without it, and becomes it.

A program of its own: it imports nothing of perfgate.

nsys 2024.2 starts what it profiles with umask 0, so that every user of the machine might write what
a workload caches, and where LD_LIBRARY_PATH was empty, it puts an entry before its own that means
the current folder. Its own variables and descriptors stay, for it works through them; signals,
limits and priority it leaves as they were.

    python -I -S target.py UMASK TMPDIR PROGRAM [ARGUMENT ...]

nsys has a TMPDIR of its own; the workload gets the user's, "" for none.
"""

import os
import signal
import sys


def main() -> None:
    """Undo what nsys and this interpreter have changed, and become the program."""
    umask, tmpdir, program = sys.argv[1:4]
    os.umask(int(umask, 8))
    with open("/proc/self/environ", "rb") as file:  # noqa: PTH123 - pathlib loads long
        given = dict(entry.partition(b"=")[::2] for entry in file.read().split(b"\0"))
    if b"LC_CTYPE" not in given:
        os.environb.pop(b"LC_CTYPE", None)  # what Python sets where the locale is C
    os.environ["TMPDIR"] = tmpdir
    if not tmpdir:
        del os.environ["TMPDIR"]
    if (libraries := os.environb.get(b"LD_LIBRARY_PATH", b"")).startswith(b":"):
        os.environb[b"LD_LIBRARY_PATH"] = libraries.lstrip(b":")
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execv(program, sys.argv[3:])
    except OSError as refused:
        sys.exit(f"{program}: {refused.strerror or refused}")


if __name__ == "__main__":
    main()
