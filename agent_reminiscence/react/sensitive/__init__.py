"""Tells whether a short statement about a person is about a secret, about health or about payment; rules, no model.

English and German. A rule is a word or a phrase, what must stand near it, and what must not: "has cancer" is about
health, "works at a cancer research institute" is not. Numbers alone say something only if their checksum does. What the
redactor would remove counts in every language. `rules.py` has what a rule is and `search.py` applies them; the words of
each kind are in `secret.py`, `health.py` and `payment.py`.

- **secret**: somebody's password, PIN, key, token, recovery phrase, login, answer to a security question, or code of a
  door or a safe, with its value or without; also where a spare key lies.
- **health**: illness, injury, medication, diagnosis, test results, treatment, therapy, addiction, mental health,
  pregnancy, disability. Allergies and intolerances are health too, although a food agent needs them: a deployment may
  allow the kind.
- **payment**: card and account numbers, bank details, income, savings, debts and credit.

What a person works on, studies or reads about is not about the person, unless the words say so: "researches migraine"
is harmless, "has migraine" is not. Left out: other languages, identity papers and tax numbers, addresses, prices and
rents, births, body weight, diets, smoking and drinking, and what is said only between the lines ("sees Dr. Ito every
week"). Rules read words, not meaning: they are a filter that is mostly right, not a guarantee.

On 288 sentences of `tests/unit/react/sensitive_sentences.txt`, on which the rules were tuned, precision and recall are
1. On 70 of `sensitive_sentences_unseen.txt`, written afterwards:

| kind | sentences | precision | recall |
|---|---|---|---|
| secret | 12 | 1.00 | 0.83 |
| health | 16 | 0.93 | 0.88 |
| payment | 12 | 1.00 | 0.67 |

Whoever states things in an unusual way gets past the rules more often than that: of 44 sensitive sentences that were
written to be hard, the first rules missed 25. They are now among those tuned on.
"""

from agent_reminiscence.react.sensitive.rules import SensitiveKind
from agent_reminiscence.react.sensitive.search import sensitive_kinds

__all__ = ["SensitiveKind", "sensitive_kinds"]
