"""What a caller's arguments become."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from agent_reminiscence import Config
from agent_reminiscence.domain.search import SearchRequest
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.services.recall.asking import search_request

_NOW, _MAY, _JUNE = (datetime(2024, month, 1, tzinfo=UTC) for month in (9, 5, 6))
_LEFT_OUT = ("limit", "tiers", "token_budget", "min_confidence", "min_match", "as_of", "known_at")


def _asked(config: Config | None = None, **arguments: Any) -> SearchRequest:
    config = config or Config(retrieval_limit=7, token_budget=900)
    return search_request(config, "agent-1", "where is the boat?", **dict.fromkeys(_LEFT_OUT) | arguments)


def test_what_is_left_out_is_the_configured_default_or_no_restriction() -> None:
    """A question alone searches everything in the present."""
    request = _asked()

    assert (request.limit, request.token_budget) == (7, 900)
    assert (request.is_past, request.is_filtered) == (False, False)


@pytest.mark.parametrize(
    ("settings", "arguments", "limit", "token_budget"),
    [
        ({}, {}, 10, None),
        ({}, {"token_budget": 500}, 100, 500),
        ({}, {"token_budget": 500, "limit": 3}, 3, 500),
        ({"token_budget": 900}, {}, 100, 900),
        ({"token_budget": 900}, {"token_budget": 500}, 100, 500),
        ({"retrieval_limit": 7}, {"token_budget": 500}, 7, 500),
        ({"retrieval_limit": 7}, {"limit": 200}, 200, None),
    ],
)
def test_a_budget_without_a_limit_is_filled(
    settings: dict[str, int], arguments: dict[str, int], limit: int, token_budget: int | None
) -> None:
    """Ten hits would leave most of a budget unused; a limit that somebody has named holds."""
    request = _asked(Config(**settings), **arguments)

    assert (request.limit, request.token_budget) == (limit, token_budget)


def test_a_question_about_the_present_means_that_of_whoever_reads() -> None:
    """A stream is read whenever its reader likes."""
    for now in (_MAY, _NOW):
        request = _asked().read_at(now)
        assert (request.as_of, request.known_at, request.now) == (None, now, now)


@pytest.mark.parametrize(
    ("arguments", "as_of", "known_at"),
    [
        ({"as_of": _MAY}, _MAY, datetime.max.replace(tzinfo=UTC)),
        ({"known_at": _MAY}, _MAY, _MAY),
        ({"as_of": _MAY, "known_at": _JUNE}, _MAY, _JUNE),
    ],
)
def test_a_question_about_another_moment_keeps_it(
    arguments: dict[str, Any], as_of: datetime, known_at: datetime
) -> None:
    """Past knowledge is about the world of its time; the world of a time is told by all that is known today."""
    request = _asked(**arguments).read_at(_NOW)

    assert request.is_past
    assert (request.as_of, request.known_at, request.now) == (as_of, known_at, _NOW)


@pytest.mark.parametrize("filtered", [{"tiers": ["active"]}, {"min_confidence": 0.5}])
def test_a_filter_is_one_only_if_it_leaves_something_out(filtered: dict[str, Any]) -> None:
    """All tiers and a confidence from 0 are everything."""
    assert _asked(**filtered).is_filtered
    assert not _asked(tiers=["longterm", "active", "shortterm"], min_confidence=0.0).is_filtered


def test_an_argument_that_makes_no_sense_is_refused() -> None:
    """Before anything is read."""
    with pytest.raises(InvalidInputError, match="limit must be from 1 to 200, not 0"):
        _asked(limit=0)
