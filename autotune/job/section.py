"""What all sections of a job file have in common, and the limits that their values share."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

JOB_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
"""Also the name of files and of Optuna's studies."""
Fraction = Annotated[float, Field(gt=0.0, le=1.0)]
Positive = Annotated[float, Field(gt=0.0)]
Count = Annotated[int, Field(ge=1)]


def refused(
    *, found: str, allowed: str, next_step: str = "", within: tuple[str, ...] = ()
) -> PydanticCustomError:
    """A validator's refusal, with what a fault needs; `within` leads from the validated value to the key."""
    parts = {"found": found, "allowed": allowed, "next_step": next_step, "within": within}
    return PydanticCustomError("refused", "found {found}; allowed: {allowed}", parts)


class Section(BaseModel):
    """Base of every section: unknown keys are faults, values never change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)
