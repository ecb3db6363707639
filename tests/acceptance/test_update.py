"""`update_active_memory`: what stays, what ends, where the passages are now, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_reminiscence import (
    ActiveMemory,
    AgentMem,
    InvalidInputError,
    MemoryNotFoundError,
    RetrievalResult,
    VersionConflictError,
)
from agent_reminiscence.domain.trust import SOURCE_TRUST
from tests.support.servers import SECOND_SERVER_THOROUGHLY
from tests.support.steps import EVERYTHING, all_events, head_of, lines, only_memory, texts

FACTS = [
    "Ann keeps the harbour keys in the blue drawer.",
    "The ferry to Lisbon leaves at seven.",
    "Bob paints the lighthouse every spring.",
    "Rain is expected on the coast tomorrow.",
]


async def _ids(memory: AgentMem, external_id: str) -> dict[str, UUID]:
    """The chunk that holds each live passage; every passage of these tests shares the word `harbour`'s title."""
    found = await memory.retrieve_memories(external_id, "harbour notes", limit=EVERYTHING)
    return {hit.content.strip(): hit.chunk_id for hit in found.hits}


@SECOND_SERVER_THOROUGHLY
async def test_unchanged_passages_keep_their_chunks(memory: AgentMem, tenant: str) -> None:
    """An edit in the middle replaces one passage; those around it stay the chunks they were."""
    note = await memory.create_active_memory(tenant, "Harbour notes", lines(FACTS))
    before = await _ids(memory, tenant)
    assert sorted(before) == sorted(FACTS)

    changed = [FACTS[0], "The ferry to Lisbon leaves at nine.", *FACTS[2:]]
    updated = await memory.update_active_memory(tenant, note.id, content=lines(changed))

    after = await _ids(memory, tenant)
    assert sorted(after) == sorted(changed)
    assert {fact: after[fact] for fact in (FACTS[0], *FACTS[2:])} == {
        fact: before[fact] for fact in (FACTS[0], *FACTS[2:])
    }
    assert after[changed[1]] not in before.values()
    assert updated.write is not None
    assert (updated.write.chunks_added, updated.write.chunks_kept, updated.write.chunks_ended) == (1, 3, 1)
    assert updated.write.vectors_missing == 0


@SECOND_SERVER_THOROUGHLY
async def test_adding_to_a_text_leaves_what_stood_there(memory: AgentMem, tenant: str) -> None:
    """The most common edit, a new paragraph at the end or before all others, touches no other passage."""
    note = await memory.create_active_memory(tenant, "Harbour notes", lines(FACTS[1:3]))
    before = await _ids(memory, tenant)

    appended = await memory.update_active_memory(tenant, note.id, content=lines(FACTS[1:]), source="model")
    prepended = await memory.update_active_memory(tenant, note.id, content=lines(FACTS), source="model")

    after = await _ids(memory, tenant)
    assert {fact: after[fact] for fact in before} == before
    assert appended.write is not None
    assert prepended.write is not None
    assert (appended.write.chunks_added, appended.write.chunks_ended) == (1, 0)
    assert (prepended.write.chunks_added, prepended.write.chunks_ended) == (1, 0)


@SECOND_SERVER_THOROUGHLY
async def test_a_passage_that_left_the_text_is_found_no_more(memory: AgentMem, tenant: str) -> None:
    """What a text no longer says has ended; it is kept, and found with `as_of`."""
    note = await memory.create_active_memory(tenant, "Harbour notes", lines(FACTS))
    then = (await only_memory(memory, tenant)).updated_at
    await memory.update_active_memory(tenant, note.id, content=lines(FACTS[:3]))

    now_found = await memory.retrieve_memories(tenant, "rain on the coast", limit=EVERYTHING)
    then_found = await memory.retrieve_memories(tenant, "rain on the coast", known_at=then)

    assert sorted(texts(now_found)) == sorted(FACTS[:3])
    assert texts(then_found)[0] == FACTS[3]
    assert then_found.hits[0].superseded_at is not None


async def test_a_new_title_is_found_at_once(memory: AgentMem) -> None:
    """The title is indexed with every chunk, by words and by vectors."""
    note = await memory.create_active_memory("agent-1", "Harbour notes", lines(FACTS))
    await memory.create_active_memory("agent-1", "Other things", lines(f"Item {n} of a list." for n in range(20)))
    before = await _ids(memory, "agent-1")

    updated = await memory.update_active_memory("agent-1", note.id, title="Quarterdeck logbook")

    found = await memory.retrieve_memories("agent-1", "quarterdeck logbook", limit=4)
    assert sorted(texts(found)) == sorted(FACTS)
    assert {hit.title for hit in found.hits} == {"Quarterdeck logbook"}
    assert {hit.chunk_id for hit in found.hits} <= set(before.values())
    assert {"words", "meaning"} <= found.hits[0].score_parts.keys()
    assert updated.write is not None
    assert (updated.write.chunks_added, updated.write.chunks_kept, updated.write.vectors_missing) == (0, 4, 0)


async def test_a_moved_passage_is_found_by_its_new_neighbours(memory: AgentMem) -> None:
    """A chunk is found by the words around it, so a change beside it reaches it too."""
    note = await memory.create_active_memory("agent-1", "Log", lines(FACTS))

    await memory.update_active_memory("agent-1", note.id, content=lines([*FACTS, "A zeppelin was seen."]))

    found = await memory.retrieve_memories("agent-1", "zeppelin", limit=EVERYTHING)
    by_text = {hit.content.strip(): hit.score_parts for hit in found.hits}
    assert {text for text, parts in by_text.items() if "words" in parts} == {"A zeppelin was seen."}
    # The two chunks before it hold the word in their window, those further away do not.
    assert {text for text, parts in by_text.items() if "words_around" in parts} == {
        *FACTS[2:],
        "A zeppelin was seen.",
    }


@SECOND_SERVER_THOROUGHLY
async def test_only_what_was_passed_changes(memory: AgentMem, tenant: str) -> None:
    """Each field by itself; None removes a description and empties the metadata."""
    first = await memory.create_active_memory(
        tenant, "Plan", "Ship on Friday", description="ours", metadata={"a": 1, "b": 2}
    )

    async def update(**changes: Any) -> ActiveMemory:
        updated = await memory.update_active_memory(tenant, first.id, **changes)
        stored = await only_memory(memory, tenant)
        assert fields(stored) == fields(updated)
        return stored

    def fields(note: ActiveMemory) -> tuple[str, str, str | None, dict[str, Any]]:
        return note.title, note.content, note.description, note.metadata

    assert fields(await update(title="Release")) == ("Release", "Ship on Friday", "ours", {"a": 1, "b": 2})
    assert fields(await update(content="Ship later")) == ("Release", "Ship later", "ours", {"a": 1, "b": 2})
    assert fields(await update(metadata={"c": 3})) == ("Release", "Ship later", "ours", {"c": 3})
    assert fields(await update(description=None)) == ("Release", "Ship later", None, {"c": 3})
    last = await update(metadata=None)
    assert fields(last) == ("Release", "Ship later", None, {})
    assert (last.version, last.created_at) == (6, first.created_at)


@SECOND_SERVER_THOROUGHLY
async def test_provenance_is_that_of_the_last_write(memory: AgentMem, tenant: str) -> None:
    """Who wrote last, when it was true, and how far it is trusted."""
    world = datetime(2026, 3, 5, tzinfo=UTC)
    note = await memory.create_active_memory(tenant, "Plan", "Ship on Friday", actor="ann", source="user")

    updated = await memory.update_active_memory(
        tenant,
        str(note.id),
        content="Ship on Monday",
        occurred_at=world,
        actor="bob",
        conversation_id="c-2",
        source="model",
    )

    assert (updated.actor, updated.conversation_id, updated.source) == ("bob", "c-2", "model")
    assert updated.occurred_at == world
    (hit,) = (await memory.retrieve_memories(tenant, "when do we ship?")).hits
    assert (hit.source, hit.start_date, hit.confidence) == ("model", world, 0.5)


async def test_turns_of_an_old_text_do_not_cut_a_new_one(memory: AgentMem, tenant: str) -> None:
    """Positions in a text that is replaced say nothing about the new one; the rest of the metadata stays."""
    note = await memory.create_active_memory(
        tenant,
        "Chat",
        "Ship on Friday? Monday is better.",
        metadata={"turns": [{"start": 0, "speaker": "Ann"}, {"start": 16, "speaker": "Bob"}], "room": 4},
    )

    updated = await memory.update_active_memory(tenant, note.id, content="Nobody speaks in this text at all.")

    assert updated.metadata == {"room": 4}
    (hit,) = (await memory.retrieve_memories(tenant, "who speaks?")).hits
    assert (hit.content, hit.speaker) == ("Nobody speaks in this text at all.", None)


async def test_turns_stay_with_a_text_that_stays(memory: AgentMem, tenant: str) -> None:
    """A new title leaves every utterance with its speaker."""
    metadata = {"turns": [{"start": 0, "speaker": "Ann"}, {"start": 16, "speaker": "Bob"}]}
    note = await memory.create_active_memory(tenant, "Chat", "Ship on Friday? Monday is better.", metadata=metadata)

    updated = await memory.update_active_memory(tenant, note.id, title="Planning chat")

    assert updated.metadata == metadata
    hits = (await memory.retrieve_memories(tenant, "Monday or Friday")).hits
    assert {hit.speaker for hit in hits} == {"Ann", "Bob"}


async def test_what_someone_else_says_is_another_passage(memory: AgentMem, tenant: str) -> None:
    """The same words of another speaker are not the same statement."""
    note = await memory.create_active_memory(tenant, "Chat", "Monday is better.", metadata={"speaker": "Ann"})

    await memory.update_active_memory(tenant, note.id, metadata={"speaker": "Bob"})

    (hit,) = (await memory.retrieve_memories(tenant, "Monday")).hits
    assert hit.speaker == "Bob"


async def test_a_repeated_passage_is_matched_as_often_as_it_occurs(memory: AgentMem, tenant: str) -> None:
    """Equal passages keep as many chunks as there are, each once."""
    note = await memory.create_active_memory(tenant, "Songs", lines(["Row your boat gently."] * 3))

    updated = await memory.update_active_memory(tenant, note.id, content=lines(["Row your boat gently."] * 2))

    assert updated.write is not None
    # The last of a text ends without the blank line that the others end with.
    assert (updated.write.chunks_kept, updated.write.chunks_added, updated.write.chunks_ended) == (2, 0, 1)
    (hit,) = (await memory.retrieve_memories(tenant, "row your boat")).hits
    assert len({hit.chunk_id, *hit.same_text}) == 2


def _check_spans(note: ActiveMemory, found: RetrievalResult) -> None:
    assert all(hit.memory_version == note.version for hit in found.hits)
    assert all(note.content[hit.span_start : hit.span_end] == hit.content for hit in found.hits)
    if any(hit.same_text for hit in found.hits):
        # Equal passages are one hit, so not each of them is seen here.
        return
    spans = sorted((hit.span_start, hit.span_end) for hit in found.hits)
    assert [end for _, end in spans] == [*[start for start, _ in spans[1:]], len(note.content)]
    assert spans[0][0] == 0


WORDS = st.sampled_from(["harbour", "ferry", "Ann", "7", "rain", "émigré", "灯台", "🎉", "Bob:", "# Log", "-"])
PASSAGE = st.lists(WORDS, min_size=1, max_size=6).map(" ".join)
EDIT = st.tuples(st.sampled_from(["insert", "replace", "remove", "swap"]), st.integers(0, 9), PASSAGE)


def _edited(passages: list[str], edit: tuple[str, int, str]) -> list[str]:
    kind, at, passage = edit
    index = at % len(passages)
    match kind:
        case "insert":
            return [*passages[:index], passage, *passages[index:]]
        case "replace":
            return [*passages[:index], passage, *passages[index + 1 :]]
        case "remove" if len(passages) > 1:
            return [*passages[:index], *passages[index + 1 :]]
        case "swap":
            return [*passages[index:], *passages[:index]]
    return passages


# One database serves all examples; each has a tenant of its own.
@pytest.mark.thorough
@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(passages=st.lists(PASSAGE, min_size=1, max_size=8), edits=st.lists(EDIT, min_size=1, max_size=4))
async def test_hits_say_where_they_stand_in_the_text_as_it_is_now(
    memory: AgentMem, passages: list[str], edits: list[tuple[str, int, str]]
) -> None:
    """After any edits the live chunks tile the text, and each hit's span cuts its words out of it."""
    tenant = str(uuid4())
    note = await memory.create_active_memory(tenant, "Harbour notes", lines(passages))
    for edit in edits:
        passages = _edited(passages, edit)
        note = await memory.update_active_memory(tenant, note.id, content=lines(passages))
        _check_spans(note, await memory.retrieve_memories(tenant, "harbour notes", limit=EVERYTHING))


@SECOND_SERVER_THOROUGHLY
async def test_a_passage_that_has_ended_stands_in_the_version_it_came_in_with(memory: AgentMem, tenant: str) -> None:
    """A hit of the past names the version whose text its span belongs to."""
    first = await memory.create_active_memory(tenant, "Harbour notes", lines(FACTS))
    second = await memory.update_active_memory(tenant, first.id, content=lines(["A new beginning.", FACTS[3]]))

    found = await memory.retrieve_memories(tenant, "ferry to Lisbon", known_at=first.updated_at, limit=EVERYTHING)

    by_text = {hit.content.strip(): hit for hit in found.hits}
    assert sorted(by_text) == sorted(FACTS)
    ended, kept = by_text[FACTS[1]], by_text[FACTS[3]]
    assert (ended.memory_version, first.content[ended.span_start : ended.span_end]) == (1, ended.content)
    assert (kept.memory_version, second.content[kept.span_start : kept.span_end]) == (2, kept.content)


@SECOND_SERVER_THOROUGHLY
async def test_a_stale_writer_is_told_which_version_there_is(memory: AgentMem, tenant: str) -> None:
    """The message names both versions; the loser has written nothing."""
    note = await memory.create_active_memory(tenant, "Plan", "Ship on Friday")
    await memory.update_active_memory(tenant, note.id, content="Ship on Monday", expected_version=1)

    with pytest.raises(VersionConflictError, match=r"is at version 2, not 1; read it again") as refused:
        await memory.update_active_memory(tenant, note.id, content="Ship never", expected_version=1)

    assert (refused.value.expected_version, refused.value.version) == (1, 2)
    assert await head_of(memory, tenant) == 2
    assert (await only_memory(memory, tenant)).content == "Ship on Monday"


@SECOND_SERVER_THOROUGHLY
async def test_an_unknown_id_and_another_tenants_are_refused_alike(memory: AgentMem, tenant: str) -> None:
    """Who asks for another's memory learns nothing but what an id of nobody would tell."""
    note = await memory.create_active_memory(tenant, "Plan", "Ship on Friday")
    nobody = uuid4()

    messages = []
    for memory_id in (note.id, nobody):
        for attempt in (
            memory.update_active_memory(f"{tenant}-2", memory_id, content="mine now"),
            memory.admin.archive(f"{tenant}-2", memory_id),
            memory.admin.consolidate(f"{tenant}-2", memory_id),
        ):
            with pytest.raises(MemoryNotFoundError) as refused:
                await attempt
            messages.append(str(refused.value).replace(str(memory_id), "the id"))

    assert set(messages) == {
        f"external_id '{tenant}-2' has no memory 'the id'; get_active_memories() lists the ids it has"
    }
    assert await head_of(memory, f"{tenant}-2") == 0
    assert await head_of(memory, tenant) == 1


async def test_an_archived_memory_takes_no_update(memory: AgentMem, tenant: str) -> None:
    """It has left the active list and stays searchable; archiving it again changes nothing."""
    note = await memory.create_active_memory(tenant, "Plan", "Ship on Friday")
    archived = await memory.admin.archive(tenant, note.id)

    with pytest.raises(InvalidInputError, match=r"was archived on .* create a new memory"):
        await memory.update_active_memory(tenant, note.id, content="Ship on Monday")

    assert archived.archived_at is not None
    assert await memory.admin.archive(tenant, note.id) == archived
    assert await memory.get_active_memories(tenant) == []
    assert texts(await memory.retrieve_memories(tenant, "when do we ship?")) == ["Ship on Friday"]
    assert [event.kind for event in await all_events(memory, tenant)] == ["memory.created", "memory.archived"]


async def test_a_language_alone_is_a_change(memory: AgentMem, tenant: str) -> None:
    """Who sees that a memory is read in the wrong language says so, and need not write it again."""
    note = await memory.create_active_memory(tenant, "Hafen", "Die Boote liegen im Hafen.", language="en")

    changed = await memory.update_active_memory(tenant, note.id, language="de")

    assert (changed.language, changed.version, changed.content) == ("de", 2, note.content)
    await memory.update_active_memory(tenant, note.id, content="Die Boote liegen im Hafen. Alle Boote sind grün.")
    assert [m.language for m in await memory.get_active_memories(tenant)] == ["de"]
    assert (await memory.admin.verify(tenant)).ok


HUGE = 10**5_000
"""An int that Python itself refuses to spell."""

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    (
        "nothing to change",
        {},
        "nothing to change; pass title, content, description, metadata, append, language, timezone, pinned or expires",
    ),
    ("no such zone", {"timezone": "Mars/Olympus"}, "timezone: 'Mars/Olympus' is not a time zone; use an IANA name"),
    ("zone of an append", {"append": "Bye.", "timezone": "UTC"}, "append cannot be combined with timezone"),
    ("only a time", {"occurred_at": datetime(2026, 1, 1, tzinfo=UTC)}, "nothing to change"),
    ("empty title", {"title": " "}, "title must not be empty"),
    ("no title", {"title": None}, "title must be a str, not NoneType"),
    ("empty content", {"content": ""}, "content must not be empty"),
    ("no content", {"content": None}, "content must be a str, not NoneType"),
    ("bad metadata", {"metadata": {"x": {1, 2}}}, "metadata holds a set"),
    (
        "turns without content",
        {"metadata": {"turns": []}},
        "leave them out to keep them as they are, or pass the content",
    ),
    ("turn behind the new end", {"content": "ab", "metadata": {"turns": [{"start": 2}]}}, "it is 2"),
    ("version 0", {"content": "x", "expected_version": 0}, "expected_version must be from 1 to 2,147,483,647, not 0"),
    ("bool version", {"content": "x", "expected_version": True}, "expected_version must be a whole number, not True"),
    ("float version", {"content": "x", "expected_version": 1.0}, "expected_version must be a whole number, not 1.0"),
    ("huge version", {"content": "x", "expected_version": HUGE}, "expected_version must be from 1"),
    ("no UUID", {"memory_id": "note-1", "content": "x"}, "memory_id must be a UUID, .* not 'note-1'"),
    ("int memory id", {"memory_id": 7, "content": "x"}, "memory_id must be a UUID, .* not 7"),
    ("huge memory id", {"memory_id": HUGE, "content": "x"}, "memory_id must be a UUID"),
    ("no memory id", {"memory_id": None, "content": "x"}, "pass either memory_id or key .* neither"),
    ("naive time", {"content": "x", "occurred_at": datetime(2026, 3, 5)}, "has no time zone"),  # noqa: DTZ001
    ("unknown source", {"content": "x", "source": "rumour"}, "source 'rumour' is unknown"),
    ("bool id", {"external_id": True, "content": "x"}, "external_id must be a str, an int or a UUID, not bool"),
]


async def test_what_is_wrong_is_refused_before_any_write(
    memory: AgentMem, tenant: str, subtests: pytest.Subtests
) -> None:
    """The message names the value and the limit or the way out, and the ledger did not move."""
    note = await memory.create_active_memory(tenant, "Plan", "Ship on Friday")
    valid: dict[str, Any] = {"external_id": tenant, "memory_id": note.id}

    for case, arguments, message in REFUSED:
        with subtests.test(case):
            with pytest.raises(InvalidInputError, match=message):
                await memory.update_active_memory(**(valid | arguments))
            assert await head_of(memory, tenant) == 1

    assert await only_memory(memory, tenant) == note.model_copy(update={"write": None})


async def test_a_line_of_another_author_is_a_passage_with_its_own_label(memory: AgentMem, tenant: str) -> None:
    """It is found by words and by meaning at once, and trusted like whoever wrote it, also after a rebuild."""
    note = await memory.create_active_memory(tenant, "Ferry", "The pier is shut.\nThe ferry leaves at nine.")

    updated = await memory.update_active_memory(
        tenant, note.id, content="The pier is open.\nThe ferry leaves at nine.", source="tool"
    )
    appended = await memory.update_active_memory(tenant, note.id, append="Bring boots.")

    assert updated.write is not None
    assert (updated.write.chunks_added, updated.write.vectors_missing) == (2, 0)
    hits = (await memory.retrieve_memories(tenant, "ferry, pier, boots")).hits
    assert {hit.content.strip(): (hit.source, hit.confidence) for hit in hits} == {
        "The pier is open.": ("tool", SOURCE_TRUST["tool"]),
        "The ferry leaves at nine.": ("user", SOURCE_TRUST["user"]),
        "Bring boots.": ("user", SOURCE_TRUST["user"]),
    }
    assert (updated.source, appended.source) == ("tool", "tool")
    [stored] = await memory.get_active_memories(tenant)
    assert stored.source == "tool"
    await memory.admin.rebuild(tenant)
    assert (await memory.admin.verify(tenant)).ok
