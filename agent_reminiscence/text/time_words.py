"""Time words by language: tables that `periods` reads.

Everything is in lower case and composed form. Patterns are regular expressions; `{n}` stands for a number, `{unit}` for
a unit, `{span}` for what may be last or next (a unit, a weekday, a season), `{month}` for a month, `{year}` for an
optional year.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

DAY: Final = 1
WEEK: Final = 7
MONTH: Final = 30
YEAR: Final = 365
SPRING, SUMMER, AUTUMN, WINTER = range(4)


@dataclass(frozen=True, slots=True)
class TimeWords:
    """How one language expresses time."""

    # Word -> 1 (January) to 12.
    months: Mapping[str, int]
    # Months whose names are also ordinary words or people's names: in a question they count only after one of
    # `before_month` or before a year.
    doubtful_months: frozenset[str]
    # Word -> 0 (Monday) to 6.
    weekdays: Mapping[str, int]
    # Word -> SPRING to WINTER.
    seasons: Mapping[str, int]
    # Pattern -> approximate number of days.
    units: Mapping[str, int]
    # Words that stand for the unit of a week after "last" and "next".
    weekends: tuple[str, ...]
    numbers: Mapping[str, int]
    # Pattern -> first and last day it means, in days from the day it is said.
    days: Mapping[str, tuple[int, int]]
    # Expressions for "just now", which ask for no day.
    just: str
    # A weekday in a question, with {weekday}: the last one of that name.
    on_weekday: str
    # "two weeks ago".
    ago: tuple[str, ...]
    # Patterns with {span}, and which one each means: -1 last, 0 this, 1 next.
    directed: tuple[tuple[str, int], ...]
    # A day of a month: groups day, month, year.
    dates: tuple[str, ...]
    # A month, with its year if given: groups month, year.
    months_of_years: tuple[str, ...]
    # A season, with its year if given: groups season, year.
    seasons_of_years: tuple[str, ...]
    # The words before a range of time and between its ends.
    between: str
    joins: str
    # Words directly before a month in an utterance.
    before_month: str
    # Words directly before a season without a year in a question.
    before_season: str
    # Words directly before a month that select a part of it.
    late: str
    early: str
    middle: str
    # Within `late` or `early`: half of the month, not a third.
    half: str
    # A question about a time.
    when: str
    # Expressions that place something in time.
    time_words: str
    first_person: frozenset[str]


_ENGLISH = TimeWords(
    months={
        "january": 1, "february": 2, "march": 3, "april": 4, "may": 5, "june": 6, "july": 7, "august": 8,
        "september": 9, "october": 10, "november": 11, "december": 12, "jan": 1, "feb": 2, "mar": 3, "apr": 4,
        "jun": 6, "jul": 7, "aug": 8, "sep": 9, "sept": 9, "oct": 10, "nov": 11, "dec": 12,
    },
    doubtful_months=frozenset({"may", "mar", "jan", "june", "jun", "april", "august", "march", "sep"}),
    weekdays={
        "monday": 0, "tuesday": 1, "wednesday": 2, "thursday": 3, "friday": 4, "saturday": 5, "sunday": 6,
    },
    seasons={"spring": SPRING, "summer": SUMMER, "autumn": AUTUMN, "fall": AUTUMN, "winter": WINTER},
    units={"days?": DAY, "weeks?": WEEK, "months?": MONTH, "years?": YEAR},
    weekends=("weekend",),
    numbers={
        "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
        "nine": 9, "ten": 10, "couple": 2, "few": 3,
    },
    days={
        "day before yesterday": (-2, -2),
        "(?<!day before )yesterday|last night": (-1, -1),
        "today|tonight|this (?:morning|afternoon|evening)": (0, 0),
        "(?<!day after )tomorrow": (1, 2),
        "day after tomorrow": (2, 2),
    },
    just="just",
    on_weekday="on {weekday}",
    ago=("{n}(?: of)? {unit} (?:ago|back)",),
    directed=(("(?:last|past) {span}", -1), ("this {span}", 0), ("(?:next|coming) {span}", 1)),
    dates=(
        "(?P<day>[0-9]{1,2})(?:st|nd|rd|th)?(?: of)? {month},?{year}",
        "{month} (?P<day>[0-9]{1,2})(?:st|nd|rd|th)?(?![0-9]),?{year}",
    ),
    months_of_years=("{month},?(?: of)?{year}",),
    seasons_of_years=("{season},?(?: of)?{year}",),
    between="between|from",
    joins="and|to|until|till|through|[-–]",
    before_month="in|on|during|of|since|by|until|early|late|mid|last|this|next",
    before_season="in|during|last|this|over|of",
    late="late|(?:last|final|end)(?: [a-z]+){0,2} of(?: the month of)?",
    early="early(?: in)?|(?:first|early|beginning|start)(?: [a-z]+){0,2} of",
    middle="mid|middle of",
    half="two weeks|half",
    when=(
        r"^\W*(?:when|how long|how many (?:days|weeks|months|years)"
        r"|(?:on |in |during |since |by )?(?:what|which) (?:date|day|month|year|week|time|season))\b"
        r"|\bas of\b|\bwhen did\b"
    ),
    time_words=(
        "yesterday|today|tonight|tomorrow|last|next|ago|past|since|recently|just|weekend"
        "|this (?:week|weekend|month|year|morning|summer|spring|fall|winter)"
        "|(?:mon|tues|wednes|thurs|fri|satur|sun)day"
        "|(?:in|on|since|until|of) (?:january|february|march|april|may|june|july|august|september|october|november"
        "|december)"
    ),
    first_person=frozenset({"i", "me", "my", "mine", "myself"}),
)  # fmt: skip

_GERMAN = TimeWords(
    months={
        "januar": 1, "jänner": 1, "februar": 2, "märz": 3, "april": 4, "mai": 5, "juni": 6, "juli": 7, "august": 8,
        "september": 9, "oktober": 10, "november": 11, "dezember": 12,
    },
    doubtful_months=frozenset({"april", "august", "juli", "mai"}),
    weekdays={
        "montag": 0, "dienstag": 1, "mittwoch": 2, "donnerstag": 3, "freitag": 4, "samstag": 5, "sonnabend": 5,
        "sonntag": 6,
    },
    seasons={"frühling": SPRING, "frühjahr": SPRING, "sommer": SUMMER, "herbst": AUTUMN, "winter": WINTER},
    units={"tag(?:en?|s)?": DAY, "wochen?": WEEK, "monat(?:en?|s)?": MONTH, "jahr(?:en?|s)?": YEAR},
    weekends=("wochenendes?",),
    numbers={
        "einem": 1, "einer": 1, "ein": 1, "eine": 1, "zwei": 2, "drei": 3, "vier": 4, "fünf": 5, "sechs": 6,
        "sieben": 7, "acht": 8, "neun": 9, "zehn": 10, "paar": 3, "einigen": 3,
    },
    days={
        "vorgestern": (-2, -2),
        "gestern": (-1, -1),
        "heute": (0, 0),
        "übermorgen": (2, 2),
        "morgen (?:früh|abend|vormittag|nachmittag)": (1, 1),
    },
    just="gerade|eben",
    on_weekday="am {weekday}",
    ago=("vor (?:ein )?{n} {unit}",),
    directed=(
        ("(?:letzte[mnrs]?|vorige[mnrs]?|vergangene[mnrs]?) {span}", -1),
        ("diese[mnrs]? {span}", 0),
        ("(?:nächste[mnrs]?|kommende[mnrs]?) {span}", 1),
    ),
    dates=(r"(?P<day>[0-9]{1,2})\.? {month}{year}",),
    months_of_years=("{month}{year}",),
    seasons_of_years=("{season}{year}",),
    between="zwischen|von|vom",
    joins="und|bis|bis zum|[-–]",
    before_month="im|am|seit|bis|ab|vom|anfang|mitte|ende|letzten|diesen|nächsten|monat",
    before_season="im|letzten|diesen|vergangenen",
    late="ende|spät im|(?:letzten?|letzter)(?: [a-zäöüß]+){0,2} (?:im|des)",
    early="anfang|früh im|(?:ersten?|erster|beginn)(?: [a-zäöüß]+){0,2} (?:im|des)",
    middle="mitte",
    half="zwei wochen|hälfte",
    when=(
        r"^\W*(?:(?:seit |bis |ab )?wann|wie lange|wie viele (?:tage|wochen|monate|jahre)"
        r"|(?:an |in |im |zu )?welche[mnrs]? (?:datum|tag|monat|jahr|woche|zeit|jahreszeit))\b"
    ),
    time_words=(
        "gestern|vorgestern|heute|morgen|übermorgen|seit|kürzlich|neulich|gerade|wochenende"
        "|(?:letzte|vorige|vergangene|nächste|kommende|diese)[mnrs]?"
        "|vor (?:[a-zäöüß0-9]+ ){1,2}(?:tag|woche|monat|jahr)(?:en|n|e)?"
        "|(?:mon|diens|donners|frei|sams|sonn)tag|mittwoch|sonnabend"
        "|(?:im|am|seit|bis) (?:januar|februar|märz|april|mai|juni|juli|august|september|oktober|november|dezember)"
    ),
    first_person=frozenset({"ich", "mich", "mir", "mein", "meine", "meinem", "meinen", "meiner", "meines"}),
)  # fmt: skip

_FRENCH = TimeWords(
    months={
        "janvier": 1, "février": 2, "mars": 3, "avril": 4, "mai": 5, "juin": 6, "juillet": 7, "août": 8,
        "septembre": 9, "octobre": 10, "novembre": 11, "décembre": 12,
    },
    doubtful_months=frozenset({"avril", "mai", "mars"}),
    weekdays={"lundi": 0, "mardi": 1, "mercredi": 2, "jeudi": 3, "vendredi": 4, "samedi": 5, "dimanche": 6},
    seasons={"printemps": SPRING, "été": SUMMER, "automne": AUTUMN, "hiver": WINTER},
    units={"jours?": DAY, "semaines?": WEEK, "mois": MONTH, "(?:ans?|années?)": YEAR},
    weekends=("week-end", "weekend"),
    numbers={
        "un": 1, "une": 1, "deux": 2, "trois": 3, "quatre": 4, "cinq": 5, "six": 6, "sept": 7, "huit": 8, "neuf": 9,
        "dix": 10, "quelques": 3,
    },
    days={
        "avant-hier": (-2, -2),
        "(?<!avant-)hier": (-1, -1),
        "aujourd['’]hui|ce (?:matin|soir)|cet après-midi": (0, 0),
        "(?<!après-)demain": (1, 2),
        "après-demain": (2, 2),
    },
    just="viens de|venons de",
    on_weekday="{weekday}",
    ago=("il y a {n} {unit}",),
    directed=(
        ("{span} (?:derni(?:er|ère)|passée?)", -1),
        ("(?:ce|cet|cette) {span}(?! (?:derni|passé|proch))", 0),
        ("{span} prochaine?", 1),
    ),
    dates=("(?P<day>[0-9]{1,2})(?:er)? {month}{year}",),
    months_of_years=("{month}{year}",),
    seasons_of_years=("{season}(?: de)?{year}",),
    between="entre|de|du",
    joins="et|à|au|jusqu['’]à|jusqu['’]au|[-–]",
    before_month="en|depuis|fin|début|mi|jusqu['’]en|de|mois de|dès",
    before_season="en|au|à l['’]|cet?|l['’]",
    late="fin|(?:fin|dernière?s?)(?: [a-zàâçéèêëîïôûùü]+){0,2} (?:de|du mois de)",
    early="début|(?:début|premi(?:er|ère)s?)(?: [a-zàâçéèêëîïôûùü]+){0,2} (?:de|du mois de)",
    middle="mi|milieu de|milieu du mois de",
    half="deux semaines|quinzaine|moitié",
    when=(
        r"^\W*(?:(?:depuis |jusqu['’]à )?quand|depuis combien de temps|pendant combien de temps|combien de temps"
        r"|combien d(?:e |['’])(?:jours|semaines|mois|ans|années)"
        r"|(?:à |en |dans |depuis )?quel(?:le)? (?:date|jour|mois|année|semaine|heure|saison))\b"
    ),
    time_words=(
        "hier|avant-hier|aujourd['’]hui|demain|après-demain|derni(?:er|ère)s?|prochaine?s?|depuis|récemment"
        "|week-end|weekend|il y a (?:[a-zé0-9]+ )?(?:jours?|semaines?|mois|ans?|années?)"
        "|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche"
        "|(?:en|depuis|fin|début) (?:janvier|février|mars|avril|mai|juin|juillet|août|septembre|octobre|novembre"
        "|décembre)"
    ),
    first_person=frozenset({"je", "j", "me", "m", "moi", "mon", "ma", "mes", "mien", "mienne"}),
)  # fmt: skip

_SPANISH = TimeWords(
    months={
        "enero": 1, "febrero": 2, "marzo": 3, "abril": 4, "mayo": 5, "junio": 6, "julio": 7, "agosto": 8,
        "septiembre": 9, "setiembre": 9, "octubre": 10, "noviembre": 11, "diciembre": 12,
    },
    doubtful_months=frozenset({"abril", "julio", "mayo"}),
    weekdays={
        "lunes": 0, "martes": 1, "miércoles": 2, "jueves": 3, "viernes": 4, "sábado": 5, "domingo": 6,
    },
    seasons={"primavera": SPRING, "verano": SUMMER, "otoño": AUTUMN, "invierno": WINTER},
    units={"días?": DAY, "semanas?": WEEK, "mes(?:es)?": MONTH, "años?": YEAR},
    weekends=("fin de semana",),
    numbers={
        "un": 1, "una": 1, "dos": 2, "tres": 3, "cuatro": 4, "cinco": 5, "seis": 6, "siete": 7, "ocho": 8,
        "nueve": 9, "diez": 10, "unos": 3, "unas": 3, "par de": 2,
    },
    days={
        "anteayer|antier|antes de ayer": (-2, -2),
        "(?<!antes de )ayer|anoche": (-1, -1),
        "hoy|esta (?:mañana|tarde|noche)": (0, 0),
        "pasado mañana": (2, 2),
    },
    just="acab[oa] de",
    on_weekday="el {weekday}",
    ago=("hace (?:un )?{n} {unit}",),
    directed=(
        ("{span} pasad[oa]", -1),
        ("(?:últim[oa]|pasad[oa]) {span}", -1),
        ("est[ea] {span}(?! (?:pasad|que viene))", 0),
        ("{span} (?:que viene|próxim[oa])", 1),
        ("próxim[oa] {span}", 1),
    ),
    dates=("(?P<day>[0-9]{1,2})(?: de)? {month}(?: del?)?{year}",),
    months_of_years=("{month}(?: del?)?{year}",),
    seasons_of_years=("{season}(?: del?)?{year}",),
    between="entre|de|del|desde",
    joins="y|a|al|hasta|hasta el|[-–]",
    before_month="en|desde|hasta|de|finales de|principios de|mediados de|este|pasado",
    before_season="en|este|el|durante",
    late="finales de|fines de|últim[oa]s?(?: [a-záéíóúñ]+){0,2} de",
    early="principios de|inicios de|primer[oa]?s?(?: [a-záéíóúñ]+){0,2} de",
    middle="mediados de",
    half="dos semanas|quincena|mitad",
    when=(
        r"^\W*(?:(?:desde |hasta )?cuándo|cuánto tiempo|cuánt[oa]s (?:días|semanas|meses|años)"
        r"|(?:en |a |desde )?qué (?:fecha|día|mes|año|semana|hora|época))\b"
    ),
    time_words=(
        "ayer|anteayer|anoche|hoy|mañana|pasad[oa]|próxim[oa]s?|últim[oa]s?|desde|recientemente|fin de semana"
        "|hace (?:[a-z0-9]+ ){1,3}(?:días?|semanas?|mes(?:es)?|años?)"
        "|lunes|martes|miércoles|jueves|viernes|sábado|domingo"
        "|(?:en|desde|hasta) (?:enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre"
        "|diciembre)"
    ),
    first_person=frozenset({"yo", "me", "mi", "mis", "mí", "mío", "mía", "míos", "mías", "conmigo"}),
)  # fmt: skip

TIME_WORDS: Final[Mapping[str, TimeWords]] = MappingProxyType(
    {
        "de": _GERMAN,
        "en": _ENGLISH,
        "es": _SPANISH,
        "fr": _FRENCH,
    }
)
