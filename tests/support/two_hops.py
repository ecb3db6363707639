"""Questions over two hops, and a tenant full of sentences that could be the answer but are not."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent_reminiscence import AgentMem
from tests.support.steps import lines

_GIVEN_NAMES = """
Mara Ivo Tilda Bruno Selma Anton Greta Rufus Ilse Casper Nora Edgar Petra Milo Frida Hugo Wanda Otto Lena Felix
Agnes Boris Carla Dario Elin Fabian Gisela Henrik Irena Jonas Katrin Lorenz Marit Nils Odile Pavel Quentin Renate
Silvan Theresa Ulrich Vera Walter Xenia Yorick Zelda Alma Bernd Clara Dietmar Esther Florian Gudrun Holger Ingrid
Jurek Kirsten Ludwig Mirjam Norbert
"""
_FAMILY_NAMES = """
Lindt Abel Torvik Castell Brandao Vesely Okafor Rinaldi Sorensen Baptiste Kovacs Delgado Fairweather Grunewald Hakala
Ibarra Jankowski Kessler Lachance Mortensen Novotny Oyelaran Pasquale Quarles Rasmussen Szabo Thackeray Umarov Valenti
Wexford Yamada Zielinski Achterberg Bellweather Cordova Dragomir Eszterhazy Fontaine Gallagher Hollander Iversen
Jablonski Kirchner Lombardi Mukherjee Nightingale Oduya Petrakis Quintero Rutherford Stavros Tremblay Uhlenbeck
Vandermeer Winterbourne Yilmaz Zapata Ashdown Blomqvist Carrigan
"""


def _pairs(first: str, second: str, between: str = " ") -> list[str]:
    return [f"{one}{between}{other}" for one in first.split() for other in second.split()]


@dataclass(frozen=True, slots=True)
class _Possession:
    """What everybody has one of, each their own: how a question says it, and how sentences do."""

    question: str
    objects: Sequence[str]
    wordings: Sequence[str]


_POSSESSIONS = (
    _Possession(
        "owns the {}",
        _pairs(
            "Red Blue Green White Black Yellow Grey Brown Purple Orange",
            "Boat Barn Kiosk Windmill Bakery Tandem Cottage Piano Ferry Orchard Telescope Caravan",
        ),
        ("{person} owns the {thing}.", "The {thing} belongs to {person}."),
    ),
    _Possession(
        "lives in {}",
        _pairs("Orle Vasta Kelm Tarnow Brima Holst Sundre Wicka Fenno Drava", "by stad ford mouth ham dale", ""),
        ("{person} lives in {thing}.", "{person} has a house in {thing}."),
    ),
    _Possession(
        "plays for the {}",
        _pairs(
            "Harbour Valley Northern River Castle Meadow Island Bridge Market Tower",
            "Wolves Herons Otters Badgers Falcons Lynxes",
        ),
        ("{person} plays for the {thing}.", "The {thing} have signed {person} for the season."),
    ),
    _Possession(
        "drives the {}",
        _pairs(
            "Silver Golden Crimson Velvet Thunder Midnight Copper Crystal Savage Gentle",
            "Comet Arrow Panther Swallow Meteor Mustard",
        ),
        ("{person} drives the {thing}.", "At the rally {person} drove the {thing}."),
    ),
)
# Everybody does each of these with one other person.
_COMPANIES = ("works with", "sings with", "shares a flat with", "went to school with")
_MEMORY_SENTENCES = 8


@dataclass(frozen=True, slots=True)
class TwoHopQuestion:
    """A question, the sentence that says whom it is about, and the one that answers it; they share that person only."""

    text: str
    bridge: str
    answer: str


@dataclass(frozen=True, slots=True)
class TwoHopWorld:
    """Sentences by the memory they stand in, in any order, and questions about them."""

    memories: Sequence[Sequence[str]]
    questions: Sequence[TwoHopQuestion]


def make_world(seed: int, *, questions: int = 20) -> TwoHopWorld:
    """Sixty people with four possessions each, who keep company with four others each: 360 sentences.

    Sentences are shuffled into memories of eight. Of a question, both hops stand in different memories.
    """
    dice = random.Random(seed)
    families = _shuffled(dice, _FAMILY_NAMES.split())
    people = [f"{given} {family}" for given, family in zip(_GIVEN_NAMES.split(), families, strict=True)]
    possessions: dict[tuple[str, str], tuple[str, str]] = {}
    for possession in _POSSESSIONS:
        for person, thing in zip(people, dice.sample(possession.objects, len(people)), strict=True):
            sentence = dice.choice(possession.wordings).format(person=person, thing=thing)
            possessions[possession.question, person] = (thing, sentence)
    companies: dict[tuple[str, str], str] = {}
    for company in _COMPANIES:
        order = _shuffled(dice, people)
        for one, other in zip(order[::2], order[1::2], strict=True):
            companies[company, one] = companies[company, other] = f"{one} {company} {other}."
    sentences = _shuffled(dice, [sentence for _, sentence in possessions.values()] + sorted({*companies.values()}))
    memories = [sentences[start : start + _MEMORY_SENTENCES] for start in range(0, len(sentences), _MEMORY_SENTENCES)]
    memory_of = {sentence: number for number, memory in enumerate(memories) for sentence in memory}
    return TwoHopWorld(memories, _ask(_shuffled(dice, people), possessions, companies, memory_of)[:questions])


def _ask(
    people: Sequence[str],
    possessions: Mapping[tuple[str, str], tuple[str, str]],
    companies: Mapping[tuple[str, str], str],
    memory_of: Mapping[str, int],
) -> list[TwoHopQuestion]:
    """One question about each person, of each kind in turn."""
    kinds = [(possession.question, company) for possession in _POSSESSIONS for company in _COMPANIES]
    asked: list[TwoHopQuestion] = []
    for person in people:
        possession, company = kinds[len(asked) % len(kinds)]
        thing, bridge = possessions[possession, person]
        answer = companies[company, person]
        if memory_of[bridge] != memory_of[answer]:
            text = f"Who {company} the person who {possession.format(thing)}?"
            asked.append(TwoHopQuestion(text, bridge, answer))
    return asked


def _shuffled(dice: random.Random, items: Sequence[str]) -> list[str]:
    return dice.sample(items, len(items))


async def remember(memory: AgentMem, external_id: str, world: TwoHopWorld) -> None:
    """Write the world's memories, each sentence a paragraph of its own, and consolidate them."""
    for number, sentences in enumerate(world.memories, start=1):
        note = await memory.create_active_memory(external_id, f"Notes {number}", lines(sentences))
        await memory.admin.consolidate(external_id, note.id)


async def count_answered(memory: AgentMem, external_id: str, world: TwoHopWorld) -> int:
    """How many of the questions have a hit with their answer among the first five."""
    answered = 0
    for question in world.questions:
        found = await memory.retrieve_memories(external_id, question.text, limit=5)
        answered += any(question.answer in hit.content for hit in found.hits)
    return answered
