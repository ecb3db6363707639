"""What streams are called when they are announced."""

from __future__ import annotations

from agent_reminiscence.database.announcements import BUCKETS, Announcements

_KEY = "0f" * 32


def test_a_stream_has_one_name_for_all_who_have_the_key() -> None:
    """Writers and subscribers are different processes."""
    assert Announcements(_KEY).name_of("agent-1") == Announcements(_KEY).name_of("agent-1")


def test_without_the_key_no_name_can_be_made() -> None:
    """Each database has its own."""
    ours, theirs = Announcements(_KEY).name_of("agent-1"), Announcements("1e" * 32).name_of("agent-1")

    assert ours.name != theirs.name


def test_streams_are_spread_over_all_channels_and_share_no_name() -> None:
    """However similar their ids are."""
    names = [Announcements(_KEY).name_of(f"agent-{number}") for number in range(2_000)]

    assert {one.bucket for one in names} == set(range(BUCKETS))
    assert len({one.name for one in names}) == len(names)


def test_a_statement_says_the_name_and_nothing_else_of_the_stream() -> None:
    """It has no parameters, because it is sent with COMMIT; an id cannot become part of it."""
    external_id = "anna'; DROP TABLE memory_event; --"
    announcements = Announcements(_KEY)
    stream = announcements.name_of(external_id)

    statement = announcements.statement(external_id)

    assert "anna" not in statement
    assert f"pg_notify('reminiscence_{stream.bucket}', '{stream.name}')" in statement
    assert "{" not in statement
