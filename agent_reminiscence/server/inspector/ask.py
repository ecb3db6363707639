"""A question with everything that a search takes, and the answer with everything that explains it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from starlette.responses import Response

from agent_reminiscence.config.constants import TIERS, Tier
from agent_reminiscence.config.timezones import zone_named
from agent_reminiscence.domain.retrieval import Omission, RetrievalResult, SearchHit, outdated_words
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.server.access.grants import Scope
from agent_reminiscence.server.inspector.fields import Fields
from agent_reminiscence.server.inspector.memories import read_filter
from agent_reminiscence.server.inspector.visits import Visit
from agent_reminiscence.server.inspector.wording import OMISSIONS
from agent_reminiscence.text.tokens import count_tokens

# What counts hits; the others say how the whole search went.
_COUNTED: Final = frozenset({"token_budget", "min_match", "run_not_recorded", "same_text"})

_PART_WORDS: Final[Mapping[str, str]] = {
    "words": "words in the passage",
    "words_before": "words, with what stands before it",
    "words_around": "words, with what stands around it",
    "words_wide": "words in its wide surroundings",
    "meaning": "meaning of the passage",
    "meaning_before": "meaning, with what stands before it",
    "meaning_around": "meaning, with what stands around it",
    "meaning_wide": "meaning of its wide surroundings",
    "speaker": "said by whom the question names",
    "date": "said in the period that the question names",
    "said": "mentions the period that the question names",
    "when": "the question asks when, and it names a time",
    "own_words": "holds most of the question's words itself",
    "graph": "reached from names in the question",
    "question": "asks itself, and does not answer",
    "recency": "how recent it is",
    "importance": "how important it is",
    "confidence": "how certain it is",
    "outcome": "how runs with it ended",
    "outdated": "probably out of date",
}


@dataclass(frozen=True, slots=True)
class Bar:
    """A part of a score.

    Attributes:
        width: Of the longest part of all hits, in percent.
    """

    name: str
    words: str
    value: float
    width: float


@dataclass(frozen=True, slots=True)
class Explained:
    """A hit and how its score came about.

    Attributes:
        share: Of the best hit's score, in percent.
        later: The rank of the newer hit that replaces this one; None if there is none.
        outdated: That it is probably out of date, in words; None if nothing says so.
        newer: The rank of the hit that says so; None if none does.
    """

    hit: SearchHit
    bars: Sequence[Bar]
    share: float
    later: int | None
    outdated: str | None
    newer: int | None


async def ask(visit: Visit) -> Response:
    """The form, and below it what the question finds."""
    result, wrong = None, None
    try:
        result = await asked(visit)
    except InvalidInputError as error:
        wrong = str(error)
    profiles = await visit.memory.admin.profiles.list(visit.tenant)
    prompt = "" if result is None else result.as_prompt()
    return visit.show(
        "ask.html",
        status=200 if wrong is None else 400,
        result=result,
        wrong=wrong,
        hits=() if result is None else explained(result),
        omissions=() if result is None else [told(one) for one in result.omitted],
        prompt=prompt,
        prompt_tokens=count_tokens(prompt) if prompt else 0,
        profiles=profiles,
        own=visit.tenant,
        readable=(visit.tenant, *visit.caller.also_reads),
        is_filtered=any(visit.given.text(name) for name in _FILTERS),
        is_detailed=any(visit.given.text(name) for name in _DETAILS),
    )


_FILTERS: Final = (
    "conversation_ids", "actors", "memory_ids", "keys", "key_prefix", "metadata", "sources", "speakers",
    "turn_metadata", "occurred_after", "occurred_before",
)  # fmt: skip
_DETAILS: Final = (
    "external_ids", "limit", "tiers", "token_budget", "min_confidence", "min_match", "as_of", "known_at", "profile",
    "run_id",
)  # fmt: skip


async def asked(visit: Visit) -> RetrievalResult | None:
    """The result of the question in a form; None if there is no question.

    A question that writes something, because it is answered by a model or recorded for a run, is sent by POST.
    """
    given = visit.given
    query = given.text("q")
    if query is None:
        return None
    # A model is asked only where the form says so.
    arguments = search_arguments(given) | {"synthesis": False}
    if visit.request.method == "POST":
        visit.caller.require(Scope.WRITE)
        arguments |= {"run_id": given.text("run_id"), "synthesis": given.flag("synthesis")}
    memories = visit.caller.asked(given.many("external_ids"))
    result = await visit.memory.retrieve_memories(memories, query, **arguments)
    visit.recalled(result)
    return result


def search_arguments(given: Fields) -> dict[str, Any]:
    """The arguments of a search, as a form names them."""
    tiers = given.many("tiers")
    if tiers and (unknown := set(tiers) - set(TIERS)):
        raise InvalidInputError(f"tiers has {min(unknown)!r}; the tiers are {', '.join(TIERS)}")
    return {
        "limit": given.number("limit"),
        "tiers": cast("list[Tier] | None", tiers),
        "token_budget": given.number("token_budget"),
        "min_confidence": given.share("min_confidence"),
        "min_match": given.share("min_match"),
        "as_of": given.moment("as_of"),
        "known_at": given.moment("known_at"),
        "where": read_filter(given),
        "profile": given.text("profile"),
    }


def explained(result: RetrievalResult) -> list[Explained]:
    """The hits with their parts, on one scale, so that they can be compared."""
    longest = max((abs(value) for hit in result.hits for value in hit.score_parts.values()), default=1.0)
    best = max((hit.score for hit in result.hits), default=1.0)
    ranks = {hit.chunk_id: rank for rank, hit in enumerate(result.hits, start=1)}
    return [
        Explained(
            hit,
            [
                Bar(name, _PART_WORDS.get(name, name), value, round(100 * abs(value) / longest, 1))
                for name, value in sorted(hit.score_parts.items(), key=lambda part: -abs(part[1]))
            ],
            round(100 * hit.score / best, 1) if best else 0.0,
            None if hit.later is None else ranks.get(hit.later),
            outdated_words(hit, result.hits, zone_named(result.timezone)),
            None if hit.outdated is None or hit.outdated.by is None else ranks.get(hit.outdated.by),
        )
        for hit in result.hits
    ]


def told(omission: Omission) -> str:
    """What a result lacks, in words."""
    words = OMISSIONS.get(omission.reason)
    if words is None:
        return f"There is no answer by a model: {omission.reason}."
    if omission.reason not in _COUNTED:
        return words
    return f"{omission.count:,} {'hit' if omission.count == 1 else 'hits'} {words}."
