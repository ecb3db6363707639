"""A summary of hits without a model: their best sentences."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from uuid import UUID

from agent_reminiscence.config import constants
from agent_reminiscence.domain.retrieval import Citation, SearchHit
from agent_reminiscence.text.folding import WORD
from agent_reminiscence.text.rendering import one_clean_line
from agent_reminiscence.text.sentences import first_sentence


def summarise(query: str, hits: Sequence[SearchHit]) -> tuple[str, tuple[Citation, ...]]:
    """Return, for each of the best hits, the sentence sharing most words with the query, with its citation.

    What is probably out of date is passed over where the newer hit is there.

    Each is on one line and cleaned like a title, so that only our own numbers stand in square brackets.
    """
    asked = {word.casefold() for word in WORD.findall(query)}
    sentences: list[str] = []
    citations: list[Citation] = []
    shown = {hit.chunk_id for hit in hits}
    numbered = [(number, hit, _without_outdated(hit, shown)) for number, hit in enumerate(hits, start=1)]
    for number, hit, text in [one for one in numbered if one[2].strip()][: constants.SUMMARY_HITS]:
        sentence = _best_sentence(text, asked)
        # As a rendering cleans it: no text can write a number or a label of ours.
        quoted = one_clean_line(sentence, len(sentence))
        if not quoted:
            # Nothing in it can be seen.
            continue
        sentences.append(f"{quoted} [{number}]")
        citations.append(Citation(number=number, chunk_id=hit.chunk_id, memory_id=hit.memory_id))
    return " ".join(sentences), tuple(citations)


def _without_outdated(hit: SearchHit, shown: Collection[UUID]) -> str:
    """What a hit says, without what is probably out of date if the newer hit is there to be quoted."""
    outdated = hit.outdated
    if outdated is None or outdated.by not in shown:
        return hit.content
    if outdated.start is None or outdated.end is None:
        return ""
    before, after = hit.content[: outdated.start], hit.content[outdated.end :]
    # Only one side, so that what is quoted stands in the text.
    return max(before, after, key=lambda text: len(text.strip()))


def _best_sentence(text: str, asked: set[str]) -> str:
    rest, best, most = text.strip(), "", -1
    while rest:
        sentence = first_sentence(rest)
        shared = len(asked & {word.casefold() for word in WORD.findall(sentence)})
        if shared > most:
            best, most = sentence, shared
        rest = rest[len(sentence) :].strip()
    return best
