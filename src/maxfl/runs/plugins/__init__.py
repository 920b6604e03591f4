"""Own code, named in a file: methods, models, losses, requirements and data as ``module:function``.

Here: finding and importing it, the entry points of installed packages, its parameters by signature,
its digest, and what it makes. Only commands that train, draw or list import any of it, and nothing
is imported from a run folder. What the settings around a name are is in ``runs.configs``.
"""
