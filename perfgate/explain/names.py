"""Names of kernels and ranges that people can read, without what says nothing; it must not know any
metric."""

from __future__ import annotations

import hashlib
import re
from typing import Final

KEPT: Final = 100
"""Characters of a name that a baseline keeps, besides the digest."""
BRIEF: Final = 90
"""Characters of a name within a sentence."""
DIGEST: Final = 6
"""Hexadecimal digits that set apart names which read alike."""

_QUALIFIER: Final = re.compile(
    r"(?:\b[A-Za-z_]\w*::|\(anonymous namespace\)::|<unnamed>::)+(?=[A-Za-z_~{(<])"
)
_RETURNED: Final = re.compile(
    r"(?<![\w*&] )(?<![\w(])(?:void|auto|static|__global__) (?=[A-Za-z_~{(<])"
)
_CAST: Final = re.compile(r"\((?:unsigned |signed )?[A-Za-z_][\w:]*(?: long)?\)(?=-?\d)")
"""nsys writes a template's numbers as `(int)4`, and an enumeration's as `(Kind)0`."""
_LAMBDA: Final = re.compile(
    r"\((?P<of>[^()<>]*)\)"
    r"(?:::\[lambda\([^()]*\) \(instance \d+\)\](?:::operator \(\)\(\) const)?)*"
    r"::\[lambda\((?P<own>[^()]*)\) \(instance \d+\)\]"
)
"""A function's parameters, and the lambdas in it down to the one that is meant; of these, only its
own say what it is."""
_WRAPPER: Final = re.compile(
    r"(?P<of>(?:\w+_)?elementwise_kernel(?:_\w+)?|multi_tensor_apply_kernel|reduce_kernel)"
    r"<(?P<held>.+)>"
)
"""torch's kernels that run a function over all elements: what they run says what they are."""
_HOLDER: Final = re.compile(r"gpu_kernel_impl(?:_nocast)?<(?P<held>.+)>")
_SAYS_NOTHING: Final = re.compile(
    r"(?:const )?(?:float|double|bool|(?:unsigned )?(?:int|long)|char|BFloat16|Half)(?: \*)?"
    r"|(?:array|\w*OffsetCalculator|\w*ListMetadata|(?:Load|Store)With\w+)\b.*"
)
"""Arguments of such a kernel: how elements are found, read and written."""
_GENERATED: Final = re.compile(r"\A(?P<of>triton_[a-z]+_fused\w*?)(?:_\d+)+\Z")
"""What torch.compile names a kernel that it generates: the operations in it, and a running number.
"""
_SPACES: Final = re.compile(r"\s+")
_KEY: Final = re.compile(rf" #[0-9a-f]{{{DIGEST}}}\Z")


def short(name: str) -> str:
    """The name without return type, namespaces and parameters; any name that is no C++ name stays
    as it is.

    Of a key it is the name that is left of it.

    `void at::native::fill<4, at::native::Fill<float>>(int, float*)` becomes `fill<4, Fill<float>>`;
    of lambdas in a function, the parameters of the innermost stay: `copy(Iterator
    &)::[lambda(float) (instance 1)]` is `copy[float]`. Of torch's elementwise kernels what they run
    comes first: `copy[float] in vectorized_elementwise_kernel<4>`.
    """
    readable = _without_parameters(_SPACES.sub(" ", _KEY.sub("", name.strip())))
    for noise in (_QUALIFIER, _RETURNED, _CAST):
        readable = noise.sub("", readable)
    return _unwrapped(_LAMBDA.sub(_of_lambda, readable).replace("> >", ">>")) or name


def brief(name: str) -> str:
    """The short name, cut off where it is longer than a sentence bears."""
    readable = short(name)
    return readable if len(readable) <= BRIEF else f"{readable[: BRIEF - 3]}..."


def unnumbered(name: str) -> str:
    """The name without the running number of torch.compile's kernels, `triton_poi_fused_add_2`;
    others as they are.

    Of an otherwise unchanged kernel the number is another one as soon as the graph before it
    changes.
    """
    return _GENERATED.sub(r"\g<of>", name)


def identity(name: str) -> str:
    """What a name and its key have in common, and no other name has: the start of its SHA-256.

    Kernels that torch.compile has made of the same operations have it in common too.
    """
    found = _KEY.search(name)
    return found[0][2:] if found else _digest(unnumbered(name))


def key(name: str) -> str:
    """What a baseline keeps of a name: readable, and another one for every other name.

    A name that reads in full and is short stays as it is, and so does a key; to others the start of
    their SHA-256 is appended.
    """
    if _KEY.search(name):
        return name
    readable = short(name)
    if readable == name and len(name) <= KEPT:
        return name
    cut = readable if len(readable) <= KEPT else f"{readable[: KEPT - 3]}..."
    return f"{cut} #{identity(name)}"


def _unwrapped(readable: str) -> str:
    """The function that a kernel of torch's runs over all elements, before the kernel; other names
    as they are."""
    if (found := _WRAPPER.fullmatch(readable)) is None:
        return readable
    held = _arguments(found["held"])
    run = [one for one in held if not one.isdecimal() and not _SAYS_NOTHING.fullmatch(one)]
    if not run:
        return readable
    first = run[0] if (holder := _HOLDER.fullmatch(run[0])) is None else holder["held"]
    numbers = ", ".join(one for one in held if one.isdecimal())
    return f"{', '.join([first, *run[1:]])} in {found['of']}{f'<{numbers}>' if numbers else ''}"


def _arguments(listed: str) -> list[str]:
    """Take a list of template arguments apart, which may hold lists of their own."""
    found, depth = [""], 0
    for sign in listed:
        depth += {"<": 1, "(": 1, "[": 1, ">": -1, ")": -1, "]": -1}.get(sign, 0)
        if sign == "," and not depth:
            found.append("")
        else:
            found[-1] += sign
    return [one.strip() for one in found]


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:DIGEST]


def _of_lambda(found: re.Match[str]) -> str:
    # Over elements by their index: that is how, and not what.
    return f"[{found['own']}]" if found["own"] not in ("", "int") else ""


def _without_parameters(name: str) -> str:
    """Cut off the parameter list at a name's end, if its parentheses match; what stands in angle
    brackets stays."""
    if not name.endswith(")"):
        return name
    depth = 0
    for place in range(len(name) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(name[place], 0)
        if depth == 0:
            return name[:place] if place and name[place - 1] not in " ,<(" else name
    return name
