"""Times of models on a GPU, by session, from benchmarks/results."""

from support.pages import read_rounds


def times(framework, *, session=""):
    """Milliseconds a round of maxfl or torch, by model, cohort and what else tells cases apart.

    Of session E, or of the one that is named, as "-d".
    """
    name = "torch" if framework == "torch" else "models"
    return {
        (r.get("label", r["model"]), r["cohort"], *(r[k] for k in ("variant",) if k in r)): r[
            "ms_a_round"
        ]
        for r in read_rounds(f"{name}{session}-gpu")
        if "ms_a_round" in r
    }


def shown_times(framework):
    """The same as the page shows them: with earlier ones of what was not measured in session E."""
    found, session = times(framework), "-a" if framework == "torch" else "-d"
    known = {model for model, *_ in found}
    earlier = times(framework, session=session).items()
    shown = ("resnet by windows",) if framework == "torch" else ("logistic", "lstm")
    return {case: ms for case, ms in earlier if case[0] in shown and case[0] not in known} | found


def best_times(*, session=""):
    """PyTorch's in its fastest variant, by model and cohort."""
    found = {}
    for (model, cohort, _), ms in times("torch", session=session).items():
        case = model.split(" by ")[0], cohort
        found[case] = min(found.get(case, ms), ms)
    return found


def of_all_sessions():
    """The same of every session, by model and cohort."""
    sessions = [best_times(session=session) for session in ("", "-d", "-c")]
    first = {case: ms for case, ms in best_times(session="-a").items() if case[0] == "resnet"}
    return {
        case: [each[case] for each in (*sessions, first) if case in each] for case in sessions[0]
    }
