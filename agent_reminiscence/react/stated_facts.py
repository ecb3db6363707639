"""Finds the sentences of a message that state something lasting; rules, no model.

For an agent without a model that extracts facts. English and German. A sentence is returned if somebody in it, the
writer, what is the writer's, or somebody with a name, does, is or has something that lasts: where people live and work,
what they like, whom they belong to, what they have become, what they plan. The verb and its object decide: "I love
mountains" lasts, "I love your answer" does not.

Left out: questions, requests, greetings, hypotheses, what others are reported to say, quotations, quoted lines, code,
texts to be translated or corrected, and what is true only today. Also sentences about "she", "he" or "it", since a
sentence is stored by itself and nobody could tell later who was meant; and general knowledge, as far as rules can tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from agent_reminiscence.text.folding import fold_name, fold_text
from agent_reminiscence.text.label_words import GIVEN_NAMES
from agent_reminiscence.text.name_words import CONVERSATION_WORDS, DATES, FUNCTION_WORDS, PRONOUNS, RELATIVES
from agent_reminiscence.text.sentences import split_sentences

MAX_FACTS: Final = 20
MAX_FACT_CHARACTERS: Final = 500
# A paragraph longer than this is no statement of its writer, and only its beginning is read.
_MAX_LINE_CHARACTERS: Final = 20_000


def stated_facts(text: str) -> list[str]:
    """The sentences of `text` in which its writer states something lasting, verbatim and in order.

    >>> stated_facts("Hi! My sister Mara lives in Graz. Could you find me a train? I prefer window seats.")
    ['My sister Mara lives in Graz.', 'I prefer window seats.']

    Returns:
        At most `MAX_FACTS` sentences of at most `MAX_FACT_CHARACTERS` characters; longer ones are left out, not cut.
        Marks of a list before a sentence are no part of it. Repeated sentences are returned once.
    """
    facts: dict[str, str] = {}
    for sentence, seen in _sentences(text):
        if _BEGINS_MATERIAL.match(seen):
            break
        if len(sentence) <= MAX_FACT_CHARACTERS and _states_something(seen):
            facts.setdefault(fold_text(sentence), sentence)
        if len(facts) == MAX_FACTS:
            break
    return list(facts.values())


# Sentences -----------------------------------------------------------------------------------------------------------

# A letter that no word of ours has: it stands for each character that is somebody else's, or code.
_HIDDEN: Final = "\ua7f7"
_FENCED: Final = re.compile(r"^[ \t]*(```|~~~)[^\n]*\n?(?:(?!^[ \t]*\1)[^\n]*\n?)*+(?:[ \t]*\1[^\n]*)?", re.MULTILINE)
_INLINE_CODE: Final = re.compile(r"`[^`\n]{1,200}`")
_QUOTED_LINE: Final = re.compile(r"^[ \t]{0,3}>[^\n]*", re.MULTILINE)
_QUOTATION: Final = re.compile(
    r"\"[^\"\n]{1,1000}+\"|“[^“”\n]{1,1000}+”|„[^“”\n]{1,1000}+[“”]|«[^«»\n]{1,1000}+»|»[^«»\n]{1,1000}+«"
    r"|(?<!\w)[‘'](?:[^‘’'\n]|(?<=\w)[’'](?=\w)){1,300}+[’'](?!\w)"  # noqa: RUF001
)
_CODE_LINE: Final = re.compile(
    r"[ \t]*(?:[\w.\[\]\"']{1,60}[ \t]*(?:=|\+=|:=)[ \t]*\S|(?:def|class|import|from|return|const|let|var|function"
    r"|SELECT"
    r"|INSERT|public|private|#include|async|await)\b[^\n]*[({;=*]|(?:import|from) [\w.]+(?: import .*)?$|[$#>] ?\w+ .*$"
    r"|<[a-z/!]"
    r"|Traceback\b|File \"|at \w[\w.]*\()|[^\n]*(?:[{};]|=>|->|\(\))[ \t]*$"
)
_LIST_MARK: Final = re.compile(r"(?:[-*•–+]|\(?\d{1,2}[.)]|[a-z]\))[ \t]+")


def _sentences(text: str) -> Iterator[tuple[str, str]]:
    """Each sentence that the writer says: verbatim, and with everything hidden that is quoted or code."""
    shown = _FENCED.sub(lambda match: "\n" * len(match[0]), text)
    shown = _QUOTED_LINE.sub(lambda match: "\n" * len(match[0]), shown)
    shown = _INLINE_CODE.sub(lambda match: _HIDDEN * len(match[0]), shown)
    shown = _QUOTATION.sub(_hide_quotation, shown)
    start = 0
    for line in shown.split("\n"):
        if line.strip() and not _CODE_LINE.match(line[:_MAX_LINE_CHARACTERS]):
            yield from _sentences_of_line(text, line[:_MAX_LINE_CHARACTERS], start)
        start += len(line) + 1


def _hide_quotation(match: re.Match[str]) -> str:
    """As long as the quotation. The signs at its end stay: they may end the outer sentence too."""
    said = match[0][:-1].rstrip(".!?…")
    end = match[0][len(said) :]
    return _HIDDEN * len(said) + (end if len(end) > 1 else _HIDDEN)


def _sentences_of_line(text: str, line: str, start: int) -> Iterator[tuple[str, str]]:
    end = 0
    for sentence in split_sentences(line):
        begin = line.index(sentence, end)
        end = begin + len(sentence)
        if mark := _LIST_MARK.match(sentence):
            begin += mark.end()
        if begin < end:
            yield text[start + begin : start + end], line[begin:end].replace("’", "'")


# What no statement is ------------------------------------------------------------------------------------------------

# The text to work on follows, which need not be the writer's.
_BEGINS_MATERIAL: Final = re.compile(
    r"(?i)(?:please |bitte |can you |could you |kannst du )?(?:translate|summari[sz]e|proofread|correct|rewrite"
    r"|paraphrase|rephrase"
    r"|edit|improve|fix|check|analy[sz]e|classify|übersetz\w*|korrigier\w*|fass\w*|verbesser\w*|formulier\w*"
    r"|prüf\w*)\b[^\n]*:"
)
_QUESTION: Final = re.compile(
    r"(?i)[^\n]*[?？]\W*$"  # noqa: RUF001
    r"|(?:so |and |but |und |aber |also )?(?:"
    r"(?:do|does|did|can|could|would|will|should|shall|is|are|was|were|have|has|am|may|might)(?:n't)? "
    r"(?:i|you|we|he|she|it|they|there|the|my|your|this|that|anyone|someone)\b"
    r"|(?:what|where|when|why|who|how|which)(?:'s|'re| (?:\w+ )?(?:do|does|did|can|could|would|will|should|is|are|was"
    r"|were|much|many"
    r"|long|to))\b"
    r"|(?:kannst|könntest|kann|können|könnten|soll|sollte|sollen|ist|sind|hast|haben|habe|bin|gibt|darf|muss|weißt"
    r"|wirst|würdest|magst"
    r"|willst|wollen|mag|wohne|wohnt|arbeite|trinke|esse|lebe) (?:ich|du|wir|er|sie|es|ihr|man|mein\w*|dein\w*|der|die"
    r"|das)\b"
    r"|(?:wo|wann|wer|wen|wem|was|wie|warum|wieso|weshalb|welche\w?|wohin|woher)\b(?! (?:ich|wir|mich|uns|mir)\b))"
)
_HYPOTHESIS: Final = re.compile(
    r"(?i)\b(?:if (?:i|we|my \w+) (?:were|was|had|could|would|lived|worked)|if only|what if|i wish|we wish|wish (?:i"
    r"|we)|would have|could have"
    r"|suppos(?:e|ing)|imagine|pretend|assum(?:e|ing)|let's say|hypothetical\w*|as if|as though|say i (?:am|live|have)"
    r"|wäre|wären|hätte|hätten|würde|würden|könnte|könnten|angenommen|stell dir vor|stellen wir uns|tu so|tue so"
    r"|als ob)\b"
)
# Requests, of which only what is added as a reason states something.
_REQUEST: Final = re.compile(
    r"(?i)(?:(?:ok|okay|hey|hi|hello|hallo|so|now|then|and|also|und|dann)[,!]? )?(?:please|kindly|bitte|let's|lass uns"
    r"|don't|do not"
    r"|add|answer|arrange|ask|be|book|bring|build|buy|calculate|call|cancel|change|choose|come|compare|compose|convert"
    r"|create|delete"
    r"|describe|do|draft|explain|find|forget|generate|get|give|go|help|ignore|keep|list|look|make|move|open|order|pick"
    r"|plan|play"
    r"|prepare|provide|put|read|recommend|remember|remind|remove|repeat|reply|reserve|run|save|say|schedule|search|send"
    r"|set|show"
    r"|start|stop|suggest|take|tell|think|try|turn|update|use|wait|write"
    r"|antworte|berechne|beschreib\w*|bestell\w*|buch\w?|empfiehl|erinner\w*|erkläre?|erstell\w*|erzähl\w*|finde?|gib"
    r"|hilf|ignorier\w*"
    r"|lass|lies|lösch\w*|mach|nenn\w?|nimm|plane|reservier\w*|sag|schau|schick\w?|schlag|schreib\w?|setz\w?|spiel"
    r"|stell|such\w?|such|vergiss"
    r"|zeig\w?|kauf\w?|ruf|sende)\b(?!')"
)
_REASON: Final = re.compile(r"(?i)[,;–—]| - |\b(?:because|since|weil|denn|da)\b")
# "Please note that I am vegan" asks for nothing but to be believed.
_NOTICE: Final = re.compile(
    r"(?i)(?:(?:ok|okay|hey|hi|so|and|also|please|bitte)[,!]? )*(?:(?:note|remember|keep in mind|bear in mind|be aware"
    r"|don't forget|know)"
    r"(?:,| that|:)|fyi\b[,:]?|for the record[,:]?|just so you know[,:]?|you should know(?: that)?"
    r"|(?:merk|merke) dir\b[,:]?|denk(?:e)? daran\b,?|vergiss nicht\b,?|zur info\b[,:]?|beachte\b,?"
    r"|du solltest wissen\b,?)\s*"
)
# What stands before a clause that does not state, or that somebody else states.
_NOT_STATED: Final = re.compile(
    r"(?i)(?:\b(?:if|whether|unless|when|whenever|while|how|what|where|why|who|which|in case|so that|until|before|than"
    r"|like|wenn|falls|ob"
    r"|wo|wie|warum|wann|was|damit|bevor|bis|sobald|ob wohl)|\b(?:if|whether|unless|how much|how long) (?:and \w+"
    r"|or \w+)"
    r"|(?<!\bi )(?<!\bwe )\b(?:says?|said|tells?|told|thinks?|claims?|claimed|asks?|asked|wonders?|wrote|writes"
    r"|believes?|heard|think|read)"
    r"(?: me| us| him| her| them)?(?: that| if| whether)?|(?<!\bich )\b(?:sagte?|meinte?|behauptete?|schreibt|schrieb"
    r"|fragte?|glaubt|denkt|findet)"
    r"(?: mir| uns)?),?(?: dass| ob)? ?$"
)

# What lasts ----------------------------------------------------------------------------------------------------------

_NOW: Final = re.compile(
    r"(?i)\b(?:today|tonight|right now|at the moment|just now|this (?:morning|afternoon|evening|minute|week|weekend)"
    r"|tomorrow|yesterday|last night"
    r"|in a (?:minute|moment|second)|again and again|heute|gestern|jetzt|gleich|gerade|eben noch|vorhin"
    r"|(?<!jeden )(?<!am )(?<!guten )"
    r"morgen(?! früh trink)|diese woche|im moment)\b"
)
# Things of the conversation, not of the world.
_THIS: Final = (
    r"(?!(?:it|this|that|these|those|them|you|your|yours|the (?:idea|answer|way you|first one|second one|last one"
    r"|first option|second option"
    r"|following|above|sound of|look of|code|error|script|example|suggestion|plan|result|output|link|one)|what you"
    r"|how you|to (?:know|see|ask|hear"
    r"|thank|say|go|get|have|help|be able)|everything you|both of (?:them|those)|me|him|her|none of|how|where|all the"
    r"|all of"
    r"|seeing|hearing|being able|every bit|the fact|spending time with you)\b(?! when (?!you\b)))"
)
_ADVERBS = (
    r"(?:(?:also|always|never|usually|often|really|still|currently|now|only|both|mostly|generally|absolutely|just"
    r"|actually|rarely|seldom"
    r"|sometimes|no longer|personally|originally|normally|typically|mainly|hardly ever|almost never|truly|simply"
    r"|regularly|all|do|don't"
    r"|do not|don't really|did|didn't|can't|cannot|can not|can|won't|even|much|kind of|dearly|strongly"
    r"|primarily) ){0,3}"
)
_HAVE = (
    r"(?!(?:an? |any |some |another |one |no |two |a few |several |just |only |such an? |the (?:same |following )?"
    r"|more |further |other |quick |few"
    r" |little |lots of |much |my ){0,3}(?:quick |small |short |little |simple |follow-up |other |similar |strange "
    r"|serious |busy |great |good |bad "
    r"|nice |terrible |lovely ){0,2}(?:question|problem|meeting|minute|moment|second|idea|issue|bug|error|doubt"
    r"|appointment|time|call|request"
    r"|feeling|look|clue|thought|chance|day|evening|weekend|headache|fun|concern|suggestion|trouble|task|deadline"
    r"|choice|option|plan for|cold\b"
    r"|list|file|text|table|string|function|script|dataframe|column|flight|train|ticket|dream last|lot to|point|reason"
    r"|date tonight|break"
    r"|number of questions)|the\b|(?:big |any )?plans\b|friends and|to\b|been\b|had\b|tried|read|seen|heard|got to"
    r"|noticed|found|done|made|just|already|attached|written|decided not"
    r"|sent|asked|it\b|this\b|that\b|you\b|your\b|nothing\b|everything\b|something\b|forgotten)"
)
_LASTING_VERBS = (
    rf"(?:(?:like|love|hate|prefer|enjoy|dislike|adore|detest|loathe|avoid|own|support|collect|tolerate|fear"
    rf"|admire) {_THIS}\w"
    r"|(?:eat|drink|wear|drive|ride|speak|teach|play|paint|cook|bake|grow|sell|rent|breed|celebrate|practi[sc]e|study"
    r"|observe|translate"
    rf"|use|manage|lead|coach|train|attend|rent) {_THIS}\w"
    r"|(?:live|reside|work|study|volunteer|commute|meditate|swim|ski|climb|hike|cycle|knit|garden|travel|sing|dance"
    r"|smoke|drink|surf|sail|row"
    r"|jog|pray|farm|freelance|teach|cook|paint|fish|hunt|camp|stutter|snore|ski|skate|box)"
    r"\b(?! (?:for (?:me|us)\b|with (?:it|this|that)\b|around (?:it|this)\b|on (?:it|this|that|the following)\b))"
    rf"|have {_HAVE}|(?:'ve|have) got (?!to\b|it\b|this\b|an? (?:question|error|problem|idea|minute|issue)|no idea"
    rf"|the (?:error|message|following))"
    r"|(?:believe in|belong to|come from|hail from|look after|care for|suffer from|struggle with|work out|live with"
    r"|stand(?= \w+ing\b| \w+s\b| the| people)"
    r"|depend on|root for|subscribe to|listen to(?! you| this| that)|watch(?= \w+ (?:every|a lot))|go by"
    r"|got? to (?:church|school|university|college|the gym"
    r"|therapy|mass|mosque|synagogue|bed)|get up|wake up|go (?:running|swimming|climbing|hiking|skiing|fishing|cycling"
    r"|jogging|dancing|sailing)"
    r"|keep (?:bees|chickens|hens|goats|sheep|kosher|a diary|a journal|rabbits|horses|pigeons|a cat|a dog)|share (?:a"
    r"|an|my|our) (?:flat|room"
    r"|office|house|apartment|custody|garden|studio|car)|take (?:insulin|medication|pills|sugar|the (?:bus|train|tram"
    r"|bike|metro) to work|my (?:coffee|tea))"
    r"|know how to|need (?:glasses|a wheelchair|step-free|large print|subtitles|halal|kosher|vegetarian|vegan"
    r"|gluten-free|a hearing)"
    r"|write (?:novels|poems|poetry|books|short stories|in rust|for (?:a|the)|a (?:blog|column|weekly|monthly))"
    r"|read (?:mostly|a lot|novels|science"
    r"|poetry|one book|\w+ books)|run (?:a|an|my own|our|marathons?|every|half|ultras?|five|ten|\d+ ?k\w*|in the|twice"
    r"|three)|raise|walk (?:to work|my dog|our"
    r"|the dog)|buy (?:only|my|organic|second-hand)|vote for|do (?:yoga|judo|karate|pilates|ballet|crossfit|volunteer)"
    r"|say no to|play)\b)"
)
_BE = r"(?:am|are|'m|'re|was|were)"
_PREDICATES = (
    r"(?:(?:not |really |very |quite |also |still |both |now |just |actually |currently |only |severely |originally "
    r"|happily |a self-taught |almost"
    r" |nearly |completely |strictly |mostly |already ){0,3}(?:"
    r"an? (?!bit\b|little\b|lot\b|tad\b|few\b|loss\b|mess\b|hurry\b|moment\b|while\b|rush\b|meeting\b"
    r"|huge fan of (?:this|that|it)|fan of (?:this|that|it))\w"
    r"|from \w|\d{1,3}(?: years old|,| and|\.|$)|(?:nine|eigh|seven|six|four|thir)teen\b|(?:twenty|thirty|forty|fifty"
    r"|sixty|seventy|eighty)\b"
    r"|allergic|intolerant|vegan|vegetarian|pescatarian|married|single|divorced|engaged|widowed|separated|pregnant"
    r"|expecting|retired|unemployed"
    r"|self-employed|freelance|left-handed|right-handed|colou?r-?blind|blind|deaf|dyslexic|autistic|diabetic|asthmatic"
    r"|lactose|gluten|celiac"
    r"|coeliac|bilingual|trilingual|fluent in|based in|born|raised|adopted|religious|atheists?|jewish|muslim|christian"
    r"|catholic|buddhist|hindu"
    r"|interested in (?!this|that|it\b|your)|afraid of (?!this|that|it\b)|scared of (?!this|that|it\b)|into (?!this"
    r"|that|it\b)|fond of|keen on"
    r"|passionate about|proud of my|good at|bad at|terrible at|responsible for|in charge of|in my (?:twenties|thirties"
    r"|forties|fifties|sixties)"
    r"|learning (?!about this|that)|training (?:for|as|to)|studying|saving (?:for|up)|planning (?:to|on|a)|moving (?:to"
    r"|in|out|house)|getting (?:married"
    r"|divorced)|retiring|working (?:as|at|for|in|part|full|nights|from home)|working on (?:a|an|my"
    r"|our) (?:\w+ )?(?:book|novel|thesis|phd|game|startup"
    r"|film|dissertation|album|farm)|living|raising|teaching|building (?:a|my|our)|renovating|writing (?:a|my) (?:book"
    r"|novel|thesis|phd|dissertation"
    r"|memoir)|called|named|parents|twins|neighbou?rs|members of|close friends|best friends|one of|on (?:a"
    r"|the) (?:\w+ )?(?:diet|board|committee|team|council"
    r"|low-carb|keto)|part of|the (?:owner|ceo|cto|cfo|head|youngest|oldest|eldest|only|middle|mother|father|founder"
    r"|manager|lead|captain|treasurer|chair"
    r"|first in)|six feet|\d[.,]?\d* ?(?:m|cm|feet|ft)\b))"
)
_GOALS = (
    r"(?:become|be (?:a|an|the|my)|learn|move|study|retire|start (?:a|my|an|over|running|learning)|open (?:a|my|our)"
    r"|write (?:a|my)|run (?:a|my|the|for)|travel"
    r"|buy a (?:\w+ )?(?:house|flat|home|car|dog|boat|farm)|have (?:kids|children|a (?:family|baby|dog))|get (?:married"
    r"|a (?:dog|cat|puppy|degree|phd))|lose"
    r" (?:weight|\d)|visit|quit|stop|give up|finish (?:my|school|university)|build (?:a|my|our) (?:house|cabin|boat"
    r"|business|company|life)|live|work (?:as|for|in"
    r"|at|less|abroad)|switch|go (?:vegan|back|to university)|adopt|emigrate|settle|save|see the|spend more time)"
)
_EVENTS = (
    r"(?:moved (?:to|in|from|out|here|back|house)|relocated|emigrated|immigrated|settled|got (?:married|engaged"
    r"|divorced|promoted|fired|an? (?:\w+ )?(?:dog|cat|puppy|job"
    r"|kitten|degree|scholarship|tattoo))|married|divorced|separated|split up|was (?:born|raised|promoted|diagnosed"
    r"|laid off|fired|adopted|vegetarian|vegan)|were"
    r" (?:born|raised|adopted)|grew up|studied|graduated|quit|resigned|retired|joined (?!this|the (?:call|meeting))"
    r"|founded|co-founded|opened (?:a|an|our|my) (?:\w+"
    r" )?(?:shop|store|bakery|cafe|café|restaurant|studio|practice|bar|school|gallery|office)|started (?:(?:a|an|my|our"
    r"|at|as|working|learning|playing|taking|running"
    r"|studying|school|university|teaching|training|rowing|climbing) ?)|bought (?:a|an|our|my) (?:\w+ ){0,2}(?:house"
    r"|flat|home|car|apartment|farm|boat|van|bike|cottage|cabin"
    r"|cat|dog|horse|piano)|sold (?:our|my) (?:\w+ )?(?:house|flat|home|car|apartment|farm|boat|van|bike|company"
    r"|business)|adopted|became|lost my (?:job|mother|father|mom"
    r"|dad|wife|husband|brother|sister|son|daughter|leg|sight|hearing)|gave up|stopped (?!working\b|the)\w+ing"
    r"|switched (?:from|to|careers|jobs)|changed (?:jobs|careers|my"
    r" name|schools)|inherited|had (?:a|our|my|twins) ?(?:\w+ )?(?:baby|daughter|son|stroke|child|miscarriage)?(?<=baby"
    r"|hter|.son|roke|hild|iage|wins)|used to|learn(?:ed|t)"
    r" (?!that|about this|from you|how (?:this|that))|taught|worked (?:as|at|for|in|there|with)|lived|served|won (?:a"
    r"|an|the)|turned \d|met my|published|completed"
    r" my|passed my|finished my (?:phd|degree|studies|thesis|training|apprenticeship)|named (?:him|her|our|my|the)"
    r"|once (?:lived|worked|owned)|spent \w+ (?:years|months)"
    r"|trained as|majored|dropped out|came (?:to|from) [A-Z]\w+ (?:in|as|when)|built our|broke my)"
)
_SINCE = (
    r"(?:since\b|for (?:\w+ ){0,3}(?:years?|months|decades|ages|half)|all (?:my|our) li[fv]e|always|never"
    r"|most of my life|my whole life|in the past)"
)
_LIVES = (
    r"(?:lives?|works?|likes?|loves?|hates?|prefers?|enjoys?|studies|teaches|plays|speaks?|eats?|drinks?|owns?"
    r"|collects?|drives?|wears?|smokes?|comes? from|grew up"
    r"|was born|were born|died|passed away|moved|married|got (?:married|engaged|divorced|promoted|a)|turn(?:s|ed) \w+"
    r"|became|joined|founded|graduated|retired|quit|runs"
    r" (?:a|an|the|marathons|his|her|our)|manages|leads|goes to|attends|suffers|uses|used to|belongs? to|closes?|opens?"
    r"|starts? (?:at|school|university|work|in)|ends? at"
    r"|wants? to|hopes to|plans to|can't (?!come|make|be|join)|cannot|can (?:speak|play|ride|drive|swim|read|cook)"
    r"|doesn't|don't|never|always|has (?:always|never|been)"
    r"|cost|costs|keeps?|raises?|needs? (?:glasses|a wheelchair|a new|\w+ free)|will be \w|stands for|sits (?:on|in)"
    r"|weighs?|has its|named|trains|teach|swims?|sings?"
    r"|volunteers?|commutes?|travels?|is called|stutters?|snores?|barks?|hates?|fears?|celebrates?|survived|has got"
    r"|have got|looks after)"
)
_NOT_OF_THE_WORLD = (
    r"(?!(?:(?:first|second|last|next|main|only|other|biggest|previous|current|original|final|real"
    r"|actual) )?(?:questions?|point|problems?|issues?|errors?|code"
    r"|scripts?|programs?|functions?|query|queries|tests?|builds?|orders?|packages?|parcels?|flights?|trains?|bus|taxi"
    r"|messages?|e-?mails?|mistakes?|bad\b"
    r"|guess|apolog\w+|ideas?|understanding|concerns?|worry|battery|internet|connection|browser|requests?|answers?"
    r"|thoughts?|turn|meetings?|appointments?"
    r"|deadline|tickets?|screen|input|output|data|files?|documents?|text|essay|draft|prompt|suggestions?|attempts?|luck"
    r"|pleasure|day|weekend|head|stomach|feet"
    r"|fault|try|requirements?|goal (?:here|is)|task|reasoning|solution|approach|assumption|friends? (?:says?|said|told"
    r"|asked)|friend here"
    r"|last (?:one|message|question))\b)"
)
_NOT_LASTING = (
    r"(?!(?:not |still |already |always |so |very |really |a bit |too |all |just |currently |currently not |now "
    r"|almost |completely |also )*(?:late|here|there|ready"
    r"|broken|down|working(?! (?:as|at|for|in))|failing|tired|sick|angry|happy with|upset|home|coming|arriving|waiting"
    r"|asking|visiting|sleeping|crying|back|done"
    r"|gone|missing|lost|delayed|cancel\w+|unclear|that\b|whether|how\b|what\b|why\b|to\b|as follows|below|above"
    r"|correct|wrong|empty|full|slow|stuck"
    r"|crashing|on (?:its|the|his|her) way|running|in the (?:kitchen|car|mail|way)|been\b|getting (?!married|divorced)"
    r"|asleep|hungry|bored|dead\b(?= again)"
    r"|fine\b|ok\b|okay\b|out of|stolen|dirty|wet|cold\b|hot\b|killing|driving me|hurting|this\b|it\b|no idea"
    r"|a question|a mess|up to|due|overdue|about to"
    r"|trying|looking|calling|thinking|making|wondering|interested in this|excited|disappeared|stopped|crashed|arrived"
    r"|heard|seen|told|asked|tried|left)\b)"
)
_CLAUSE_START = (
    r"(?:^|(?<=[,;:–—-] )|(?<=\band )|(?<=\bbut )|(?<=\bbecause )|(?<=\bsince )|(?<=\bas )|(?<=\bso )"
    r"|(?<=\bthough )|(?<=\bund )|(?<=\baber )|(?<=\bdenn ))"
)
_OF_PEOPLE = "|".join(sorted(map(re.escape, RELATIVES)))

# What somebody has become, always was, or plans; it lasts even if it happened today.
_CHANGES: Final = (
    re.compile(
        rf"(?i:\b(?:i|we)(?:'ve| have| had)? (?:both |just |only |recently |finally |also |originally |actually |never "
        rf"|always |once |later )?{_EVENTS})"
    ),
    re.compile(r"(?i:\b(?:i|we)(?:'ve| have) (?:also |both |already )?(?:always|never) \w+)"),
    re.compile(
        rf"(?i:\b(?:i|we)(?:'ve| have) (?:also |both |already )?(?:been|lived|worked|known|had|owned|played|studied"
        rf"|taught|practi[sc]ed) "
        rf"(?!trying|waiting|having|getting|looking|thinking|wondering|struggling|debugging|stuck|seeing|asked"
        rf"|told)[^!?]{{0,80}}?{_SINCE})"
    ),
    re.compile(
        rf"(?i:\b(?:i|we)(?:'m|'re| am| are)? (?:really |also |still |always |both )?(?:want(?:ed)?|plan(?:ning)?"
        rf"|intend|hop(?:e|ing)|going|decided|would love|dream of"
        rf"|aim|'ll|will|am planning) (?:to (?:\w+ly )?)?{_GOALS}\b)"
    ),
    re.compile(
        r"(?i:\b(?:i|we)(?:'ll| will|'m going to|'re going to|'m| am|'re| are) (?:be )?(?:mov(?:e|ing) (?:to|in|back"
        r"|house)|retir(?:e|ing)|start(?:ing)? (?:at|as|a new|my new|school"
        r"|university)|turn(?:ing)? \d|get(?:ting)? married|hav(?:e|ing) a baby|becom(?:e|ing)))"
    ),
    re.compile(
        r"(?i:\b(?:bin|sind|ich|wir|wurde|wurden|ist)\b[^!?]{1,80}\b(?:geboren|aufgewachsen|(?:um|aus|weg|zurück|ein"
        r"|zusammen)?gezogen|ausgewandert|eingewandert|geworden|in rente gegangen|beigetreten)\b)"
    ),
    re.compile(
        r"(?i:\b(?:habe|haben)\b[^!?]{1,80}\b(?:geheiratet|studiert|gekündigt|gegründet|adoptiert|geerbt|promoviert"
        r"|gelernt|aufgehört|angefangen|gearbeitet|gelebt|gewohnt|abgeschlossen|bestanden|getrennt|verlobt"
        r"|scheiden lassen|geburtstag|aufgegeben)\b)"
    ),
    re.compile(
        r"(?i:\b(?:habe|haben)\b[^!?]{1,30}\b(?:haus|wohnung|auto|hund|katze|hof|garten|boot"
        r"|welpen)\b[^!?]{0,20}\b(?:gekauft|gebaut|bekommen|verkauft)\b)"
    ),
    re.compile(
        r"(?i:\b(?:ich|wir) (?:\w+ )?(?:wohnte\w?|lebten?|lebte|arbeiteten?|studierten?|heirateten?|zog(?:en)? (?:nach"
        r"|um|in)|wuchs(?:en)?|besaß|spielten? früher)\b)"
    ),
    re.compile(
        r"(?i:\b(?:möchte|möchten|will|wollen|werde|werden|plane|planen|habe vor|haben vor)\b[^!?]{1,60}\b(?:werden"
        r"|lernen|umzuziehen|umziehen|ziehen|studieren|heiraten|aufhören|gründen|abnehmen|auswandern"
        r"|kündigen|bauen|adoptieren)\W*$)"
    ),
    re.compile(
        rf"(?i:{_CLAUSE_START}"
        r"(?:mein|meine|unser|unsere)\b (?!(?:\w+ )?(?:fragen?|probleme?|fehler|code|meinung|zug|bus|flug|bestellung"
        r"|paket|nachricht|e-?mail|akku|internet|termin|idee|anliegen|bitte|skript|programm|anfrage|text|datei"
        r"|entschuldigung|vorschlag|bildschirm|kopf|tag|wochenende)\b)(?:[\w'-]{1,30},? ){1,6}?(?:(?:heißt|heißen|wohnt"
        r"|wohnen"
        r"|lebt|leben|arbeitet|arbeiten|studiert|studieren|mag|mögen|liebt|lieben|hasst|spricht|sprechen|spielt"
        r"|spielen|isst|essen|trinkt|trinken|kommt aus|kommen aus|geht (?:in|auf|zur|seit|jeden)|fährt|wurde|wird"
        r"|werden|starb|kann (?:nicht|kein|gut)|will|möchte|schließt|öffnet|besitzt|gehört|lernt|trägt|zieht|leidet"
        r"|verträgt|raucht|sammelt|bevorzugt|unterrichtet|verstarb|macht (?:eine|seit|jeden)|sitzt im|hasst|leitet"
        r"|betreibt|fürchtet|beginnt|studierte|arbeitete|lebte|wohnte)\b"
        r"|(?:ist|sind|war|waren|hat|haben) (?!(?:\w+ )?(?:da|hier|weg|kaputt|leer|spät|verspätet|müde|fertig|unterwegs"
        r"|gerade|heute|abgestürzt|dass|ob|wie|noch nicht|nicht da|angekommen|zu hause|zuhause|verspätung"
        r"|mir|gesagt|gefragt|geschrieben|angerufen)\b)\w))"
    ),
)
# What somebody is, has and does, and what belongs to the writer's world.
_HABITS: Final = (
    re.compile(rf"(?i:\b(?:i|we)(?:'ve| have) got (?!to\b|the\b){_HAVE}\w)"),
    re.compile(rf"(?i:\b(?:i|we) {_ADVERBS}{_LASTING_VERBS})"),
    re.compile(rf"(?i:\b(?:i|we)(?: |(?=')){_BE} {_PREDICATES})"),
    re.compile(
        rf"(?i:{_CLAUSE_START}(?:my|our|both my|all my"
        rf"|one of my) {_NOT_OF_THE_WORLD}(?:[\w'&-]{{1,30}},? ){{1,6}}?(?:(?:also |both |still |never |always |only "
        rf"|really |usually |often ){{0,2}}{_LIVES}\b(?! (?:it|this|that)\b)"
        rf"|(?:is|are|was|were|has|have)(?:n't)? {_NOT_LASTING}\w))"
    ),
    re.compile(
        rf"(?i:{_CLAUSE_START}(?:my|our) {_NOT_OF_THE_WORLD}[\w-]{{1,30}}(?: [\w-]{{1,30}}){{0,3}}'s (?:name|birthday"
        rf"|favou?rite|{_NOT_LASTING}(?:an?|called|from|in)\b))"
    ),
    re.compile(
        rf"(?i:\b(?:is|are|was|were) (?:one of )?(?:my|our) (?:\w+ )?(?:favou?rites?|native|mother|first|second|least"
        rf"|preferred|dogs?|cats?|boss|home ?town|employer|landlord"
        rf"|neighbou?rs?|partner|fiancée?|hobby|hobbies|passion|dream|name|birthday|parents|kids|children"
        rf"|{_OF_PEOPLE})\b)"
    ),
    re.compile(r"(?i:\b(?:is|are|was) (?:such )?an? (?:huge|big|important|major|central) part of (?:my|our) li[fv]e)"),
    re.compile(
        r"(?i:\b(?:wohnt|wohnen|lebt|leben|arbeitet|arbeiten|studiert|heißt|spielt) (?:mein|meine|unser"
        r"|unsere) [\w-]{2,})"
    ),
    re.compile(
        r"(?i:\bthere(?:'s| is| are) [^!?]{3,80} (?:in|at|near|next to|behind|opposite|around|close to) (?:my"
        r"|our)\b)"
    ),
    re.compile(
        r"(?i:\bthe (?:[\w'-]+ ){1,3}(?:opens|closes|is (?:closed|open) (?:on|from|until|at|every|daily|all)"
        r"|is located)\b)"
    ),
    re.compile(
        r"(?i:\bas (?:an? |the )(?!result|rule|follow|test|side|bonus|last|workaround|start|matter|joke|reminder"
        r"|reference|next|first|second|quick|beginner question)"
        r"(?:[\w-]+ ){1,3}?(?:i|we)\b)|(?i:\bas (?:an? )(?:[\w-]+ ?){1,3}, (?:i|we)\b)"
    ),
    re.compile(
        r"(?i:\b(?:ich|wir) (?:auch |immer |nie |gern |gerne |noch |nur |beide |nicht )?(?:heiße|heißen|heisse|wohne"
        r"|wohnen|lebe|leben|arbeite|arbeiten|studiere|studieren|unterrichte\w*"
        r"|spreche|sprechen|bevorzuge\w*|besitze\w*|sammle|sammeln|rauche\w*|trinke|trinken|esse|essen|lerne|lernen"
        r"|vertrage\w*|leide|pendle|pendeln|stamme\w*|meide|vermeide"
        r"|verabscheue|engagiere|ernähre\w*|miete\w*|spiele|spielen|singe|singen|male|reite|reiten|klettere|wandere"
        r"|wandern|schwimme|jogge|stricke|backe|tanze|tanzen|züchte\w*"
        r"|verdiene|jobbe|forsche|programmiere|entwickle|leite|führe ein\w*|betreibe\w*|gehöre|hasse|hassen|fürchte)\b)"
    ),
    re.compile(
        r"(?i:(?<=\w) (?:heiße|wohne|wohnen|lebe|leben|arbeite|arbeiten|studiere|studieren|unterrichte\w*|spreche"
        r"|sprechen|bevorzuge\w*|besitze\w*|sammle|sammeln|rauche\w*|trinke|trinken"
        r"|esse|essen|lerne|lernen|vertrage\w*|leide|spiele|spielen|singe|wandere|wandern|klettere|schwimme|jogge|leite"
        r"|gehe|gehen|fahre|fahren|laufe|koche|backe|reise|mag|liebe|hasse|bin|sind"
        r"|habe|haben|stehe|verbringe\w*) (?:ich|wir)\b(?! (?:eine frage|ein problem|gerade|noch eine)))"
    ),
    re.compile(
        r"(?i:\b(?:ich|wir) (?:mag|mögen|liebe|lieben|benutze|benutzen|nutze|nutzen|verwende|verwenden) (?!es\b|dich"
        r"|dein|euer|eure|diese\w*|das\b(?! [A-ZÄÖÜ])|ihn\b|ihre antwort))"
    ),
    re.compile(r"(?i:\b(?:ich|wir) (?:komme|kommen|stamme) (?:ursprünglich |eigentlich )?aus\b)"),
    re.compile(
        r"(?i:\b(?:ich|wir) (?:fahre|fahren|gehe|gehen|laufe|laufen|stehe|stehen|reise|reisen|koche|kochen|lese"
        r"|schreibe|nehme|nehmen|trage|schlafe|mache|machen|treffe|kaufe|putze|besuche) [^!?]{0,40}"
        r"\b(?:immer|nie|jede[nrsm]?|meistens?|täglich|oft|regelmäßig|kein\w*|nur|am liebsten|gerne?"
        r"|um \w+ (?:uhr )?auf|samstags|sonntags|montags|morgens|abends|zur arbeit|zur schule|in die schule"
        r"|in den chor|insulin|tabletten|medikamente)\b)"
    ),
    re.compile(
        r"(?i:\b(?:ich|wir) (?:kann|können) (?:leider |auch |sehr )?(?:nicht|kein\w*|gut"
        r"|fließend) (?:\w+ )?(?:schwimmen|kochen|tanzen|singen|autofahren|auto fahren|rad fahren|backen|lesen|reiten"
        r"|(?:deutsch|englisch|französisch|spanisch|italienisch|türkisch|russisch)\b))"
    ),
    re.compile(
        r"\b(?i:ich|wir|bin|sind|war|waren) (?i:bin|sind|war|waren|ich|wir) (?:(?i:auch|seit \w+(?: \w+)?|noch|beide"
        r"|leider|früher|nicht|von beruf|gelernte[rn]?|überzeugte[rn]?|strenge[rn]?|eigentlich|immer|schon|stolze[rn]?"
        r"|jetzt|inzwischen|selbst|begeisterte[rn]?|zum glück) ){0,2}(?:(?i:ein|eine|einer|kein|keine|aus|der|die|das"
        r"|im verein|in (?:rente|pension|elternzeit|therapie)|gegen|allergisch|vegan|vegetarisch|verheiratet"
        r"|geschieden|ledig|verwitwet|schwanger|getrennt|verlobt|selbst(?:st)?ändig|arbeitslos|farbenblind|blind|taub"
        r"|gehörlos|religiös|evangelisch|katholisch|jüdisch|muslimisch|linkshändig|mitglied|\d{1,3}(?: jahre)?)\b"
        r"(?! (?i:meinung|gleiche|einzige|frage|idee|sache|überzeugung))|(?!(?i:ihnen|sie|dir|ihr|euch|ok|okay|feuer"
        r"|dabei|da|hier)\b)[A-ZÄÖÜ]\w{3,})"
    ),
    re.compile(
        r"(?i:\b(?:ich|wir) (?:habe|haben) (?:auch |noch |nur |leider |zusammen |seit \w+ (?:\w+ )?)?(?:ein|eine|einen"
        r"|zwei|drei|vier|fünf|sechs|\d+|kein|keine|keinen|mehrere|viele|angst vor|höhenangst|flugangst|diabetes|asthma"
        r"|adhs"
        r"|rheuma|migräne|heuschnupfen|bluthochdruck)\b(?! (?:\w+ )?(?:frage\w*|problem\w*|fehler\w*|idee\w*|zeit|lust"
        r"|termin\w*|hunger|durst|ahnung|gefühl|bitte|moment|minute\w*|sekunde\w*|anliegen|wunsch|vorschlag|treffen"
        r"|besprechung|meeting|stunden?|möglichkeit|wahl)\b)(?![^!?]*\b(?:ge\w{2,}t|ge\w{2,}en|ver\w{3,}(?:t|en)"
        r"|be\w{3,}en|\w{3,}iert|\w+ge\w+(?:t|en))\W*$))"
    ),
    re.compile(
        r"(?i:\b(?:mir|uns) (?:schmeckt|schmecken|gefällt|gefallen|ist [^!?]{2,40} wichtig) ?(?!es\b|das\b|dein|diese)"
        r"|\b(?:schmeckt|gefällt) (?:mir|uns) (?:nicht|kein|gut|am besten))"
    ),
    re.compile(
        r"(?i:\b(?:ist|sind|heißt|war) (?:auch |nur )?(?:mein|meine|unser|unsere) (?!frage|problem|letzte|erste|meinung"
        r"|vorschlag|idee)\w+)"
    ),
    re.compile(
        r"(?i:\b(?:dass|weil|da|obwohl) (?:ich|wir|mein\w*|unser\w*)\b[^;!?]{1,80}\b(?:wohne|wohnen|wohnt|lebe|leben"
        r"|lebt|arbeite|arbeiten|arbeitet|studiere|esse|essen|isst|trinke|trinken|trinkt|mag|mögen|bin|sind|habe"
        r"|haben|spreche|heiße|heißt|vertrage|verträgt|rauche|hasse|liebe)\b)"
    ),
    re.compile(r"(?i:\bbei uns (?:gibt es|im|in der|wird)\b)"),
)
_CALLED: Final = re.compile(
    r"\b(?i:(?:people |they |friends |you can |please )?call (?:me|us)|i go by|nennt? mich(?: bitte| einfach)?)"
    r" (?!(?i:back|when|at|on|in|tomorrow|later|a|an|if|about|crazy|old)\b)(?P<name>[^\W\d_a-z][\w'-]{1,30})"
)
_INTRODUCED: Final = re.compile(
    r"\b(?i:i'm|i am|ich bin|this is|hier ist) (?:(?i:die|der) )?(?P<name>[^\W\d_a-z][\w'-]{1,30})\b"
)
_NAMED: Final = re.compile(
    r"(?:^|[,;:] |\b(?:and|but|because|since|und|aber|weil"
    r"|that) )(?P<name>[^\W\d_a-z][\w'-]{1,30})(?: [^\W\d_a-z][\w'-]{1,30})?"
    r"(?: (?:and|und) [^\W\d_a-z][\w'-]{1,30})?(?:, my [\w ]{2,30},)? "
    r"(?:(?:(?:also|both|still|never|always|only|really|usually|auch|immer|nie) ){0,2}"
    r"(?P<does>lives?|works? (?:as|at|for|in|with|from)|likes?|loves?|hates?|prefers?|speaks?|studies|teaches|plays"
    r"|was born|moved (?:to|in)|grew up|got married|became|joined|founded|owns?|runs"
    r" (?:a|an|the)|comes from|died|turn(?:s|ed) \d|wants to (?:become|be|study|move)|is (?:my|our|vegan|vegetarian"
    r"|allergic|married|pregnant|retired|divorced|single|\d{1,3}\b)|are (?:my|our|married|vegan|vegetarian"
    r"|twins)|has (?:a|an|one|two|three|four|five|six|no|\d+) (?:\w+ )?(?:kids?|child(?:ren)?|dogs?|cats?|brothers?"
    r"|sisters?|sons?|daughters?|twins|horses?|allergy)|doesn't (?:like|eat|drink|speak)|used to|hates?|drinks"
    r"|eats|collects|drives|smokes|suffers|retired|wohnt|lebt|arbeitet (?:als|bei|in|für)|mag|liebt|hasst|spricht"
    r"|studiert|spielt|isst|trinkt|heißt|ist (?:mein|meine|unser|unsere|vegan|vegetarisch|allergisch|verheiratet"
    r"|schwanger|geschieden|\d{1,3} jahre)|hat (?:ein|eine|einen|zwei|drei|vier|keine|\d+) (?:\w+ )?(?:kind(?:er)?"
    r"|hunde?|katzen?|brüder|schwestern?|söhne?|töchter)|kommt aus)\b"
    r"|(?P<is>is (?:an? |the |from )|was (?:an? |the )|ist (?:ein|eine|aus|der|die|Lehr\w*|Ärzt\w*)\b|has (?:a|an)\b))"
)
# Verbs that follow several names.
_OF_SEVERAL: Final = frozenset(
    ("live", "like", "love", "hate", "prefer", "own", "become", "work at", "work for", "work in", "work as", "run a")
)
_AND: Final = re.compile(r" (?:and|und) ")
_NO_NAMES: Final = PRONOUNS | DATES | FUNCTION_WORDS | CONVERSATION_WORDS | frozenset((
    "das", "dies", "dieser", "diese", "er", "sie", "es", "ich", "wir", "this", "that", "these", "those", "everyone",
    "everybody", "nobody", "someone", "somebody", "people", "there", "here", "who", "what", "user", "assistant",
    "man", "jemand", "niemand", "alle", "wer", "was",
))  # fmt: skip


def _states_something(sentence: str) -> bool:
    """Whether a sentence states something lasting; what is quoted in it is hidden."""
    notice = _NOTICE.match(sentence)
    if notice is not None:
        sentence = sentence[notice.end() :]
    if _QUESTION.match(sentence) or _HYPOTHESIS.search(sentence):
        return False
    if any(fold_name(match["name"]) not in _NO_NAMES for match in _CALLED.finditer(sentence)):
        return True
    start = 0
    if notice is None and _REQUEST.match(sentence):
        reason = _REASON.search(sentence)
        if reason is None:
            return False
        start = reason.end()
    states = _CHANGES if _NOW.search(sentence) else (*_CHANGES, *_HABITS)
    return (
        any(_is_stated(sentence, match) for state in states for match in state.finditer(sentence, start))
        or any(_is_stated(sentence, match) and _is_named(match) for match in _NAMED.finditer(sentence, start))
        or any(fold_name(match["name"]) in GIVEN_NAMES for match in _INTRODUCED.finditer(sentence, start))
    )


def _is_stated(sentence: str, match: re.Match[str]) -> bool:
    """Whether the writer states it, rather than asks for it, supposes it or reports it."""
    return _NOT_STATED.search(sentence[max(0, match.start() - 60) : match.start()]) is None


def _is_named(match: re.Match[str]) -> bool:
    """Whether the sentence is about somebody with a name: what something is called is no name."""
    name = fold_name(match["name"])
    if name.partition("'")[0] in _NO_NAMES:
        return False
    if match["does"] in _OF_SEVERAL:
        return _AND.search(match[0]) is not None
    return match["does"] is not None or name in GIVEN_NAMES
