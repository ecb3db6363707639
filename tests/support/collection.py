"""Keeps the garbage collector from looking at what collection makes; a plugin of `conftest.py`, the first of them.

Importing and collecting all tests makes a million objects that stay until the end. Looking for garbage among them again
and again took a third of the time of collection, in each process of a run.
"""

from __future__ import annotations

import gc

import pytest

gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Collect garbage as usual from here on, except among what is there already."""
    gc.collect()
    gc.freeze()
    gc.enable()
