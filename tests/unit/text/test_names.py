"""Names without a model: what is one, what is not, who is linked in lower case, and what it costs."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_reminiscence.config.constants import ENTITY_TYPES, MAX_ENTITY_NAME_CHARACTERS
from agent_reminiscence.text import common
from agent_reminiscence.text.folding import name_key
from agent_reminiscence.text.name_collecting import (
    BEGINNING_CONFIDENCE,
    INSIDE_CONFIDENCE,
    KNOWN_CONFIDENCE,
    QUOTED_CONFIDENCE,
    SPEAKER_CONFIDENCE,
    SUBJECT_CONFIDENCE,
    TITLE_CONFIDENCE,
)
from agent_reminiscence.text.name_lines import Passage
from agent_reminiscence.text.names import MAX_CANDIDATE_KEYS, ExtractedEntity, candidate_keys, extract_entities


def _extract(*texts: str, **known_types: str) -> list[ExtractedEntity]:
    known = {name_key(name): type_ for name, type_ in known_types.items()}
    return extract_entities([Passage(text, None) for text in texts], known=known)


def _names(*texts: str, **known_types: str) -> list[str]:
    return [entity.name for entity in _extract(*texts, **known_types)]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("I met Ada Lovelace at the Red Boat in Oslo.", ["Ada Lovelace", "Red Boat", "Oslo"]),
        ("Yesterday we heard the Vienna Philharmonic.", ["Vienna Philharmonic"]),
        ("She studied at the University of Oxford.", ["University of Oxford"]),
        ("He likes Ludwig van Beethoven and Björk.", ["Ludwig van Beethoven", "Björk"]),
        ("They flew to the Isle of the Dead.", ["Isle of the Dead"]),
        ("We ate at Ben & Jerry's near AT&T.", ["Ben & Jerry", "AT&T"]),
        ("My favourite is J.K. Rowling, then J. R. R. Tolkien.", ["J.K. Rowling", "J. R. R. Tolkien"]),
        ("We read George R. R. Martin's books.", ["George R. R. Martin"]),
        ("I wear Under Armour.", ["Under Armour"]),
        ("We drove to St. Louis and on to Mt. Hood.", ["St. Louis", "Mt. Hood"]),
        ("It is on Main St. in Oslo, on Main St.", ["Main St", "Oslo"]),
        ("I saw Dr. Okafor and Mrs. Lund there.", ["Dr. Okafor", "Mrs. Lund"]),
        ("He wants the iPhone 12 and a trip to see Apollo 11.", ["iPhone 12", "Apollo 11"]),
        ("It was in New York with Anne-Marie O'Neill.", ["New York", "Anne-Marie O'Neill"]),
        ("He wants an iPhone at Oslo.", ["iPhone", "Oslo"]),
        ("We visited The Hague.", ["The Hague"]),
        ("The LGBTQ centre works with NASA.", ["LGBTQ", "NASA"]),
        ("I asked Will about it.", ["Will"]),
        ("Мы встретили Анну в Одессе.", ["Анну", "Одессе"]),
    ],
)
def test_a_capital_inside_a_sentence_is_a_name(text: str, names: list[str]) -> None:
    """Runs of capitalised words stay whole, with what joins them, and nothing else of the sentence."""
    assert _names(text) == names


@pytest.mark.parametrize(
    "text",
    [
        "Hey! Wow, that is great. Thanks so much. Absolutely!",
        "We met on Monday, in July, and again in Sept.",
        "Opening day is Saturday, June 28, because the paint has to dry.",
        "BTW, my TV shows an RPG, and DIYs are OK. So FYI, that API is fast.",
        "I'm sure I've told him that I will.",
        "However, Mum and Dad agreed.",
        "Dancing helps. Success is nice. Crazy things happened. Haven't seen you. Real-life stories count.",
        "THIS IS IMPORTANT AND NOBODY LISTENS TO ANNA",
        "# How To Bake Good Bread\nFirst Steps For Happy Bakers",
        "See https://Example.org/Foo_Bar, www.Example.org, Ada@Example.org, @Ada, #Pride and C:\\Temp\\Ada.",
        "Call `MyClass` and\n```python\nclass Ada(Base): pass\n```\nthen go.",
        "Use snake_case_Names and A1B2C3D4E5F6 here.",
        "The report is new. I read the Report.",
        "東京でアダと会いました。 我们去了北京。 ذهبنا إلى عمان",
        "🎉🎉 !!! --- ... 1234 12:30 50%",
        "",
        " \n\t\n",
    ],
)
def test_other_words_are_no_names(text: str) -> None:
    """Interjections, dates, common acronyms, shouting, headings, code, addresses, words in lower case elsewhere."""
    assert _names(text) == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Adding NYC was easy.", ["NYC"]),
        ("Hey Tim, how are you?", ["Tim"]),
        ("Ada Lovelace wrote it.", ["Ada Lovelace"]),
        ("The Red Boat was sold.", ["Red Boat"]),
        ("GitHub was down. NASA called.", ["GitHub", "NASA"]),
        ("Luna and Oliver are cats.", ["Luna", "Oliver"]),
        ("Maria works at Acme. Alice's dog barked.", ["Maria", "Acme", "Alice"]),
        ("Lovely place. Zanzibar, that one.", []),
        ("Zanzibar, that one. I like Zanzibar.", ["Zanzibar"]),
        ("Gotcha Tim. I asked Tim.", ["Tim"]),
    ],
)
def test_the_first_word_of_a_sentence_needs_more_than_its_capital(text: str, names: list[str]) -> None:
    """A run, more capitals, a name beside it, a verb after an uncommon word, or the same name inside a sentence."""
    assert _names(text) == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('We watched "Gone with the Wind" twice.', ["Gone with the Wind"]),
        ("He reads “The Name of the Rose.”", ["The Name of the Rose"]),
        ("Our group, 'Hands Together', is new.", ["Hands Together"]),
        ('It is called "Inception".', ["Inception"]),
        ('We saw "Sun, Sea, Sand" and "Oslo" "Rome".', ["Sun Sea Sand", "Oslo", "Rome"]),
        ('She said "Love wins" and "Wow".', []),
        ('She shouted "STOP IT NOW".', []),
        ('She asked "Really?"', []),
    ],
)
def test_a_quotation_that_is_written_like_a_title_is_a_name(text: str, names: list[str]) -> None:
    """As a whole, and nothing inside it by itself."""
    assert _names(text) == names


def test_markdown_does_not_stand_in_the_way() -> None:
    """Emphasis, lists and quotes of mail are read through; a heading proves nothing, but names what is proved."""
    text = "## News From Zanzibar\n- we met **Ada Lovelace** there\n> 1. and *Oslo* was next\n\nI like Zanzibar."

    entities = {entity.name: entity.passages for entity in _extract(*text.split("\n"))}

    assert entities == {"Zanzibar": (0, 4), "Ada Lovelace": (1,), "Oslo": (2,)}


def test_a_speaker_is_a_person_for_certain_and_a_role_is_nobody() -> None:
    """Who speaks a passage is named by it, and by those that mention the name."""
    passages = [
        Passage("Caroline: will you come, melanie?", "Caroline"),
        Passage("**Melanie:** Sure.", "**Melanie**"),
        Passage("Assistant: I can help.", "Assistant"),
        Passage("Ask Caroline.", None),
    ]

    assert extract_entities(passages, known={}) == [
        ExtractedEntity("caroline", "Caroline", "person", SPEAKER_CONFIDENCE, (0, 3), is_guess=False),
        ExtractedEntity("melanie", "Melanie", "person", SPEAKER_CONFIDENCE, (0, 1), is_guess=False),
    ]


def test_a_name_that_is_too_long_is_left_out() -> None:
    """A speaker's, a word, and a run of words; what else stands there is found."""
    long = "A" + "b" * MAX_ENTITY_NAME_CHARACTERS
    passages = [Passage(f"I met {long} and Ada.", long), Passage(f"Ask {' '.join(['Ab'] * 200)} or Ada.", "Ann\0e")]

    entities = extract_entities(passages, known={})

    assert [(entity.name, entity.passages) for entity in entities] == [("Ada", (0, 1)), ("Anne", (1,))]


def test_context_counts_over_the_whole_memory() -> None:
    """A name that one passage proves is found in another at a sentence's beginning, in capitals or in a heading."""
    entities = _extract(
        "Zanzibar? Never.", "I was in Zanzibar.", "WE GO TO ZANZIBAR NOW", "# Zanzibar", "Nothing here."
    )

    assert entities == [
        ExtractedEntity("zanzibar", "Zanzibar", "other", INSIDE_CONFIDENCE, (0, 1, 2, 3), is_guess=True)
    ]


def test_names_of_one_key_are_one_entity_as_it_is_spelled_most_often() -> None:
    """Case, marks, titles and possessives tell nobody apart."""
    entities = _extract("I know José García.", "We saw Jose Garcia's car.", "Ask José García.", "so jose garcia came")

    assert [(entity.name, entity.passages) for entity in entities] == [("José García", (0, 1, 2, 3))]


def test_decomposed_letters_are_the_same_name() -> None:
    """A name with combining marks is not cut at them."""
    assert _names(unicodedata.normalize("NFD", "We met José García there.")) == ["José García"]


def test_a_known_name_is_linked_in_lower_case() -> None:
    """An uncommon word anywhere, and several words; said of it is what this text says, and nothing else."""
    known = {"melanie": "person", "postgres": "product", "red boat": "product"}
    text = "I saw melanie with the postgres box on the red  boat."

    entities = extract_entities([Passage(text, None)], known=known)

    assert entities == [
        ExtractedEntity("melanie", "melanie", "other", KNOWN_CONFIDENCE, (0,), is_guess=True),
        ExtractedEntity("postgres", "postgres", "other", KNOWN_CONFIDENCE, (0,), is_guess=True),
        ExtractedEntity("red boat", "red boat", "other", KNOWN_CONFIDENCE, (0,), is_guess=True),
    ]


def test_what_a_text_knows_by_itself_is_not_what_is_known_elsewhere() -> None:
    """A speaker is a person, though a place of that name is known; and is spelled as here."""
    (entity,) = extract_entities([Passage("hello there", "veronica lake")], known={"veronica lake": "place"})

    assert (entity.name, entity.type) == ("veronica lake", "person")


def test_a_person_whose_name_is_a_common_word_is_not_found_in_it() -> None:
    """Who is called Mr. Brown is not in every brown coat, and MS Office is no person called Office."""
    assert _names("He bought a brown coat near the office in Lisbon.", brown="person", office="person") == ["Lisbon"]
    (office,) = _extract("We use MS Office every day.")
    assert (office.key, office.type) == ("ms office", "other")


@pytest.mark.parametrize("name", ["Will", "May", "Mark", "Hope", "Rose", "Grace", "Art", "Bill", "April", "Jack"])
def test_a_name_that_is_an_ordinary_word_is_not_linked_in_lower_case(name: str) -> None:
    """`will you come?` names nobody; with its capital, or as part of a longer name, it does."""
    known = {name: "person"}

    assert _names(f"we {name.lower()} see it, i {name.lower()} too", **known) == []
    assert _names(f"{name} you say? {name} it then.", **known) == []
    assert _names(f"I told {name} so.", **known) == [name]


def test_a_common_word_that_names_a_thing_is_linked_only_where_nothing_has_a_capital() -> None:
    """`Work` may be the name of a song; in `we work` it is not."""
    assert _names("We work here.", Work="other") == []
    assert _names("i like work", Work="other") == ["work"]
    assert _names("i like the work", Work="other") == []


def test_the_longest_name_at_a_place_counts() -> None:
    """`Boston Marathon` does not name Boston."""
    entities = _extract("We ran the Boston Marathon.", "We like Boston.", Boston="place")

    assert [(entity.name, entity.passages) for entity in entities] == [("Boston Marathon", (0,)), ("Boston", (1,))]


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("I saw Dr. Okafor.", "person"),
        ("I saw Aunt Polly.", "person"),
        ("I read J.K. Rowling.", "person"),
        ("I met my friend Sarah.", "person"),
        ("A report! I met my friend Report.", "person"),
        ("I read the Lord of the Isles.", "other"),
        ("I joined Northwind Ltd.", "organization"),
        ("I joined the Bank of Kenya.", "organization"),
        ("I joined Stanford University.", "organization"),
        ("I saw the Danube River.", "place"),
        ("I saw Lake Tahoe.", "place"),
        ("I liked the Edinburgh Festival.", "event"),
        ("I liked the Battle of Hastings.", "event"),
        ("I liked Oslo.", "place"),
        ("I liked Brelow.", "other"),
    ],
)
def test_a_type_is_guessed_from_single_words(text: str, type_: str) -> None:
    """From closed lists; what no list names is `other`."""
    (entity,) = _extract(text)

    assert entity.type == type_
    assert entity.type in ENTITY_TYPES


def test_confidence_says_where_a_name_was_found() -> None:
    """One value for each kind of place; the best counts."""
    entities = _extract(
        'I met Ada and Dr. Okafor. We saw "Inception". Grace Hopper wrote. Maria works.', "Maria Lund came. Ask Ada."
    )

    assert {entity.name: entity.confidence for entity in entities} == {
        "Ada": INSIDE_CONFIDENCE,
        "Dr. Okafor": TITLE_CONFIDENCE,
        "Inception": QUOTED_CONFIDENCE,
        "Grace Hopper": BEGINNING_CONFIDENCE,
        "Maria": SUBJECT_CONFIDENCE,
        "Maria Lund": BEGINNING_CONFIDENCE,
    }


def test_without_the_vocabulary_less_is_found_and_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which words are common is not known then, so that all are."""
    monkeypatch.setattr(common, "_word_ranks", dict)

    assert _names("Brelow works with Ada. Tim works, too.") == ["Ada", "Tim"]


def test_candidate_keys_are_the_keys_of_all_short_runs() -> None:
    """What is known by any of them can be looked up, whatever its case."""
    keys = candidate_keys("Does melanie's friend own the Red  Boat, or Dr. Smith?\nBoat yard")

    assert {"melanie", "red boat", "smith", "boat yard"} <= set(keys)
    assert "boat or" not in keys, "a comma stands between"
    assert "smith boat" not in keys, "a line ends between"
    assert "the red boat" not in keys, "begins with a function word"
    assert len(keys) == len(set(keys))


def test_candidate_keys_are_bounded_and_words_come_first() -> None:
    """However long a text is; single words have their places before any run."""
    words = [f"w{number}x" for number in range(15_000)]

    keys = candidate_keys(" ".join(words))

    assert len(keys) == MAX_CANDIDATE_KEYS
    assert keys[: len(words)] == words


_TEXT = st.text(alphabet=st.one_of(st.sampled_from("AB ab.&'’-\"“”`#@:_\n\t\0Éé1"), st.characters()), max_size=200)


@given(texts=st.lists(_TEXT, max_size=4), speaker=st.one_of(st.none(), _TEXT), key=_TEXT)
def test_names_are_clean_and_passages_exist_in_any_text(texts: list[str], speaker: str | None, key: str) -> None:
    """No control character, nothing too long, one entity a key, passages ascending."""
    known = {name_key(key): "person"} if name_key(key) else {}
    passages = [Passage(text, speaker) for text in texts]

    entities = extract_entities(passages, known={})

    for entity in entities:
        assert 0 < len(entity.name) <= MAX_ENTITY_NAME_CHARACTERS
        assert name_key(entity.name)
        assert not any(unicodedata.category(character) == "Cc" for character in entity.name)
        assert list(entity.passages) == sorted(set(entity.passages))
        assert set(entity.passages) <= set(range(len(passages)))
        assert 0 < entity.confidence <= 1
    assert len({name_key(entity.name) for entity in entities}) == len(entities)
    extract_entities(passages, known=known)
    assert all(candidate_keys(text) == candidate_keys(text) for text in texts)


@pytest.mark.parametrize(
    "piece",
    [
        "A", "a", "A ", "Aa ", "A.", "A. ", "a.", "A-", "A&", "& ", '"', '"A', "'A ", "“", "`", "```\n", "#", "@", "_",
        "1", "\n", " ", "of ", "Aa of ", "Aa of the ", "Mr. ", "é", "東", "- ", "> ", "\0", "Aa's ", "THE ",
    ],
)  # fmt: skip
def test_repetitions_come_to_an_end(piece: str) -> None:
    """Fifty thousand characters of one kind; what took quadratic time would take most of a minute."""
    text = (piece * 50_000)[:50_000]

    entities = extract_entities([Passage(text, None)], known={"aa": "person"})

    assert all(len(entity.name) <= MAX_ENTITY_NAME_CHARACTERS for entity in entities)
    assert len(candidate_keys(text)) <= MAX_CANDIDATE_KEYS


@pytest.mark.thorough
def test_names_are_found_in_a_million_characters() -> None:
    """As long as a memory may be."""
    line = "Yesterday Ada Lovelace and I drove from Oslo to the Red Boat, where melanie sold “The Long Way” to us. "
    text = (line * (1_000_000 // len(line) + 1))[:1_000_000]
    passages = [Passage(text[start : start + 500], "Ada") for start in range(0, len(text), 500)]

    entities = extract_entities(passages, known={"melanie": "person"})
    keys = candidate_keys(text)

    assert {"Ada Lovelace", "Oslo", "Red Boat", "melanie", "The Long Way"} <= {entity.name for entity in entities}
    assert "red boat" in keys
