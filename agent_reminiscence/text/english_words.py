"""The commonest English words, each a single token for all models that were measured.

`tokens.py` counts them for less than other words, so a word that is added here changes counts, and with them how texts
are cut into chunks from then on.
"""

from __future__ import annotations

from typing import Final

ENGLISH_WORDS: Final = frozenset(
    # Articles, pronouns, conjunctions, prepositions.
    """
    a an the this that these those i me my mine you your yours he him his she her it its we us our they them their
    who what which whose where when why how myself yourself himself herself itself themselves someone anyone everyone
    something anything nothing everything and or but nor so yet if then else than because while although though unless
    until since as of in on at to for from with without by about into onto over under above below between among through
    during before after against across along around behind beside inside outside near toward towards up down off out
    away back per via not no yes
    """.split()  # noqa: SIM905 - two hundred quotation marks would hide the words
    # Verbs, as they are said.
    + """
    be am is are was were been being have has had having do does did done doing don can could will would shall should
    may might must get gets got getting go goes went gone going come comes came coming make makes made making take takes
    took taken taking say says said saying see sees saw seen seeing know knows knew known think thinks thought thinking
    want wants wanted like likes liked love loves loved need needs needed use uses used using find finds found give
    gives gave given tell told ask asked asks work works worked working call called calls try tried trying feel felt
    keep kept let put leave left mean means meant seem seems look looks looked looking show shows showed start started
    begin began run runs running move moved play played live lived lives believe hold bring brought happen happened
    write wrote read stand sit lose lost pay paid meet met set learn learned change changed help helped talk talked turn
    turned follow stop stopped open opened close closed walk spend spent grow buy bought wait send sent build built stay
    stayed fall cut reach remember understand agree decided plan planned hope eat drink sleep join joined check add
    added share speak spoke hear heard
    """.split()  # noqa: SIM905
    # Nouns.
    + """
    time day days week weeks month months year years hour hours minute minutes morning evening night today tomorrow
    yesterday people man men woman women child children family friend friends mother father brother sister son daughter
    wife husband person home house room door school work job company team office city country world life way thing
    things place part name number line list file case point word words question answer idea problem story book
    money food water car dog cat hand head eye face side end money price order note birthday party trip phone message
    email music game group project meeting system data code test user type value class function state example
    """.split()  # noqa: SIM905
    # Adjectives, adverbs, numbers, and what is said in between.
    + """
    good better best bad great big small little long short high low old new young early late last next first second
    other another same different own few many much more most some any all both each every such one two three four five
    six seven eight nine ten only just also too very really quite still already even again always never often sometimes
    now soon later here there maybe perhaps well right sure true false nice happy sorry free full easy hard able
    important possible real white black red blue green please thanks thank hello hi hey oh ok okay yeah
    """.split()  # noqa: SIM905
)
