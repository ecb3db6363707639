"""A summary of hits without a model: their best sentences."""

from __future__ import annotations

from collections.abc import Sequence

from agent_reminiscence.config import constants
from agent_reminiscence.domain.retrieval import Citation, SearchHit
from agent_reminiscence.text.folding import WORD
from agent_reminiscence.text.rendering import one_clean_line
from agent_reminiscence.text.sentences import first_sentence


def summarise(query: str, hits: Sequence[SearchHit]) -> tuple[str, tuple[Citation, ...]]:
    """Return, for each of the best hits, the sentence sharing most words with the query, with its citation.

    Each is on one line and cleaned like a title, so that only our own numbers stand in square brackets.
    """
    asked = {word.casefold() for word in WORD.findall(query)}
    sentences: list[str] = []
    citations: list[Citation] = []
    for number, hit in enumerate(hits[: constants.SUMMARY_HITS], start=1):
        sentence = _best_sentence(hit.content, asked)
        # As a rendering cleans it: no text can write a number or a label of ours.
        shown = one_clean_line(sentence, len(sentence))
        if not shown:
            # Nothing in it can be seen.
            continue
        sentences.append(f"{shown} [{number}]")
        citations.append(Citation(number=number, chunk_id=hit.chunk_id, memory_id=hit.memory_id))
    return " ".join(sentences), tuple(citations)


def _best_sentence(text: str, asked: set[str]) -> str:
    rest, best, most = text.strip(), "", -1
    while rest:
        sentence = first_sentence(rest)
        shared = len(asked & {word.casefold() for word in WORD.findall(sentence)})
        if shared > most:
            best, most = sentence, shared
        rest = rest[len(sentence) :].strip()
    return best
