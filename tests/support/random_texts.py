"""Random texts of a memory, and random questions about them, for tests of the ranking."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from agent_reminiscence.domain.index import (
    ASKS,
    DUPLICATE,
    FACT,
    OF_SELF,
    QUESTION,
    TIME_WORDS,
    USER,
    chunk_number,
)
from tests.support.slow_ranking import Asked, Chunk, Heading, Memory, Vector

WORDS = ("boat", "red", "harbour", "mara", "lamp", "storm", "may")
# Two of them cancel out, so that windows without a direction occur.
VECTORS: tuple[Vector, ...] = ((1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.6, 0.8), (0.8, -0.6))

words = st.lists(st.sampled_from(WORDS), max_size=6).map(tuple)
vectors = st.none() | st.sampled_from(VECTORS)
masses = st.integers(1, 40)
flags = st.sampled_from(
    [0, 0, 0, DUPLICATE, QUESTION, TIME_WORDS, QUESTION | USER, TIME_WORDS | USER, ASKS | QUESTION, OF_SELF]
)


@st.composite
def texts(draw: st.DrawFn) -> list[list[Chunk]]:
    """Some memories and facts; later chunks of a text may have smaller numbers, as after an edit."""
    memories: list[list[Chunk]] = []
    position = 0
    for _ in range(draw(st.integers(1, 4))):
        position += 1
        if draw(st.booleans()):
            number = chunk_number(position, 0)
            fact = Chunk(number, draw(words), draw(vectors), draw(masses), day=draw(st.integers(0, 40)), flags=FACT)
            memories.append([fact])
            continue
        headings = [Heading(-chunk_number(position, k), draw(words), draw(vectors), draw(masses)) for k in range(2)]
        size = draw(st.integers(1, 16))
        indexes = draw(st.permutations(range(size)))
        memories.append(
            [
                Chunk(
                    chunk_number(position, index),
                    draw(words),
                    draw(vectors),
                    draw(masses),
                    heading=draw(st.sampled_from(headings)),
                    day=draw(st.integers(0, 40)),
                    speaker=draw(st.integers(0, 3)),
                    flags=draw(flags),
                )
                for index in indexes
            ]
        )
    return draw(st.permutations(memories))


@st.composite
def questions(draw: st.DrawFn, memories: Sequence[Memory]) -> Asked:
    """A question about `memories`; also one that asks for words, speakers and chunks that nobody has."""
    numbers = [chunk.number for memory in memories for chunk in memory]
    start = draw(st.integers(-5, 45))
    some = st.lists(st.sampled_from([*numbers, chunk_number(999, 0)]), max_size=5)
    return Asked(
        words=draw(st.lists(st.sampled_from([*WORDS, "unknown"]), max_size=8).map(tuple)),
        vector=draw(vectors),
        speakers=draw(st.frozensets(st.integers(1, 5), max_size=2)),
        first_person=draw(st.booleans()),
        period=draw(st.none() | st.just((start, start + draw(st.integers(0, 20))))),
        asks_when=draw(st.booleans()),
        about_user=draw(st.booleans()),
        said=frozenset(draw(some)),
        graph={number: draw(st.floats(0.01, 3.0)) for number in draw(some)},
    )
