"""Models, one file each: a small zoo, and adapters for those of other libraries.

``layers.py``, ``convolution.py``, ``normalisation.py`` and ``attention.py`` have what several are
made of; ``registry.py`` has the zoo by name. Each factory is cached, so that equal arguments give
one model and one compiled program. A new model is a file beside these, and a line in the registry.
"""
