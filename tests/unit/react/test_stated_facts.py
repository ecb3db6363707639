"""Which sentences of a message state something lasting."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_reminiscence.react.stated_facts import MAX_FACT_CHARACTERS, MAX_FACTS, stated_facts

_GENEROUS_SECONDS = 20


@pytest.mark.parametrize(
    "sentence",
    [
        "I prefer window seats.",
        "My sister Mara lives in Graz.",
        "We moved to Bern in May.",
        "Ich trinke keinen Kaffee.",
        "I'm vegan.",
        "i live in a small village near linz",
        "I am allergic to cats.",
        "My name is Robin.",
        "I'm Ana.",
        "Call me Bob.",
        "I have two daughters.",
        "We have a dog called Bello.",
        "I work as a nurse in Leeds.",
        "I don't eat pork.",
        "I've been a teacher for twelve years.",
        "I was born in Naples.",
        "I used to play the oboe.",
        "I want to become a pilot.",
        "We're getting married in June.",
        "I quit my job today.",
        "Our office closes at six.",
        "My husband can't stand opera.",
        "Green is my favourite colour.",
        "Tom is my brother.",
        "Mara works at the post office.",
        "Ben has two kids.",
        'My favourite book is "The Left Hand of Darkness".',
        "I use `uv` for all my Python projects.",
        "Please note that I am left-handed.",
        "Remember that I don't eat fish.",
        "Book a table for four, my wife is vegetarian.",
        "I am learning Portuguese.",
        "I think I prefer trains to planes.",
        "There is a bakery next to my house.",
        "As a vegetarian I avoid gelatine.",
        "I always get up at five.",
        "I hate olives.",
        "My grandfather died in 2012.",
        "Our daughter Lea starts school in September.",
        "My laptop is a ThinkPad.",
        "We own a sailing boat on Lake Constance.",
        "I never drink alcohol.",
        "I'm 34 years old.",
        "I'm from Peru.",
        "Thanks for asking, I live in Oslo now.",
        "When I work from home I drink green tea.",
        "Ich wohne seit 2019 in Bern.",
        "Meine Schwester Mara wohnt in Graz.",
        "Wir sind im Mai nach Bern gezogen.",
        "Am liebsten trinke ich grünen Tee.",
        "Ich bin Vegetarier.",
        "Ich bin 34 Jahre alt.",
        "Ich habe zwei Kinder.",
        "Ich mag keine Oliven.",
        "Mein Hund heißt Bello.",
        "Unser Büro schließt um sechs.",
        "Ich heiße Robin.",
        "Ich komme aus Leipzig.",
        "Ich lerne Spanisch.",
        "Ich möchte Lehrerin werden.",
        "Merk dir, dass ich kein Fleisch esse.",
        "Ich habe in Wien studiert.",
        "Mein Vater war Bäcker.",
        "Jonas arbeitet als Koch in Basel.",
        "Ich habe am 3. Mai Geburtstag.",
        "Seit dem Sommer lebe ich allein.",
        "Ich gehe jeden Montag schwimmen.",
        "Ich kann nicht schwimmen.",
        "Wir haben einen Garten hinter dem Haus.",
        "Ich bin in Kiel geboren.",
        "I run a small bakery in Porto.",
        "My boss is called Henrik.",
        "We've got three cats and a parrot.",
        "I grew up on a farm near Aarhus.",
        "Our son Leo plays the cello.",
        "I can't eat gluten.",
        "My car is an old Volvo.",
        "I've known Petra since primary school.",
        "My wife teaches maths at a secondary school.",
        "I moved here from Chile two years ago.",
        "Karin is allergic to shellfish.",
        "Our flat is on the fourth floor.",
        "Wir wohnen im vierten Stock.",
        "Meine Frau unterrichtet Mathematik.",
        "Ich bin auf einem Bauernhof aufgewachsen.",
        "Ich esse seit zehn Jahren kein Fleisch mehr.",
        "Mein Auto ist ein alter Volvo.",
        "Im Winter fahre ich gern Ski.",
        "Ich arbeite nur vormittags.",
    ],
)
def test_what_lasts_is_found_word_for_word(sentence: str) -> None:
    """About the writer, the writer's people and things, and people with names; in English and German."""
    assert stated_facts(sentence) == [sentence]


@pytest.mark.parametrize(
    "sentence",
    [
        "Where does my sister live?",
        "Can you book me a flight to Oslo?",
        "could you tell me what I should cook",
        "Hello!",
        "Thanks a lot, that helps.",
        "How are you today?",
        "If I were a bird, I would fly to Rome.",
        "I wish I lived by the sea.",
        "I'm tired.",
        "I'm looking for a hotel in Rome.",
        "I have a question about my order.",
        "I need help with this.",
        "I love it!",
        "I like your answer.",
        "I love that idea.",
        "I prefer the second one.",
        "My code is not working.",
        "My train is late.",
        "My order has not arrived.",
        "My question is simple.",
        "Book me a flight to Oslo.",
        "Remind me to call my mother.",
        "Write a poem about my sister.",
        "Please send the report to Ana.",
        "She lives in Graz.",
        "It works for me.",
        "Tell me if I like jazz.",
        'Ben wrote: "I hate cilantro and live in Rome."',
        '"I live in Rome," it said.',
        "He says I eat too much.",
        "I have to leave now.",
        "I'm having lunch right now.",
        "I'm eating a sandwich.",
        "I got an error when I ran the script.",
        "I am trying to install the package.",
        "I'll be back in a minute.",
        "Nice weather today.",
        "Good morning!",
        "What is the capital of France?",
        "The capital of France is Paris.",
        "Imagine I am a pirate.",
        "Suppose we live on Mars.",
        "Let's start.",
        "I see.",
        "I don't know.",
        "I think so.",
        "I went to the shop.",
        "Wo wohnt meine Schwester?",
        "Kannst du mir einen Flug buchen?",
        "Ich habe eine Frage.",
        "Ich bin müde.",
        "Guten Morgen!",
        "Danke, das hilft mir sehr.",
        "Wenn ich ein Vogel wäre, würde ich fliegen.",
        "Ich hätte gern einen Kaffee.",
        "Mein Code funktioniert nicht.",
        "Mein Zug hat Verspätung.",
        "Ich suche ein Hotel in Rom.",
        "Ich mag das.",
        "Ich liebe es!",
        "Sie wohnt in Graz.",
        "Schreib mir ein Gedicht.",
        "Erinnere mich an den Termin.",
        "Ich habe das Skript gestartet.",
        "Wie geht es dir?",
        "Er sagt, ich esse zu viel.",
        "Ich glaube, das stimmt.",
        "Bitte übersetze den Text.",
        "Heute esse ich Pizza.",
        "Trinke ich zu viel Kaffee?",
        "Ich weiß nicht.",
        "Mir ist kalt.",
        "I can't open the file.",
        "I just restarted the server.",
        "My screen went black.",
        "I was wondering about the weather.",
        "I am happy to help.",
        "We should meet soon.",
        "I got your message.",
        "I have been waiting for an hour.",
        "I like where this is going.",
        "My last message was wrong.",
        "That makes sense to me.",
        "I want a refund.",
        "I'd like two tickets to Lyon.",
        "Show me the way to the station.",
        "You are right.",
        "Ich kann die Datei nicht öffnen.",
        "Ich habe deine Nachricht bekommen.",
        "Das klingt gut.",
        "Ich möchte zwei Karten nach Lyon.",
        "Ich warte seit einer Stunde.",
        "Mein Bildschirm ist schwarz.",
        "Zeig mir den Weg zum Bahnhof.",
    ],
)
def test_what_does_not_last_or_is_not_stated_is_left_out(sentence: str) -> None:
    """Questions, requests, small talk, hypotheses, reports, what is only so today, and "she" without a name."""
    assert stated_facts(sentence) == []


def test_facts_are_found_among_other_sentences_in_order() -> None:
    """A message is seldom nothing but facts."""
    text = (
        "Hi there! How are you? We moved to Bern in May, and it rains. Could you find me a dentist?\n"
        "- I prefer mornings.\n2. My son Emil plays the tuba.\n\nThanks a lot! I prefer mornings."
    )

    assert stated_facts(text) == [
        "We moved to Bern in May, and it rains.",
        "I prefer mornings.",
        "My son Emil plays the tuba.",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "> I live in Rome.\n> I have a cat.",
        "```\nI live in Rome.\n```",
        "~~~text\nI live in Rome.\nI have a cat.",
        "He wrote: “I live in Rome. I have a cat.”",
        "Auf dem Schild steht „Ich wohne in Rom. Ich habe eine Katze.“",
        "Say `I live in Rome`.",
        "import os\nx = 5\nI_live = in_rome()",
        "Translate into German: I live in Rome. I have a cat.",
        "Please correct this text:\n\nI live in Rome. I have a cat.",
        "Kannst du das übersetzen und verbessern? Übersetze: Ich wohne in Rom.",
    ],
)
def test_what_is_quoted_code_or_to_be_worked_on_is_not_the_writers(text: str) -> None:
    """However it is set off."""
    assert stated_facts(text) == []


def test_what_follows_a_quotation_or_code_is_the_writers_again() -> None:
    """Nothing else is hidden."""
    text = '> Where do you live?\nI live in Rome.\n```\nI have a cat.\n```\nMy “second” home is "Oslo". I\'m vegan.'

    assert stated_facts(text) == ["I live in Rome.", 'My “second” home is "Oslo".', "I'm vegan."]


def test_there_are_at_most_twenty_facts_and_none_is_cut() -> None:
    """The first ones; one that is too long is left out."""
    sentences = [f"I own {number} red boats." for number in range(2, 40)]
    long = f"I live in Rome and own {'very ' * 120}old books."

    assert stated_facts(" ".join(sentences)) == sentences[:MAX_FACTS]
    assert stated_facts(f"{long} {sentences[0]}") == sentences[:1]


@given(st.text(max_size=400))
def test_any_text_has_facts(text: str) -> None:
    """None raises, and every fact is a part of it."""
    facts = stated_facts(text)

    assert all(fact in text for fact in facts)
    assert facts == stated_facts(text)


@settings(max_examples=200)
@given(
    st.lists(
        st.sampled_from(
            [
                "I",
                "live",
                "in",
                "Rome.",
                "My sister",
                "Mara",
                "is",
                "a",
                "nurse",
                "\n",
                ". ",
                "```",
                "`",
                '"',
                "“",
                "”",
                "'",
                "> ",
                "- ",
                "if",
                "I'm",
                "vegan",
                "!",
                "?",
                "ich",
                "wohne",
                "Ich",
                "mag",
                "kein",
                "Obst",
                ", ",
                "Please",
                "note that",
                "call me",
                "Bob",
            ]
        ),
        max_size=40,
    )
)
def test_facts_are_verbatim_in_order_and_within_their_limits(pieces: list[str]) -> None:
    """Whatever stands around them."""
    text = " ".join(pieces)
    end = 0

    for fact in stated_facts(text):
        assert 0 < len(fact) <= MAX_FACT_CHARACTERS
        assert fact == fact.strip()
        end = text.index(fact, end) + len(fact)


@pytest.mark.parametrize(
    "text",
    [
        "a. " * 30000,
        "I have " * 10000,
        "my " * 30000,
        "I am very " * 8000,
        '"' * 50000,
        "`" * 50000,
        "```\n" * 10000,
        "." * 50000,
        "I live in Rome, " * 5000,
        "\n" * 50000,
        "'a" * 25000,
        "“" * 30000,
        "x = " * 20000,
        "ich habe " * 9000,
    ],
    ids=lambda text: text[:10],
)
def test_a_long_text_takes_bounded_time(text: str) -> None:
    """Even one made of what the rules begin with."""
    start = time.process_time()

    stated_facts(text)

    assert time.process_time() - start < _GENEROUS_SECONDS
