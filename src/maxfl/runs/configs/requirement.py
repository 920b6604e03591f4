"""The table ``[requirement]``: what the model must beat for a client to want it."""

from typing import Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, model_validator

from maxfl.runs.configs.section import Section


class RequirementConfig(Section):
    """What the model must beat for a client to want it."""

    kind: Literal["solo", "fixed"] = Field(
        "solo", description="a multiple of the loss of a model trained alone, or one fixed loss"
    )
    steps: NonNegativeInt = Field(100, description="SGD steps of the solo models")
    multiple: PositiveFloat = Field(1.0, description="for solo: what the loss is multiplied by")
    loss: NonNegativeFloat | None = Field(
        None, description="for fixed: the loss that all clients require"
    )

    @model_validator(mode="after")
    def _fits(self) -> "RequirementConfig":
        if (self.kind == "fixed") != (self.loss is not None):
            raise ValueError('`loss` and kind = "fixed" go together: give both or neither')
        return self
