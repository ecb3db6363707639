"""Runs the Python in README.md, in docs/ and in docstrings; a plugin of `conftest.py`.

Blocks of one document share their names, as they do for a reader who follows it from top to bottom. Each document has a
folder, an environment and a memory of its own, so that no example touches the reader's memories or another document's.
The memory is a database of the test server; only the documents of `_WITH_DATA_FOLDER` start a server themselves.
"""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import os
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from unittest.mock import patch

import pytest
from sybil import Sybil
from sybil.evaluators.python import PythonEvaluator, pad
from sybil.parsers.markdown import CodeBlockParser, SkipParser
from sybil.parsers.rest import DocTestParser

from tests.conftest import TEST_PARTITIONS, TestServer, dsn

if TYPE_CHECKING:
    from sybil import Example

ROOT: Final = Path(__file__).parents[2]

# Documents that need an embedded server of their own, which costs a second of CPU, and why.
_WITH_DATA_FOLDER: Final = {
    "README.md": "its promise is that the first run makes a database, without any set-up",
    "docs/guide/quickstart.md": "the same promise, step by step",
    "docs/cookbook.md": "passes a `data_dir`, which a DSN in the environment would contradict",
    "docs/guide/access.md": "keeps keys, which takes the administrator of the server",
    "docs/guide/embedders.md": "has embedders of its own, and the schema of a database is for one embedder",
    "docs/guide/reembedding.md": "builds another embedder's vectors, which takes the administrator",
}

MODULES_WITH_EXAMPLES: Final = (
    "agent_reminiscence/domain/exact_json.py",
    "agent_reminiscence/react/sensitive/search.py",
    "agent_reminiscence/react/findings.py",
    "agent_reminiscence/react/stated_facts.py",
    "agent_reminiscence/redaction/redactor.py",
)
"""The modules whose docstrings hold examples: parsing all of them takes seconds. A unit test finds one left out."""

# Pydantic AI warns of a tag for prompts that is registered after the first prompt was made. A reader runs one document
# in a process; here another one may have made a prompt before.
_REGISTERING_TAGS: Final = ("agent_reminiscence.integrations.pydantic_ai.messages", "agent_reminiscence.react")

_PREFIX: Final = "REMINISCENCE_"


class _AwaitingEvaluator(PythonEvaluator):
    """Evaluates a block in which `await` and `async with` may stand at the top level, on one loop per document."""

    def __call__(self, example: Example) -> None:
        source = pad(example.parsed, example.line + example.parsed.line_offset)
        code = compile(source, example.path, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        result = eval(code, example.namespace)  # noqa: S307 - the documents are our own
        if inspect.iscoroutine(result):
            runner: asyncio.Runner = example.namespace[document_runner.__name__]
            runner.run(result)


@pytest.fixture(scope="module")
def document_runner(request: pytest.FixtureRequest) -> Iterator[asyncio.Runner]:
    """The event loop of one document, in surroundings that are the document's alone."""
    for module in _REGISTERING_TAGS:
        importlib.import_module(module)
    document = request.path.relative_to(ROOT).as_posix()
    if document in _WITH_DATA_FOLDER or document in MODULES_WITH_EXAMPLES:
        with _surroundings({}), asyncio.Runner() as runner:
            yield runner
        return
    server: TestServer = request.getfixturevalue("test_server")
    database = asyncio.run(server.bundled_databases.take())
    try:
        with _surroundings({"POSTGRES_DSN": dsn(server.login(database))}), asyncio.Runner() as runner:
            yield runner
    finally:
        asyncio.run(server.bundled_databases.give_back(database))


@contextmanager
def _surroundings(settings: dict[str, str]) -> Iterator[None]:
    """A folder to work in, and an environment with no other settings than these, which lack their prefix.

    Without any, memories are kept in the folder, by a server that the document starts.
    """
    with (
        # A server that is being stopped may still write there.
        tempfile.TemporaryDirectory(prefix="reminiscence-docs-", ignore_cleanup_errors=True) as folder,
        chdir(folder),
        patch.dict(os.environ),
    ):
        # Started by root, the embedded server runs as a user of its own, who has to get in.
        Path(folder).chmod(0o755)
        for name in [name for name in os.environ if name.startswith(_PREFIX)]:
            del os.environ[name]
        # Few partitions: a document shows what to write, and some make a database of their own.
        chosen = {"CHUNK_PARTITIONS": str(TEST_PARTITIONS)} | (settings or {"DATA_DIR": str(Path(folder) / "data")})
        os.environ.update({f"{_PREFIX}{name}": value for name, value in chosen.items()})
        yield


_blocks = CodeBlockParser(language="python", evaluator=_AwaitingEvaluator())
_documents = Sybil(
    path=str(ROOT),
    parsers=[_blocks, SkipParser()],
    patterns=["README.md", "docs/*.md", "docs/*/*.md"],
    fixtures=[document_runner.__name__],
)
_docstrings = Sybil(
    path=str(ROOT),
    parsers=[DocTestParser(), _blocks, SkipParser()],
    patterns=MODULES_WITH_EXAMPLES,
    fixtures=[document_runner.__name__],
)

pytest_collect_file = (_documents + _docstrings).pytest()
