"""The version of tarry. `tarry.__version__` is this one."""

__version__ = "1.0.0rc1"
"""The version of tarry."""
