"""The table ``[algorithm]``: the method by name, and its hyper-parameters."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from maxfl.algorithms import ALGORITHMS
from maxfl.runs.configs.own import own_or
from maxfl.runs.plugins.entry_points import load_named
from maxfl.runs.plugins.parameters import Parameters, check_hparams, own_parameters, parameters_of


class AlgorithmConfig(BaseModel):
    """The method by name, and its hyper-parameters."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)

    name: Annotated[Literal[tuple(ALGORITHMS)], own_or("algorithm")] = Field(  # type: ignore[valid-type]
        "maxfl-auto", description="the method; your own as `module:function`"
    )

    @model_validator(mode="after")
    def _known(self) -> "AlgorithmConfig":
        known = hparams_of(self.name)
        check_hparams(self.name, known, self.hparams, _methods_with)
        return self

    @property
    def hparams(self) -> dict[str, Any]:
        """The method's hyper-parameters that the file gives."""
        return dict(self.__pydantic_extra__ or {})


def _methods_with(hparam: str) -> str:
    """Say which methods have a hyper-parameter, if any do."""
    names = [n for n, make in ALGORITHMS.items() if hparam in {p.name for p in parameters_of(make)}]
    return f"; {', '.join(names)} {'have' if len(names) > 1 else 'has'} it" if names else ""


def hparams_of(name: str) -> Parameters:
    """Return the hyper-parameters of a method."""
    if name in ALGORITHMS:
        return parameters_of(ALGORITHMS[name])
    return own_parameters(load_named(name, "algorithm"))
