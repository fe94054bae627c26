"""The version of tarry. `tarry.__version__` is this one."""

__version__ = "0.1.0"
"""The version of tarry."""
