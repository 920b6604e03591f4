"""Adapters for models of other libraries, one file each; none of them is needed otherwise."""
