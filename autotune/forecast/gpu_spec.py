"""GPUs named in a word: `8xH100-80GB`, `2x8xH20-96GB`, `A100`; for a machine that is not this one."""

from __future__ import annotations

import re
from dataclasses import dataclass

from autotune.errors import Fault, ResourceError

_SPEC = re.compile(
    r"^(?:(?P<nodes>\d+)x)?(?:(?P<count>\d+)x)?(?P<name>[a-z][a-z0-9]*)(?:-(?P<memory>\d+(?:\.\d+)?)(?:gb)?)?$",
    re.IGNORECASE,
)

MEMORY_GB = {
    # What NVML and nvidia-smi tell of these cards, 2**30 bytes, by the size in their name.
    ("h100", 80): 79.65,
    ("h800", 80): 79.65,
    ("a100", 80): 80.0,
    ("a800", 80): 80.0,
    ("a100", 40): 40.0,
    ("h20", 96): 95.58,
    ("h20", 141): 140.4,
    ("h200", 141): 140.4,
    ("b200", 180): 178.4,
    ("b200", 192): 178.4,
    ("gh200", 96): 95.58,
    ("l40s", 48): 44.99,
    ("l40", 48): 44.99,
    ("l20", 48): 44.99,
    ("l4", 24): 22.49,
    ("a10", 24): 22.49,
    ("a10g", 24): 22.49,
    ("a6000", 48): 47.99,
    ("rtx4090", 24): 23.99,
    ("rtx3090", 24): 24.0,
    ("rtx5090", 32): 31.84,
    ("v100", 32): 32.0,
    ("v100", 16): 16.0,
    ("t4", 16): 15.0,
    ("910b", 64): 64.0,
    ("ascend", 64): 64.0,
}
"""(name, size in the name) to GB."""
_UNKNOWN_FRAC = 0.99
"""Of the size in the name, for cards that are not listed."""


@dataclass(frozen=True, kw_only=True)
class GpuSpec:
    """GPUs of one kind."""

    count: int
    """Over all nodes."""
    nodes: int
    name: str
    memory_gb: float
    """Memory of one, as NVML would tell it."""


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
    sizes = [size for known, size in MEMORY_GB if known == name]
    if match["memory"] is None and not sizes:
        raise ResourceError(_fault(text, f"give the memory too: {text}-80GB"))
    stated = float(match["memory"]) if match["memory"] else float(max(sizes))
    memory_gb = MEMORY_GB.get((name, int(stated)), stated * _UNKNOWN_FRAC)
    return GpuSpec(count=nodes * per_node, nodes=nodes, name=match["name"].upper(), memory_gb=memory_gb)


def _fault(text: str, next_step: str) -> Fault:
    known = ", ".join(sorted({name.upper() for name, _size in MEMORY_GB}))
    return Fault(
        where="--gpus", found=repr(text), allowed=f"a number and a name of {known}", next_step=next_step
    )
