"""Why clients did not participate, as one of a few kinds: reasons themselves are free text."""

import re

from maxfl.flower.round_log import Event

OTHER = "other"
KINDS = {
    "timeout": r"no answer in time",
    "version": r"runs maxfl 0\.1|runs an older maxfl",
    "requirement": r"function that this client gave to appeal_mod|loss or requirement is no number",
    "secure-aggregation": r"secure aggregation",
    "not-asked": r"a second reply|nobody asked it",
    "model": r"maxfl-model is",
    "not-finite": r"not finite|expected finite numbers",
    "norm": r"its update has norm",
    "weight": r"maxfl-weight is",
    "answers": r"maxfl-[a-z-]+ is",
    "records": r"\d+ (array|metric) records",
    "arrays": r"its arrays are called|; expected [a-z0-9]+\(|bytes; expected|can't be read: ",
    "metrics": r"other metrics than most|expected a number above 0|metrics; at most"
    r"|metric's name has|numbers; expected|expected 0 to 1|expected a whole number",
    "requirement-not-met": r"the model does not meet its requirement",
}
"""Kinds of reasons, and what a reason of each says; the first that fits is taken. They are labels
of metrics, of which there must not be one for every text that a client may send."""


def kind_of(event: Event) -> str:
    """Return the kind of an event's reason."""
    fits = (kind for kind, words in KINDS.items() if re.search(words, event.reason))
    return next(fits, "error" if event.kind == "failed" else OTHER)
