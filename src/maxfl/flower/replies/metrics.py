"""Metrics that a client sends: few, short, finite numbers, whatever it calls them.

Whatever is not is rejected with the whole reply, before anybody averages, compares or prints it.
"""

from reprlib import repr as shown

from flwr.app import MetricRecord

MAX_METRICS = 200
"""Metrics of a reply; more cost the server time, and nobody reads them."""
MAX_NUMBERS = 10_000
"""Numbers of a reply in all, those in lists too."""
MAX_NAME_LENGTH = 200
MAX_MAGNITUDE = 1e30
"""Of a number: sums over all clients stay finite, in single precision too."""


def wrong_metrics(metrics: MetricRecord) -> str:
    """Return what is wrong with the metrics of a reply, "" if nothing is."""
    if len(metrics) > MAX_METRICS:
        return f"{len(metrics)} metrics; at most {MAX_METRICS} are read"
    numbers = 0
    for name, value in metrics.items():
        if len(name) > MAX_NAME_LENGTH:
            return f"a metric's name has {len(name)} characters; at most {MAX_NAME_LENGTH} are read"
        values = value if isinstance(value, list) else [value]
        numbers += len(values)
        if not values or numbers > MAX_NUMBERS:
            return f"{name} has {len(values)} numbers; expected 1 to {MAX_NUMBERS} in all metrics"
        if not all(_is_number(item) for item in values):
            return f"{name} is {shown(value)}; expected finite numbers"
    return ""


def _is_number(value: object) -> bool:
    # A comparison with NaN is false.
    return isinstance(value, int | float) and abs(value) <= MAX_MAGNITUDE
