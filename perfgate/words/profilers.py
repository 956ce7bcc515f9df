"""What is said about profilers: programs not found, runs without a capture, broken files."""

from __future__ import annotations

from typing import Final

from perfgate.words.text import Rows

_EXPORT_AGAIN: Final = (
    "Export it again: nsys export --type sqlite --force-overwrite true CAPTURE.nsys-rep"
)

_EXPORTS: Final[Rows] = {
    "capture-unopened": (
        "{path:quote}: cannot be opened ({reason})",
        "Expected a .nsys-rep, .qdrep or .sqlite file",
        "Check the path and its permissions.",
    ),
    "capture-is-pointer": (
        "{path:quote}: a Git LFS pointer, not the capture itself",
        "",
        "Fetch it: git lfs pull --include={name:sh}",
    ),
    "capture-empty": ("{path:quote}: the file is empty", "", "Capture it again."),
    "export-foreign": (
        "{path:quote}: no SQLite file",
        "Expected the SQLite export of a capture",
        (
            "Unpack it if it is packed; else export the capture: "
            "nsys export --type sqlite --force-overwrite true CAPTURE.nsys-rep"
        ),
    ),
    "export-unfinished": (
        "{path:quote}: {name} lies next to it, so it is still being written, or its writer died",
        "",
        f"Wait for it. {_EXPORT_AGAIN}",
    ),
    "export-damaged": ("{path:quote}: damaged ({detail:quote})", "", _EXPORT_AGAIN),
    "export-impossible": (
        "{path:quote}: damaged, {table} holds {value} as {column}",
        "nsys never writes that",
        _EXPORT_AGAIN,
    ),
    "export-not-of-nsys": (
        "{path:quote}: a SQLite file, but no export of nsys; its tables: {tables:list}",
        "",
        _EXPORT_AGAIN,
    ),
    "export-column-missing": (
        "{path:quote}: {table} has no column {column}, only {columns:list}",
        "perfgate reads exports of nsys 2022.4 and newer",
        _EXPORT_AGAIN,
    ),
    "export-table-unknown": (
        "{path:quote}: has {tables:list}",
        "perfgate knows only the table {known}",
        "perfgate must learn this version of nsys: please report it with the version.",
    ),
    "export-not-written": (
        "{path:quote}: the scrubbed copy cannot be written ({reason})",
        "",
        "Check the folder, its permissions and the free disk space.",
    ),
}

_MISSING: Final[Rows] = {
    "no-cuda-events": "no CUDA events were recorded",
    "no-gpu-operations": "{calls:CUDA call was|CUDA calls were} recorded, but no GPU operation",
    "no-cuda-calls": "GPU operations were recorded, but not the CUDA calls that started them",
    "no-nvtx-ranges": "no NVTX ranges were recorded (a mark has no length)",
    "nsys-said": "{text:quote}",
    "nsys-warned": "{lacks}; nsys warns: {warnings:list;}",
    "records-lost": "nsys lost GPU operations or calls: {warnings:list;}",
    "devices-unknown": (
        "the capture does not say which GPU each of its {processes} processes used: before 2025, "
        "nsys has only their own numbers, which CUDA_VISIBLE_DEVICES may have changed"
    ),
}
"""What a capture lacks."""

_RUNS: Final[Rows] = {
    "run-uncaptured": (
        "{workload}: {why}",
        "",
        "{why:next}\nSee {log:quote}, and run: perfgate doctor",
    ),
    "run-not-started": (
        "{workload}: {why}",
        "",
        "{why:next}\nIf that does not help, run: perfgate doctor",
    ),
    "run-folder-unusable": (
        "nsys could not be run in {folder:quote} ({reason:quote})",
        "",
        "Make the folder writable, or free some space.",
    ),
    "workload-folder-missing": ("its folder {folder:quote} does not exist", "", "Correct its cwd."),
    "disk-too-full": (
        (
            "too little room: {free_bytes:size} are free in {folder:quote}, a capture needs "
            "{needed_bytes:size}"
        ),
        "",
        "Free some space.",
    ),
    "nsys-disk-full": ("the disk ran full while nsys wrote the capture", "", "Free some space."),
    "capture-timed-out": (
        "the workload, or nsys writing its capture, did not end within the time limit",
        "",
        "Run again, raise timeout_s, or see where it hangs.",
    ),
    "nsys-not-started": (
        "nsys {nsys} ({program:quote}) did not start the workload ({said:quote})",
        "",
        "Correct its capture window, or use another nsys: set PERFGATE_NSYS.",
    ),
    "nsys-crashed": (
        "nsys {nsys} itself broke down ({said:quote})",
        "",
        "Run again; if it always does, use another nsys: set PERFGATE_NSYS.",
    ),
    "nsys-not-imported": (
        "nsys {nsys} recorded the workload, but could not import its recording ({said:quote})",
        "",
        (
            "Install nsys whole, with its host folder, or use another: set PERFGATE_NSYS. If its "
            "importer lacks libraries, on Debian and Ubuntu: apt-get install libdw1 libelf1"
        ),
    ),
    "nsys-cannot-write": (
        "nsys could not write {path:quote} ({said:quote})",
        "",
        "Make the folder writable.",
    ),
    "nsys-wrote-nothing": (
        "nsys ended with status {status} and wrote no capture",
        "",
        "Run again; if it stays so, use another nsys: set PERFGATE_NSYS.",
    ),
    "ended-before-window": (
        "the workload ended with status {status} before its capture began",
        "",
        "Run the workload by itself until it reaches its measured steps.",
    ),
    "profiler-not-started": (
        (
            "the capture never began: cudaProfilerStart() was not called, or the workload did not "
            "use CUDA"
        ),
        "",
        "Call torch.cuda.profiler.start() before the measured steps, or set `capture: all`.",
    ),
    "window-not-reached": (
        "the workload ended before its capture window began, {delay_s:s} after the start",
        "",
        "Set a shorter delay, or more steps.",
    ),
}
"""Why a run has no capture."""

_PRINTED: Final[Rows] = {
    "capture-not-exported": (
        "{path:quote}: nsys {nsys} cannot export it ({said:quote})",
        "",
        (
            "Use an nsys as new as the one that captured it (set PERFGATE_NSYS); if it was "
            "copied or downloaded, compare its size with the original's."
        ),
    ),
    "nsys-printed-nothing": (
        "{path:quote}: nsys left no {name}, or not all of it ({said:quote})",
        "",
        "Run it by hand (a gate leaves this file with --perfgate-keep-captures):\n{command:raw}",
    ),
    "columns-unknown": (
        "{source:quote}: has columns or units that perfgate does not know: {header:quote}",
        "perfgate reads {known:list;}",
        (
            "Let perfgate run nsys 2022.4 or newer itself. If it did, perfgate must learn this "
            "version: please report it."
        ),
    ),
    "operation-unknown": (
        "{source:quote}: names a memory operation that perfgate does not know: {operation}",
        "",
        "perfgate must learn it: please report it with the version of nsys.",
    ),
    "rows-broken": (
        "{source:quote}: cut short, or its numbers are in another locale's notation: {line:quote}",
        "",
        "Let perfgate run nsys itself; if the disk is full, free some space first.",
    ),
    "nsys-not-run": (
        "{program:quote}: cannot be run ({reason:quote})",
        "",
        "Check that the program is there and may be run.",
    ),
    "nsys-folder-unwritable": (
        "{path:quote}: cannot be written ({reason:quote})",
        "",
        "Make it writable, or free some space.",
    ),
}
"""What nsys makes of captures: exports, reports and rules."""

_GET_ONE: Final = (
    "install {product} (package {package}, or https://developer.nvidia.com), then put {name} on "
    "PATH, or name it by {variable}."
)
_PROGRAMS: Final[Rows] = {
    "program-not-found": (
        "{name}: not found (looked in {looked:list})",
        "",
        f"To get it, {_GET_ONE}",
    ),
    "program-not-run": (
        "{name} {path:quote} (from {source}): cannot be run ({reason:quote})",
        "",
        f"Correct {{source}}, or {_GET_ONE}",
    ),
    "program-unsupported": (
        "{name} {path:quote} (from {source}): its --version says {found:quote}",
        "perfgate knows {oldest} and newer",
        f"Name another, or {_GET_ONE}",
    ),
}
"""Where programs are looked for."""

TEXT: Final[Rows] = {**_PROGRAMS, **_EXPORTS, **_MISSING, **_RUNS, **_PRINTED}
