"""The benchmarks on views and subscriptions run, on little invented data; their figures say nothing here."""

from __future__ import annotations

import argparse

import pytest

from benchmarks import salience, subscribe, views
from benchmarks.common import scratch_folder
from tests.support.answers import CONVERSATIONS


def test_views_are_measured(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Each view has a line with its first build and a turn."""
    monkeypatch.setattr("sys.argv", ["views", "--events", "600", "--turns", "3"])

    views.main()

    lines = capsys.readouterr().out.splitlines()
    for name in ("episodic", "salience", "reflections", "beliefs", "context"):
        (line,) = [line for line in lines if name in line]
        assert " s" in line


@pytest.mark.thorough
def test_salience_is_measured(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Each index has a line with its recall, by the same questions."""
    monkeypatch.setattr("sys.argv", ["salience", "--data", str(CONVERSATIONS)])

    salience.main()

    printed = capsys.readouterr().out
    for name in ("none (Jaccard)", "BM25Index", "event_index"):
        assert name in printed


# That nothing is lost or repeated is shown by tests/acceptance/test_subscribe.py.
@pytest.mark.thorough
async def test_a_followed_stream_is_measured() -> None:
    """With reconnects nothing is lost, repeated or out of order, or this raises; and neighbours are timed."""
    with scratch_folder("reminiscence-subscribe-") as folder:
        found = await subscribe.run(argparse.Namespace(seconds=2.0, rate=100.0, rounds=1, writes=3), folder)

    assert [(one["events"], one["missing"], one["repeated"]) for one in found["flows"]] == [(200, 0, 0)] * 2
    assert len(found["neighbours"]) == 4
