"""What the index of words holds, decoded from its rows, and what it should hold, read from the texts one by one."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from itertools import groupby
from typing import Any, cast
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from agent_reminiscence.database.connection import Row, SqlExecutor
from agent_reminiscence.domain.canonical import sha256
from agent_reminiscence.domain.index import (
    ASKS,
    DUPLICATE,
    FACT,
    FACTS_SEGMENT,
    FIRST,
    LAYOUT_DTYPE,
    NORMS_DTYPE,
    OF_SELF,
    POSTING_DTYPE,
    QUESTION,
    STANDING,
    TIME_WORDS,
    USER,
    WINDOWS,
    chunk_number,
    position_of,
    posting_numbers,
)
from agent_reminiscence.text.asking import only_asks
from agent_reminiscence.text.periods import day_terms, has_time_words, is_question, mentioned_periods
from agent_reminiscence.text.self_talk import is_of_self
from agent_reminiscence.text.standing import is_standing
from agent_reminiscence.text.words import analyse

_EPOCH = date(1970, 1, 1)
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October"),
    *("November", "December"),
)


@dataclass(frozen=True, slots=True)
class Posted:
    """What the postings say of one chunk or heading.

    Attributes:
        words: How many terms its text has.
        terms: How often it has each.
    """

    words: int
    terms: dict[str, int]


async def read_postings(db: SqlExecutor, external_id: str) -> dict[int, Posted]:
    """By number what the postings of a tenant say of each chunk and, negative, of each heading."""
    rows = await db.fetch_all(
        "SELECT term, block, entries FROM posting WHERE external_id = $(external_id)p ORDER BY term, block",
        {"external_id": external_id},
    )
    words: dict[int, int] = {}
    terms: defaultdict[int, dict[str, int]] = defaultdict(dict)
    for row in rows:
        entries = np.frombuffer(row["entries"], POSTING_DTYPE)
        numbers = posting_numbers(row["block"], entries["offset"]).tolist()
        positions = [position_of(number) for number in numbers]
        assert positions == sorted(positions), "entries are not in the order of the ledger"
        for number, length, frequency in zip(
            numbers, entries["length"].tolist(), entries["frequency"].tolist(), strict=True
        ):
            assert row["term"] not in terms[number], "a text has a term twice"
            assert words.setdefault(number, length) == length, "a text has two lengths"
            terms[number][row["term"]] = frequency
    return {number: Posted(words[number], terms[number]) for number in words}


async def read_layouts(db: SqlExecutor, external_id: str) -> dict[str, NDArray[np.void]]:
    """The layout of each memory of a tenant, by its id: its whole text, then its facts."""
    rows = await db.fetch_all(
        "SELECT memory_id, string_agg(entries, ''::bytea ORDER BY segment) AS entries"
        " FROM memory_layout WHERE external_id = $(external_id)p GROUP BY memory_id",
        {"external_id": external_id},
    )
    return {row["memory_id"]: np.frombuffer(row["entries"], LAYOUT_DTYPE) for row in rows}


async def index_rows(db: SqlExecutor, external_id: str | None = None) -> dict[str, list[str]]:
    """Every row of the index of words as text, by table, to be compared byte for byte."""
    rows = {}
    for table in ("posting", "memory_heading", "memory_layout"):
        found = await db.fetch_all(
            f"SELECT t::text AS row FROM {table} AS t"  # noqa: S608
            ' WHERE $(tenant)p::text IS NULL OR t.external_id = $(tenant)p::text ORDER BY t::text COLLATE "C"',
            {"tenant": external_id},
        )
        rows[table] = [row["row"] for row in found]
    return rows


async def check_index(db: SqlExecutor, external_id: str) -> None:
    """Compare all of a tenant's index of words with what its texts say, one by one."""
    tenant = {"external_id": external_id}
    chunks = await db.fetch_all("SELECT * FROM memory_chunk WHERE external_id = $(external_id)p", tenant)
    memories = await db.fetch_all(
        """SELECT memory_id, title, timezone, chunk_ids || ARRAY(
            SELECT l.chunk_id FROM memory_segment AS s, unnest(s.chunk_ids) WITH ORDINALITY AS l (chunk_id, place)
            WHERE s.external_id = m.external_id AND s.memory_id = m.memory_id
            ORDER BY s.segment, l.place
        ) AS chunk_ids
        FROM active_memory AS m
        WHERE external_id = $(external_id)p""",
        tenant,
    )
    headings = await db.fetch_all("SELECT * FROM memory_heading WHERE external_id = $(external_id)p", tenant)
    languages = await _Languages.read(db, external_id)
    zones = {memory["memory_id"]: ZoneInfo(memory["timezone"]) for memory in memories}
    for chunk in chunks:
        chunk["zone"] = zones[chunk["memory_id"]]
        assert chunk["said_on"] == (None if _said_on(chunk) == _utc_day(chunk) else _said_on(chunk))
    _check_numbers(chunks, await languages.brought_in(db, external_id))
    postings = await read_postings(db, external_id)
    expected = {}
    for chunk in chunks:
        text = _chunk_text(chunk)
        language = languages.of(chunk["memory_id"])
        said = _said(chunk, text)
        expected[chunk["number"]] = _posted(text, language, said)
        others = {day for _, day in said} - {_said_on(chunk)}
        for term in {term for day in others for term in day_terms((day, day))}:
            expected[chunk["number"]].terms[term] = 1
        if chunk["speaker_key"]:
            expected[chunk["number"]].terms["\x03" + sha256(chunk["speaker_key"].encode())[:4].hex()] = 1
        assert chunk["words"] == expected[chunk["number"]].words
        assert chunk["text_hash"] == sha256(text.encode())
        held = None if chunk["derived_from"] is not None else text
        assert chunk["text_flags"] == _text_flags(text, language, said, chunk["speaker_key"], held)
    for heading in headings:
        text = _dated(heading["day"]) + " " + heading["title"]
        found = analyse(text, languages.of(heading["memory_id"]))
        expected[heading["number"]] = Posted(len(found), Counter(found))
        assert (heading["words"], heading["text_hash"]) == (len(found), sha256(text.encode()))
    assert postings == {number: posted for number, posted in expected.items() if posted.terms}
    above = {(h["memory_id"], h["day"], h["title"]): h for h in headings}
    assert len(above) == len(headings), "a memory has two headings that say the same"
    await _check_layouts(db, external_id, memories, chunks, above)
    await _check_totals(db, external_id, languages)


@dataclass(frozen=True, slots=True)
class _Languages:
    """The languages that each memory has had, by memory id, in the order of the ledger; it is read in the last."""

    spoken: Mapping[str, Sequence[str]]

    @classmethod
    async def read(cls, db: SqlExecutor, external_id: str) -> _Languages:
        rows = await db.fetch_all(
            "SELECT payload ->> 'memory_id' AS memory_id, payload ->> 'language' AS language"
            " FROM memory_event WHERE external_id = $(external_id)p"
            " AND kind IN ('memory.created', 'memory.updated', 'memory.appended') AND salt IS NOT NULL"
            " ORDER BY position",
            {"external_id": external_id},
        )
        spoken: defaultdict[str, list[str]] = defaultdict(list)
        for row in rows:
            before = spoken[row["memory_id"]][-1:] or ["en"]
            spoken[row["memory_id"]].append(row["language"] or before[0])
        return cls(spoken)

    def of(self, memory_id: str) -> str:
        """The language in which all of a memory is read."""
        return self.spoken[memory_id][-1]

    @property
    def all(self) -> list[str]:
        return sorted({language for spoken in self.spoken.values() for language in spoken})

    async def brought_in(self, db: SqlExecutor, external_id: str) -> dict[str, int]:
        """By chunk id the number that follows from the event which brought the chunk in."""
        rows = await db.fetch_all(
            "SELECT e.position, entry.value ->> 'id' AS chunk_id, entry.place - 1 AS index FROM memory_event AS e,"
            " jsonb_array_elements(coalesce(CASE e.kind WHEN 'memory.consolidated' THEN e.payload -> 'facts'"
            "  WHEN 'memory.cut' THEN jsonb_path_query_array(e.payload, '$.cuts[*].pieces[*]')"
            "  ELSE e.payload -> 'chunks' END, '[]')) WITH ORDINALITY AS entry (value, place)"
            " WHERE e.external_id = $(external_id)p AND e.salt IS NOT NULL AND ("
            "  e.kind IN ('memory.consolidated', 'memory.cut')"
            "  OR e.kind IN ('memory.created', 'memory.updated', 'memory.appended')"
            "  AND (entry.value ->> 'new')::boolean)",
            {"external_id": external_id},
        )
        return {row["chunk_id"]: chunk_number(row["position"], row["index"]) for row in rows}


def _check_numbers(chunks: Sequence[Row], brought_in: Mapping[str, int]) -> None:
    assert {chunk["chunk_id"]: chunk["number"] for chunk in chunks} == brought_in


async def _check_layouts(
    db: SqlExecutor,
    external_id: str,
    memories: Sequence[Row],
    chunks: Sequence[Row],
    above: Mapping[tuple[str, date, str], Row],
) -> None:
    by_id = {chunk["chunk_id"]: chunk for chunk in chunks}
    layouts = await read_layouts(db, external_id)
    expected = {}
    for memory in memories:
        text = [by_id[chunk_id] for chunk_id in map(str, memory["chunk_ids"])]
        laid_out = [chunk for chunk in text if chunk["superseded_at"] is None or chunk["duplicate_of"] is not None]
        facts = [
            chunk
            for chunk in sorted(chunks, key=lambda c: int(c["number"]))
            if chunk["memory_id"] == memory["memory_id"] and chunk["derived_from"] and chunk["superseded_at"] is None
        ]
        entries: list[tuple[Any, ...]] = []
        for index, chunk in enumerate([*laid_out, *facts]):
            is_fact = index >= len(laid_out)
            day, said = _said_on(chunk), (chunk["said_at"] or chunk["start_date"]).astimezone(UTC)
            heading = None if is_fact else above[memory["memory_id"], day, memory["title"]]
            # Quarters of an hour, from 1; a time of exactly midnight in UTC is a day.
            quarter = 0 if said.time() == time.min else 1 + (said.hour * 60 + said.minute) // 15
            flags = quarter * 512 | chunk["text_flags"] | (FACT if is_fact else 0)
            flags |= FIRST if is_fact or index == 0 else 0
            entries.append(
                (
                    chunk["number"],
                    0 if heading is None else heading["number"],
                    (said.date() - _EPOCH).days,
                    _speaker(chunk["speaker_key"]),
                    chunk["words"],
                    flags | (DUPLICATE if chunk["duplicate_of"] is not None else 0),
                    0 if heading is None else heading["words"],
                )
            )
        if entries:
            expected[memory["memory_id"]] = entries
    assert {memory_id: layout.tolist() for memory_id, layout in layouts.items()} == expected


async def _check_totals(db: SqlExecutor, external_id: str, languages: _Languages) -> None:
    layouts = await db.fetch_all(
        "SELECT chunks, words, entries FROM memory_layout WHERE external_id = $(external_id)p",
        {"external_id": external_id},
    )
    for row in layouts:
        entries = np.frombuffer(row["entries"], LAYOUT_DTYPE)
        words = int(entries["length"].sum()) + int(entries["heading_length"].sum())
        assert (row["chunks"], row["words"]) == (len(entries), words)
    [stream] = await db.fetch_all(
        "SELECT text_chunks, text_words, languages FROM memory_stream WHERE external_id = $(external_id)p",
        {"external_id": external_id},
    )
    assert stream == {
        "text_chunks": sum(row["chunks"] for row in layouts),
        "text_words": sum(row["words"] for row in layouts),
        "languages": languages.all,
    }


async def check_norms(db: SqlExecutor, external_id: str, generation: int = 1) -> None:
    """Compare the norms beside each layout with sums of vectors, made window by window."""
    vectors = {
        row["number"]: (row["mass"], np.array([float(value) for value in row["vector"].strip("[]").split(",")]))
        for row in await db.fetch_all(
            f"SELECT number, mass, vector::text AS vector FROM chunk_vector_{generation}"  # noqa: S608
            " WHERE external_id = $(external_id)p",
            {"external_id": external_id},
        )
    }
    rows = await db.fetch_all(
        f"""SELECT memory_id, segment, l.entries, n.norms, n.layout_hash
        FROM memory_layout AS l FULL JOIN chunk_norms_{generation} AS n USING (external_id, memory_id, segment)
        WHERE external_id = $(external_id)p
        ORDER BY memory_id, segment""",  # noqa: S608
        {"external_id": external_id},
    )
    for _, group in groupby(rows, key=lambda row: (row["memory_id"], row["segment"] == FACTS_SEGMENT)):
        segments = list(group)
        assert all(row["entries"] and row["norms"] for row in segments), "norms stand beside no layout"
        text = b"".join(row["entries"] for row in segments)
        end = 0
        for row in segments:
            start, end = end, end + len(row["entries"])
            reached = text[max(0, start - 6 * 32) : start] + sha256(text[start:end]) + text[end : end + 6 * 32]
            assert row["layout_hash"] == sha256(reached), "norms stand beside another layout than they were made for"
        layout = np.frombuffer(text, LAYOUT_DTYPE)
        norms = np.frombuffer(b"".join(row["norms"] for row in segments), NORMS_DTYPE)
        assert len(norms) == len(layout)
        # A text begins at each first chunk, and a fact is a text of its own.
        texts = np.cumsum(layout["flags"] & FIRST)
        for index, entry in enumerate(layout):
            heading = vectors.get(int(entry["heading"]))
            assert norms[index]["mass"] == vectors[int(entry["number"])][0]
            assert norms[index]["heading_mass"] == (0 if heading is None else heading[0])
            for window, (before, after) in enumerate(WINDOWS):
                members = [
                    vectors[int(layout[near]["number"])]
                    for near in range(max(index - before, 0), min(index + after, len(layout) - 1) + 1)
                    if texts[near] == texts[index]
                ]
                total = sum(mass * vector for mass, vector in [*members, *([heading] if heading else [])])
                found = float(norms[index]["norms"][window])
                assert abs(found - float(np.linalg.norm(total))) <= 0.01 * max(found, 1)


def _chunk_text(chunk: Row) -> str:
    content = str(chunk["content"]).strip()
    return f"{_dated(_said_on(chunk))}\n{content}" if chunk["derived_from"] else content


def _said_on(chunk: Row) -> date:
    """The day of a chunk in the zone of its memory; of a fact, where that was when it was concluded."""
    if chunk["derived_from"]:
        return cast("date", chunk["said_on"] or _utc_day(chunk))
    return _day_in(chunk["said_at"] or chunk["start_date"], chunk["zone"])


def _utc_day(chunk: Row) -> date:
    return _day(chunk["said_at"] or chunk["start_date"])


def _day_in(moment: datetime, zone: ZoneInfo) -> date:
    utc = moment.astimezone(UTC)
    return utc.date() if utc.time() == time.min else moment.astimezone(zone).date()


def _said(chunk: Row, text: str) -> list[tuple[str, date]]:
    """The parts of a chunk's text with the days on which they were first said."""
    if chunk["said_starts"] is None:
        return [(text, _said_on(chunk))]
    parts = zip(chunk["said_starts"], [*chunk["said_starts"][1:], None], chunk["said_dates"], strict=True)
    return [(text[start:end], _day_in(moment, chunk["zone"])) for start, end, moment in parts]


def _mentioned(said: Sequence[tuple[str, date]], language: str) -> list[tuple[date, date]]:
    return sorted({period for part, day in said for period in mentioned_periods(part, day, (language,))})


def _posted(text: str, language: str, said: Sequence[tuple[str, date]]) -> Posted:
    found = analyse(text, language)
    terms = Counter(found)
    for start, end in _mentioned(said, language)[:8]:
        if (end - start).days < 400:
            terms.update(dict.fromkeys(set(day_terms((start, end))) - terms.keys(), 1))
    return Posted(len(found), terms)


def _text_flags(
    text: str, language: str, said: Sequence[tuple[str, date]], speaker_key: str | None, held: str | None
) -> int:
    """The flags of a text.

    Args:
        held: What may say what always holds; None of a fact.
    """
    by_user = held is not None and speaker_key in {"user", None}
    by_agent = held is not None and speaker_key in {"assistant", "agent", "ai", "bot"}
    spoken = held or ""
    if speaker_key is not None:
        spoken = re.sub(rf"^{re.escape(speaker_key)}:\s*", "", spoken, flags=re.IGNORECASE)
    standing = by_user and is_standing(spoken, language)
    asks = ASKS if (by_user or by_agent) and not standing and only_asks(spoken, language) else 0
    return asks | (
        (QUESTION if is_question(text) else 0)
        | (TIME_WORDS if has_time_words(text, _mentioned(said, language), (language,)) else 0)
        | (USER if speaker_key == "user" else 0)
        | (STANDING if standing else 0)
        | (OF_SELF if by_user and not asks and is_of_self(spoken, language) else 0)
    )


def _speaker(speaker_key: str | None) -> int:
    return 0 if speaker_key is None else int.from_bytes(sha256(speaker_key.encode())[:4], "big")


def _day(moment: datetime) -> date:
    return moment.astimezone(UTC).date()


def _dated(day: date) -> str:
    return f"({day.day} {_MONTHS[day.month - 1]} {day.year})"
