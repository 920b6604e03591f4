"""What an operator chose for a federation: checked, and as plain data."""

from typing import Any, NamedTuple

from maxfl.algorithms import fedavg, maxfl
from maxfl.core.aggregators import Robust, Rule
from maxfl.core.algorithm import Algorithm
from maxfl.flower import privacy
from maxfl.flower.privacy import Privacy
from maxfl.utils.errors import InputError, check_number


class Choices(NamedTuple):
    """The settings of ``maxfl.flower.MaxFL``, which says what each of them is."""

    temperature: float
    epsilon: float
    server_lr: float
    decline_after: int | None
    floor: int
    least_replies: int
    largest_norm: float
    robust: Robust
    observe: bool
    reveal: bool
    privacy: Privacy | None

    @property
    def algorithm(self) -> Algorithm:
        """Whose step the server takes."""
        return fedavg() if self.observe else maxfl(self.temperature, self.epsilon)

    @property
    def lets_decline(self) -> bool:
        """Whether clients may stay away at all."""
        return self.decline_after is not None and not self.observe

    @property
    def private(self) -> bool:
        """Whether results are differentially private."""
        return self.privacy is not None and self.privacy.private


def check(own: Choices, fraction_evaluate: float) -> None:
    """Refuse what makes no sense, alone or together."""
    for name, given, kind in (("robust", own.robust, Robust), ("privacy", own.privacy, Privacy)):
        if given is not None and not isinstance(given, kind):
            raise InputError(f"{name} = {given!r}: want a {kind.__module__}.{kind.__name__}")
    maxfl(own.temperature, own.epsilon)  # checks both
    check_number("server_lr", own.server_lr, above=0)
    check_number("floor", own.floor, least=0, whole=True)
    check_number("least_replies", own.least_replies, least=1, whole=True)
    check_number("largest_norm", own.largest_norm, above=0)
    if own.decline_after is not None:
        check_number("decline_after", own.decline_after, least=0, whole=True)
    robust = own.robust.rule is not Rule.MEAN or own.robust.clips
    if own.observe and robust:
        raise InputError("observe=True trains as FedAvg does: robust= has no effect, drop it")
    if own.privacy is None:
        return
    privacy.check(own.privacy)
    wrong = {
        "reveal=True": own.reveal,
        "observe=True": own.observe,
        "robust=": robust,
        "fraction_evaluate above 0 (set fraction_evaluate=0)": fraction_evaluate > 0,
    }
    if found := [name for name, there in wrong.items() if there]:
        raise InputError(
            f"privacy can't be had together with {', '.join(found)}: the server would learn more "
            f"of single clients than the sums"
        )


def describe(own: Choices, rounds: int, fraction_train: float, examples: str) -> dict[str, Any]:
    """The settings under the names that a simulation has for them."""
    algorithm, robust = own.algorithm, own.robust
    numbers = {} if own.observe else {k: float(v) for k, v in algorithm.hyper._asdict().items()}
    return {
        "algorithm": {"name": algorithm.name, **numbers},
        "training": {"rounds": rounds, "server_lr": own.server_lr},
        "requirement": {"kind": "clients"},
        "participation": {
            "rule": "decline" if own.lets_decline else "everyone",
            "start": own.decline_after,
            "floor": own.floor,
        },
        "replies": {
            "least": own.least_replies,
            "examples": examples,
            "largest_norm": own.largest_norm,
        },
        "server": {
            "rule": robust.rule.value,
            "clips": robust.clips,
            **{k: float(v) for k, v in robust.limits._asdict().items()},
        },
        "privacy": None if own.privacy is None else own.privacy._asdict(),
        "flower": {"fraction_train": fraction_train, "reveal": own.reveal},
    }
