"""Mistakes in an experiment on disk, found before any training."""

from maxfl.core.participation import ParticipationRule
from maxfl.distributed.processes import is_distributed
from maxfl.engine.session import Session
from maxfl.utils.errors import InputError, check_count


def validate_streaming(
    session: Session, max_candidates: int | None, *, keeps_client_states: bool
) -> None:
    """Refuse what can't be streamed; the message says what to change."""
    experiment = session.experiment
    if is_distributed():
        raise InputError(
            "a federation on disk is one process's work: run it without --coordinator and "
            "--distributed (maxfl.join)"
        )
    if session.configurations > 1:
        raise InputError(
            "a federation on disk has one configuration: run a sweep's one after another"
        )
    if session.spec.has_personal_models:
        raise InputError(
            "personal and fine-tuned models are not measured on disk yet: take a method without "
            "them and finetune_steps = 0, or a federation in memory"
        )
    if session.spec.model.keep_local:
        raise InputError(
            "keep_local: clients that evaluate a model on disk have no state of their own; let the "
            "state travel (keep_local=False), or take a federation in memory"
        )
    if session.spec.has_portfolio and keeps_client_states:
        raise InputError(
            f"{experiment.algorithm.name} keeps something on its clients, which begins with the "
            f"model that they picked: several models (portfolio.models) need a federation in memory"
        )
    if experiment.requirement.rule is not None:
        raise InputError("a custom rule needs all clients at once: choose another kind")
    opts_out = experiment.participation.rule is ParticipationRule.OPT_OUT
    if opts_out and max_candidates is None:
        raise InputError(
            "opt-out would show every client the model in every round, and so read all data: say "
            "how many at most (max_candidates = 5000, or participation.max_candidates), or take "
            "the rule decline, by which clients refuse when they are sampled"
        )
    if max_candidates is not None:
        check_count("max_candidates", max_candidates, least=1)
        if max_candidates < session.spec.cohort:
            raise InputError(
                f"max_candidates = {max_candidates} (participation.max_candidates): expected at "
                f"least the cohort, {session.spec.cohort} (training.cohort)"
            )
        if not opts_out:
            raise InputError("max_candidates is for opt-out: by another rule, leave it out")
