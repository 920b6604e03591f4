"""The table ``[algorithm]``: the method by name, and its hyper-parameters."""

import inspect
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from maxfl.algorithms import ALGORITHMS
from maxfl.utils.errors import did_you_mean


class AlgorithmConfig(BaseModel):
    """The method by name, and its hyper-parameters."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)

    name: Literal[tuple(ALGORITHMS)] = Field("maxfl", description="the method")  # type: ignore[valid-type]

    @model_validator(mode="after")
    def _known(self) -> "AlgorithmConfig":
        allowed = list(inspect.signature(ALGORITHMS[self.name]).parameters)
        for key, value in self.hparams.items():
            if key not in allowed:
                raise ValueError(
                    f"{self.name} has no hyper-parameter `{key}`; it has {', '.join(allowed)}"
                    f"{did_you_mean(key, allowed)}"
                )
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError(f"`{key}` = {value!r} is not a number")
        return self

    @property
    def hparams(self) -> dict[str, Any]:
        """The method's hyper-parameters that the file gives."""
        return dict(self.__pydantic_extra__ or {})
