"""What a federation is made of: its data, model, requirements, rules, and the contract of a method.

Pure functions and NamedTuples that a simulation traces and a Flower server calls. What runs them
(programs, devices, folders) belongs to ``engine`` and ``runs``; methods to ``algorithms``. Nothing
is imported here, so that ``core.appeal`` loads without JAX.
"""
