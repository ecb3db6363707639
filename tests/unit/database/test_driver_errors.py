"""What a user is told of an error of the driver."""

from __future__ import annotations

import pytest

from agent_reminiscence.database.driver_errors import is_unavailable, reason_of, told


@pytest.mark.parametrize(
    ("raised", "reason"),
    [
        (
            'Database engine pool exception: Error occurred while creating a new object: db error: FATAL: role "a"',
            'role "a"',
        ),
        ("Cannot execute query, error - db error: ERROR: division by zero", "division by zero"),
        ("Cannot execute COMMIT statement, error - connection closed", "connection closed"),
        # Whatever the server itself quotes stays.
        ('Cannot execute query, error - db error: ERROR: role "db error: " exists', 'role "db error: " exists'),
        ("db error: ERROR: too\n  long\nDETAIL:  Failing row contains (secret).", "too long"),
        ("", "ValueError"),
    ],
)
def test_the_words_of_the_server_are_left_of_an_error(raised: str, reason: str) -> None:
    """Without what the driver wraps around them, and without what may quote a row."""
    assert reason_of(ValueError(raised)) == reason


def test_what_says_that_a_server_is_away_need_not_be_told_again() -> None:
    """The words that tell us what has happened are more than a user needs."""
    reason = reason_of(
        ValueError(
            "Database engine pool exception: Error occurred while creating a new object: error connecting to server:"
            " Connection refused (os error 111)"
        )
    )

    assert is_unavailable(reason)
    assert told(reason) == "Connection refused"
