"""Another version of the analyser gives other terms, so the words of a database are indexed anew before it is used."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agent_reminiscence import AgentMem, Config, ConfigurationError
from agent_reminiscence.services.upkeep.reindexing import Reindexed, reindex
from tests.conftest import TestServer
from tests.factories import superuser

_TEXT = "Ann: The boats lie in the harbour.\nBob: I painted mine green yesterday."


async def test_words_of_another_analyser_are_indexed_anew(
    test_server: TestServer, database: str, config: Callable[..., Config]
) -> None:
    """A process of this release refuses the database until `migrate` has done it, and finds everything after that."""
    async with AgentMem(config()) as memory:
        await memory.create_active_memory("agent-1", "Harbour", _TEXT)
        await memory.create_active_memory("agent-2", "Harbour", _TEXT)
    async with superuser(test_server, database) as db:
        # As another analyser might have read them, and recorded with that one's version.
        await db.execute_script(
            "UPDATE posting SET term = upper(term); UPDATE memory_chunk SET words = words + 7;"
            " UPDATE memory_layout SET words = words + 14; UPDATE memory_stream SET text_words = text_words + 14;"
            " UPDATE schema_parameter SET value = '0' WHERE name = 'analyser_version'"
        )
    with pytest.raises(ConfigurationError, match=r"version 0 of the analyser.*agent-reminiscence migrate"):
        await AgentMem(config()).initialize()

    seen: list[Reindexed] = []
    assert await reindex(test_server.administrator(database), seen.append) == 2

    assert [(one.streams_done, one.streams_total) for one in seen] == [(0, 2), (1, 2), (2, 2)]
    assert await reindex(test_server.administrator(database)) == 0
    async with AgentMem(config()) as memory:
        assert (await memory.admin.verify()).ok
        found = await memory.retrieve_memories("agent-2", "Where does the boat lie?")
        assert found.hits[0].content.strip() == "Ann: The boats lie in the harbour."
