"""Tasks whose lesson an agent has learned, with tasks that it applies to and tasks that only resemble it.

Written for these tests. The bound on the likeness of episodes was set on those at even places; those at odd places
check it.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Pair(NamedTuple):
    """A task that was worked on.

    Attributes:
        goal: What was asked.
        outcome: How it ended.
        lesson: What was learned.
        applies: Later tasks that the lesson would help with.
        elsewhere: Later tasks of another kind, for which it is of no use.
    """

    goal: str
    outcome: str
    lesson: str
    applies: tuple[str, ...]
    elsewhere: tuple[str, ...]


LESSON_PAIRS: Final = (
    Pair(
        "Open the vault of the old mill.",
        "The vault was flooded and locked itself.",
        "At the mill, turn off the water before opening the vault.",
        ("Please open the mill's vault again.", "Get the grain records out of the vault in the old mill."),
        ("Suggest a cake for the office party.", "How many people visited the museum last year?"),
    ),
    Pair(
        "Book a meeting room for Tuesday's budget review.",
        "Room 4.12 was booked at the third attempt.",
        "The room calendar refuses a booking without a cost centre; look it up first.",
        ("Reserve a room for Thursday's interviews.", "We need a meeting room for eight people on Friday at ten."),
        ("Translate this paragraph into French.", "What is the weather in Graz tomorrow?"),
    ),
    Pair(
        "Refund order 4711, the customer got the wrong size.",
        "The refund went through after the return label was created.",
        "Create the return label first; refunds without one are rejected.",
        ("Order 5120 arrived broken, please refund it.", "A customer wants the money back for order 9001."),
        ("Write a birthday greeting for Jana.", "Which trains go to Vienna in the morning?"),
    ),
    Pair(
        "Find out why the nightly backup of the shop database failed.",
        "The disk of the backup server was full.",
        "Check the free space on the backup server before reading the logs.",
        ("The nightly backup failed again, what is wrong?", "Why is there no database backup from last night?"),
        ("Suggest three names for our new cat.", "Summarise the minutes of the board meeting."),
    ),
    Pair(
        "Send the quarterly sales report to the managers.",
        "The report was sent with last year's exchange rates and had to be sent again.",
        "Refresh the exchange rates before exporting the sales report.",
        ("Please send out the sales report for the third quarter.", "The managers want this quarter's sales figures."),
        ("Water the plants on the second floor.", "How do I boil an egg?"),
    ),
    Pair(
        "Register a new employee, Tom Berger, in the time tracking system.",
        "He could log in after the badge number was entered.",
        "Time tracking accepts a new employee only with a badge number.",
        ("Add Lea Novak, who starts on Monday, to time tracking.", "Register our new employee in the time system."),
        ("What is the capital of Slovenia?", "Draft a reply to the complaint about noise."),
    ),
    Pair(
        "Convert the invoices of March from PDF to CSV.",
        "Two of thirty invoices were scans and came out empty.",
        "Scanned invoices need text recognition before they are converted.",
        ("Turn the April invoices into a CSV file.", "Convert these scanned invoices to a table."),
        ("Order lunch for the team.", "When does the swimming pool open?"),
    ),
    Pair(
        "Order 500 business cards for the sales team.",
        "The printer refused the logo.",
        "The print shop takes logos only as SVG, not as PNG.",
        ("We need 200 new business cards for Eva.", "Order letterheads with our logo from the print shop."),
        ("Cancel my dentist appointment.", "Who won the chess match yesterday?"),
    ),
    Pair(
        "Update the price of the blue kettle in the web shop to 39 euros.",
        "The new price was shown after the cache was cleared.",
        "After changing a price in the web shop, clear the cache of the product page.",
        (
            "Set the price of the red toaster in the shop to 25 euros.",
            "The kettle is on sale: change its price online.",
        ),
        ("Remind me to call my mother.", "Explain what a black hole is."),
    ),
    Pair(
        "Deploy version 2.3 of the booking service to staging.",
        "The migration was missing, so the service did not start.",
        "Run the database migrations before deploying the booking service.",
        ("Deploy booking service 2.4 to staging.", "Roll out the new release of the booking service."),
        ("Plan a weekend in Lisbon.", "Which wine goes with fish?"),
    ),
    Pair(
        "Find a hotel in Porto for the conference in May.",
        "The hotel was found through the conference site, at half the price.",
        "Look for the rates on the conference's own page before searching booking sites.",
        ("Find me a hotel in Oslo for the developers' conference.", "I need a room near the conference in Lyon."),
        ("Fix the typo on the start page.", "How much flour does a kilo of bread need?"),
    ),
    Pair(
        "Calculate the VAT for the Austrian invoices.",
        "The sums were off by the reduced rate.",
        "Books in Austria have a VAT of 10 per cent, not 20.",
        ("What is the VAT on our Austrian book sales?", "Calculate the tax on the invoices to Austria."),
        ("Tell me a joke about penguins.", "Set an alarm for seven."),
    ),
    Pair(
        "Restart the coffee machine on the third floor, it shows error 7.",
        "It worked after the water tank was taken out and put back.",
        "Error 7 of the coffee machine goes away when the water tank is put in again.",
        ("The coffee machine shows an error again.", "What helps against error 7 on the third floor?"),
        ("Book a flight to Rome.", "Write unit tests for the parser."),
    ),
    Pair(
        "Count how many support tickets were closed last week.",
        "The first count had the merged tickets twice.",
        "Filter out merged tickets before counting closed ones.",
        ("How many tickets did support close this week?", "Count the support tickets that were closed in October."),
        ("Paint the fence green.", "Recommend a novel for the holidays."),
    ),
    Pair(
        "Translate the user manual of the drill into Polish.",
        "The customer wanted the terms of the glossary.",
        "Use the customer's glossary for technical terms when you translate manuals.",
        ("Translate the manual of the saw into Czech.", "We need the drill's instructions in Hungarian."),
        ("Who is on holiday this week?", "Pay the electricity bill."),
    ),
    Pair(
        "Unsubscribe the address eva@example.org from the newsletter.",
        "She still got two more issues from the second list.",
        "There are two newsletter lists; remove an address from both.",
        ("Take tom@example.org off the newsletter.", "A reader does not want our newsletter any more."),
        ("Sharpen the kitchen knives.", "How far is it to the moon?"),
    ),
    Pair(
        "Buche einen Mietwagen für die Dienstreise nach Linz.",
        "Die Buchung ging erst mit der Nummer des Rahmenvertrags durch.",
        "Für Mietwagen die Nummer des Rahmenvertrags angeben.",
        ("Ich brauche einen Mietwagen für die Reise nach Salzburg.", "Buche ein Auto für den Kundenbesuch in Linz."),
        ("Schlage einen Kuchen für die Feier vor.", "Wie spät ist es in Tokio?"),
    ),
    Pair(
        "Lege den Lieferanten Holzbau Maier im Einkaufssystem an.",
        "Das System verlangte zuerst die Steuernummer.",
        "Ein neuer Lieferant braucht im Einkaufssystem eine Steuernummer.",
        ("Lege die Firma Stahl Huber als Lieferanten an.", "Wir haben einen neuen Lieferanten, trage ihn ein."),
        ("Erzähle einen Witz.", "Wann fährt der Bus zum Bahnhof?"),
    ),
    Pair(
        "Reset the password of the intern's mail account.",
        "The account was locked, too.",
        "Unlock a mail account before resetting its password, or the new one is refused.",
        ("Nina forgot her mail password, please reset it.", "Reset the password for the account of the new trainee."),
        ("What rhymes with orange?", "Compare the two offers for the new roof."),
    ),
    Pair(
        "Make a backup copy of the photos from the summer party.",
        "The upload stopped at files above 2 GB.",
        "Videos above 2 GB have to be split before the upload to the archive.",
        ("Upload the pictures and videos of the Christmas party.", "Archive the photos from the company outing."),
        ("Is pasta healthier than rice?", "Renew the licence of the editor."),
    ),
)
