"""Closed lists of English words that tell names from other capitalised words; all in lower case.

They are short on purpose: a missed word is caught by its lower-case form elsewhere in the text.
"""

from __future__ import annotations

from agent_reminiscence.text.folding import FORMS_OF_ADDRESS


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FUNCTION_WORDS = _words(
    """
    a an the this that these those such i me my mine myself we us our ours you your yours he him his she her hers it its
    they them their theirs who whom whose which what when where why how whoever whatever whenever wherever whether and
    or but nor so yet if then than because while although though since until unless as once except despite at by for
    from in into of off on onto out over to up down with without within about after before between during through again
    across along among around against behind below beneath beside besides beyond near past per throughout toward towards
    upon via like unlike am is are was were be been being do does did doing done have has had having can could would
    shall should might must ain't can't won't don't doesn't didn't isn't aren't wasn't weren't not no never ever neither
    either both all any each every few many more most much less least none other others another some something someone
    somebody somewhere anything anyone anybody nothing nobody everything everyone everybody same own only just even
    still also too very quite rather really almost always often sometimes usually rarely already soon later now today
    tonight tomorrow yesterday here there away back ago one two three four five six seven eight nine ten first second
    third last next
    """
)
"""Words that are never a name and never begin or end one."""

CONVERSATION_WORDS = _words(
    """
    spring summer autumn fall winter weekend under yes yeah yep yup no nope nah ok okay oh ooh ah aw aww wow whoa woah
    yay woohoo hooray hey hi hiya hello howdy bye goodbye cheers thanks thank thx please sorry pardon welcome congrats
    congratulations haha hahaha hehe lol hmm huh ugh oops ouch phew cool great good nice awesome amazing wonderful
    fantastic excellent brilliant lovely beautiful super perfect impressive incredible interesting exciting inspiring
    happy glad sad proud excited best better well right wrong true sure certainly absolutely definitely totally exactly
    indeed probably maybe perhaps actually honestly seriously literally obviously apparently basically anyway anyways
    however therefore moreover furthermore meanwhile instead otherwise finally eventually recently currently lately
    suddenly luckily unfortunately fortunately hopefully speaking agreed wait look looks sounds seems feels guess let
    lets let's go going gonna gotta got get keep take make made see saw hear heard know tell told say said ask think
    thought wish want need love loved like enjoy enjoyed miss remember check try give feel believe imagine bring visit
    visited call called meet met read watch watched play played use used buy bought left went came come morning
    afternoon evening night dear sir madam mom mum mommy mummy dad daddy mother father grandma grandpa granny sis bro
    son daughter kids guys guy folks dude man god gosh jeez day days week weeks month months year years birthday note
    notes todo step example
    """
)
"""Words that begin chat sentences; none is a name on its own."""

DATES = _words(
    """
    apr april aug august cet dec december est feb february fri friday fridays gmt jan january jul july jun june mar
    march may mon monday mondays nov november oct october pst sat saturday saturdays sep sept september sun sunday
    sundays thu thur thurs thursday thursdays tue tues tuesday tuesdays utc wed wednesday wednesdays
    """
)
"""Days and months: dates, not names."""

GENERIC_ACRONYMS = _words(
    """
    ac ad ai aka am api apis ar asap atm ba bbq bc brb bs btw cd cds ceo cfo coo css cto dc diy diys dj dm dms dvd dvds
    eta etc faq fixme fomo fyi gpa gps hq hr html http https id idk ids ii iii imho imo iq irl it iv ix json lmao lol ma
    ml ms mvp nb np ok omg pc pcs pdf phd pls pm pps pr ps qa rofl rpg rpgs rsvp sql suv tba tbd tbh thx todo tv tvs ty
    ui ur url usb ux vi vii viii vip vr vs wip xi xii xml yolo
    """
)
"""Abbreviations that are written in capitals but are too common to be names."""

PRONOUNS = _words(
    """
    he i i'd i'll i'm i've im it it's ive she they we you
    """
)
"""Words that end a run of capitalised words: `when Tim I` is not a name."""

ARTICLES = _words(
    """
    a an any each every her his its my no our some that the their these this those your
    """
)
"""Words that precede an ordinary word."""

ALSO_WORDS = _words(
    """
    abbey ace alba amber angel apple april art ash aspen august aurora autumn basil bath bay bear bell bill bishop blaze
    block bond brook buck bud buddy buffalo bush butler candy carol cash chance charity chase cherry china chip chuck
    clay cliff clover cole colt compass concord cook cooper coral corn cotton crystal cube daisy dale dash dawn dean
    delta destiny diamond dick discord dove drew duke eagle earl echo elder ember eve excel express faith fern fig finch
    fisher flora ford forest fox frank gap gene genesis ginger glen glory go gold grace grant gray green grey guinea guy
    hail hall happy harmony harp hazel heath heather heaven hen herb hero hill holly honey hope house hunter indigo iris
    iron island ivory ivy jack jade jasmine jay jean jersey jet jewel joy judge june junior keen king kit kitty knight
    lance lane lark laurel leo liberty lily linear link lotus love lynx major maple march marina mark marks marsh mason
    mat max may meadow medium melody mercy merry meta meteor miles mill miller mint misty moon moss myrtle neon nick
    noble noon norm north notion oak oasis ocean olive opal oracle orange orchid page park parker pat patience patty
    pearl peg penny pepper petal piper plaid polly pope poppy porter potter price prince prudence pug python queen quill
    rain ram randy raven ray reading reed reef rich river rob robin rocky rod rose rosemary rosy ruby rue rush rust
    rusty sage sally salt sandy scarlet scout season serenity shade shell shepherd sienna signal silver sky slack smith
    snow sonic south spark spike square steel stella sterling stone storm story stream stripe sue summer sunny swift
    tailor tanner target teams temple tide tiger trace trinity trip tuck tucker turkey twist unity vale valley van
    victor viola violet visa wade walker ward warren watt wave weaver west wheeler will willow win windows wolf wood
    woods word wren young zest zoom
    """
)
"""Given names, companies and places that are also ordinary words."""

TITLES = FORMS_OF_ADDRESS | _words(
    """
    aunt auntie brother captain chef coach col colonel cpt dame father gen general grandma grandpa granny judge king
    lady lieutenant lord lt pastor president prince princess queen rabbi rev reverend saint senator sergeant señor
    señora sgt sir sister uncle
    """
)
"""Words before a person's name; those that are not forms of address stay part of the name."""

ABBREVIATIONS = _words(
    """
    capt col cpt dr ft gen jr lt mr mrs ms mt mx prof rev sgt sr st
    """
)
"""Abbreviations whose full stop does not end a sentence."""

RELATIVES = _words(
    """
    aunt boss boyfriend brother co-worker coach colleague cousin coworker dad daughter doctor father fiance fiancee
    fiancé fiancée friend girlfriend grandma grandpa husband mentor mom mother mum neighbor neighbour nephew niece
    roommate sister son teacher therapist uncle wife
    """
)
"""What one person is to another: `my friend Sarah`."""

MORE_RELATIVES = _words(
    """
    bruder ehefrau ehemann enkel enkelin freund freundin mama mann mutter oma onkel opa papa schwester sohn tante
    tochter vater
    fils fille frère maman mari mère père sœur
    esposa esposo hermana hermano hija hijo madre padre
    figlia figlio fratello marito moglie sorella
    filha filho irmã irmão mãe pai
    """
)
"""The same in German, French, Spanish, Italian and Portuguese; some mean something else, too, and no name depends on
them."""

CONNECTORS = _words(
    """
    & al bin da das de del della den der di do dos el ibn la le of van vom von y zu
    """
)
"""Words that join capitalised words: `Bank of Kenya`, `Ludwig van Beethoven`."""

ARTICLES_WITHIN = _words(
    """
    den der el la las los the
    """
)
"""Words that may follow a connector: `Lord of the Isles`."""

TITLE_SMALL_WORDS = _words(
    """
    & a an and as at but by de for from in is it la le nor of on or the to vs with
    """
)
"""Words that are not capitalised inside a title."""

UNITS = _words(
    """
    am day days different dollars euros hour hours hr hrs kg km meters metres miles min mins minute minutes month
    months more new of other people percent pm pounds second seconds times week weeks year years yr yrs
    """
)
"""Words after a number that show it belongs to them: `Tim 2 days ago`."""

SHORT_NAMES = _words("ali ann ben dan donna frances hans li luc marc nick otto roy sam tim tom")
"""Given names that never count as ordinary words, although some are in the vocabulary, or words in other languages."""

VERBS = _words(
    """
    is was has had does did said says asked asks told tells thinks thought knows knew believes wants wanted needs needed
    likes liked loves loved hates hated prefers preferred enjoys enjoyed lives lived stays stayed moved moves works
    worked studies studied teaches taught learns learned owns owned got gets gave gives bought buys sold sells uses
    used runs ran plays played goes went comes came left leaves met meets visited visits called calls wrote writes made
    makes built builds took takes brought brings found finds lost keeps kept started starts stopped stops joined joins
    plans planned hopes hoped wishes became becomes seems looks looked feels felt sent sends showed shows helped helps
    speaks spoke talks talked ate eats drinks drank drives drove cooks cooked paints painted sings sang won wins grew
    married manages managed leads led hired owes reports reported supports stores provides requires
    """
)
"""Verbs that show that a sentence starts with a name: `Maria works`."""
