"""Which languages there are, and how a text's language is told."""
# ruff: noqa: RUF001  # letters of many scripts

from __future__ import annotations

import re
from pathlib import Path

import pytest
import Stemmer  # type: ignore[import-untyped, import-not-found, unused-ignore]
from hypothesis import given
from hypothesis import strategies as st

from agent_reminiscence.config.languages import LANGUAGES
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.text.languages import (
    DEFAULT_LANGUAGE,
    MIN_LETTERS,
    check_language,
    recognise,
    stop_words,
)

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guide" / "languages.md"

PARAGRAPHS = {
    "ar": "انتقلنا أخيرا في نهاية الأسبوع والمطبخ أكبر بكثير مما توقعت والأطفال سعداء جدا",
    "bg": "Най-после се преместихме през уикенда и кухнята е много по-голяма, отколкото мислех, но не съм я подредил.",
    "cs": "O víkendu jsme se konečně přestěhovali a kuchyně je mnohem větší, než jsem čekal, ale zatím není uklizená.",
    "da": "Vi er endelig flyttet i weekenden, og køkkenet er meget større, end jeg havde troet.",
    "de": "Wir sind am Wochenende endlich umgezogen, und die Küche ist viel größer, als ich dachte.",
    "el": "Μετακομίσαμε επιτέλους το Σαββατοκύριακο και η κουζίνα είναι πολύ μεγαλύτερη.",
    "en": "We finally moved into the new flat last weekend and the kitchen is much bigger than I expected.",
    "es": "Por fin nos mudamos el fin de semana y la cocina es mucho más grande de lo que pensaba.",
    "fa": "ما بالاخره آخر هفته به خانه جدید رفتیم و آشپزخانه از آنچه که من فکر می کردم بزرگتر است",
    "fi": "Muutimme viimein viikonloppuna, ja keittiö on paljon suurempi kuin minä olin luullut.",
    "fr": "Nous avons enfin déménagé ce week-end et la cuisine est bien plus grande que prévu.",
    "he": "סוף סוף עברנו בסוף השבוע והמטבח הרבה יותר גדול ממה שחשבתי שיהיה לנו",
    "hi": "हम आखिरकार सप्ताहांत में नए घर में आ गए और रसोई मेरी सोच से बहुत बड़ी है।",
    "hu": "A hétvégén végre beköltöztünk, és a konyha sokkal nagyobb, mint gondoltam.",
    "it": "Finalmente ci siamo trasferiti nel fine settimana e la cucina è molto più grande del previsto.",
    "ja": "週末にやっと引っ越しました。台所は思っていたよりずっと広いです。",
    "ko": "주말에 드디어 이사를 했는데 부엌이 생각보다 훨씬 커서 아이들도 좋아하고 있어요.",
    "nl": "We zijn dit weekend eindelijk verhuisd en de keuken is veel groter dan ik had verwacht.",
    "pl": "W weekend wreszcie się przeprowadziliśmy, a kuchnia jest dużo większa, niż myślałem, ale nie jest czysta.",
    "pt": "Finalmente mudamos de casa no fim de semana e a cozinha é muito maior do que eu esperava.",
    "ro": "Ne-am mutat în sfârșit în weekend și bucătăria este mult mai mare decât credeam.",
    "ru": "Мы наконец переехали на выходных, и кухня оказалась гораздо больше, чем я думал.",
    "sv": "Vi har äntligen flyttat i helgen och köket är mycket större än jag hade trott.",
    "th": "เมื่อสุดสัปดาห์ที่ผ่านมาเราย้ายเข้าบ้านใหม่แล้ว ห้องครัวใหญ่กว่าที่คิดไว้มาก",
    "tr": "Hafta sonu nihayet taşındık ama mutfak çok daha büyük çıktı ve biz bu yüzden çok mutlu olduk.",
    "uk": "Ми нарешті переїхали на вихідних, і кухня виявилася набагато більшою, ніж я думав.",
    "zh": "我们周末终于搬进了新家，厨房比我想象的大得多，孩子们也很高兴。",
}


ONE_LINERS = {
    "de": [
        "Meine Tochter kommt im September in die Schule.",
        "Wir haben eine neue Küche bestellt.",
        "Der Arzt sagt, ich soll mehr trinken.",
        "Im Sommer fahren wir an die Ostsee.",
        "Das Paket ist noch nicht angekommen.",
        "Ich habe den Job bei Siemens bekommen!",
        "Wann fängt das Konzert an?",
        "Paul isst kein Fleisch mehr.",
        "Der Schlüssel liegt unter der Matte.",
        "Lena hat eine Allergie gegen Nüsse.",
        "Mein neues Fahrrad ist grün.",
        "Können wir das Treffen verschieben?",
        "Lukas hat seinen Führerschein verloren.",
        "Das WLAN-Passwort hat sich geändert.",
        "Zum Frühstück esse ich Haferbrei.",
        "Die Miete beträgt neunhundert Euro.",
    ],
    "es": [
        "Mi hija empieza el colegio en septiembre.",
        "Hemos encargado una cocina nueva.",
        "El médico dice que debo beber más.",
        "En verano vamos a la playa.",
        "El paquete todavía no ha llegado.",
        "¡Conseguí el trabajo en Telefónica!",
        "¿A qué hora empieza el concierto?",
        "Pablo ya no come carne.",
        "La llave está debajo del felpudo.",
        "Elena es alérgica a las nueces.",
        "Mi bicicleta nueva es verde.",
        "¿Podemos aplazar la reunión?",
        "Lucas ha perdido su carné de conducir.",
        "La contraseña del wifi ha cambiado.",
        "Para desayunar como avena.",
        "El alquiler es de novecientos euros.",
    ],
    "fr": [
        "Ma fille entre à l'école en septembre.",
        "Nous avons commandé une nouvelle cuisine.",
        "Le médecin dit que je dois boire plus.",
        "Cet été, nous allons au bord de la mer.",
        "Le colis n'est pas encore arrivé.",
        "J'ai obtenu le poste chez Renault !",
        "À quelle heure commence le concert ?",
        "Paul ne mange plus de viande.",
        "La clé est sous le paillasson.",
        "Léna est allergique aux noix.",
        "Mon nouveau vélo est vert.",
        "Peut-on reporter la réunion ?",
        "Lucas a perdu son permis de conduire.",
        "Le mot de passe du wifi a changé.",
        "Au petit déjeuner je mange du porridge.",
        "Le loyer est de neuf cents euros.",
    ],
    "it": [
        "Mia figlia comincia la scuola a settembre.",
        "Abbiamo ordinato una cucina nuova.",
        "Il medico dice che devo bere di più.",
        "In estate andiamo al mare.",
        "Il pacco non è ancora arrivato.",
        "Ho avuto il posto alla Fiat!",
        "A che ora comincia il concerto?",
        "Paolo non mangia più carne.",
        "La chiave è sotto lo zerbino.",
        "Elena è allergica alle noci.",
        "La mia bicicletta nuova è verde.",
        "Possiamo spostare la riunione?",
        "Luca ha perso la patente.",
        "La password del wifi è cambiata.",
        "A colazione mangio il porridge.",
        "L'affitto è di novecento euro.",
    ],
    "nl": [
        "Mijn dochter gaat in september naar school.",
        "We hebben een nieuwe keuken besteld.",
        "De dokter zegt dat ik meer moet drinken.",
        "In de zomer gaan we naar zee.",
        "Het pakket is nog niet aangekomen.",
        "Ik heb de baan bij Philips gekregen!",
        "Hoe laat begint het concert?",
        "Paul eet geen vlees meer.",
        "De sleutel ligt onder de mat.",
        "Lena is allergisch voor noten.",
        "Mijn nieuwe fiets is groen.",
        "Kunnen we de vergadering verzetten?",
        "Lucas is zijn rijbewijs kwijt.",
        "Het wifi-wachtwoord is veranderd.",
        "Als ontbijt eet ik havermout.",
        "De huur is negenhonderd euro.",
    ],
    "pl": [
        "Moja córka idzie we wrześniu do szkoły.",
        "Zamówiliśmy nową kuchnię.",
        "Lekarz mówi, że muszę więcej pić.",
        "Latem jedziemy nad morze.",
        "Paczka jeszcze nie przyszła.",
        "Dostałem pracę w Orlenie!",
        "O której zaczyna się koncert?",
        "Paweł nie je już mięsa.",
        "Klucz leży pod wycieraczką.",
        "Lena ma alergię na orzechy.",
        "Mój nowy rower jest zielony.",
        "Czy możemy przełożyć spotkanie?",
        "Łukasz zgubił prawo jazdy.",
        "Hasło do wifi się zmieniło.",
        "Na śniadanie jem owsiankę.",
        "Czynsz wynosi dziewięćset euro.",
    ],
    "pt": [
        "A minha filha começa a escola em setembro.",
        "Encomendámos uma cozinha nova.",
        "O médico diz que devo beber mais.",
        "No verão vamos para a praia.",
        "A encomenda ainda não chegou.",
        "Consegui o emprego na Petrobras!",
        "A que horas começa o concerto?",
        "O Paulo já não come carne.",
        "A chave está debaixo do tapete.",
        "A Helena é alérgica a nozes.",
        "A minha bicicleta nova é verde.",
        "Podemos adiar a reunião?",
        "O Lucas perdeu a carta de condução.",
        "A senha do wifi mudou.",
        "Ao pequeno-almoço como papas de aveia.",
        "A renda é de novecentos euros.",
    ],
    "sv": [
        "Min dotter börjar skolan i september.",
        "Vi har beställt ett nytt kök.",
        "Läkaren säger att jag ska dricka mer.",
        "På sommaren åker vi till havet.",
        "Paketet har inte kommit än.",
        "Jag fick jobbet på Volvo!",
        "När börjar konserten?",
        "Paul äter inte kött längre.",
        "Nyckeln ligger under mattan.",
        "Lena är allergisk mot nötter.",
        "Min nya cykel är grön.",
        "Kan vi skjuta upp mötet?",
        "Lucas har tappat sitt körkort.",
        "Lösenordet till wifi har ändrats.",
        "Till frukost äter jag gröt.",
        "Hyran är niohundra euro.",
    ],
}

# Of many countries, and words of grammar in one language or another.
NAMES = [
    "Aaliyah", "Aarav", "Abdul", "Abel", "Ada", "Adam", "Adele", "Ahmed", "Aiko", "Aino", "Alba", "Aldo", "Alex",
    "Ali", "Alma", "Amal", "Amir", "An", "Ana", "Anders", "Andrei", "Ann", "Anouk", "Anton", "Ariel", "Arlo", "Art",
    "Asa", "Asha", "Ava", "Axel", "Bea", "Bela", "Ben", "Beth", "Björn", "Bo", "Boris", "Bram", "Bruno", "Carlos",
    "Cem", "Chen", "Chloe", "Clara", "Da", "Dai", "Dan", "Dana", "Dani", "Dara", "Dario", "Das", "Dave", "Del",
    "Den", "Denis", "Diego", "Dina", "Do", "Dora", "Ed", "Eda", "Edo", "Ela", "Eli", "Elif", "Ella", "Els", "Em",
    "Emil", "Emma", "Ena", "Enzo", "Erik", "Esra", "Etta", "Eva", "Fatima", "Fay", "Femke", "Finn", "Flo", "Franz",
    "Gus", "Han", "Hana", "Hans", "Hassan", "Heidi", "Henk", "Hugo", "Ian", "Ibrahim", "Ida", "Ines", "Inga", "Ion",
    "Ira", "Iris", "Isa", "Ivan", "Ivo", "Jak", "Jan", "Jana", "Jean", "Jo", "Joao", "Jon", "Jose", "Juan", "Jun",
    "Kai", "Kaja", "Karl", "Kate", "Kim", "Kofi", "Lan", "Lara", "Lars", "Lea", "Lee", "Lei", "Len", "Leo", "Lia",
    "Lin", "Lina", "Linh", "Lis", "Liv", "Loes", "Lou", "Lu", "Luc", "Lucia", "Luz", "Maja", "Man", "Marc", "Mari",
    "Mark", "Mats", "Max", "May", "Mei", "Mia", "Mie", "Miguel", "Mika", "Mina", "Minh", "Mo", "Mohamed", "Nadia",
    "Nam", "Ned", "Nia", "Nils", "Nina", "No", "Noa", "Noor", "Ola", "Ole", "Olga", "Omar", "Ono", "Otto", "Ove",
    "Pablo", "Per", "Pia", "Pierre", "Po", "Priya", "Rafa", "Raj", "Ravi", "Ren", "Rosa", "Sam", "San", "Sara",
    "Sasha", "Sei", "Sem", "Si", "Sia", "Sigrid", "Sol", "Son", "Sue", "Sun", "Suo", "Sven", "Tak", "Tam", "Tan",
    "Tara", "Te", "Ted", "Thi", "Tim", "To", "Tom", "Toni", "Tu", "Ulf", "Uma", "Una", "Van", "Vera", "Vi",
    "Viktor", "Wei", "Will", "Xi", "Yan", "Yi", "Yuki", "Yusuf", "Zoe", "Zu",
]  # fmt: skip

ENGLISH_NOTES = [
    "{0} lives in Leeds.\n\n{0} works at Northlight as a designer.\n\n{0} is allergic to peanuts.",
    "{0}: allergic to peanuts\n{0}: designer, Northlight\n{0}: birthday 3 June",
    "{0}'s birthday: 3 June. {0}'s dog: Rex. {0}'s car: red Mini.",
    "{0} called. {0} wants a refund. {0} paid twice.",
    "{0}: Hi there! How are you?\nTom: Fine, thanks {0}. Seen the match?",
    "- {0} likes green tea\n- {0} plays chess\n- {0} speaks Polish",
    "Lunch with {0}. Dinner with {0}. Gift for {0}: scarf.",
    "{0}\n{0}\n{0}: {0}, {0}.",
]


@pytest.mark.parametrize(("language", "text"), PARAGRAPHS.items())
def test_a_sentence_or_two_show_their_language(language: str, text: str) -> None:
    """By their script, or by their words of grammar."""
    assert recognise(text) == language


@pytest.mark.parametrize("language", ONE_LINERS)
def test_one_line_shows_its_language(language: str) -> None:
    """Nine of ten, as a chat or a note has them; of the others nothing is said, rather than something wrong."""
    recognised = [recognise(text) for text in ONE_LINERS[language]]

    assert {*recognised} <= {language, None}
    assert recognised.count(language) >= 0.9 * len(recognised)


@pytest.mark.parametrize("note", ENGLISH_NOTES)
def test_a_name_makes_an_english_note_no_other_language(note: str) -> None:
    """A note repeats its person's name, and Ben is a verb in Dutch, Sue a word in Italian."""
    assert {recognise(note.format(name)) for name in NAMES} <= {"en", None}


def test_names_alone_show_no_language() -> None:
    """One to a line, where each begins one."""
    assert recognise("\n".join(NAMES)) is None
    assert recognise("Sue\nMia\nSei\nElla\nBen") is None


@given(st.sampled_from([*PARAGRAPHS.values(), *(text for texts in ONE_LINERS.values() for text in texts)]))
def test_repetition_adds_no_evidence(text: str) -> None:
    """What is said three times shows what it shows when it is said once."""
    assert recognise("\n".join([text] * 3)) == recognise(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ok",
        "Hallo!",
        "user: Hallo!",
        "Danke dir",
        "Ann Miller, Bob Stone, Clara Diaz, Dieter Kranz, Emil Novak, Fatima Noor, Greta Lind",
        "def handler(request): return Response(status=200, body=json.dumps(result), headers={})",
        "https://example.com/a/b/c?utm=1&x=2 https://example.com/products/list.html",
        "2023-05-08 12:00:01 started pid=331 status=ok elapsed=0.33s retries=0 worker=17 queue=main",
        "12345 67890 11111 22222 33333 44444 55555 66666 77777 88888 99999",
        "東京タワー",
        "\x00\ud800" * 100,
    ],
)
def test_too_little_shows_no_language(text: str) -> None:
    """The caller's setting decides then; a wrong guess would index words by the stems of another language."""
    assert recognise(text) is None


def test_names_and_quotations_of_another_script_do_not_decide() -> None:
    """The language is the one that most of the text is written in."""
    assert recognise(PARAGRAPHS["en"] + " 東京タワー, Москва") == "en"
    assert recognise(PARAGRAPHS["ja"] + " Tower of London") == "ja"


def test_two_languages_in_equal_parts_are_none() -> None:
    """Neither leads clearly."""
    assert recognise(PARAGRAPHS["da"] + " " + PARAGRAPHS["de"] + " " + PARAGRAPHS["fr"] + PARAGRAPHS["es"]) is None


@given(st.text(max_size=200))
def test_any_text_is_recognised_or_not(text: str) -> None:
    """Never raises, and names no language that is not supported."""
    language = recognise(text)

    assert language is None or language in LANGUAGES
    if sum(map(str.isalpha, text)) < MIN_LETTERS / 2:
        assert language is None


def test_the_guide_lists_every_language() -> None:
    """Each once, in the row of how its words are read."""
    rows = re.findall(r"^\| (`.*) \| ([a-z ,]+) \|$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    listed = {code: how for codes, how in rows for code in re.findall(r"`([a-z]{2})`", codes)}

    assert listed.keys() == LANGUAGES.keys()
    for code, how in listed.items():
        assert how.startswith("stems") == (LANGUAGES[code] is not None)
        assert ("stop words" in how) == bool(stop_words(code))


def test_every_stemmer_that_is_named_exists() -> None:
    """By the name that Snowball's package knows it under."""
    assert {name for name in LANGUAGES.values() if name} <= set(Stemmer.algorithms())
    assert DEFAULT_LANGUAGE in LANGUAGES


def test_stop_words_are_words_of_grammar() -> None:
    """As they stand in a text after it was folded and split; who asks for anything else finds it."""
    assert len(stop_words("en")) == 127
    assert stop_words("en").isdisjoint({"won", "new", "home", "work", "computer", "year", "first"})
    assert {"über", "dass"} <= stop_words("de")
    assert stop_words("ja") == stop_words("xx") == frozenset()
    for language in LANGUAGES:
        assert all(word.isalpha() and word == word.casefold() for word in stop_words(language))


def test_a_language_that_is_not_supported_is_named_with_those_that_are() -> None:
    """The way out stands in the message."""
    assert check_language("de") == "de"
    with pytest.raises(InvalidInputError, match=r"language 'de-AT' is not supported.*\bde\b.*\bzh\b"):
        check_language("de-AT")
