"""What the tables of a configuration file have in common."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Fraction = Annotated[float, Field(ge=0, lt=1)]


class Section(BaseModel):
    """A table of the file: unknown keys and wrong types are errors, never ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)
