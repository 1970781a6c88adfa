"""GPUs named in a word: `8xH100-80GB`, `2x8xH20-96GB`, `A100`; for a machine that is not this one."""

from __future__ import annotations

import re
from dataclasses import dataclass

from autotune.errors import Fault, ResourceError

_SPEC = re.compile(
    r"^(?:(?P<nodes>\d+)x)?(?:(?P<count>\d+)x)?(?P<name>[a-z][a-z0-9]*)(?:-(?P<memory>\d+(?:\.\d+)?)(?:gb)?)?$",
    re.IGNORECASE,
)

USABLE_GB = {
    # What the driver gives to programs, 2**30 bytes, of the size in the name (nvidia-smi and torch's
    # total_memory on these cards; verl#2828 prints 79.11 GiB for an H800).
    ("h100", 80): 79.2,
    ("h800", 80): 79.1,
    ("a100", 80): 79.2,
    ("a800", 80): 79.2,
    ("a100", 40): 39.4,
    ("h20", 96): 95.1,
    ("h20", 141): 139.8,
    ("h200", 141): 139.8,
    ("b200", 180): 178.4,
    ("b200", 192): 178.4,
    ("gh200", 96): 94.5,
    ("l40s", 48): 44.4,
    ("l40", 48): 44.4,
    ("l20", 48): 44.5,
    ("l4", 24): 22.0,
    ("a10", 24): 22.1,
    ("a10g", 24): 22.0,
    ("a6000", 48): 47.4,
    ("rtx4090", 24): 23.5,
    ("rtx3090", 24): 23.6,
    ("rtx5090", 32): 31.4,
    ("v100", 32): 31.7,
    ("v100", 16): 15.8,
    ("t4", 16): 14.6,
    ("910b", 64): 61.3,
    ("ascend", 64): 61.3,
}
"""(name, size in the name) to GB."""
_UNKNOWN_FRAC = 0.985
"""Of the size in the name, for cards that are not listed."""


@dataclass(frozen=True, kw_only=True)
class GpuSpec:
    """GPUs of one kind."""

    count: int
    """Over all nodes."""
    nodes: int
    name: str
    memory_gb: float
    """Usable memory of one."""


def parse_gpu_spec(text: str) -> GpuSpec:
    """Reads `[NODESx][COUNTx]NAME[-MEMORYGB]`; without a memory, the largest variant known of the name.

    Raises:
        ResourceError: no such form, or a name without a memory that the catalogue does not have.
    """
    match = _SPEC.match(text.strip())
    if match is None:
        raise ResourceError(_fault(text, "the form is 8xH100-80GB or 2x8xH100-80GB"))
    name = match["name"].lower()
    first, second = match["nodes"], match["count"]
    nodes = int(first) if first and second else 1
    per_node = int(second or first or 1)
    if nodes < 1 or per_node < 1:
        raise ResourceError(_fault(text, "at least one GPU"))
    sizes = [size for known, size in USABLE_GB if known == name]
    if match["memory"] is None and not sizes:
        raise ResourceError(_fault(text, f"give the memory too: {text}-80GB"))
    stated = float(match["memory"]) if match["memory"] else float(max(sizes))
    memory_gb = USABLE_GB.get((name, int(stated)), stated * _UNKNOWN_FRAC)
    return GpuSpec(count=nodes * per_node, nodes=nodes, name=match["name"].upper(), memory_gb=memory_gb)


def _fault(text: str, next_step: str) -> Fault:
    known = ", ".join(sorted({name.upper() for name, _size in USABLE_GB}))
    return Fault(where="--gpus", found=repr(text), allowed=f"a number and a name of {known}", next_step=next_step)
