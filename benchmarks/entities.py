"""Names without a model: a sample of the extractor's results on real conversations, to judge by hand, and its speed.

Each session is one memory, each utterance a passage. Speakers are left out of the sample: they are certainly names.

    python benchmarks/entities.py --data FOLDER [--only 41 42 43] [--sample 100] [--seed 7]

FOLDER holds conversations of LoCoMo, as for `locomo.py`; the data is not part of this repository. The output quotes
the data, so do not put it in reports.
"""

from __future__ import annotations

import argparse
import random
import re
import string
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import uuid4

from agent_reminiscence.text.likeness import NamedEntity, find_alike
from agent_reminiscence.text.name_collecting import SPEAKER_CONFIDENCE
from agent_reminiscence.text.name_lines import Passage
from agent_reminiscence.text.names import ExtractedEntity, candidate_keys, extract_entities
from benchmarks.common import Timing, print_table
from benchmarks.conversations import Conversation, Session, load_locomo

CONTEXT_CHARACTERS = 60
REPETITIONS = 5
LONG_TEXT_CHARACTERS = 1_000_000


def passages_of(session: Session) -> list[Passage]:
    """A session as its chunks would be."""
    return [Passage(utterance.line, utterance.speaker) for utterance in session.utterances]


def extract_all(conversations: Sequence[Conversation]) -> dict[str, tuple[ExtractedEntity, str]]:
    """Each distinct name of each conversation, speakers apart, with a passage that names it."""
    found: dict[str, tuple[ExtractedEntity, str]] = {}
    for conversation in conversations:
        for session in conversation.sessions:
            passages = passages_of(session)
            for entity in extract_entities(passages, known={}):
                if entity.confidence < SPEAKER_CONFIDENCE:
                    passage = passages[entity.passages[0]].content
                    found.setdefault(f"{conversation.name}: {entity.name}", (entity, passage))
    return found


def print_sample(found: dict[str, tuple[ExtractedEntity, str]], *, size: int, seed: int) -> None:
    """A sample drawn by a fixed seed, each name with the words around it."""
    drawn = random.Random(seed).sample(sorted(found), min(size, len(found)))
    for number, name in enumerate(sorted(drawn), start=1):
        entity, passage = found[name]
        print(f"{number:4} {name}  [{entity.type}, {entity.confidence}]  {_around(passage, entity.name)}")
    print()


def _around(passage: str, name: str) -> str:
    match = re.search(re.escape(name), passage, re.IGNORECASE)
    start, end = match.span() if match else (0, 0)
    return passage[max(start - CONTEXT_CHARACTERS, 0) : end + CONTEXT_CHARACTERS].replace("\n", " ")


def print_counts(found: dict[str, tuple[ExtractedEntity, str]]) -> None:
    """How many names there are of each type and confidence."""
    counts = Counter((entity.type, entity.confidence) for entity, _ in found.values())
    rows = [(type_, confidence, count) for (type_, confidence), count in counts.most_common()]
    print_table(("type", "confidence", "names"), rows)


def print_speed(conversations: Sequence[Conversation]) -> None:
    """What extraction, candidate keys and likeness take."""
    sessions = [session for conversation in conversations for session in conversation.sessions]
    passages = [passage for session in sessions for passage in passages_of(session)]
    text = "\n".join(passage.content for passage in passages)
    copies = LONG_TEXT_CHARACTERS // len(text) + 1
    long_text = "\n".join([text] * copies)[:LONG_TEXT_CHARACTERS]
    known, new = _made_up_entities(10_000), _made_up_entities(200)
    session = passages_of(sessions[0])
    session_text = "\n".join(passage.content for passage in session)
    million = passages * copies
    count = f"{sum(len(passage.content) for passage in million):,}"
    rows = [
        ("extract_entities, one session", _timed(lambda: extract_entities(session, known={}))),
        (f"extract_entities, {count} characters in utterances", _timed(lambda: extract_entities(million, known={}))),
        (
            "extract_entities, a million characters in one piece",
            _timed(lambda: extract_entities([Passage(long_text, None)], known={})),
        ),
        ("candidate_keys, one session", _timed(lambda: candidate_keys(session_text))),
        ("candidate_keys, a million characters", _timed(lambda: candidate_keys(long_text))),
        ("find_alike, 200 names among 10,000", _timed(lambda: find_alike(new, known))),
    ]
    print_table(("what", "p50 / p95"), rows)


def _timed(call: Callable[[], object]) -> Timing:
    seconds = []
    for _ in range(REPETITIONS):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return Timing.of(seconds)


def _made_up_entities(count: int) -> list[NamedEntity]:
    """Entities of one to three random words."""
    generator = random.Random(count)
    names = {
        " ".join(
            "".join(generator.choices(string.ascii_lowercase, k=generator.randint(4, 10)))
            for _ in range(generator.randint(1, 3))
        )
        for _ in range(count)
    }
    return [NamedEntity(uuid4(), (name,), name, "other") for name in sorted(names)]


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of conversations, or locomo10.json")
    parser.add_argument("--only", nargs="+", help="names of conversations; default: all")
    parser.add_argument("--sample", type=int, default=100, help="how many names to print")
    parser.add_argument("--seed", type=int, default=7)
    arguments = parser.parse_args()
    conversations = [one for one in load_locomo(arguments.data) if not arguments.only or one.name in arguments.only]
    found = extract_all(conversations)
    print(f"{len(found)} distinct names, without speakers\n")
    print_counts(found)
    print_sample(found, size=arguments.sample, seed=arguments.seed)
    print_speed(conversations)


if __name__ == "__main__":
    main()
