"""Tells of what sensitive kind a short statement about a person is; rules, no model.

English and German. A rule is a word or a phrase, what must stand near it, and what must not: "has cancer" is about
health, "works at a cancer research institute" is not. Numbers alone say something only if their form or checksum does.
What the redactor would remove counts in every language, with all its rules for personal data. The rules of each kind
are in a TOML file of its name; `common.toml` has what several share. `data.py` reads them when a statement is first
looked at, `stems.py` finds out what plain text each needs, `rules.py` says what a rule is and `search.py` applies them.

- **secret**: somebody's password, PIN, key, token, recovery phrase, login, answer to a security question, or code of a
  door or a safe, with its value or without; also where a spare key lies.
- **health**: illness, injury, medication, diagnosis, test results, treatment, therapy, addiction, mental health,
  pregnancy, disability. Allergies and intolerances are health too, although a food agent needs them: a deployment may
  allow the kind.
- **payment**: card and account numbers, bank details, income, savings, debts and credit.
- **identity**: passports, identity cards, driving licences and their numbers, social security, tax and similar numbers,
  number plates, dates of birth, fingerprints, face scans and DNA. An age in years is none of it.
- **contact**: telephone numbers, e-mail addresses, user names on networks, streets and postal addresses, whoever's
  they are. The town, the region or the country somebody lives in is no address.
- **belief**: religion, philosophical conviction, political opinion, votes, parties, membership of a union.
- **origin**: ethnic group, race, skin colour, descent, nationality, country of birth, migration, asylum. Neither where
  somebody lives now nor which languages they speak or what they like to eat.
- **sex_life**: orientation, sex life, affairs, gender identity and its history. Being married is none of it; his
  husband and her wife are.
- **criminal**: records, offences, accusations, arrests, charges, sentences, prison, probation. Not work in law or with
  the police, and not being a victim.
- **minor**: a child that is named or described: name, age, school, kindergarten, routines, troubles. That somebody has
  two children, that a daughter likes horses and that a son is a lawyer is kept.
- **location**: where somebody is or was at a time, absences, routes and routines with a place, positions, where a home
  stands. Not the town somebody lives in, nor a journey that is only wished for.

What a person works on, studies or reads about is not about the person, unless the words say so: "researches migraine"
is harmless, "has migraine" is not. Left out: other languages, prices and rents, body weight, diets, smoking and
drinking, and what is said only between the lines ("sees Dr. Ito every week"). Rules read words, not meaning: they are a
filter that is mostly right, not a guarantee.

On 288 sentences of `tests/unit/react/sensitive_sentences.txt`, on which the rules for the first three kinds were tuned,
precision and recall are 1. On 70 of `sensitive_sentences_unseen.txt`, written afterwards:

| kind | sentences | precision | recall |
|---|---|---|---|
| secret | 12 | 1.00 | 0.83 |
| health | 16 | 0.93 | 0.88 |
| payment | 12 | 1.00 | 0.67 |

The other eight kinds were tuned on 150 sentences each and on 456 harmless ones, in `personal_sentences.txt`, and then
tried on 25 each and on 100 harmless ones of `personal_sentences_unseen.txt`, written afterwards. Of the harmless ones
they refuse none there and 3 here. Unusual wording gets past more often: of a list of 200 before this one, which was
harder and is now among those tuned on, the rules of that time found 155.

| kind | precision, tuned | recall, tuned | precision, unseen | recall, unseen |
|---|---|---|---|---|
| identity | 0.97 | 0.99 | 0.90 | 0.76 |
| contact | 0.99 | 0.98 | 1.00 | 0.96 |
| belief | 0.99 | 1.00 | 0.88 | 0.92 |
| origin | 0.99 | 1.00 | 0.92 | 0.88 |
| sex_life | 0.99 | 0.99 | 0.95 | 0.80 |
| criminal | 1.00 | 0.99 | 0.96 | 0.96 |
| minor | 0.99 | 1.00 | 1.00 | 1.00 |
| location | 0.94 | 1.00 | 0.92 | 0.96 |

Of 44 sentences about secrets, health and payment that were written to be hard, the first rules missed 25. They are now
among those tuned on.
"""

from agent_reminiscence.react.sensitive.data import KINDS, told
from agent_reminiscence.react.sensitive.rules import SensitiveKind
from agent_reminiscence.react.sensitive.search import sensitive_kinds

__all__ = ["KINDS", "SensitiveKind", "sensitive_kinds", "told"]
