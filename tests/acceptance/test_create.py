"""`create_active_memory`: what is stored, what is said about it, and what is refused before anything is written."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import pytest

from agent_reminiscence import AgentMem, InvalidInputError
from tests.support.servers import BOTH_SERVERS, SECOND_SERVER_THOROUGHLY
from tests.support.steps import all_events, head_of, only_memory, texts

WORLD = datetime(2026, 3, 5, 9, 30, tzinfo=timezone(timedelta(hours=2)))


@BOTH_SERVERS
async def test_everything_that_was_given_comes_back(memory: AgentMem, tenant: str) -> None:
    """A memory holds all that its caller said, verbatim, and so does the list of memories."""
    text = " Ship on Friday.\r\n\n\tThe installer is new – “really” new. 🎉 \n"
    metadata = {"ticket": 7, "tags": ["a", None, 1.5, True], "nested": {"é": "ü"}, "": ""}

    note = await memory.create_active_memory(
        tenant,
        "Release plan",
        text,
        description="what we ship",
        metadata=metadata,
        occurred_at=WORLD,
        actor="planner",
        conversation_id="meeting-3",
        source="agent",
    )

    assert (note.external_id, note.version, note.title, note.content) == (tenant, 1, "Release plan", text)
    assert (note.description, note.metadata, note.occurred_at) == ("what we ship", metadata, WORLD)
    assert (note.actor, note.conversation_id, note.source) == ("planner", "meeting-3", "agent")
    assert (note.archived_at, note.consolidated_version, note.updates_until_consolidation) == (None, 0, 5)
    assert note.created_at == note.updated_at
    assert await only_memory(memory, tenant) == note.model_copy(update={"write": None})


@BOTH_SERVERS
async def test_a_write_says_what_became_of_it(memory: AgentMem, tenant: str) -> None:
    """The result names the event that holds it and counts what was made of the text."""
    note = await memory.create_active_memory(tenant, "Plan", "Ship on Friday.\n\nTell everyone on Thursday.")

    (event,) = await all_events(memory, tenant)
    assert note.write is not None
    assert (note.write.event_id, note.write.position) == (event.event_id, 1)
    assert (note.write.chunks_added, note.write.chunks_kept, note.write.chunks_ended) == (2, 0, 0)
    assert (note.write.vectors_missing, note.write.consolidation_queued) == (0, False)


@BOTH_SERVERS
async def test_left_out_arguments_have_their_documented_values(memory: AgentMem, tenant: str) -> None:
    """No description, no metadata, the trust of a user, and now."""
    before = datetime.now(UTC)
    note = await memory.create_active_memory(tenant, "Plan", "Ship on Friday")

    assert (note.description, note.metadata, note.actor, note.conversation_id) == (None, {}, None, None)
    assert note.source == "user"
    assert before <= note.occurred_at <= datetime.now(UTC)


@SECOND_SERVER_THOROUGHLY
@pytest.mark.parametrize("spellings", [(7, "7"), (UUID(int=7), str(UUID(int=7)))], ids=["int", "UUID"])
async def test_an_id_is_the_same_in_each_of_its_spellings(memory: AgentMem, spellings: tuple[int | UUID, str]) -> None:
    """A caller's id is a str, an int or a UUID; 7 and "7" are one tenant, in all four methods and beside them."""
    first, second = spellings
    note = await memory.create_active_memory(first, "Plan", "Ship on Friday")
    await memory.update_active_memory(second, note.id, content="Ship on Monday")

    for spelling in spellings:
        (found,) = await memory.get_active_memories(spelling)
        assert (found.external_id, found.content) == (second, "Ship on Monday")
        assert texts(await memory.retrieve_memories(spelling, "when do we ship?")) == ["Ship on Monday"]
        assert len(await memory.ledger.read(spelling, kinds=["memory.created", "memory.updated"])) == 2
        assert [report.memory_id for report in await memory.admin.consolidate(spelling)] == [note.id]


async def test_any_short_text_is_an_id(memory: AgentMem) -> None:
    """Up to the limit, whatever its script: every index that holds an id has room for the longest."""
    for external_id in ("😀" * 256, "x" * 256, "-1", "'; DROP TABLE x; --", "a b", "ÅNGSTRÖM"):
        note = await memory.create_active_memory(
            external_id,
            "😀" * 500,
            "Ship on Friday",
            actor=external_id,
            conversation_id=external_id,
            idempotency_key=external_id,
        )

        assert note.external_id == external_id
        assert texts(await memory.retrieve_memories(external_id, "ship on Friday")) == ["Ship on Friday"]


async def test_similar_ids_are_different_tenants(memory: AgentMem) -> None:
    """Ids are compared character by character, never by pattern, case or collation."""
    await memory.create_active_memory("agent-1", "Plan", "Ship on Friday")

    for neighbour in ("Agent-1", "agent-1 x", "agent-10", "agent", "agent_1", "%", "ágent-1"):
        assert await memory.get_active_memories(neighbour) == []
        assert (await memory.retrieve_memories(neighbour, "ship on Friday")).hits == ()
        assert await memory.ledger.read(neighbour) == []


async def test_no_digit_of_a_number_in_metadata_is_lost(memory: AgentMem, tenant: str) -> None:
    """Long integers stay exact, and so do floats, the smallest and the largest."""
    metadata = {"large": 1e23, "small": 5e-324, "whole": 1.0, "int": 2**200, "negative": -0.5}

    note = await memory.create_active_memory(tenant, "Numbers", "Some numbers", metadata=metadata)

    # JSON has one kind of number: a float without a fraction may come back as an int.
    assert {name: type(metadata[name])(value) for name, value in note.metadata.items()} == metadata
    assert note.metadata["int"] == 2**200


async def test_metadata_is_copied(memory: AgentMem, tenant: str) -> None:
    """What the caller does to the mapping afterwards does not reach the memory."""
    metadata: dict[str, Any] = {"tags": ["a"]}
    note = await memory.create_active_memory(tenant, "Plan", "Ship on Friday", metadata=metadata)
    metadata["tags"].append("b")

    assert note.metadata == {"tags": ["a"]}


async def test_turns_say_who_speaks(memory: AgentMem, tenant: str) -> None:
    """Metadata is the better witness: utterances begin where it says, and carry what it says of them."""
    said = "Ship on Friday? Monday is better."
    await memory.create_active_memory(
        tenant,
        "Chat",
        said,
        metadata={"turns": [{"start": 0, "speaker": "Ann", "id": 1}, {"start": 16, "speaker": "Bob", "id": 2}]},
    )

    hits = (await memory.retrieve_memories(tenant, "Monday or Friday")).hits

    assert {(hit.speaker, hit.content, hit.metadata["id"]) for hit in hits} == {
        ("Ann", "Ship on Friday? ", 1),
        ("Bob", "Monday is better.", 2),
    }


HUGE = 10**5_000
"""An int that Python itself refuses to spell."""

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("no id", {"external_id": ""}, "external_id must not be empty"),
    ("blank id", {"external_id": " \t"}, "external_id must not be empty"),
    ("id with a space around", {"external_id": "agent-1 "}, "external_id 'agent-1 ' begins or ends with a space"),
    ("long id", {"external_id": "x" * 257}, "external_id has 257 characters; the limit is 256"),
    ("long int id", {"external_id": 10**300}, "external_id has 301 characters; the limit is 256"),
    ("huge int id", {"external_id": HUGE}, "external_id"),
    ("bool id", {"external_id": True}, "external_id must be a str, an int or a UUID, not bool"),
    ("float id", {"external_id": 7.0}, "external_id must be a str, an int or a UUID, not float"),
    ("None id", {"external_id": None}, "external_id must be a str, an int or a UUID, not NoneType"),
    ("bytes id", {"external_id": b"7"}, "external_id must be a str, an int or a UUID, not bytes"),
    ("NUL in id", {"external_id": "a\x00b"}, "external_id has a NUL character at position 1"),
    ("line break in id", {"external_id": "a\nb"}, r"external_id 'a\\nb'"),
    ("surrogate in id", {"external_id": "a\ud800"}, "external_id has a lone surrogate at position 1"),
    ("no title", {"title": ""}, "title must not be empty"),
    ("blank title", {"title": " \n"}, r"title must not be empty, but is ' \\n'"),
    ("long title", {"title": "x" * 501}, "title has 501 characters; the limit is 500"),
    ("no str title", {"title": 7}, "title must be a str, not int"),
    ("no content", {"content": ""}, "content must not be empty"),
    ("blank content", {"content": "\n \n"}, "content must not be empty"),
    ("long content", {"content": "x" * 1_000_001}, "content has 1,000,001 characters; the limit is 1,000,000"),
    ("bytes content", {"content": b"Ship"}, "content must be a str, not bytes"),
    ("long description", {"description": "x" * 10_001}, "description has 10,001 characters; the limit is 10,000"),
    ("metadata no mapping", {"metadata": ["a"]}, "metadata must be a mapping, not list"),
    ("metadata with a datetime", {"metadata": {"at": WORLD}}, "metadata holds a datetime, which is not JSON"),
    ("metadata with a date", {"metadata": {"at": date(2026, 1, 1)}}, "metadata holds a date"),
    ("metadata with a set", {"metadata": {"at": [{1}]}}, "metadata holds a set"),
    ("metadata with bytes", {"metadata": {"at": b""}}, "metadata holds a bytes"),
    ("metadata with a Decimal", {"metadata": {"at": Decimal(1)}}, "metadata holds a Decimal"),
    ("metadata with a UUID", {"metadata": {"at": uuid4()}}, "metadata holds a UUID"),
    ("metadata with NaN", {"metadata": {"x": float("nan")}}, "metadata holds nan"),
    ("metadata with infinity", {"metadata": {"x": float("-inf")}}, "metadata holds -inf"),
    ("metadata with a huge int", {"metadata": {"x": HUGE}}, "metadata is not JSON"),
    ("metadata with an int key", {"metadata": {7: "x"}}, "metadata has the key 7; JSON keys must be str"),
    (
        "large metadata",
        {"metadata": {"x": "y" * 262_144}},
        "metadata takes 262,153 bytes as JSON; the limit is 262,144",
    ),
    ("naive time", {"occurred_at": datetime(2026, 3, 5)}, "occurred_at '2026-03-05T00:00:00' has no time zone"),  # noqa: DTZ001
    ("date for a time", {"occurred_at": date(2026, 3, 5)}, "occurred_at must be a datetime, not date"),
    ("text for a time", {"occurred_at": "2026-03-05"}, "occurred_at must be a datetime, not str"),
    (
        "time before the calendar",
        {"occurred_at": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=12)))},
        "occurred_at '0001-01-01",
    ),
    (
        "time after the calendar",
        {"occurred_at": datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-12)))},
        "occurred_at '9999-12-31",
    ),
    ("empty actor", {"actor": ""}, "actor must not be empty"),
    ("long actor", {"actor": "x" * 257}, "actor has 257 characters"),
    ("int actor", {"actor": 7}, "actor must be a str, not int"),
    ("empty conversation", {"conversation_id": ""}, "conversation_id must not be empty"),
    ("empty key", {"idempotency_key": ""}, "idempotency_key must not be empty"),
    ("long key", {"idempotency_key": "k" * 257}, "idempotency_key has 257 characters"),
    ("unknown source", {"source": "rumour"}, "source 'rumour' is unknown; choose one of user, agent, tool"),
    ("no source", {"source": None}, "source None is unknown"),
    ("list for a source", {"source": ["user"]}, "source .* is unknown"),
    ("turns no list", {"metadata": {"turns": {}}}, r"metadata\['turns'\] must be a list"),
    ("turn no object", {"metadata": {"turns": [3]}}, r"metadata\['turns'\]\[0\]\['start'\] must be a position"),
    ("turn without start", {"metadata": {"turns": [{}]}}, r"\[0\]\['start'\] .* it is None"),
    ("turn behind the end", {"metadata": {"turns": [{"start": 14}]}}, "it is 14"),
    ("turn before the start", {"metadata": {"turns": [{"start": -1}]}}, "it is -1"),
    ("turn at a bool", {"metadata": {"turns": [{"start": False}]}}, "it is False"),
    ("turn at a float", {"metadata": {"turns": [{"start": 0.0}]}}, "it is 0.0"),
    ("turns out of order", {"metadata": {"turns": [{"start": 5}, {"start": 5}]}}, r"\[1\]\['start'\] .* it is 5"),
    ("turn of a number", {"metadata": {"turns": [{"start": 0, "speaker": 7}]}}, r"\[0\]\['speaker'\] must be a str"),
    ("long speaker", {"metadata": {"speaker": "Ann" * 100}}, "speaker.* 300 characters; the limit is 256"),
    (
        "long speaker of a turn",
        {"metadata": {"turns": [{"start": 0, "speaker": "Ann" * 100}]}},
        "speaker.* 300 characters; the limit is 256",
    ),
]


async def test_what_is_wrong_is_refused_before_any_write(
    memory: AgentMem, tenant: str, subtests: pytest.Subtests
) -> None:
    """The message names the value and the limit or the way out, and the ledger did not move."""
    valid: dict[str, Any] = {"external_id": tenant, "title": "Plan", "content": "Ship on Friday"}

    for case, arguments, message in REFUSED:
        with subtests.test(case):
            with pytest.raises(InvalidInputError, match=message):
                await memory.create_active_memory(**(valid | arguments))
            assert await head_of(memory, tenant) == 0


def _nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {"at": "the bottom"}
    for _ in range(levels - 1):
        value = {"in": value}
    return value


async def test_metadata_has_a_limit_of_depth(memory: AgentMem, tenant: str) -> None:
    """Sixteen levels are stored; a seventeenth is refused, and so are a thousand, without an error of Python's own."""
    note = await memory.create_active_memory(tenant, "Deep", "Sixteen levels", metadata=_nested(16))
    assert note.metadata == _nested(16)

    endless: dict[str, Any] = {}
    endless["in"] = endless
    for metadata in (_nested(17), _nested(900), endless):
        with pytest.raises(InvalidInputError, match="metadata is nested deeper than 16 levels"):
            await memory.create_active_memory(tenant, "Deep", "Too deep", metadata=metadata)

    assert await head_of(memory, tenant) == 1
