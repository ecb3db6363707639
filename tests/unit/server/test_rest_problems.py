"""What each error of the memory is to a client."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any
from uuid import UUID

import pytest
from fastapi.exceptions import RequestValidationError

from agent_reminiscence import exceptions
from agent_reminiscence.exceptions import ReminiscenceError
from agent_reminiscence.server.problems import ProblemError
from agent_reminiscence.server.rest import fields
from agent_reminiscence.server.rest.problems import TABLE, problem_of, told
from agent_reminiscence.services import validation
from agent_reminiscence.services.profiles import profiles, writing

_ID = UUID("0190b0a0-0000-7000-8000-000000000000")
_WITH_ARGUMENTS: dict[type[ReminiscenceError], tuple[tuple[Any, ...], dict[str, Any]]] = {
    exceptions.MemoryNotFoundError: (("ida", _ID), {}),
    exceptions.MemoryExistsError: (("ida", "plan", _ID), {}),
    exceptions.ExternalIdNotFoundError: (("ida",), {}),
    exceptions.EntityNotFoundError: (("ida", "Ana"), {}),
    exceptions.RelationshipNotFoundError: (("ida", _ID), {}),
    exceptions.ProfileNotFoundError: (("ida", "work"), {"known_at": datetime(2024, 1, 1, tzinfo=UTC)}),
    exceptions.IdempotencyConflictError: (("ida", "k"), {}),
    exceptions.RunNotFoundError: (("ida", "run-1"), {}),
    exceptions.OutcomeConflictError: (("ida", "run-1"), {"success": True}),
    exceptions.QuotaExceededError: (("ida", "max_memories", 5, 6, "archive one"), {}),
    exceptions.VersionConflictError: (("ida", _ID, 1, 2), {}),
    exceptions.PositionConflictError: (("ida", "c", "world.observed", 1, 2), {}),
}


def _classes(error: type[ReminiscenceError] = ReminiscenceError) -> Iterator[type[ReminiscenceError]]:
    if error.__module__ == exceptions.__name__:
        yield error
        for child in error.__subclasses__():
            yield from _classes(child)


def _made(error: type[ReminiscenceError]) -> ReminiscenceError:
    arguments, named = _WITH_ARGUMENTS.get(error, (("what the server knows",), {}))
    return error(*arguments, **named)


def test_the_table_has_every_public_error() -> None:
    """A new one is told on purpose, not as what it is a kind of."""
    assert set(TABLE) == set(_classes())


def test_programs_can_tell_the_problems_apart() -> None:
    """Each has a kind of its own."""
    kinds = [how.kind for how in TABLE.values()]
    assert len(set(kinds)) == len(kinds)


def test_an_error_of_the_package_that_is_not_public_is_told_as_its_parent() -> None:
    """Others than those of the module of exceptions may be raised."""

    class _OwnError(exceptions.StoreTimeoutError):
        pass

    assert told(_OwnError) == TABLE[exceptions.StoreTimeoutError]


def test_only_what_may_succeed_when_it_is_repeated_says_when() -> None:
    """503 with Retry-After; a commit that may have happened is no such case."""
    for error in _classes():
        problem = problem_of(_made(error))
        assert (problem.status == HTTPStatus.SERVICE_UNAVAILABLE) == ("Retry-After" in problem.headers), error


def test_a_failure_of_the_server_says_nothing_of_its_inside(caplog: pytest.LogCaptureFixture) -> None:
    """What it says is for who runs it, and stands in the log, if at all."""
    with caplog.at_level(logging.WARNING):
        for error in _classes():
            problem = problem_of(_made(error))
            if problem.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                assert "what the server knows" not in problem.detail
                assert error.__name__ in caplog.text


def test_a_problem_names_no_call_of_python() -> None:
    """Its reader has HTTP."""
    for error in _classes():
        detail = problem_of(_made(error)).detail
        assert "memory.admin" not in detail
        assert "()" not in detail


def test_members_say_what_a_program_needs() -> None:
    """As JSON."""
    assert problem_of(_made(exceptions.MemoryExistsError)).extra == {"memory_id": str(_ID)}
    assert problem_of(_made(exceptions.VersionConflictError)).extra == {"expected_version": 1, "version": 2}
    assert problem_of(_made(exceptions.QuotaExceededError)).extra == {
        "quota": "max_memories",
        "limit": 5,
        "value": 6,
    }


def test_many_wrong_places_are_not_all_told() -> None:
    """Nor are their paths longer than somebody reads."""
    faults = [{"loc": ("body", "x" * 1_000, n), "msg": "Wrong", "type": "t", "input": "secret"} for n in range(100)]

    problem = problem_of(RequestValidationError(faults))

    errors = problem.extra["errors"]
    assert isinstance(errors, list)
    assert len(errors) == 20
    assert all(len(error["at"]) == 200 and error["problem"] == "Wrong" for error in errors)
    assert "secret" not in str(errors)


def test_a_problem_stays_what_it_is() -> None:
    """Whoever raises one has said it all."""
    problem = ProblemError(418, "teapot", "short and stout")
    assert problem_of(problem) is problem


def test_the_document_has_the_limits_of_the_memory() -> None:
    """Where the server does not reach, it repeats them."""
    assert fields.MAX_DESCRIPTION_CHARACTERS == validation.MAX_DESCRIPTION_CHARACTERS
    assert fields.MAX_QUERY_CHARACTERS == validation.MAX_QUERY_CHARACTERS
    assert fields.MAX_NOTE_CHARACTERS == validation.MAX_NOTE_CHARACTERS
    assert fields.MIN_PROFILE_TOKENS == profiles.MIN_PROFILE_TOKENS
    assert fields.MAX_PROFILE_TOKENS == profiles.MAX_PROFILE_TOKENS
    assert fields.MIN_REFRESH_TOKENS == writing.MIN_REFRESH_TOKENS
