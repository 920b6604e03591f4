"""The table ``[requirement]``: how good the model must be for a client to want it."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)

from maxfl.core.judging import FRACTION
from maxfl.core.requirements.solo_training import BATCH_SIZE, EXPECTED, RATES, are_untrained
from maxfl.runs.configs.section import Section
from maxfl.runs.plugins.resolve import load

Several: Any = Field(strict=False, min_length=1)
Rest = Literal["solo", "fixed", "metric", "custom"]


class RequirementConfig(Section):
    """How good the model must be for a client to want it."""

    kind: Literal["solo", "fixed", "metric", "file", "custom"] = Field(
        "solo",
        description="solo: a multiple of the loss of the client's solo model; fixed: one loss for "
        "all clients; metric: one value of a metric for all clients; file: a value for each "
        "client; custom: a rule of your own",
    )
    steps: NonNegativeInt | Annotated[tuple[NonNegativeInt, ...], Several] = Field(
        100,
        description="SGD steps of the solo models; with a list, a client trains one model for each "
        "value and keeps the one that is best on its judging data",
    )
    local_lr: (
        PositiveFloat | Literal["training"] | Annotated[tuple[PositiveFloat, ...], Several]
    ) = Field(
        RATES,
        description="learning rate of the solo models, a number or a list as for steps; training: "
        "the run's own, as in the paper, so that requirements change with it",
    )
    batch_size: PositiveInt | Literal["training"] | Annotated[tuple[PositiveInt, ...], Several] = (
        Field(BATCH_SIZE, description="minibatch size of the solo models, likewise")
    )
    judge: Literal["held-out", "training"] = Field(
        "held-out",
        description="judging data, which decide a client's requirement, weight, participation and "
        "choice of model. held-out: samples that it does not train on; training: its training "
        "data, as in the paper",
    )
    judge_fraction: Annotated[float, Field(gt=0, lt=1)] = Field(
        FRACTION,
        description="for held-out: fraction of its training data that a client holds out, if the "
        "data have no judging part of their own",
    )
    multiple: PositiveFloat = Field(
        1.0, description="for solo: factor by which the solo model's value is multiplied"
    )
    loss: NonNegativeFloat | None = Field(
        None, description="for fixed: the loss that the model must beat, the same for all clients"
    )
    metric: str | None = Field(
        None,
        description="the model's metric that decides, such as accuracy or mae; the metric knows "
        "whether higher is better. By default, the loss decides; kind = metric needs a metric",
    )
    value: float | None = Field(
        None, description="for metric: the value to reach, a minimum or a maximum, for all clients"
    )
    file: Path | None = Field(
        None,
        strict=False,
        description="for file: a CSV or Parquet file, relative to the current folder, with the "
        "columns `client`, `value` and, if test data have a different requirement, `test`",
    )
    otherwise: Rest | None = Field(
        None, description="for file: the kind of requirement for clients that are not in the file"
    )
    rule: str | None = Field(
        None,
        description="for custom: `module:function`, a function of (federation, solo); the module "
        "is in the current folder or installed",
    )

    @field_validator("steps", "local_lr", "batch_size", mode="wrap")
    @classmethod
    def _is_one_or_several(
        cls, given: Any, check: ValidatorFunctionWrapHandler, field: ValidationInfo
    ) -> Any:
        """Say once what is expected, not once for each type that it might be."""
        try:
            ways = check(given)
        except ValidationError:
            ways = ()
        if ways == () or (isinstance(ways, tuple) and are_untrained(ways)):
            raise ValueError(f"expected {EXPECTED[str(field.field_name)]}")
        return ways

    @field_validator("rule")
    @classmethod
    def _is_there(cls, rule: str | None) -> str | None:
        if rule is not None:
            load(rule)
        return rule

    @property
    def rest(self) -> str | None:
        """The kind that holds for clients without a value of their own."""
        return self.otherwise if self.kind == "file" else self.kind

    @model_validator(mode="after")
    def _fits(self) -> "RequirementConfig":
        for setting, kind, given in (
            ("file", "file", self.kind),
            ("rule", "custom", self.rest),
            ("loss", "fixed", self.rest),
            ("value", "metric", self.rest),
        ):
            if (given == kind) != (getattr(self, setting) is not None):
                where = "otherwise" if self.kind == "file" and kind != "file" else "kind"
                raise ValueError(
                    f'`{setting}` and {where} = "{kind}" go together: give both or neither'
                )
        if self.otherwise is not None and self.kind != "file":
            raise ValueError('`otherwise` is for kind = "file": it says what other clients require')
        if self.rest == "metric" and self.metric is None:
            raise ValueError('kind = "metric" needs `metric`, the name of one that the model has')
        if self.rest == "fixed" and self.metric is not None:
            raise ValueError(
                "`metric` and a fixed loss do not go together: for a fixed value of the metric "
                'take "metric" in place of "fixed"'
            )
        return self
