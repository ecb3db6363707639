"""Statements that hold for good, and what people say in passing, by language: written for these tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

HOLDING: Final[Mapping[str, str]] = {
    "de": """
Bitte antworte auf Deutsch.
Ich bin allergisch gegen Katzen.
Halte deine Antworten kurz.
Fass dich bitte kurz.
Ich sitze im Rollstuhl.
Nenn mich bitte Uli.
Du kannst mich duzen.
Ich bin Vegetarierin.
Ich habe eine Laktoseunverträglichkeit.
Keine Anrufe nach acht, bitte.
Alle Funktionen müssen getestet sein.
Frag mich, bevor du etwas bestellst.
Schick nichts ab, ohne mich zu fragen.
Du kannst mir wieder auf Englisch antworten.
Kannst du bitte immer Quellen nennen?
Antworte mir bitte immer auf Plattdeutsch.
Buche nie Nachtflüge für mich.
Ich bin allergisch gegen Erdbeeren.
Wir essen kein Fleisch.
Verwende keine Fremdwörter.
Ich lese lieber Listen als Fließtext.
""",
    "en": """
Please reply in Portuguese from now on.
Answer in plain English, I'm not an engineer.
Speak Dutch with me.
Write to me in French only.
Call me Bea, nobody says Beatrice.
You can call me Tom.
I go by Max.
My pronouns are they and them.
Don't call me by my first name.
Be brief with me.
Be concise.
Keep your replies to three sentences.
Give me the short version first, always.
No bullet points, please.
No small talk.
Skip the pleasantries.
Leave out the disclaimers.
I want short answers.
I like my answers short.
I'd like you to be blunt with me.
I prefer bullet points to prose.
Use British spelling.
Use Celsius.
Use the 24-hour clock when you give me a time.
Always cite your sources.
Never share my address with anyone.
Don't ever book a middle seat for me.
Do not contact my mother without asking me first.
Ask me before you spend any money.
Confirm with me before deleting a file.
Never push to main.
All functions must have docstrings.
Every invoice has to carry the project number.
We only use Postgres here.
Don't schedule meetings on Fridays.
No calls after six.
I don't take calls before nine.
I don't work on Mondays.
My mornings are for writing.
I'm not available on Wednesdays.
I'm vegan.
I'm a vegetarian.
We keep kosher.
I don't eat gluten.
I can't eat shellfish.
I can't drink milk.
I have a nut allergy.
My son is allergic to eggs.
My wife is coeliac.
I'm diabetic.
I'm lactose intolerant.
I'm hard of hearing.
I have epilepsy.
I'm not allowed to drive.
I don't fly.
I never fly.
I don't drive.
I don't have a car.
I'm afraid of heights.
I can't stand coriander.
I hate surprises.
I only buy second-hand clothes.
I only read on paper.
I don't speak German.
I only speak Spanish.
I never spend more than 50 euros on a gift.
I always travel by train.
I always take the window seat.
I prefer tea over coffee.
You can answer in English again.
I eat meat again.
I'm no longer vegan.
You can use emojis again.
Could you always answer in Spanish?
Can you call me Kit from now on?
User prefers dark mode.
The user is allergic to penicillin.
The customer prefers to be contacted by email.
Whenever you quote a price, add the tax.
When you write code for me, add type hints.
Unless I say otherwise, reply in German.
Remember: no pork.
Remember that I can't have lactose.
I'm pregnant, so no raw fish.
Avoid jargon.
Stop using exclamation marks.
Don't use my full name.
Anything over 100 euros needs my approval.
My manager has to approve every purchase.
We don't work with tobacco companies.
I don't want any reminders on Sundays.
I need large print.
I need everything in writing.
It's important to me that you never use slang.
I'd appreciate it if you kept things short.
I read everything in German, so write in German.
Nuts could kill me.
My hands shake, so give me big buttons.
I don't want to hear about sports.
Send me summaries only in the evening.
Leave my Sundays free.
Keep Wednesday evenings free for choir.
Nothing spicy for me.
I don't do mornings.
Please use 'they' for me.
All prices in Swiss francs, please.
Write dates as day.month.year.
I follow a low-salt diet.
I'm on blood thinners.
I'm lactose-intolerant.
I have a bad back, so no heavy lifting.
Please don't phone me, write instead.
I won't stay in hotels without a lift.
I don't eat anything with a face.
Only suggest restaurants I can reach on foot.
Tests go in the tests folder, never beside the code.
Our code is formatted with black.
Don't commit to main.
Ask before you delete anything.
Never use my surname.
Round all amounts to whole euros.
Put the summary first.
I want sources for every claim.
Speak slowly, my hearing is poor.
I can't see well, so describe pictures.
My daughter may not have sugar.
I observe the Sabbath.
We don't fly any more.
I've stopped eating meat.
I'm trying to avoid plastic, so nothing wrapped.
Please always double-check the numbers.
No flights with a layover, please.
I won't pay by credit card.
Address my clients by their title.
Sign my letters with 'Kind regards'.
I'm terrified of spiders.
I can't do stairs.
I can only do phone calls after five.
My maximum is 80 euros per night.
Keep the tone friendly.
Don't give me spoilers.
I want you to challenge me.
Reply to me in Dutch, whatever language I use.
Shellfish makes me ill.
I don't take meetings after four.
Please be brief: two sentences at most.
I walk with crutches.
No exclamation marks in texts you write for me.
Our household is vegetarian.
Nothing over 60 euros for gifts.
Give temperatures in Celsius.
All our functions need docstrings.
I've been sober for six years.
Call me Captain.
I'm blind in the left eye.
Tuesday evenings are for my choir.
Heights make me dizzy.
Don't post anything under my name before I have seen it.
I always want a window seat.
Everything we ship must run on Windows.
My knee doesn't allow running.
I like bullet points better than prose.
Answers in Swedish, please.
Speak Polish to me.
Penicillin gives me hives.
Keep my evenings free.
Your replies should fit on a phone screen.
I rely on a hearing aid.
Leave out the smileys.
No beef in this house, we are Hindus.
My gift limit is 30 pounds.
Temperatures in Fahrenheit, please.
Every function needs a test.
I'm a recovering alcoholic.
Please use my title, Professor.
I can't tell green from brown.
Sunday is for the family.
I get sick on boats.
Get my okay before you publish anything.
I only fly business class.
We only ship open-source software.
My back won't take long car rides.
I find lists easier to read than paragraphs.
I'm not a morning person, nothing before eleven.
Please write numbers with a comma.
Dairy upsets my stomach.
I have no car.
I don't own a television.
I keep Shabbat, so no calls from Friday night on.
Use they/them for me.
I'd like all code in Rust.
I prefer to be called Jo.
I prefer short emails.
I prefer aisle seats.
I prefer trains.
Spell my name with a K.
I can't read small print.
I'm short-sighted.
I'm on a tight budget.
I need a ground floor room.
I need quiet places.
I need my results as CSV.
I won't work with anyone who smokes.
We never buy from Amazon.
Our tests run on pytest only.
Commit messages are in English.
Branch names start with the ticket number.
My children are not to be photographed.
Don't let anyone know where I live.
I take my coffee black.
Reply in Spanish unless I write in English.
My Portuguese is better than my English, so let's stick to Portuguese.
I'd like everything in German.
We speak French at home and here too.
I'm severely allergic to bee stings.
Lactose is a problem for me.
I react badly to penicillin.
Our daughter is on the autism spectrum and needs quiet.
Never before nine in the morning, please.
I'm no use before my second coffee, so no early calls.
My working day ends at three.
Thursdays I'm with my father, don't plan anything then.
Weekends are sacred to us.
I want all answers as bullet points.
Short answers only.
Two sentences are enough for me.
Don't write long paragraphs.
I like numbered lists.
Give me the conclusion first.
Skip explanations I didn't ask for.
I'm partially sighted and use a screen reader.
I have only one hand.
I can't walk more than 200 metres.
I've got a bad knee.
I can't do stairs any more since the accident.
No smileys in my emails.
We're Muslim, so no alcohol and no pork.
I keep a vegan kitchen.
We are a meat-free household.
I gave up alcohol for good.
Nothing with wine or beer for me.
Up to 40 euros is fine, more is not.
My ceiling for gifts is 50 dollars.
Prices should be in pounds.
Please think in litres and kilometres.
Stick to the 24-hour clock.
Python code has to pass mypy.
Every public function gets a docstring.
We don't accept code under the GPL.
All dependencies must be Apache or MIT.
Tabs, not spaces.
Say Sie to me, not du.
I prefer Mrs Lindqvist to my first name.
It's Doctor Okafor, please.
Charts should work without colour.
I get sick in the back of a car.
I don't do planes.
Trains only, I don't fly.
Window seats only.
I always sit at the front of the bus.
Check with my husband before you confirm anything.
Nothing goes out without my signature.
Let me read every letter before it is sent.
Don't speak to the press on my behalf.
I'd prefer graphs to text.
I'd rather read than watch videos.
I'd rather you called than wrote.
I hate phone calls, text me.
I don't wear leather.
I'm a night owl, evenings suit me best.
I'm on a gluten-free diet.
Mind that I use a hearing aid.
I need subtitles.
Everything you write to me should be in Norwegian.
My replies have to be in Polish, always.
I'm allergic to shrimp.
Nothing in my calendar before half past nine.
Leave my lunch hour alone.
I get around on crutches.
I'd like you to leave out the smileys.
We keep a kosher home.
Presents may cost 100 dollars, no more.
I think in Celsius.
Our code base is TypeScript only.
I'd like to be addressed as Captain Reyes.
Saturday mornings are for my daughter's football.
Ferries make me throw up.
Show me every message before it goes to a customer.
I like to sit by the window on trains.
Libraries with a GPL licence are not allowed in this project.
My shoulder is ruined, so nothing over my head.
Lists are easier for me than running text.
Use short words, I'm learning English.
No phone calls, I stammer.
I don't want to be reminded of my ex.
Vegetarian meals only for me.
Please remember I'm blind.
Keep swear words out of it.
Answer like a friend, not like a lawyer.
I need wheelchair access wherever we go.
I won't set foot on a plane.
Two glasses of wine are my maximum.
Our budget for a hotel is 90 euros a night.
I prefer to pay in cash.
Dates please in ISO format.
My mother must not hear about the surgery.
I never answer the phone after eight.
Pork is forbidden in our house.
On Sundays I don't look at messages.
Mention the source whenever you quote a number.
If you are unsure, say so.
Ask when something is unclear instead of guessing.
Tests first, then code.
I hate being called Miss.
Never suggest cilantro.
I'm on call on Tuesdays, so keep them free.
Write all your replies to me in Greek.
No appointments for me before eleven.
I walk with a stick.
Gifts should stay under 50 euros.
Give me distances in kilometres.
Every function needs a docstring.
Call me Professor Lund.
Wednesday evenings are for choir practice.
Buses make me feel sick.
Don't post anything on my behalf without showing me first.
I always sit in the front row.
All images we use have to be free of charge.
My wrist won't let me type for long.
I find bullet points easier than prose.
I'm afraid of dogs.
I can't hear high notes.
Our house is meat-free.
I'd like a formal tone.
Please use my middle name, Ray.
We never travel by car.
Sundays are off limits for work.
I take my tea without sugar.
No spoilers about football, ever.
Hotels must allow cats.
I pay by invoice only.
Keep my address to yourself.
My son can't have gluten.
I need at least eight hours between shifts.
Please never suggest horror films.
Speak to me as you would to a child.
I'm fasting during Ramadan.
I read Braille.
Everything we deploy runs on Linux.
Use tabs for indentation.
""",
    "es": """
Respóndeme siempre en catalán.
Contesta en español, por favor.
Soy alérgica a los mariscos.
No uses emojis.
Nunca compartas mi dirección.
Soy vegetariano.
No comemos carne.
No bebo alcohol.
Llámame Pepa.
Voy en silla de ruedas.
Sé breve.
Pregúntame antes de comprar algo.
Prefiero leer en lugar de escuchar.
No trabajo los viernes.
Puedes responder en inglés otra vez.
""",
    "fr": """
Réponds-moi toujours en néerlandais.
Réponds en français, s'il te plaît.
Je suis allergique aux crustacés.
Ne réserve jamais de vols de nuit.
N'utilise pas d'emojis.
Je suis végétarienne.
Nous ne mangeons pas de viande.
Je ne bois pas d'alcool.
Appelle-moi Zoé.
Je suis en fauteuil roulant.
Pas de réunions après dix-huit heures.
Garde tes réponses courtes.
Demande-moi avant d'envoyer un message.
Je préfère le train à l'avion.
Mes vols doivent toujours être côté couloir.
Tu peux répondre en anglais de nouveau.
""",
    "it": """
Rispondimi sempre in sardo.
Rispondi in italiano, per favore.
Sono allergica alle fragole.
Non usare emoji.
Non condividere il mio indirizzo.
Sono vegetariano.
Non mangiamo carne.
Non bevo alcolici.
Chiamami Lella.
Sono in sedia a rotelle.
Niente riunioni dopo le sei.
Chiedimi prima di comprare qualcosa.
Preferisco leggere a guardare la televisione.
Non lavoro il venerdì.
Puoi rispondere in inglese di nuovo.
""",
    "pt": """
Responde-me sempre em alemão.
Por favor, responda em português.
Sou alérgica a marisco.
Não use emojis.
Nunca partilhes a minha morada.
Sou vegetariano.
Não comemos carne.
Não bebo álcool.
Chama-me Zé.
Ando de cadeira de rodas.
Pergunte-me antes de comprar.
Prefiro o comboio ao avião.
Não trabalho às sextas.
""",
}

PASSING: Final[Mapping[str, str]] = {
    "de": """
Antworte Anna, dass ich komme.
Schreib bitte eine E-Mail an den Vermieter.
Ich war heute im Kino.
Ich habe keine Zeit.
Ich esse gerade zu Mittag.
Es regnet immer, wenn wir wandern.
Ich bin letzten Monat nach Lissabon gezogen.
Nimm den Schirm mit.
Ruf mich morgen an.
Alle Läden waren zu.
Ist die Suppe vegan?
Kein Problem!
Ich muss immer lachen, wenn er das erzählt.
Das ist nie passiert.
""",
    "en": """
Never mind, I found it.
Always a pleasure.
I always knew you would make it.
Never heard of it.
I never thought it would rain this much.
Don't worry about it.
Don't forget the milk.
Don't use the lift today, it's broken.
Call me back when you can.
Call me tomorrow.
Call me crazy, but I liked it.
Please write a function that sorts a list.
Please make the text shorter.
Answer the door, please.
I moved to Lisbon last month.
I like jazz.
I had pasta for lunch.
I can't find my keys.
I can't come tonight.
I don't have time.
I don't know.
I don't think so.
I can't believe it.
I'd rather stay at home tonight.
I prefer it that way.
My budget meeting is at ten.
Is my soup vegan?
Do you know a vegan restaurant?
We went to a vegan restaurant.
Is she allergic to nuts?
You can always count on me.
We should always help each other.
Never give up!
How do I use metric units in Excel?
Use the second one.
Keep it up!
Keep the change.
No problem at all.
No idea.
No news from the bank.
There was no time before lunch.
I was a vegetarian for two years.
He used to be vegan.
Friday was great.
Mondays are hard.
Translate this into Italian.
Explain how a fridge works in two sentences.
Reply to Ana that I agree.
Book a table for two on Friday.
Every day has been the same.
All the shops were closed.
Whenever I see her, she is laughing.
The doctor said it is nothing.
My allergies are better this year.
It always rains in November.
She never called.
I must have left it on the train.
You must have been tired.
He can't have gone far.
Nobody should have to wait that long.
""",
    "es": """
Escribe una carta a mi casero.
Fui al cine el sábado.
No tengo tiempo.
Siempre llueve en noviembre.
Llámame mañana.
Me mudé a Lisboa.
No pasa nada.
¿La sopa es vegetariana?
No sé.
Todo el mundo estaba allí.
Responde a Ana que voy.
""",
    "fr": """
Écris une lettre à mon propriétaire.
Je suis allée au cinéma.
Je n'ai pas le temps.
Il pleut toujours en novembre.
Appelle-moi demain.
J'ai déménagé à Lisbonne.
Pas de problème.
Est-ce que la soupe est végétarienne ?
Je ne sais pas.
Tout le monde était là.
""",
    "it": """
Scrivi una lettera al padrone di casa.
Sono andata al cinema.
Non ho tempo.
Piove sempre a novembre.
Chiamami domani.
Mi sono trasferita a Lisbona.
Nessun problema.
La zuppa è vegetariana?
Non lo so.
Erano tutti lì.
""",
    "pt": """
Escreve uma carta ao senhorio.
Fui ao cinema no sábado.
Não tenho tempo.
Chove sempre em novembro.
Chama-me amanhã.
Mudei-me para Lisboa.
Sem problema.
A sopa é vegetariana?
Não sei.
Toda a gente estava lá.
""",
}
