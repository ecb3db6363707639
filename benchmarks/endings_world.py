"""A year of somebody's notes, in which some things end, and sixty questions about them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, NamedTuple


class Note(NamedTuple):
    """What was written down on one day, a window for a memorizer; each paragraph is a passage."""

    title: str
    day: datetime
    language: str
    passages: tuple[str, ...]


class Ending(NamedTuple):
    """Words that are over, and words of the passage that shows it."""

    part: str
    by: str


class Question(NamedTuple):
    """A question, and words that a passage must have to answer it."""

    text: str
    answer: str


def _day(month: int, day: int) -> datetime:
    return datetime(2026, month, day, 9, tzinfo=UTC)


NOTES: Final = (
    Note(
        "Office",
        _day(1, 12),
        "en",
        (
            "The office closes at 18:00 on Fridays. Parking costs 12 euros a day.",
            "Jana leads the design team. Her desk is by the window on the third floor.",
            "The coffee machine is cleaned by Bogdan every Wednesday.",
            "The wifi password for guests is tulip-44.",
            "Lunch is delivered by Green Fork at noon, and the vegetarian box has a blue lid.",
            "The printer on the second floor is out of toner. Spare paper is in the grey cupboard.",
            "Our landlord is Mrs Castellan; she answers mails within a day.",
            "The fire drill is on 12 May. The meeting point is the chestnut tree.",
        ),
    ),
    Note(
        "Family",
        _day(1, 25),
        "en",
        (
            "I am allergic to penicillin.",
            "My sister Ronja was born in 1990 in Malmö.",
            "We live in Linz, in a flat with a balcony. The cellar floods when the Danube is high.",
            "Our cat Minka sleeps on the piano.",
            "My mother grew up in Ghent and speaks Flemish with her brothers.",
            "Piano lessons are on Tuesdays. The teacher, Mr Abara, lives around the corner.",
            "My nephew Levi is allergic to walnuts.",
            "I take the number 3 tram to work, and I read on the way.",
            "Grandpa's watch is in the drawer under the mirror.",
        ),
    ),
    Note(
        "Choir",
        _day(2, 8),
        "en",
        (
            "The choir rehearses in the old chapel. Nora brings the scores.",
            "Rehearsals begin at 19:30 on Mondays.",
            "The summer concert is on 20 June in the town park.",
            "Our conductor is Teresa Vidal. She wants the windows open.",
            "The membership fee is 45 euros a year, and students pay half.",
            "Ivo sings bass and bakes for the breaks.",
            "The black folders belong to the parish and have to go back in July.",
        ),
    ),
    Note(
        "Haus und Garten",
        _day(2, 22),
        "de",
        (
            "Die Bibliothek schließt um 18 Uhr. Der Leseausweis kostet 10 Euro im Jahr.",
            "Mein Hausarzt ist Doktor Brandt. Seine Praxis liegt am Marktplatz.",
            "Die Miete beträgt 700 Euro. Die Nebenkosten zahlt der Vermieter.",
            "Thea studiert Geologie in Jena.",
            "Der Deutschkurs ist montags im Gemeindehaus.",
            "Der Ersatzschlüssel liegt beim Nachbarn Emil. Er gießt auch die Tomaten.",
            "Mein Sohn ist gegen Erdbeeren allergisch.",
            "Die Großmutter wurde 1938 in Breslau geboren.",
        ),
    ),
    Note(
        "Health and sport",
        _day(3, 9),
        "en",
        (
            "My dentist is Dr Lund. The practice is above the bakery.",
            "I train at FitPoint twice a week. The lockers there need a two-euro coin.",
            "I am vegetarian.",
            "My blood group is AB negative.",
            "The physiotherapist told me to swim rather than run.",
            "I take an iron tablet each morning with orange juice.",
            "My glasses are from Optik Reuter, with minus 2.5 on the left.",
            "The half marathon in Wels is on 4 October.",
        ),
    ),
    Note(
        "Launch plan",
        _day(3, 23),
        "en",
        (
            "The launch of the app is planned for 9 June.",
            "The budget for the launch is 4,000 euros. Invoices go to Farid.",
            "Dario writes the landing page. Vera Holt is the contact at the press agency.",
            "The beta testers meet on Thursdays at 17:00.",
            "The logo is a green heron; its designer was Mila Aebi.",
            "Customer support is done by Otto until we hire somebody.",
            "The server is rented from Nordhost for 80 euros a month.",
        ),
    ),
    Note(
        "Changes in spring",
        _day(4, 14),
        "en",
        (
            "It closes at 20:00 now, the office.",
            "Pavel took over the design team from Jana.",
            "The new wifi password for guests is maple-71.",
            "The printer on the second floor has new toner.",
            "The charity race was on Sunday, and it rained.",
            "We had pancakes with blueberries for breakfast.",
            "The heron on the lake has two chicks.",
            "Bogdan showed us pictures of his trip to the Carpathians.",
        ),
    ),
    Note(
        "Neues im Mai",
        _day(5, 4),
        "de",
        (
            "Die Bibliothek schließt jetzt um 20 Uhr.",
            "Die Miete ist auf 750 Euro gestiegen.",
            "Mein neuer Hausarzt heißt Doktor Wiese.",
            "Das Rennen am Sonntag war sehr schön.",
            "Emil hat einen Hund aus dem Tierheim geholt.",
            "Im Garten blühen die Kirschen.",
        ),
    ),
    Note(
        "News in May",
        _day(5, 18),
        "en",
        (
            "The choir rehearses in the town hall from now on.",
            "Piano lessons have moved to Thursdays.",
            "The launch of the app was postponed to 23 June.",
            "We raised the budget for the launch to 5,500 euros.",
            "I cancelled FitPoint, I go climbing at Boulderhaus instead.",
            "I switched dentists, my dentist is Dr Baker now.",
            "The fire drill was moved to 19 May.",
            "Ronja bought a sailing boat.",
            "The bakery has a new kind of rye bread.",
        ),
    ),
    Note(
        "Summer",
        _day(7, 6),
        "en",
        (
            "We moved from Linz to Graz last week.",
            "The concert in the park was a great success.",
            "Nordhost raised the rent of the server to 95 euros a month.",
            "Sofia does customer support now; Otto went back to sales.",
            "Mr Abara gave a recital of Schubert.",
            "Levi learned to swim.",
            "The neighbours' lawn mower is broken.",
            "I cycle to work now, along the river.",
        ),
    ),
)

ENDINGS: Final = (
    Ending("The office closes at 18:00 on Fridays.", "It closes at 20:00 now"),
    Ending("Jana leads the design team.", "Pavel took over"),
    Ending("The wifi password for guests is tulip-44.", "maple-71"),
    Ending("The printer on the second floor is out of toner.", "has new toner"),
    Ending("Die Bibliothek schließt um 18 Uhr.", "schließt jetzt um 20 Uhr"),
    Ending("700 Euro", "750 Euro"),
    Ending("Mein Hausarzt ist Doktor Brandt.", "Doktor Wiese"),
    Ending("The choir rehearses in the old chapel.", "in the town hall"),
    Ending("Piano lessons are on Tuesdays.", "moved to Thursdays"),
    Ending("The launch of the app is planned for 9 June.", "23 June"),
    Ending("4,000 euros", "5,500 euros"),
    Ending("I train at FitPoint twice a week.", "cancelled FitPoint"),
    Ending("My dentist is Dr Lund.", "switched dentists"),
    Ending("The fire drill is on 12 May.", "moved to 19 May"),
    Ending("We live in Linz", "We moved from Linz"),
    Ending("80 euros a month", "95 euros"),
    Ending("Customer support is done by Otto", "Sofia does customer support"),
    Ending("I take the number 3 tram to work", "I cycle to work now"),
)

QUESTIONS: Final = (
    Question("When does the office close on Fridays?", "closes at 20:00 now"),
    Question("What does parking cost?", "Parking costs 12 euros"),
    Question("Who leads the design team?", "Pavel took over"),
    Question("Where is Jana's desk?", "by the window on the third floor"),
    Question("Who cleans the coffee machine?", "cleaned by Bogdan"),
    Question("What is the wifi password for guests?", "maple-71"),
    Question("Who delivers lunch?", "Green Fork"),
    Question("Which lid has the vegetarian box?", "blue lid"),
    Question("Where is spare paper for the printer?", "grey cupboard"),
    Question("Who is the landlord of the office?", "Mrs Castellan"),
    Question("When is the fire drill?", "19 May"),
    Question("Where do we meet in a fire drill?", "chestnut tree"),
    Question("Which medicine must I not be given?", "allergic to penicillin"),
    Question("Am I allergic to anything?", "allergic to penicillin"),
    Question("What must Levi not eat?", "allergic to walnuts"),
    Question("In which year was my sister born?", "born in 1990"),
    Question("Where do we live?", "to Graz"),
    Question("What happens in the cellar when the Danube is high?", "cellar floods"),
    Question("Where does the cat sleep?", "sleeps on the piano"),
    Question("Where did my mother grow up?", "grew up in Ghent"),
    Question("On which day are piano lessons?", "moved to Thursdays"),
    Question("Where does the piano teacher live?", "around the corner"),
    Question("How do I get to work?", "I cycle to work"),
    Question("What do I do on the way to work?", "I read on the way"),
    Question("Where is grandpa's watch?", "drawer under the mirror"),
    Question("Where does the choir rehearse?", "in the town hall"),
    Question("Who brings the scores?", "Nora brings the scores"),
    Question("When do rehearsals begin?", "19:30 on Mondays"),
    Question("When was the summer concert planned?", "20 June"),
    Question("Who is the conductor of the choir?", "Teresa Vidal"),
    Question("What is the membership fee of the choir?", "45 euros a year"),
    Question("Who pays half in the choir?", "students pay half"),
    Question("Who bakes for the breaks?", "bakes for the breaks"),
    Question("To whom do the black folders belong?", "belong to the parish"),
    Question("Wann schließt die Bibliothek?", "jetzt um 20 Uhr"),
    Question("Was kostet der Leseausweis?", "Leseausweis kostet 10 Euro"),
    Question("Wer ist mein Hausarzt?", "Doktor Wiese"),
    Question("Wie hoch ist die Miete?", "750 Euro"),
    Question("Wer zahlt die Nebenkosten?", "Nebenkosten zahlt der Vermieter"),
    Question("Was studiert Thea?", "Geologie"),
    Question("Wann ist der Deutschkurs?", "montags im Gemeindehaus"),
    Question("Wo liegt der Ersatzschlüssel?", "beim Nachbarn Emil"),
    Question("Wogegen ist mein Sohn allergisch?", "Erdbeeren"),
    Question("Wo wurde die Großmutter geboren?", "Breslau"),
    Question("Who is my dentist?", "Dr Baker"),
    Question("Where do I train now?", "Boulderhaus"),
    Question("Which coin do the lockers need?", "two-euro coin"),
    Question("Do I eat meat?", "I am vegetarian"),
    Question("What is my blood group?", "AB negative"),
    Question("What did the physiotherapist tell me?", "swim rather than run"),
    Question("Where are my glasses from?", "Optik Reuter"),
    Question("When is the half marathon?", "4 October"),
    Question("When will the app be launched?", "23 June"),
    Question("What is the budget for the launch?", "5,500 euros"),
    Question("Who gets the invoices of the launch?", "Invoices go to Farid"),
    Question("Who writes the landing page?", "Dario writes"),
    Question("When do the beta testers meet?", "Thursdays at 17:00"),
    Question("Who designed the logo?", "Mila Aebi"),
    Question("Who does customer support?", "Sofia does customer support"),
    Question("What does the server cost?", "95 euros a month"),
)
