"""What a question asks about, told from the words that only ask."""
# ruff: noqa: RUF001  # letters of many scripts

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_reminiscence.text.asking import SELF, Asking, only_asks, read_asking


@pytest.mark.parametrize(
    ("question", "topic"),
    [
        ("Remind me what we discussed about the greenhouse", "the greenhouse"),
        ("Please list the order in which I brought up the repairs.", "the repairs"),
        ("In which order did we mention the islands?", "the islands"),
        ("Hey, can you tell me about the tandem?", "the tandem"),
        ("Do you still remember where I hid the spare fuse?", "where I hid the spare fuse"),
        ("What did I say about the choir?", "the choir"),
        ("What have I told you so far about my knee?", "my knee"),
        ("What else did I tell you about my knee?", "my knee"),
        ("Have I ever mentioned a lighthouse?", "a lighthouse"),
        ("I'd like to know what you remember about the old mill.", "the old mill"),
        ("What’s the name of the vet, do you remember?", "What’s the name of the vet"),
        ("Can you remind me of the vet's number, please?", "the vet's number"),
        ("Erinnere mich bitte daran, was wir über den Kahn besprochen haben.", "den Kahn"),
        ("Was habe ich dir schon über die Imkerei erzählt?", "die Imkerei"),
        ("In welcher Reihenfolge haben wir die Inseln erwähnt?", "die Inseln"),
        ("Kannst du mir sagen, wo der Schlüssel ist?", "wo der Schlüssel ist"),
        ("Rappelle-moi ce que j'ai dit sur la serre", "la serre"),
        ("Dans quel ordre ai-je parlé des îles ?", "îles"),
        ("Te souviens-tu de la recette ?", "la recette"),
        ("¿Qué te he contado sobre el huerto?", "el huerto"),
        ("¿En qué orden mencioné las islas?", "las islas"),
        ("Recuérdame dónde está la llave", "dónde está la llave"),
        ("O que eu te contei sobre a horta?", "horta"),
        ("Você se lembra da receita?", "receita"),
        ("Che cosa ti ho detto dell'orto?", "orto"),
        ("In che ordine ho menzionato le isole?", "le isole"),
        ("Wat heb ik je over de moestuin verteld?", "de moestuin"),
        ("Weet je nog waar de sleutel ligt?", "waar de sleutel ligt"),
        ("Что я тебе говорила про огород?", "огород"),
        ("Напомни мне, где лежит ключ", "где лежит ключ"),
        ("我之前跟你说过关于菜园的什么？", "菜园"),
        ("请告诉我钥匙在哪里", "钥匙在哪里"),
        ("菜園について私が何と言いましたか？", "菜園"),
        ("鍵の場所を教えてください", None),
        ("鍵の場所について教えてください", "鍵の場所"),
        ("ماذا قلت لك عن الحديقة؟", "الحديقة"),
        ("هل تتذكر أين المفتاح؟", "أين المفتاح"),
    ],
)
def test_words_of_asking_are_no_topic(question: str, topic: str | None) -> None:
    """Whole phrases, at the place where they ask; None is a question that stays as it is."""
    assert read_asking(question).topic == (question if topic is None else topic)


@pytest.mark.parametrize(
    "question",
    [
        "Where is the list of ingredients?",
        "List the ingredients of the soup",
        "When does my order arrive?",
        "Did Ann tell the truth about the boat?",
        "What did Ann say about the boat?",
        "I forgot my keys at the gym yesterday",
        "Who remembers the order of the planets?",
        "We discussed the boat. Was it green?",
        "Wo ist meine Liste?",
        "Où est la liste des invités ?",
        "¿Dónde está la lista de la compra?",
        "Где мой список?",
        "我的清单在哪里？",
        "猫はどこ？",
        "أين القائمة؟",
        "",
    ],
)
def test_the_same_words_elsewhere_are_words(question: str) -> None:
    """A list, an order, what somebody else said: these may be what is asked about."""
    assert read_asking(question) == Asking(question, question, None)


@pytest.mark.parametrize(
    ("question", "about"),
    [
        ("What do you know about me?", SELF),
        ("What have I told you about myself?", SELF),
        ("Who am I?", SELF),
        ("Tell me about Alice", "Alice"),
        ("tell me about alice", "alice"),
        ("Who is Bruno?", "Bruno"),
        ("Can you tell me who Bruno is?", "Bruno"),
        ("What do you remember about Old Henry?", "Old Henry"),
        ("Who is Alice's brother?", None),
        ("Tell me about the sauna", None),
        ("Tell me about Alice and her boat", None),
        ("Who is Bruno? He called.", None),
        ("What did Bruno say about me?", None),
        ("Was weißt du über mich?", SELF),
        ("Erzähl mir von Alma", "Alma"),
        ("Que sais-tu de moi ?", SELF),
        ("Qui est Bruno ?", "Bruno"),
        ("¿Qué sabes de mí?", SELF),
        ("Háblame de Alicia", "Alicia"),
        ("O que você sabe sobre mim?", SELF),
        ("Me fale sobre a Alice", "Alice"),
        ("Cosa sai di me?", SELF),
        ("Chi è Bruno?", "Bruno"),
        ("Wat weet je over mij?", SELF),
        ("Wie is Bruno?", "Bruno"),
        ("Что ты знаешь обо мне?", SELF),
        ("Кто такой Бруно?", "Бруно"),
        ("你对我了解多少？", SELF),
        ("你知道关于我的什么？", SELF),
        ("小明是谁？", "小明"),
        ("私について何を知っていますか？", SELF),
        ("アリスについて教えてください", "アリス"),
        ("ماذا تعرف عني؟", SELF),
        ("من هو برونو؟", "برونو"),
    ],
)
def test_a_question_may_be_about_a_person_as_a_whole(question: str, about: str | None) -> None:
    """And about nothing else: somebody's brother, or what somebody said, is a topic."""
    assert read_asking(question).about == about


@pytest.mark.parametrize(
    ("question", "of_speaker"),
    [
        ("Tell me about the tandem", "the tandem"),
        ("Remind me what I said about the choir", "what I said about the choir"),
        ("Can you tell me where my bag is?", "where my bag is"),
        ("Where is my bag?", "Where is my bag?"),
    ],
)
def test_who_asks_to_be_told_is_not_thereby_the_topic(question: str, of_speaker: str) -> None:
    """Only "my" and "I" in what is asked mean that the one who asks has said it."""
    assert read_asking(question).of_speaker == of_speaker


@given(st.text(st.one_of(st.characters(), st.sampled_from("whatdoyuknme remindtl about,.?!'’\n")), max_size=120))
def test_any_question_has_a_topic(question: str) -> None:
    """Which is a part of it: nothing is made up, and never is all of it left out."""
    topic = read_asking(question).topic

    assert Counter("".join(topic.split())) <= Counter("".join(question.split()))
    assert bool(topic.strip()) == bool(question.strip())


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Where is the key?", "en"),
        ("Great, thanks! Where is the key?", "en"),
        ("Remind me where the key is.", "en"),
        ("Where is it? Tell me about the key.", "en"),
        ("Wo ist der Schlüssel?", "de"),
        ("钥匙在哪里？", "zh"),
    ],
)
def test_a_text_that_only_asks_states_nothing(text: str, language: str) -> None:
    """Greetings and thanks do not make a statement of it."""
    assert only_asks(text, language)


@pytest.mark.parametrize(
    "text",
    [
        "Remind me to call Bob about the boat on Friday.",
        "Please remind me that the rent is due on the 3rd.",
        "I want to know if Ana comes.",
        "Did you know that I moved to Bruges?",
        "I'm vegan. What can I eat?",
        "The key is gone.",
        "Call me Ann.",
        "Thanks!",
        "",
        "I was told to ask. Why?",
    ],
)
def test_a_statement_beside_a_question_is_one(text: str) -> None:
    """However short."""
    assert not only_asks(text, "en")
