"""What is said about profilers: programs not found, runs without a capture, broken files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from perfgate.words.text import Text

_EXPORT_AGAIN: Final = (
    "Export it again: nsys export --type sqlite --force-overwrite true CAPTURE.nsys-rep"
)

_EXPORTS: Final[Mapping[str, Text]] = {
    "capture-unopened": Text(
        "{path:quote}: cannot be opened ({reason})",
        "Expected a .nsys-rep, .qdrep or .sqlite file",
        "Check the path and its permissions.",
    ),
    "capture-is-pointer": Text(
        "{path:quote}: a Git LFS pointer, not the capture itself",
        next_step="Fetch it: git lfs pull --include={name:sh}",
    ),
    "capture-empty": Text("{path:quote}: the file is empty", next_step="Capture it again."),
    "export-foreign": Text(
        "{path:quote}: no SQLite file",
        "Expected the SQLite export of a capture",
        "Unpack it if it is packed; else export the capture: "
        "nsys export --type sqlite --force-overwrite true CAPTURE.nsys-rep",
    ),
    "export-unfinished": Text(
        "{path:quote}: {name} lies next to it, so it is still being written, or its writer died",
        next_step=f"Wait for it. {_EXPORT_AGAIN}",
    ),
    "export-damaged": Text(
        "{path:quote}: damaged ({detail:quote})",
        next_step=_EXPORT_AGAIN,
    ),
    "export-impossible": Text(
        "{path:quote}: damaged, {table} holds {value} as {column}",
        "nsys never writes that",
        _EXPORT_AGAIN,
    ),
    "export-not-of-nsys": Text(
        "{path:quote}: a SQLite file, but no export of nsys; its tables: {tables:list}",
        next_step=_EXPORT_AGAIN,
    ),
    "export-column-missing": Text(
        "{path:quote}: {table} has no column {column}, only {columns:list}",
        "perfgate reads exports of nsys 2022.4 and newer",
        _EXPORT_AGAIN,
    ),
    "export-table-unknown": Text(
        "{path:quote}: has {tables:list}",
        "perfgate knows only the table {known}",
        "perfgate must learn this version of nsys: please report it with the version.",
    ),
    "export-not-written": Text(
        "{path:quote}: the scrubbed copy cannot be written ({reason})",
        next_step="Check the folder, its permissions and the free disk space.",
    ),
}

_MISSING: Final[Mapping[str, Text]] = {
    "no-cuda-events": Text("no CUDA events were recorded"),
    "no-gpu-operations": Text(
        "{calls:CUDA call was|CUDA calls were} recorded, but no GPU operation"
    ),
    "no-cuda-calls": Text("GPU operations were recorded, but not the CUDA calls that started them"),
    "no-nvtx-ranges": Text("no NVTX ranges were recorded"),
    "only-nvtx-marks": Text(
        "only NVTX marks were recorded, {marks} of them, and a mark has no length"
    ),
    "nsys-said": Text("{text:quote}"),
    "nsys-warned": Text("{lacks}; nsys warns: {warnings:list;}"),
    "records-lost": Text("nsys lost GPU operations or calls: {warnings:list;}"),
    "devices-unknown": Text(
        "the capture does not say which GPU each of its {processes} processes used: before 2025, "
        "nsys has only their own numbers, which CUDA_VISIBLE_DEVICES may have changed"
    ),
    "kernel-names-missing": Text("the names of {unnamed:kernel|kernels} are not in the capture"),
    "call-names-missing": Text(
        "the names of {unnamed:CUDA call|CUDA calls} are not in the capture"
    ),
}
"""What a capture lacks."""

_RUNS: Final[Mapping[str, Text]] = {
    "run-uncaptured": Text(
        "{workload}: {why}", next_step="{why:next}\nSee {log:quote}, and run: perfgate doctor"
    ),
    "run-folder-unusable": Text(
        "nsys could not be run in {folder:quote} ({reason:quote})",
        next_step="Make the folder writable, or free some space.",
    ),
    "workload-folder-missing": Text(
        "its folder {folder:quote} does not exist", next_step="Correct its cwd."
    ),
    "workload-program-unrunnable": Text(
        "its program {program:quote} is no executable file, or none that says what runs it",
        next_step="Correct the command, install the program, or begin a script with a line like "
        "#!/bin/sh.",
    ),
    "disk-too-full": Text(
        "the disk is full: {free_bytes:size} are free in {folder:quote}, a capture needs "
        "{needed_bytes:size}",
        next_step="Free some space.",
    ),
    "nsys-disk-full": Text(
        "the disk ran full while nsys wrote the capture", next_step="Free some space."
    ),
    "capture-timed-out": Text(
        "the workload, or nsys writing its capture, did not end within the time limit",
        next_step="Run again, raise timeout_s, or see where it hangs.",
    ),
    "nsys-option-unknown": Text(
        "nsys {nsys} ({program:quote}) does not know the option {said}",
        next_step="Use another nsys: set PERFGATE_NSYS.",
    ),
    "nsys-window-illegal": Text(
        "nsys {nsys} did not start the workload ({said:quote})",
        next_step="Correct its capture window.",
    ),
    "nsys-tmpdir-unusable": Text(
        "nsys {nsys} cannot use the folder for temporary files ({said:quote})",
        next_step="Set TMPDIR to a folder that exists and can be written.",
    ),
    "nsys-crashed": Text(
        "nsys {nsys} itself broke down ({said:quote})",
        next_step="Run again; if it always does, use another nsys: set PERFGATE_NSYS.",
    ),
    "nsys-importer-lacks": Text(
        "nsys recorded the workload, but its importer lacks {libraries:list}",
        next_step="Install them. On Debian and Ubuntu: apt-get install libdw1 libelf1",
    ),
    "nsys-not-imported": Text(
        "nsys {nsys} recorded the workload, but could not import its recording ({said:quote})",
        next_step="Install nsys whole, with its host folder, or use another: set PERFGATE_NSYS.",
    ),
    "nsys-cannot-write": Text(
        "nsys could not write {path:quote} ({said:quote})", next_step="Make the folder writable."
    ),
    "nsys-lost-recording": Text(
        "nsys {nsys} recorded the workload and wrote no capture", next_step="Run again."
    ),
    "nsys-wrote-nothing": Text(
        "nsys ended with status {status} and wrote no capture",
        next_step="Run again; if it stays so, use another nsys: set PERFGATE_NSYS.",
    ),
    "ended-before-window": Text(
        "the workload ended with status {status} before its capture began",
        next_step="Run the workload by itself until it reaches its measured steps.",
    ),
    "profiler-not-started": Text(
        "the capture never began: cudaProfilerStart() was not called, or the workload did not use "
        "CUDA",
        next_step="Call torch.cuda.profiler.start() before the measured steps, or set "
        "`capture: all`.",
    ),
    "window-not-reached": Text(
        "the workload ended before its capture window began, {delay_s:s} after the start",
        next_step="Set a shorter delay, or more steps.",
    ),
}
"""Why a run has no capture."""

_PRINTED: Final[Mapping[str, Text]] = {
    "capture-not-exported": Text(
        "{path:quote}: nsys {nsys} cannot export it ({said:quote})",
        next_step="Use an nsys as new as the one that captured it (set PERFGATE_NSYS); if it was "
        "copied or downloaded, compare its size with the original's.",
    ),
    "nsys-printed-nothing": Text(
        "{path:quote}: nsys left no {name}, or not all of it ({said:quote})",
        next_step="Run it by hand (a gate leaves this file with --perfgate-keep-captures):\n"
        "{command:raw}",
    ),
    "columns-unknown": Text(
        "{source:quote}: has columns or units that perfgate does not know: {header:quote}",
        "perfgate reads {known:list;}",
        "Let perfgate run nsys 2022.4 or newer itself. If it did, perfgate must learn this "
        "version: please report it.",
    ),
    "operation-unknown": Text(
        "{source:quote}: names a memory operation that perfgate does not know: {operation}",
        next_step="perfgate must learn it: please report it with the version of nsys.",
    ),
    "rows-broken": Text(
        "{source:quote}: cut short, or its numbers are in another locale's notation: {line:quote}",
        next_step="Let perfgate run nsys itself; if the disk is full, free some space first.",
    ),
    "nsys-not-run": Text(
        "{program:quote}: cannot be run ({reason:quote})",
        next_step="Check that the program is there and may be run.",
    ),
    "nsys-folder-unwritable": Text(
        "{path:quote}: cannot be written ({reason:quote})",
        next_step="Make it writable, or free some space.",
    ),
}
"""What nsys makes of captures: exports, reports and rules."""

_GET_ONE: Final = (
    "install {product} (package {package}, or https://developer.nvidia.com), then put {name} on "
    "PATH, or name it by {variable}."
)
_PROGRAMS: Final[Mapping[str, Text]] = {
    "program-not-found": Text(
        "{name}: not found (looked in {looked:list})", next_step=f"To get it, {_GET_ONE}"
    ),
    "program-not-run": Text(
        "{name} {path:quote} (from {source}): cannot be run ({reason:quote})",
        next_step=f"Correct {{source}}, or {_GET_ONE}",
    ),
    "program-unsupported": Text(
        "{name} {path:quote} (from {source}): is version {found}",
        "perfgate knows {oldest} and newer",
        f"Name another, or {_GET_ONE}",
    ),
}
"""Where programs are looked for."""

TEXT: Final[Mapping[str, Text]] = {**_PROGRAMS, **_EXPORTS, **_MISSING, **_RUNS, **_PRINTED}
