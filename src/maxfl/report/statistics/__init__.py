"""What two methods' results allow to say: paired differences, their intervals, exact tests.

Here: which runs can be paired, what is resampled, and the words that follow from an interval.
Tables and sentences made of them are in ``report``.
"""
