"""zstd: in the standard library from Python 3.14 on, before that from a backport."""

from __future__ import annotations

import importlib
import sys

if sys.version_info >= (3, 14):
    # By name: tools that check imports with an older Python do not know this standard library module.
    zstd = importlib.import_module("compression.zstd")
else:
    from backports import zstd

__all__ = ["zstd"]
