"""Makes a request of what a caller asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agent_reminiscence.config import constants
from agent_reminiscence.config.settings import Config
from agent_reminiscence.config.timezones import zone_named
from agent_reminiscence.domain.search import LATEST, OwnAndShared, SearchRequest
from agent_reminiscence.services import validation


def search_request(
    config: Config,
    external_id: object,
    query: object,
    *,
    limit: object,
    tiers: object,
    token_budget: object,
    min_confidence: object,
    min_match: object,
    as_of: object,
    known_at: object,
    where: object = None,
    profile: object = None,
    embedding: Sequence[float] | None = None,
    run_id: object = None,
    timezone: object = None,
) -> SearchRequest:
    """Validate the arguments of `retrieve_memories`; None is the configured default, or no restriction.

    `embedding` is validated by `RetrievalService`, which knows what vectors it is compared with.

    Raises:
        InvalidInputError: An argument is invalid.
    """
    hits = validation.optional_number("limit", limit, maximum=constants.MAX_RESULTS)
    budget = validation.optional_number("token_budget", token_budget) or config.token_budget
    first, *beside = validation.external_ids(external_id)
    shared = external_id if isinstance(external_id, OwnAndShared) else None
    request = SearchRequest(
        external_id=first,
        beside=tuple(beside),
        own=validation.external_id(shared.own) if shared is not None else None,
        may_be_unknown=frozenset() if shared is None else frozenset(shared.may_be_unknown),
        query=validation.query(query),
        limit=_limit(config, hits, budget),
        tiers=validation.tiers(tiers),
        token_budget=budget,
        min_confidence=None if min_confidence is None else validation.share("min_confidence", min_confidence),
        min_match=None if min_match is None else validation.min_match(min_match),
        as_of=validation.optional_moment("as_of", as_of),
        known_at=validation.optional_moment("known_at", known_at) or LATEST,
        where=validation.where(where),
        profile=validation.optional_identifier("profile", profile),
        embedding=embedding,
        run_id=validation.optional_identifier("run_id", run_id),
        zone=zone_named(validation.optional_timezone(timezone) or config.timezone),
    )
    if known_at is None or as_of is not None:
        return request
    # A question about past knowledge also concerns the world of that time, unless it names another moment.
    return replace(request, as_of=request.known_at)


def stream_request(
    config: Config, external_id: object, query: object, *, limit: int | None, **arguments: Any
) -> SearchRequest:
    """Validate the arguments of `stream_memories`; the request's limit is of the hits that come with the search.

    Raises:
        InvalidInputError: An argument is invalid.
    """
    first = constants.MAX_RESULTS if limit is None else min(limit, constants.MAX_RESULTS)
    request = search_request(config, external_id, query, limit=first, token_budget=None, **arguments)
    # A budget that is configured is for prompts.
    return replace(request, token_budget=None, is_streamed=limit is None or limit > constants.MAX_RESULTS)


def _limit(config: Config, limit: int | None, token_budget: int | None) -> int:
    """The maximum number of hits: what the call or the configuration names, or enough to fill a token budget."""
    named = config.retrieval_limit if limit is None else limit
    if named is not None:
        return named
    return constants.DEFAULT_RESULTS if token_budget is None else constants.BUDGET_RESULTS
