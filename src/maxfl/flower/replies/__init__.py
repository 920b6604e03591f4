"""What clients answer, taken as hostile: arrays read without a copy, metrics within bounds.

Here belongs whatever looks at a reply before it counts: ``arrays`` (bytes that claim to be a
model), ``metrics`` (numbers that claim to be measurements), ``sort`` (which replies of a round
count, and why the others do not). What is done with the good ones belongs to ``sums`` and
``aggregation``.
"""
