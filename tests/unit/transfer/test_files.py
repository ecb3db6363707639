"""What files are read as, without a database."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_reminiscence.config.constants import (
    MAX_CHUNK_TOKENS,
    MAX_CONTENT_CHARACTERS,
    MAX_METADATA_BYTES,
    MAX_TEXT_CHUNKS,
    MAX_TITLE_CHARACTERS,
)
from agent_reminiscence.domain.transfer import ImportedMemory
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.services.memories.layout import chunked
from agent_reminiscence.services.transfer import parts as parts_module
from agent_reminiscence.services.transfer.batches import MAX_BATCH_CHARACTERS, MAX_BATCH_MEMORIES, batches
from agent_reminiscence.services.transfer.chats import Conversations
from agent_reminiscence.services.transfer.files import find_sources, read_memories
from agent_reminiscence.services.transfer.parts import LeftOut, Refusal, SourceFile, split_text
from agent_reminiscence.services.validation import parse_time
from agent_reminiscence.text.chunking import chunk_text

Reader = Callable[[str, str | bytes], list[ImportedMemory]]


@pytest.fixture
def read(tmp_path: Path) -> Reader:
    """Writes a file and reads its memories."""

    def write_and_read(name: str, content: str | bytes) -> list[ImportedMemory]:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return list(read_memories(_source(path)))

    return write_and_read


def _source(path: Path) -> SourceFile:
    (source,) = find_sources([path])
    assert isinstance(source, SourceFile)
    return source


def _lines(*messages: dict[str, Any]) -> str:
    return "".join(json.dumps(message) + "\n" for message in messages)


def _utterances(memory: ImportedMemory) -> list[tuple[str, str]]:
    """Speaker and text of each turn, cut out of the content where the metadata says."""
    turns = memory.metadata["turns"]
    ends = [turn["start"] for turn in turns[1:]] + [len(memory.content)]
    return [(turn["speaker"], memory.content[turn["start"] : end]) for turn, end in zip(turns, ends, strict=True)]


def test_a_markdown_file_is_one_memory_named_by_its_heading(read: Reader) -> None:
    """The words are stored as they are; a heading inside a code fence names nothing."""
    text = "Intro.\n\n```sh\n# not a heading\n```\n\n## Harbour *rules* ##\n\nNo fishing.\n"

    (memory,) = read("rules.md", text)

    assert (memory.title, memory.content) == ("Harbour *rules*", text)


def test_a_document_keeps_where_in_its_folder_it_is(tmp_path: Path) -> None:
    """The folders below the one that was named say what it is about; those above only where the machine keeps it."""
    path = tmp_path / "trips" / "2025" / "rome.md"
    path.parent.mkdir(parents=True)
    path.write_text("# Rome\n\nThree days.")

    (found,) = find_sources([tmp_path])
    assert isinstance(found, SourceFile)
    (memory,) = read_memories(found)
    (alone,) = read_memories(_source(path))

    assert (memory.title, memory.metadata) == ("Rome", {"file": "trips/2025/rome.md"})
    assert alone.metadata == {"file": "rome.md"}
    assert alone.idempotency_key == memory.idempotency_key


def test_records_with_a_title_are_texts_of_their_own(read: Reader) -> None:
    """Notes as other programs export them: a title, a text, and what is known about it."""
    first, second = read(
        "notes.jsonl",
        _lines(
            {
                "title": "Rome",
                "content": "# Three days\n\nAnd not one more.",
                "created_at": "2025-03-01",
                "id": 7,
                "metadata": {"tags": ["travel"]},
            },
            {"title": "Empty", "text": "  "},
            {"title": "Paris", "text": "Later.", "conversation_id": "trips"},
        ),
    )

    assert (first.title, first.content) == ("Rome", "# Three days\n\nAnd not one more.")
    assert first.metadata == {"file": "notes.jsonl", "id": "7", "tags": ["travel"]}
    assert first.occurred_at == datetime(2025, 3, 1, tzinfo=UTC)
    assert (second.title, second.conversation_id, second.silent_messages) == ("Paris", "trips", 1)


def test_a_record_that_is_too_long_becomes_several(read: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    """Like a document of the same text."""
    monkeypatch.setattr(parts_module, "MAX_CONTENT_CHARACTERS", 1_000)
    text = "All work and no play.\n\n" * 100

    parts = read("notes.json", json.dumps([{"title": "Diary", "content": text}]))

    assert "".join(part.content for part in parts) == text
    assert [part.title for part in parts] == ["Diary", "Diary (part 2)", "Diary (part 3)"]


def test_a_text_file_is_named_after_its_file(read: Reader) -> None:
    """`#` begins no heading in plain text."""
    (memory,) = read("shopping list.txt", "# milk\neggs")

    assert (memory.title, memory.content, memory.metadata) == (
        "shopping list",
        "# milk\neggs",
        {"file": "shopping list.txt"},
    )


def test_a_document_happened_when_its_file_was_changed_last(read: Reader, tmp_path: Path) -> None:
    """The file's own time is the best there is."""
    path = tmp_path / "note.txt"
    path.write_text("a note")
    os.utime(path, (1_700_000_000, 1_700_000_000))

    (memory,) = read_memories(_source(path))

    assert memory.occurred_at == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


def test_a_file_without_words_is_no_memory(read: Reader) -> None:
    """White space is nothing to remember."""
    assert read("empty.txt", "") == read("blank.md", " \n\n") == read("empty.jsonl", "\n") == []
    assert read("empty.json", "") == read("nobody.json", "[]") == []


def test_a_text_that_is_too_long_is_cut_at_paragraphs_and_nothing_is_lost(
    read: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parts are the text again, each within the limit and numbered from the second on."""
    limit = MAX_CONTENT_CHARACTERS // 10
    monkeypatch.setattr(parts_module, "MAX_CONTENT_CHARACTERS", limit)
    paragraph = "All work and no play. " * 400 + "\n\n"
    text = "# Diary\n\n" + paragraph * (2 * limit // len(paragraph) + 1)

    parts = read("diary.md", text)

    assert "".join(part.content for part in parts) == text
    assert [part.title for part in parts] == ["Diary", "Diary (part 2)", "Diary (part 3)"]
    assert all(len(part.content) <= limit for part in parts)
    assert all(part.content.endswith("\n\n") for part in parts)


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(f"Ana: pump {number} is well" for number in range(600)),
        "\n\n".join(f"Pump {number} is well." for number in range(600)),
        "\U0001f600\U0001f603" * 12_000,
    ],
    ids=["utterances", "paragraphs", "emoji"],
)
def test_a_text_of_too_many_chunks_is_cut_so_that_each_part_is_taken(
    read: Reader, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Utterances and short paragraphs are a chunk each; a part of too many would be refused halfway."""
    limit = MAX_TEXT_CHUNKS // 40
    monkeypatch.setattr(parts_module, "MAX_TEXT_CHUNKS", limit)

    parts = read("log.txt", text)

    assert "".join(part.content for part in parts) == text
    assert len(parts) == 2
    assert all(len(chunk_text(part.content, max_tokens=MAX_CHUNK_TOKENS)) <= limit for part in parts)


@given(
    blocks=st.lists(st.text(alphabet="ab \n\r", max_size=40), max_size=8),
    limit=st.integers(min_value=2, max_value=30),
)
def test_pieces_put_together_are_the_text_again(blocks: list[str], limit: int) -> None:
    """However a text arrives and wherever it is cut, no character is lost, added or moved."""
    pieces = list(split_text(blocks, limit))

    assert "".join(pieces) == "".join(blocks)
    assert all(0 < len(piece) <= limit for piece in pieces)


def test_a_chat_is_one_memory_with_a_turn_for_each_message(read: Reader) -> None:
    """Where each utterance begins, who spoke, when, and the message's id can be had from the metadata."""
    (memory,) = read(
        "chat.jsonl",
        _lines(
            {"speaker": "Ana", "text": "Shall we\nstart?", "timestamp": "2025-03-01T09:00:00+01:00", "id": 7},
            {"role": "assistant", "content": "Note: yes.", "time": 1_740_816_060},
        ),
    )

    assert memory.title == "chat"
    assert memory.content == "Ana: Shall we\nstart?\nassistant: Note: yes."
    assert _utterances(memory) == [("Ana", "Ana: Shall we\nstart?\n"), ("assistant", "assistant: Note: yes.")]
    first, second = memory.metadata["turns"]
    assert (first["id"], first["time"]) == ("7", "2025-03-01T09:00:00+01:00")
    assert second["time"] == "2025-03-01T08:01:00+00:00"
    assert memory.occurred_at == datetime(2025, 3, 1, 8, 0, tzinfo=UTC)


def test_messages_of_several_conversations_are_told_apart(read: Reader) -> None:
    """Each conversation is a memory of its own, also where they alternate."""
    memories = read(
        "export.jsonl",
        _lines(
            {"role": "user", "content": "Hello", "conversation_id": "a"},
            {"role": "user", "content": "Good day", "session": 2},
            {"role": "assistant", "content": "Hi", "conversation_id": "a"},
        ),
    )

    assert {memory.conversation_id: memory.content for memory in memories} == {
        "a": "user: Hello\nassistant: Hi",
        "2": "user: Good day",
    }
    assert {memory.title for memory in memories} == {"export a", "export 2"}


@pytest.mark.parametrize(
    "document",
    [
        [{"role": "user", "content": "Hello"}],
        {"messages": [{"role": "user", "content": "Hello"}]},
        [{"messages": [{"role": "user", "content": "Hello"}]}],
        {"conversations": [{"messages": [{"role": "user", "content": "Hello"}]}]},
        [{"role": "user", "content": [{"type": "text", "text": "Hello"}, {"type": "image"}]}],
    ],
)
def test_the_usual_shapes_of_an_export_hold_the_same_chat(read: Reader, document: Any) -> None:
    """A list of messages, an object with them, many of those, and contents in parts."""
    (memory,) = read("chat.json", json.dumps(document))

    assert _utterances(memory) == [("user", "user: Hello")]


def test_a_conversation_brings_its_title_id_and_time(read: Reader) -> None:
    """What stands beside the messages is theirs."""
    (memory,) = read(
        "chats.jsonl",
        _lines(
            {
                "id": "c-1",
                "title": "Holiday",
                "created_at": "2025-07-01",
                "messages": [{"role": "user", "content": "Sea or mountains?"}],
            }
        ),
    )

    assert (memory.title, memory.conversation_id) == ("Holiday", "c-1")
    assert memory.occurred_at == datetime(2025, 7, 1, tzinfo=UTC)


def test_messages_without_text_are_left_out_and_counted(read: Reader) -> None:
    """A call of a tool has nothing to remember, but is not lost without a word."""
    (memory,) = read(
        "chat.jsonl",
        _lines(
            {"role": "assistant", "content": None, "tool_calls": []},
            {"role": "tool", "content": "  "},
            {"role": "user", "content": "Thanks"},
        ),
    )

    assert (memory.content, memory.silent_messages) == ("user: Thanks", 2)


def test_a_chat_with_more_turns_than_metadata_holds_is_cut_between_messages(read: Reader) -> None:
    """No utterance is lost, and each part passes the checks of a memory."""
    said = [{"role": "user", "content": f"Message {number}", "id": f"message-{number:05}"} for number in range(9_000)]

    parts = read("long.jsonl", _lines(*said))

    assert len(parts) > 1
    assert parts[1].title == "long (part 2)"
    assert [text.strip() for part in parts for _, text in _utterances(part)] == [f"user: {m['content']}" for m in said]
    assert all(len(json.dumps(part.metadata).encode()) <= MAX_METADATA_BYTES for part in parts)


@pytest.mark.thorough
def test_a_message_of_more_paragraphs_than_a_memory_may_have_becomes_several(read: Reader) -> None:
    """It is within the limit of characters, and was refused by its chunks when its memory was written."""
    text = "\n\n".join("x" for _ in range(MAX_TEXT_CHUNKS + 10))

    memories = read("chat.json", json.dumps([{"role": "user", "content": text}, {"role": "user", "content": "Yes."}]))

    assert len(memories) == 2
    for memory in memories:
        assert len(chunked(memory.content, memory.metadata)) <= MAX_TEXT_CHUNKS
    assert sum(memory.content.count("x") for memory in memories) == MAX_TEXT_CHUNKS + 10
    assert memories[-1].content.endswith("user: Yes.")


def test_a_message_that_is_too_long_keeps_its_speaker_in_every_part(read: Reader) -> None:
    """The parts of one message are all by the one who wrote it."""
    text = "word " * (MAX_CONTENT_CHARACTERS // 4)

    parts = read("chat.json", json.dumps([{"speaker": "Bo", "content": text}]))

    assert len(parts) == 2
    assert "".join(part.content.removeprefix("Bo: ") for part in parts) == text


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.jsonl", '{"role": "user", "content": "ok"}\n{"role": "user"', r"line 2, column \d+: this is not JSON"),
        ("a.jsonl", '{"role": "user", "content": "ok"}\n\n{"content": "who?"}', "line 3: the message has no speaker"),
        ("a.jsonl", '{"role": "user", "body": "?"}', r"line 1: the message has no content"),
        ("a.jsonl", '{"role": "user", "content": 7}', "line 1: the content is neither text nor"),
        ("a.jsonl", '"just text"', "line 1: a message must be an object"),
        ("a.jsonl", '{"role": "u", "text": "x", "time": "noon"}', "line 1: 'noon' is not a time"),
        ("a.jsonl", '{"role": "u", "text": "x", "time": 1740816060000}', "line 1: .* looks like milliseconds"),
        ("a.jsonl", '{"role": "u", "text": "x", "time": NaN}', "line 1: a float is not a time"),
        ("a.jsonl", '{"role": "u", "text": "x", "id": "a\\u0000b"}', "line 1: an id has a NUL character"),
        ("a.jsonl", '{"role": "u", "text": "x", "session": "\\ud800"}', "line 1: an id has a lone surrogate"),
        ("a.jsonl", b'{"role": "u", "text": "x"}\n{"role": "u", "text": "\xff"}', "line 2: this is not UTF-8"),
        ("a.json", '[\n{"role": "user" "content": "x"}]', "line 2, column 17: this is not JSON"),
        ("a.json", '[{"role": "u", "text": "x"}, {"role": "u"}]', "message 2: the message has no content"),
        ("a.json", '{"chat": []}', "the file: an object with the fields 'chat' is not supported; .*chat_messages"),
        ("a.json", '{"messages": {}}', "the file: 'messages' is not a list"),
        (
            "a.json",
            '[{"role": "u", "text": "x"}, 7]',
            "message 2: a message must be .*, not a number; supported: messages",
        ),
        (
            "a.json",
            '[{"role": "u", "text": "x"}, {"x": "Ana is ill", "Ana Ruiz": 1}]',
            "message 2: .*'x' and 1 more is",
        ),
        ("a.jsonl", '{"title": " ", "content": "x"}', "line 1: the title is blank"),
        ("a.jsonl", '{"title": "A", "content": ["x"]}', "line 1: the content of a text with a title must be text"),
        ("a.jsonl", '{"title": "A", "content": "x", "metadata": 3}', "line 1: metadata must be a mapping"),
        ("a.json", '"text"', "the file is neither a list of messages nor an object"),
        ("a.json", "[" * 100_000, "line 1, column 501: the JSON is nested too deeply"),
        ("a.json", '[{"role":"u",\n"text":"ü"},' + "[" * 100_000, "line 2, column 512: the JSON is nested too deeply"),
        (
            "a.jsonl",
            '{"role": "user", "content": "ok"}\n' + '{"a":' * 100_000,
            "line 2, column 2496: the JSON is nested",
        ),
        ("a.jsonl", '{"role": 5, "content": "ok"}', "line 1: the role must be text, not a number"),
        ("a.jsonl", '{"author": {"name": "Ana"}, "content": "ok"}', "line 1: the author must be text, not an object"),
        ("a.jsonl", '{"speaker": " ", "content": "ok"}', "line 1: the message has no speaker"),
        ("a.txt", b"one\ntwo\nthr\xe9\xe9", "line 3: this is not UTF-8"),
    ],
)
def test_a_fault_names_its_line_and_what_is_wrong(read: Reader, name: str, content: str | bytes, reason: str) -> None:
    """Whoever has to mend a file knows where to look."""
    with pytest.raises(InvalidInputError, match=reason):
        read(name, content)


def test_the_key_belongs_to_the_words_and_not_to_the_file(read: Reader) -> None:
    """A moved, renamed or touched file is the same import; other words, times or speakers are another one."""
    (here,) = read("a.txt", "The same words")
    (there,) = read("b.md", "The same words")
    (other,) = read("c.txt", "Other words")
    assert here.idempotency_key == there.idempotency_key != other.idempotency_key

    chats = [
        read("chat.jsonl", _lines({"role": "user", "content": "Hi", "time": time}))[0].idempotency_key
        for time in ("2025-01-01", "2025-01-01", "2025-01-02")
    ]
    assert chats[0] == chats[1] != chats[2]


def test_a_folder_gives_its_files_in_order_and_what_is_hidden_stays_hidden(tmp_path: Path) -> None:
    """Known endings only, folders within folders included, the same order on every machine."""
    for name in ("b.txt", "a.MD", "sub/c.json", ".git/d.txt", "picture.png", "sub/.e.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")

    found = list(find_sources([tmp_path]))

    named = [Path(source.name).relative_to(tmp_path).as_posix() for source in found]
    assert named == ["a.MD", "b.txt", "picture.png", "sub/c.json"]
    assert [Path(source.name).name for source in found if isinstance(source, LeftOut)] == ["picture.png"]


def test_what_cannot_be_imported_is_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    """A path that leads nowhere and an unknown ending are faults of their own; `--format` overrules an ending."""
    (tmp_path / "notes.log").write_text("x")
    (tmp_path / "good.txt").write_text("x")

    missing, unknown, good = find_sources([tmp_path / "none.txt", tmp_path / "notes.log", tmp_path / "good.txt"])

    assert isinstance(missing, Refusal)
    assert "no such file" in missing.reason
    assert isinstance(unknown, Refusal)
    assert "--format" in unknown.reason
    assert isinstance(good, SourceFile)
    (forced,) = find_sources([tmp_path / "notes.log"], file_format="txt")
    assert isinstance(forced, SourceFile)


def test_a_file_name_that_is_no_text_does_not_stop_the_import(tmp_path: Path) -> None:
    """File systems allow any bytes; what is stored and printed is text."""
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt"))
    try:
        path.write_text("espresso")
    except OSError:
        # This file system allows text only, so such a file cannot be there.
        return

    (memory,) = read_memories(_source(path))

    assert memory.title == "caf\ufffd"
    memory.title.encode()


def test_a_title_is_cut_to_what_a_memory_allows(read: Reader) -> None:
    """A heading of any length is no reason to refuse a file."""
    (memory,) = read("a.md", f"# {'long ' * 200}\n")

    assert len(memory.title) == MAX_TITLE_CHARACTERS


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2025-03-09", datetime(2025, 3, 9, tzinfo=UTC)),
        ("2025-03-09T14:30:00", datetime(2025, 3, 9, 14, 30, tzinfo=UTC)),
        ("2025-03-09T14:30:00Z", datetime(2025, 3, 9, 14, 30, tzinfo=UTC)),
        ("2025-03-09T14:30:00+01:00", datetime(2025, 3, 9, 13, 30, tzinfo=UTC)),
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        (1.5, datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)),
    ],
)
def test_a_time_without_a_zone_is_utc(value: object, expected: datetime) -> None:
    """One meaning on every machine, whatever its own zone is."""
    assert parse_time(value) == expected


@pytest.mark.parametrize("value", ["", "yesterday", True, [], -99_999_999_999, float("inf")])
def test_what_is_no_time_is_refused(value: object) -> None:
    """Nothing is guessed."""
    with pytest.raises(InvalidInputError):
        parse_time(value)


def _take(conversations: Conversations, messages: Iterable[object]) -> list[ImportedMemory]:
    finished = [memory for n, message in enumerate(messages, 1) for memory in conversations.take(message, n)]
    return finished + list(conversations.finish())


_SPEAKERS = st.sampled_from(["Ana", "Ben"])
_MESSAGES = st.fixed_dictionaries(
    {"speaker": _SPEAKERS, "text": st.sampled_from(["Hello", "Good day", "", "One\ntwo"])},
    optional={
        "conversation_id": st.sampled_from(["a", "b"]),
        "timestamp": st.sampled_from(["2025-03-01T09:00:00+01:00", 1_740_816_060]),
        "id": st.integers(min_value=0, max_value=9),
    },
)
_LINES = st.one_of(_MESSAGES, st.fixed_dictionaries({"messages": st.lists(_MESSAGES, max_size=3)}))


@settings(max_examples=40)
@given(messages=st.lists(_LINES, max_size=12))
def test_messages_one_by_one_are_what_a_file_of_them_is(messages: list[dict[str, Any]], tmp_path_factory: Any) -> None:
    """The same memories in the same order with the same keys, however conversations alternate."""
    path = tmp_path_factory.getbasetemp() / "chat.jsonl"
    path.write_text(_lines(*messages))
    read_back = list(read_memories(SourceFile(path, "chat.jsonl", "jsonl", "chat", None)))

    taken = _take(Conversations("chat", metadata={"file": "chat.jsonl"}), messages)

    assert taken == read_back
    assert [one.idempotency_key for one in taken] == [one.idempotency_key for one in read_back]


def test_conversations_count_what_they_were_given() -> None:
    """All messages, and those of them that had nothing to say."""
    conversations = Conversations("Chat")

    _take(conversations, [{"role": "user", "content": "Hi"}, {"messages": [{"role": "tool", "content": None}] * 2}])

    assert (conversations.messages, conversations.silent_messages) == (3, 2)


def test_a_time_that_no_utc_time_is_is_refused_where_it_is_read(read: Reader) -> None:
    """Not later, when part of the file may have been written."""
    line = {"role": "user", "content": "The beginning", "time": "0001-01-01T00:00:00+14:00"}

    with pytest.raises(InvalidInputError, match=r"line 1: .* outside the years 1 to 9999"):
        read("chat.jsonl", _lines(line))


@pytest.mark.parametrize("name", ["chat.jsonl", "chat.json", "note.txt"])
def test_a_reader_says_how_much_it_has_read(name: str, tmp_path: Path) -> None:
    """All bytes of the file, in several steps where it is long."""
    message = {"role": "user", "content": "word " * 20}
    path = tmp_path / name
    path.write_text(json.dumps([message] * 3_000) if name.endswith(".json") else _lines(*[message] * 3_000))
    steps: list[int] = []

    assert list(read_memories(_source(path), note=steps.append))

    assert sum(steps) == path.stat().st_size
    assert len(steps) > 1 or name.endswith(".json")


@given(sizes=st.lists(st.integers(min_value=1, max_value=2 * MAX_BATCH_CHARACTERS), max_size=12))
def test_batches_hold_everything_in_order_and_no_more_than_they_may(sizes: list[int]) -> None:
    """Only a text that is too long by itself exceeds the limit, and then it is alone."""
    items = [ImportedMemory(str(n), "x" * size, {}, None) for n, size in enumerate(sizes)]

    made = list(batches(items))

    assert [item for batch in made for item in batch] == items
    for batch in made:
        assert len(batch) == 1 or sum(len(item.content) for item in batch) <= MAX_BATCH_CHARACTERS
    # None could have taken the next one's first.
    for batch, following in pairwise(made):
        assert sum(len(item.content) for item in [*batch, following[0]]) > MAX_BATCH_CHARACTERS


def test_a_batch_of_short_texts_ends_with_its_hundredth() -> None:
    """Their number is limited as well, and nothing beyond the next one is asked for."""
    items = (ImportedMemory(str(n), "x", {}, None) for n in count())

    first = next(batches(items))

    assert len(first) == MAX_BATCH_MEMORIES
    assert next(items).title == str(MAX_BATCH_MEMORIES + 1)
