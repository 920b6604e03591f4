"""Whether we are in a notebook."""

import sys


def in_notebook() -> bool:
    """Return whether cells are being run: Jupyter, VS Code, Colab; IPython is not imported."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return any(kind.__name__ == "ZMQInteractiveShell" for kind in type(shell).__mro__)
