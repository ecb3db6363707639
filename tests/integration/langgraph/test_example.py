"""The example, and the page of the guide, run as a reader runs them."""

from __future__ import annotations

from tests.support.examples import EXAMPLES, new_data_dir, run_example


def test_the_example_says_what_it_should() -> None:
    """The second thread knows what the first one found out; run again, both know all of it."""
    with new_data_dir() as folder:
        first, again = (run_example(EXAMPLES / "research_graph.py", folder) for _ in range(2))

    assert first.splitlines() == [
        "known: []",
        "answer: The lighthouse of Borkum was built in 1817.",
        "known: ['The lighthouse of Borkum was built in 1817.']",
        "answer: It is 60 metres tall.",
        "recalled: The lighthouse of Borkum was built in 1817.",
    ]
    assert again.startswith("known: ['The lighthouse of Borkum was built in 1817.', 'It is 60 metres tall.']\n")


def test_the_example_is_short() -> None:
    """At most 80 lines."""
    assert len((EXAMPLES / "research_graph.py").read_text(encoding="utf-8").splitlines()) <= 80
