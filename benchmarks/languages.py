"""Is a fact found in each language, in other words than it was told in, and by a question in English?

    python -m benchmarks.languages [--json FILE]

`data/languages.json` holds twelve facts for each language, as a user tells them about themselves. Each has a question
that shares only grammatical words with it, and that question in English. Six more questions of each language have no
answer among the facts. The bundled encoder was trained on all but two of the languages. All texts were written for
this, in each language for itself.

The facts of a language are told to an `external_id` of their own: once as notes, each a memory, and once as the turns
of one chat. No language is set, as in everyday use. Beside it stands the order by the encoder's cosine alone.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

import numpy as np
from pydantic import BaseModel, TypeAdapter

from agent_reminiscence import AgentMem, Config, Turn
from agent_reminiscence.embedders.universal import UniversalSentenceEmbedder
from benchmarks.common import print_table, scratch_folder, write_json

DATA: Final = Path(__file__).parent / "data" / "languages.json"
COSINE: Final = "cosine alone"


class Fact(BaseModel):
    """What a user says of themselves, and what is asked about it later."""

    fact: str
    question: str
    in_english: str


class Sample(BaseModel):
    """The facts of one language, and questions in it that none of them answers.

    Attributes:
        is_known: The bundled encoder was trained on the language.
    """

    language: str
    name: str
    is_known: bool
    facts: list[Fact]
    unanswerable: list[str]


@dataclass(frozen=True, slots=True)
class Count:
    """For how many questions the right fact was first or among the first three, and `found` true."""

    questions: int = 0
    first: int = 0
    among_three: int = 0
    found: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(Count)))


@dataclass(frozen=True, slots=True)
class Score:
    """The counts of questions in the language of the facts, in English, and without an answer."""

    same: Count = Count()
    english: Count = Count()
    unanswerable: Count = Count()

    def __add__(self, other: Score) -> Score:
        return Score(self.same + other.same, self.english + other.english, self.unanswerable + other.unanswerable)


def samples() -> list[Sample]:
    """The facts and questions, a sample for each language."""
    return TypeAdapter(list[Sample]).validate_json(DATA.read_bytes())


async def tell_as_notes(memory: AgentMem, tenant: str, facts: Sequence[str]) -> None:
    """Create a memory for each fact."""
    for fact in facts:
        await memory.create_active_memory(tenant, "Note", fact)


async def tell_in_chat(memory: AgentMem, tenant: str, facts: Sequence[str]) -> None:
    """Record each fact as a turn of one chat."""
    await memory.conversation(tenant, "chat").add_turns([Turn(speaker="user", text=fact) for fact in facts])


WAYS: Final = {"notes": tell_as_notes, "chat": tell_in_chat}


async def ask(memory: AgentMem, tenant: str, questions: Mapping[str, str | None]) -> Count:
    """Ask each question; with it comes the fact that answers it, if there is one."""
    first = among_three = found = 0
    for question, fact in questions.items():
        result = await memory.retrieve_memories(tenant, question)
        is_right = [fact is not None and fact in hit.content for hit in result.hits]
        first += any(is_right[:1])
        among_three += any(is_right[:3])
        found += result.found
    return Count(len(questions), first, among_three, found)


async def measure(memory: AgentMem, sample: Sample, way: str) -> Score:
    """Tell the facts of a language in one way, and ask for them."""
    tenant = f"{sample.language}-{way}"
    await WAYS[way](memory, tenant, [fact.fact for fact in sample.facts])
    await memory.admin.wait_until_idle(tenant)
    return Score(
        await ask(memory, tenant, {fact.question: fact.fact for fact in sample.facts}),
        await ask(memory, tenant, {fact.in_english: fact.fact for fact in sample.facts}),
        await ask(memory, tenant, dict.fromkeys(sample.unanswerable)),
    )


async def rank_by_cosine(embedder: UniversalSentenceEmbedder, sample: Sample) -> Score:
    """Order the facts of a language by the cosine of their vectors with each question's."""
    facts = np.array(await embedder.embed([fact.fact for fact in sample.facts]))

    async def count(questions: list[str]) -> Count:
        cosines = np.array(await embedder.embed_queries(questions)) @ facts.T
        ahead = (cosines > np.diag(cosines)[:, None]).sum(axis=1)
        return Count(len(questions), int((ahead < 1).sum()), int((ahead < 3).sum()))

    return Score(
        await count([fact.question for fact in sample.facts]), await count([fact.in_english for fact in sample.facts])
    )


async def measure_all(data_dir: Path) -> dict[str, dict[str, Score]]:
    """Measure every language in every way, and by the cosine alone."""
    tested = samples()
    scores = {}
    async with AgentMem(Config(data_dir=data_dir)) as memory:
        for way in WAYS:
            scores[way] = {sample.name: await measure(memory, sample, way) for sample in tested}
    embedder = UniversalSentenceEmbedder()
    scores[COSINE] = {sample.name: await rank_by_cosine(embedder, sample) for sample in tested}
    return scores


def print_scores(way: str, scores: Mapping[str, Score]) -> None:
    """Print a table: a row for each language, and the sum of those that the encoder knows."""
    known = [scores[sample.name] for sample in samples() if sample.is_known]
    rows = []
    for name, score in [*scores.items(), (f"the first {len(known)}", sum(known, Score()))]:
        row: list[object] = [name]
        for count in (score.same, score.english):
            row += [f"{count.first} of {count.questions}", count.among_three]
            if way != COSINE:
                row.append(count.found)
        if way != COSINE:
            row.append(f"{score.unanswerable.found} of {score.unanswerable.questions}")
        rows.append(row)
    columns = ("right first", "among three") if way == COSINE else ("right first", "among three", "found")
    header = [way, *columns, *(f"{name}, in English" for name in columns)]
    print_table(header if way == COSINE else [*header, "found, without an answer"], rows)


def main() -> None:
    """Measure, and print a table for each way in which the facts are told, and for the cosine."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with scratch_folder("reminiscence-languages-") as folder:
        scores = asyncio.run(measure_all(folder / "data"))
    for way, by_language in scores.items():
        print_scores(way, by_language)
    if options.json is not None:
        write_json(options.json, scores)


if __name__ == "__main__":
    main()
