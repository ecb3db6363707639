"""Which labels at the beginnings of lines are speakers, in texts as people keep them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_reminiscence.text import common
from agent_reminiscence.text.chunking import chunk_text
from agent_reminiscence.text.label_words import GIVEN_NAMES, NOT_SPEAKERS


def _speakers(text: str) -> list[str]:
    """The speakers of a text's chunks, each once, in order."""
    return list(dict.fromkeys(span.speaker for span in chunk_text(text) if span.speaker is not None))


def _chunks(text: str) -> list[str]:
    return [text[span.start : span.end].strip() for span in chunk_text(text)]


_DIALOGUES = {
    "english": ("Anna: Shall we start?\nBen: Yes.\nAnna: Then the roof first.", ["Anna", "Ben"]),
    "casual": ("anna's phone\n\nAnna: see you at 5\nBen: ok", ["Anna", "Ben"]),
    "once each": ("Anna: I take the roof.\nBen: I take the cellar.\nCarla: And me?", ["Anna", "Ben", "Carla"]),
    "preferences": ("Anna: vegetarian\nBen: no nuts\nCarla: everything", ["Anna", "Ben", "Carla"]),
    "roles": ("User: where is the key\nAssistant: under the mat", ["User", "Assistant"]),
    "small roles": ("user: hi\nassistant: hello\ntool: 7", ["user", "assistant", "tool"]),
    "times": ("[10:02] Anna: on my way\n[10:03] Wanjiru: ok", ["Anna", "Wanjiru"]),
    "dated": ("(2025-03-01 10:02) Ben: late\n(2025-03-01 10:05) Xochitl: me too", ["Ben", "Xochitl"]),
    "messenger": ("10:02 PM - Anna: photo\n10:03 PM - Ben: nice", ["Anna", "Ben"]),
    "numbered": ("Speaker 1: so it begins\nSpeaker 2: it does", ["Speaker 1", "Speaker 2"]),
    "transcribed": ("SPEAKER_00: so it begins\nSPEAKER_01: it does", ["SPEAKER_00", "SPEAKER_01"]),
    "strangers": ("Xochitl: on my way\nWanjiru: bring bread\nXochitl: which one", ["Xochitl", "Wanjiru"]),
    "jobs": ("Teacher: Who knows the answer?\nPupil: I do!", ["Teacher", "Pupil"]),
    "jobs again": ("Waiter: The soup is hot.\nGuest: That is fine.\n\nWaiter: Here it comes.", ["Waiter"]),
    "titles": ("Dr. Okonkwo: two weeks\nMrs. Ito: so long", ["Dr. Okonkwo", "Mrs. Ito"]),
    "full names": (
        "Ana Ruiz: fine\nJean-Luc Picard: engage\nJ. Okafor: no",
        ["Ana Ruiz", "Jean-Luc Picard", "J. Okafor"],
    ),
    "bold": ("**Anna**: hello\n**Ben:** hello", ["Anna", "Ben"]),
    "german": ("Jürgen: Kommst du mit?\nSabine: Ja, gern.", ["Jürgen", "Sabine"]),
    "french": ("Élodie: on y va ?\nRémi: d'accord", ["Élodie", "Rémi"]),
    "spanish": ("José: ¿vienes?\nMaría: sí, claro", ["José", "María"]),
    "russian": ("Анна: Ты придёшь?\nИгорь: Да.", ["Анна", "Игорь"]),  # noqa: RUF001
    "turkish": ("Ayşe: geliyor musun?\nEmre: evet", ["Ayşe", "Emre"]),
    "minutes": (
        "# Board, 3 March\n\nThe roof leaks again.\n\nAnna: I will ask the roofer.\n\nNext meeting in May.",
        ["Anna"],
    ),
    "minutes of a stranger": (
        "The roof leaks again.\n\nWanjiru: I will ask the roofer about it.\n\nNext meeting in May.",
        ["Wanjiru"],
    ),
    "among keys": ("Owner: Platform team\nRegion: north\n\nBen: I would move it.", ["Ben"]),
}


@pytest.mark.parametrize(("text", "speakers"), _DIALOGUES.values(), ids=_DIALOGUES)
def test_who_speaks_in_a_text_is_found(text: str, speakers: list[str]) -> None:
    """By name, by coming back, or because the lines speak to each other."""
    assert _speakers(text) == speakers


_LISTS = {
    "service": "Owner: Platform team\nDatabase: orders\nRegion: eu-west-1\nReplicas: 3",
    "service in sentences": "Owner: The platform team runs it.\nDatabase: It is replicated to the north.",
    "one key": "We agreed on the rest.\n\nOwner: Platform team",
    "one key and a sentence": "Database: It runs on port 5432 in the cellar.",
    "configuration": "Host: db.example.org\nPort: 5432\nInclude: base\nInclude: local\nTimeout: 30",
    "medical": "Allergies: penicillin, nuts\nMedication: aspirin, daily.\nBlood Type: 0\nMobility: walks with a stick",
    "medical in sentences": "Allergies: She must not eat nuts.\nMedication: Aspirin every morning.",
    "records": "Owner: Ana\nTeam: North\n\nOwner: Ben\nTeam: South\n\nOwner: Eve\nTeam: West",
    "records of a stranger": "Vlastník: Ana\nOblast: sever\n\nVlastník: Ben\nOblast: jih\n\nVlastník: Eve\nOblast: jih",
    "questions": "Q: Where is the key?\nA: Under the mat.\n\nQ: And the spare one?\nA: With Ben.",
    "german questions": "Frage: Wo ist der Schlüssel?\nAntwort: Unter der Matte.\nFrage: Und der?\nAntwort: Weg.",
    "recipe": "Dough: flour, water, salt\nFilling: apples\nOven: 200 degrees\nServings: 4",
    "log": "[10:02:11] INFO: started\n[10:02:12] WARN: slow disk\n[10:02:13] ERROR: no disk\n[10:02:14] INFO: ended",
    "log of parts": "[10:02] Database: connection lost\n[10:03] Cache: cold",
    "months": "April: 300\nMay: 410\nJune: 520",
    "scores": "Anna: 12\nBen: 9",
    "german": "Besitzer: Anna Huber\nAllergien: Nüsse\nZutaten: Mehl, Wasser\nÖffnungszeiten: 9 bis 17",
    "german in sentences": "Allergien: Sie verträgt keine Nüsse.\nBesitzer: Das Haus gehört Anna Huber.",
    "french": "Propriétaire: Anne\nIngrédients: farine, eau\nAllergies: noix\nAdresse: Lyon",
    "spanish": "Dueño: Ana\nIngredientes: harina, agua\nAlergias: nueces\nDirección: Lima",
    "italian": "Proprietario: Anna\nIngredienti: farina\nAllergie: noci\nIndirizzo: Roma",
    "portuguese": "Proprietário: Ana\nIngredientes: farinha\nAlergias: nozes\nEndereço: Porto",
    "dutch": "Eigenaar: Anna\nIngrediënten: meel\nAllergieën: noten\nAdres: Gent",
    "russian": "Адрес: Москва\nТелефон: 12\nТема: крыша",  # noqa: RUF001
    "garden": "Rose Garden: open daily, not on Mondays",
    "mail": "From: Ana\nTo: Ben\nSubject: the roof\nDate: today",
    "changes": "Added: a roof\nFixed: the cellar\n\nAdded: a door\nFixed: the roof",
}


@pytest.mark.parametrize("text", _LISTS.values(), ids=_LISTS)
def test_what_names_a_thing_is_no_speaker(text: str) -> None:
    """`Owner` owns nothing, says nothing, and must not become a person."""
    assert _speakers(text) == []


def test_a_list_of_keys_stays_with_its_context() -> None:
    """One value says nothing alone: whose allergies, which database?"""
    text = "## Ana Ruiz\nOwner: Ben\nAllergies: penicillin\nBlood Type: 0\n\nShe lives in Porto."

    assert _chunks(text) == ["## Ana Ruiz\nOwner: Ben\nAllergies: penicillin\nBlood Type: 0", "She lives in Porto."]


def test_a_question_stays_with_its_answer() -> None:
    """Whoever asks the question again looks for the answer."""
    assert _chunks("Q: Where is the key?\nA: Under the mat.\n\nQ: And the spare one?\nA: With Ben.") == [
        "Q: Where is the key?\nA: Under the mat.",
        "Q: And the spare one?\nA: With Ben.",
    ]


def test_keys_within_an_utterance_are_part_of_it() -> None:
    """What somebody pastes into a chat is theirs."""
    text = "Anna: here it is\nOwner: Platform team\nDatabase: orders\nBen: thanks"

    assert _chunks(text) == ["Anna: here it is\nOwner: Platform team\nDatabase: orders", "Ben: thanks"]


def test_a_speaker_is_one_on_each_of_their_lines() -> None:
    """What one line proves holds for those that prove nothing."""
    text = "Xochitl: fine\n\nThen we ate.\n\nXochitl: I will bring the bread.\n\nXOCHITL: ok"

    assert [span.speaker for span in chunk_text(text)] == ["Xochitl", None, "Xochitl", "XOCHITL"]


def test_without_the_vocabulary_known_names_still_speak(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which words are uncommon is not known then."""
    monkeypatch.setattr(common, "_word_ranks", dict)

    assert _speakers("Anna: fine\n\nWanjiru: I will ask the roofer about it.") == ["Anna"]


_KEYS = st.sampled_from(sorted(word.capitalize() for word in NOT_SPEAKERS if re.fullmatch(r"[a-z]+", word)))
_NAMES = st.sampled_from(sorted(name.capitalize() for name in GIVEN_NAMES if re.fullmatch(r"[a-z]{3,}", name)))
_VALUES = st.sampled_from(["on my way", "the roof", "Why?", "I do not know.", "Ana", "north, south", "It is late."])
_LINES = st.lists(st.tuples(_NAMES | _KEYS, _VALUES), min_size=1, max_size=8)


@given(lines=_LINES, between=st.sampled_from(["\n", "\n\n"]))
def test_a_key_never_speaks_and_a_name_always_does(lines: list[tuple[str, str]], between: str) -> None:
    """Whatever else is in the text."""
    text = between.join(f"{label}: {value}" for label, value in lines)
    names = [label for label, _ in lines if label.lower() in GIVEN_NAMES and label.lower() not in NOT_SPEAKERS]

    assert _speakers(text) == list(dict.fromkeys(names))


@given(lines=_LINES, labels=st.lists(st.sampled_from(["Server", "Xochitl", "Teacher", "Oblast"]), max_size=5))
def test_each_chunk_of_a_speaker_begins_with_their_label(lines: list[tuple[str, str]], labels: list[str]) -> None:
    """A chunk has the speaker whose words it holds, and no other's."""
    text = "\n".join([*(f"{label}: {value}" for label, value in lines), *(f"{label}: so it is." for label in labels)])

    for span in chunk_text(text):
        if span.speaker is not None:
            assert text[span.start :].startswith(f"{span.speaker}:")
