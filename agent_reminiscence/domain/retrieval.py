"""Search results: hits with sources and scores, a summary, and what was omitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any, Final
from uuid import UUID

from pydantic import Field

from agent_reminiscence.config.constants import Tier
from agent_reminiscence.config.timezones import UTC_NAME, stored_zone
from agent_reminiscence.domain.graph import Entity, Relationship
from agent_reminiscence.domain.model import FrozenModel
from agent_reminiscence.domain.profile import Profile
from agent_reminiscence.domain.said import SaidFrom
from agent_reminiscence.domain.shown import as_table, one_line
from agent_reminiscence.domain.trust import Source
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.text.days import iso_day, seen_in
from agent_reminiscence.text.rendering import Passage, Summary, outdated_note, render

NO_MATCH: Final = "No passage matches this."
WEAK_MATCH: Final = "Weak match: these passages come closest, and may be about something else."
"""Stands above what a search tool returns if the result was not `found`."""


_HIT_COLUMNS: Final = ("match", "said", "title", "speaker", "content")


class Outdated(FrozenModel):
    """Says that a hit is probably out of date: something newer seems to contradict it. It may be wrong."""

    since: datetime = Field(description="When the newer words were said.")
    by: UUID | None = Field(default=None, description="The hit that says them; None if it is not among the hits.")
    start: int | None = Field(
        default=None, description="The first character of `content` that is meant, from 0; None: all of it."
    )
    end: int | None = Field(default=None, description="The character after the last; None: all of it.")


class SearchHit(FrozenModel):
    """A chunk that answers a query, or a fact that a model derived from chunks.

    A chunk's `content` is verbatim: characters `span_start` to `span_end` of the text of version `memory_version` of
    memory `memory_id`. A fact's `content` was written by a model; its span is that of its source chunks,
    `derived_from`.
    """

    external_id: str | None = Field(default=None, description="Whose memory it is from.")
    also_in: tuple[str, ...] = Field(
        default=(),
        description="If several memories were asked: the `external_id` of each other one that has the same words; their"
        " chunks are among `same_text`.",
    )
    tier: Tier
    chunk_id: UUID
    memory_id: UUID
    memory_version: int
    title: str
    content: str
    span_start: int
    span_end: int
    score: float = Field(
        description="0 to 1: share of the possible evidence that supports this chunk; if runs with it ended well, up to"
        " 15 % more. Ranks the hits of one query, except that the newest statement of a thing precedes older ones;"
        " whether the topic is in memory at all is shown by `match`."
    )
    score_parts: dict[str, float] = Field(
        description="Contribution of each part of the formula; they sum to the score. Zero contributions are absent."
    )
    match: float = Field(description="0 to 1, absolute: how much of the question is covered by and around this chunk.")
    is_of_other: bool = Field(
        default=False,
        description="Whether someone other than the person asked about seems to have said it. Only a hint.",
    )
    importance: float
    confidence: float
    successes: int = Field(
        default=0, description="How many runs it was recalled in were reported as a success, as known at `known_at`."
    )
    failures: int = Field(default=0, description="How many were reported as a failure.")
    start_date: datetime = Field(description="When it became true in the world.")
    end_date: datetime | None = Field(
        description="When it ceased to be true, as known at `known_at`; None: still true."
    )
    said_at: datetime = Field(
        description="When its words were first said, which headings and relative times go by. Before `start_date` if an"
        " update has since changed other lines of the chunk. If lines have different dates, the one of most words."
    )
    said_lines: tuple[SaidFrom, ...] = Field(
        default=(), description="From which character of `content` on which date holds; empty if it has only one."
    )
    recorded_at: datetime
    superseded_at: datetime | None
    speaker: str | None
    source: Source
    metadata: dict[str, Any] = Field(
        default_factory=dict, description="Of the turn that the chunk is from; empty for a text without turns."
    )
    memory_metadata: dict[str, Any] = Field(
        default_factory=dict,
        description="Of the memory, in the version that the search is about, without `turns`, which holds positions.",
    )
    derived_from: tuple[UUID, ...] = Field(
        default=(), description="The chunks a fact is based on; empty for a passage of a text."
    )
    same_text: tuple[UUID, ...] = Field(
        default=(),
        description="Other chunks with the same words by the same speaker, which would have been hits, too; best first."
        " `omitted` counts them.",
    )
    last_said_at: datetime | None = Field(
        default=None, description="When these words were last said; later than `said_at` only with `same_text`."
    )
    later: UUID | None = Field(
        default=None,
        description="The hit that says the same later, perhaps with another value; None if none of the best does.",
    )
    outdated: Outdated | None = Field(
        default=None,
        description="Whether it is probably out of date, as known at `known_at`; None: nothing says so. Such a hit"
        " ranks lower, and below the newer one.",
    )
    is_pinned: bool = Field(
        default=False, description="Whether its memory is pinned; only in `standing`, False among the hits."
    )
    tokens: int = Field(description="Length of `content` in estimated tokens.")

    def __repr__(self) -> str:
        fields = {"score": self.score, "match": self.match, "title": self.title, "content": self.content}
        return one_line(type(self).__name__, fields)

    def __str__(self) -> str:
        return repr(self)

    def _repr_html_(self) -> str:
        """For notebooks."""
        return as_table([_cells(self)], head=_HIT_COLUMNS)


class EntityHit(Entity):
    """An entity that a query names, or one related to it.

    `chunk_ids` are its newest chunks visible to this search; `positions` is empty unless these are its newest overall.
    In a search of an earlier time, an entity shows only what these chunks say: no aliases, merged ids, description or
    metadata, which may have been learned later. Which names belong to one entity, `confidence`, `importance`, `tier`
    and `shortterm_memory_id` are always the current ones.
    """

    score: float = Field(description="Its weight for the query; an entity named in every chunk has none.")
    hops: int = Field(description="Distance from the entities the query names; 0: named in the query.")


class RelationshipHit(Relationship):
    """A relationship between two entities of a result; restricted like `EntityHit`.

    In a search of an earlier time, `importance`, `tier` and a stated `confidence` are the current ones; the confidence
    of names merely mentioned together is computed from the chunks.
    """

    score: float = Field(description="How much of the query's weight it passes on.")
    hops: int = Field(description="Distance of its nearer end from the entities the query names.")


class Citation(FrozenModel):
    """A part of the summary, and the hit it comes from."""

    number: int
    chunk_id: UUID
    memory_id: UUID


class CitedPassage(FrozenModel):
    """A passage that a model's answer cites by number."""

    number: int
    external_id: str | None = Field(default=None, description="Whose memory it is from.")
    memory_id: UUID
    chunk_id: UUID
    title: str
    content: str


class Synthesis(FrozenModel):
    """A model's answer to a question, based only on what recall found."""

    answer: str = Field(description="The answer; each statement carries the number of its passage in square brackets.")
    is_known: bool | None = Field(
        description="Whether memory holds the answer; if not, `answer` says so. A question that rests on a mistake is"
        " known if memory shows the mistake. None only in partial answers from `stream_answer`, while the model has not"
        " said so yet."
    )
    citations: tuple[CitedPassage, ...] = Field(
        default=(), description="The cited passages in order of citation, as shown to the model."
    )
    model: str | None = Field(default=None, description="The model that answered; None: none was called.")
    is_checked: bool = Field(default=True, description="False only for partial answers from `stream_answer`.")


class Omission(FrozenModel):
    """What a result omits, and why."""

    reason: str
    count: int


class Usage(FrozenModel):
    """What a call cost. Recall calls no model, so the model figures are zero unless `synthesis` was set."""

    model_requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    texts_embedded: int = 0


class RetrievalResult(FrozenModel):
    """The answer to `retrieve_memories`, best hit first."""

    query: str
    external_ids: tuple[str, ...] = Field(
        default=(), description="The memories that were asked; if they are several, renderings say whose a passage is."
    )
    hits: tuple[SearchHit, ...]
    standing: tuple[SearchHit, ...] = Field(
        default=(),
        description="What holds whatever is asked: pinned memories, then wishes, rules and constraints of the user,"
        " known by their form, the newest first; each text once. With a token budget, those that fit into their share"
        " of it. What is also a hit has its score; the others have a score of 0.",
    )
    found: bool = Field(
        description="False if even the best hits match weakly: they may be about something else. It does not say that"
        " nothing is known, and no score can tell that only a detail is missing."
    )
    tells_weak: bool = Field(
        default=False,
        description="Whether `found` says much if it is false. It does with the bundled embedder; with another, or if"
        " the question has no vector, a passage in other words than the question's matches weakly, whatever it says.",
    )
    summary: str = Field(description="Sentences of the best hits, each with its citation number; '' without hits.")
    citations: tuple[Citation, ...]
    entities: tuple[EntityHit, ...] = Field(default=(), description="Entities the query names, and those near them.")
    relationships: tuple[RelationshipHit, ...] = Field(default=(), description="Between those entities, best first.")
    synthesis: Synthesis | None = Field(
        default=None, description="A model's answer, if requested; `omitted` says why there is none."
    )
    profile: Profile | None = Field(
        default=None,
        description="The standing summary that was asked for, as it was known at `known_at`; of several memories the"
        " first of `profiles`.",
    )
    profiles: dict[str, Profile] = Field(
        default_factory=dict, description="The standing summaries of all memories that were asked, by `external_id`."
    )
    timezone: str = Field(
        default=UTC_NAME, description="The time zone of the days in renderings, as an IANA name; all times are in UTC."
    )
    token_budget: int | None = Field(
        default=None,
        description="The budget of the search, which `as_prompt` and `as_messages` keep; None: it had none.",
    )
    omitted: tuple[Omission, ...] = ()
    usage: Usage = Usage()

    def __repr__(self) -> str:
        fields = {"query": self.query, "found": self.found, "hits": len(self.hits), "summary": self.summary}
        return one_line(type(self).__name__, fields)

    def __str__(self) -> str:
        return repr(self)

    def _repr_html_(self) -> str:
        """For notebooks."""
        zone = stored_zone(self.timezone)
        rows = [(number, *_cells(hit, zone)) for number, hit in enumerate(self.hits, start=1)]
        return as_table(rows, head=("", *_HIT_COLUMNS))

    def as_prompt(self, token_budget: int | None = None) -> str:
        """Render the hits for a prompt: quoted data inside a fence, under a heading for each memory and day.

        What always holds (`standing`) comes first, then the profile, if one was asked for and has a text. Hits stand in
        order of time; their numbers are their ranks in `hits`, from 1. A hit that is shown as always holding is not
        shown again.

        Args:
            token_budget: Maximum tokens of the rendering, estimated as for `count_tokens`; None is the budget of the
                search, or no limit if it had none. What always holds takes at most a third of it. Of the profile, the
                first lines that fit are shown, in at most half of the budget if hits need the rest; then the best
                hits. Each one left out would not fit into what remains.

        Returns:
            The rendering; '' if there is nothing to show or nothing fits.

        Raises:
            InvalidInputError: `token_budget` is not a whole number from 1.
        """
        budget = self.token_budget if token_budget is None else _check_budget(token_budget)
        return render([*map(self.shown, self.hits)], budget, self.summaries, [*map(self.shown, self.standing)])

    def shown(self, hit: SearchHit) -> Passage:
        """One of its hits, as it is rendered."""
        return as_passage(hit, names_memory=len(self.external_ids) > 1, zone=stored_zone(self.timezone))

    @property
    def summaries(self) -> list[Summary]:
        """The standing summaries as they are rendered: those with a text."""
        return as_summaries(
            self.profiles or {"": self.profile},
            names_memory=len(self.external_ids) > 1,
            zone=stored_zone(self.timezone),
        )

    def as_messages(self, token_budget: int | None = None) -> list[dict[str, str]]:
        """Return `as_prompt(token_budget)` as parts of a chat message.

        Args:
            token_budget: As in `as_prompt`.

        Returns:
            One part, `{"type": "text", "text": …}`, for the list `content` of a user message: OpenAI's chat completions
            and what is compatible with them, and Anthropic's messages, take it as it is. Empty if `as_prompt` is.

        Raises:
            InvalidInputError: `token_budget` is not a whole number from 1.
        """
        prompt = self.as_prompt(token_budget)
        return [{"type": "text", "text": prompt}] if prompt else []


def _check_budget(token_budget: int) -> int:
    if isinstance(token_budget, bool) or not isinstance(token_budget, int):
        raise InvalidInputError(f"token_budget must be a whole number, not {token_budget!r}")
    if token_budget < 1:
        raise InvalidInputError(f"token_budget must be at least 1, not {token_budget!r}")
    return token_budget


def as_summaries(profiles: Mapping[str, Profile | None], *, names_memory: bool, zone: tzinfo = UTC) -> list[Summary]:
    """Profiles by `external_id`, as they are rendered: those with a text.

    Args:
        names_memory: Whether it is said whose each is.
        zone: Of the days that are shown.
    """
    return [
        Summary(
            name=profile.name,
            text=profile.text,
            written=seen_in(profile.written_at, zone),
            is_quoted=profile.made_by == "extractive",
            source=profile.cited_source or "user",
            whose=external_id if names_memory else None,
        )
        for external_id, profile in profiles.items()
        if profile is not None and profile.text and profile.written_at is not None
    ]


def search_text(result: RetrievalResult) -> str:
    """What a search tool returns to a model: the hits as a prompt, with a word on weak matches; never empty.

    It does not say that nothing is known, because the same may be stored in other words.
    """
    prompt = result.as_prompt()
    if not prompt:
        return NO_MATCH
    return prompt if result.found or not result.hits else f"{WEAK_MATCH}\n{prompt}"


def as_passage(hit: SearchHit, *, names_memory: bool = False, zone: tzinfo = UTC) -> Passage:
    """A hit, as it is rendered.

    Args:
        names_memory: Whether it is said whose it is.
        zone: Of the days that are shown.
    """
    return Passage(
        memory=hit.memory_id,
        title=hit.title,
        text=hit.content,
        start=seen_in(hit.said_at, zone),
        said=[(line.start, seen_in(line.said_at, zone)) for line in hit.said_lines],
        position=hit.span_start,
        until=None if hit.end_date is None else seen_in(hit.end_date, zone),
        speaker=hit.speaker,
        source=hit.source,
        is_concluded=bool(hit.derived_from),
        key=hit.chunk_id,
        later_key=hit.later,
        outdated_since=None if hit.outdated is None else seen_in(hit.outdated.since, zone),
        outdated_by=None if hit.outdated is None else hit.outdated.by,
        is_partly_outdated=hit.outdated is not None and hit.outdated.start is not None,
        is_pinned=hit.is_pinned,
        whose=hit.external_id if names_memory else None,
        also_in=hit.also_in if names_memory else (),
    )


def outdated_words(hit: SearchHit, hits: Sequence[SearchHit], zone: tzinfo = UTC) -> str | None:
    """What a program shows of a hit that is probably out of date; None of any other.

    Args:
        hits: Those of the result, which are numbered from 1.
        zone: Of the day that is shown.
    """
    if hit.outdated is None:
        return None
    ranks = {one.chunk_id: rank for rank, one in enumerate(hits, start=1)}
    newer = None if hit.outdated.by is None else ranks.get(hit.outdated.by)
    return outdated_note(seen_in(hit.outdated.since, zone), is_partly=hit.outdated.start is not None, newer=newer)


def _cells(hit: SearchHit, zone: tzinfo = UTC) -> tuple[object, ...]:
    return f"{hit.match:.2f}", iso_day(hit.said_at, zone), hit.title, hit.speaker, hit.content
