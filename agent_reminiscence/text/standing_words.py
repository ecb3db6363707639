"""How people say what is to hold from now on, by language: data for `standing.py`.

Regular expressions are matched against one sentence in lower case, with straight apostrophes and without the courtesies
that may begin it. `BEGINNINGS` have to stand at its beginning, `ANYWHERE` not. What matches `ONCE` holds for the
moment only, whatever else it matches. A question counts only if it matches `ASKED`, as a request in its polite form.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple


class StandingWords(NamedTuple):
    """The rules of one language.

    Attributes:
        courtesies: What may stand before a request and means nothing.
        beginnings: Beginnings of sentences that ask for something for good, or name a constraint.
        anywhere: The same, wherever it stands.
        once: What shows that a sentence is about one occasion, the past, or somebody's manner of speaking.
        asked: Beginnings of questions that ask for something for good.
    """

    courtesies: str
    beginnings: tuple[str, ...]
    anywhere: tuple[str, ...]
    once: tuple[str, ...]
    asked: tuple[str, ...]


_EN_DAYS: Final = (
    r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)days?|week(?:end|day)s?)(?: (?:morning|afternoon|evening|night)s?)?"
    r"|(?:mornings|afternoons|evenings)"
)
_EN_ANSWERS: Final = r"(?:answers?|replies|responses|messages|explanations|summaries|e-?mails)"
_EN_SPEAK: Final = r"(?:answer|reply|respond|speak|talk|write|explain)"
_EN_DO: Final = (
    r"(?:write|send|use|put|give|show|answer|book|format|cite|call|phone|contact|list|quote|suggest|recommend|order|choose|pick|remind"
    r"|text|e-?mail|message|schedule|plan|speak|explain|deploy|release|merge|buy|deliver|ring)"
)
_EN_OTHER: Final = r"(?!it\b|that\b|this\b|these\b|them\b|him\b|her\b|yet\b|about it\b)"
# Not by these: "can" also says what somebody hopes for, "have to" also what has happened to somebody.
_EN_MUST: Final = r"(?:must|should|shall|may|has to|have to|needs? to)"

_EN: Final = StandingWords(
    courtesies=r"(?:(?:please|ok(?:ay)?|so|and|but|also|oh|well|hey|hi|just|note|by the way|btw|one (?:more )?thing"
    r"|for the record|from now on|in (?:the )?future|as a rule|in general|generally|for me|going forward|remember)\b"
    r"(?: that\b)?[,:;–-]* *)*",
    beginnings=(
        # What to do and to leave: "Always ask before …", "Never schedule …", "Don't use …".
        r"(?:always|never|don't ever|do not ever|under no circumstances)"
        r" (?!(?:mind|heard|been|thought|knew|had|seen|saw|again|too|an?|the|so|nice|good|great|happy|loved?|fun|there"
        r"|here|something|felt|feel|got|gets|met|did|done|said|say never|really|better|easy|hard|my|in|on|at|is|was|have"
        r"|enjoy|know|look|glad|proud|ready|worth|up|give up|stop|quit|underestimate|\w+ing|\w+ed)\b)\w",
        r"(?:don't|do not|stop) (?:us(?:e|ing)|call(?:ing)? me|schedul\w+|book\w*|plan(?:ning)?|send(?:ing)?|shar(?:e|ing)"
        r"|suggest\w*|recommend\w*|show(?:ing)? me|put(?:ting)?|add(?:ing)?|writ(?:e|ing)|mention\w*|contact\w*"
        r"|phon(?:e|ing)|e-?mail\w*|disturb\w*|order(?:ing)?|includ(?:e|ing)|commit\w*|deploy\w*|explain\w*|apologi[sz]\w+"
        r"|translat\w+|address\w*|giv(?:e|ing) me|lectur\w+|correct\w*|interrupt\w*|push(?:ing)? to|delet(?:e|ing)|assum(?:e|ing)"
        r"|quot(?:e|ing)|offer(?:ing)?|wak(?:e|ing) me|spend(?:ing)?|buy(?:ing)?|touch(?:ing)? my|chang(?:e|ing) my|start(?:ing)? (?:your|an|sentences)|end(?:ing)? (?:your|an|sentences)|sugar-?coat\w*)"
        rf" {_EN_OTHER}(?!the\b)",
        rf"(?:avoid|skip|omit|leave out|spare me) {_EN_OTHER}(?:the |any |all )?(?:\w+ )?\w+s?[.! ]*$",
        r"no [\w-]+(?: [\w-]+)? (?:before|after|without|on|during|unless|in my|in your|for me)\b",
        r"no [\w -]{3,40},? please\b|no \w+(?: \w+)? in (?:texts?|this house|our|the house|replies|answers|messages|code|letters)\b",
        r"(?:don't|do not|never) (?!do anything|let anything|know|think|want|need|have|see|say)\w+ (?:\w+ )?(?:anything|anyone|anybody)\b",
        r"(?:get|wait for|ask for) my (?:ok|okay|approval|go-ahead|consent|permission)\b|\w.* before i(?:'ve| have)? (?:seen|approved|read|agreed"
        r"|checked|confirmed)\b",
        r"(?:answers?|replies|temperatures|distances|prices|amounts|dates|times|code|texts|e-?mails|numbers|weights|measurements|letters) in"
        r" [\w -]{2,30},? please\b",
        r"no (?:emojis?|slang|jargon|small talk|bullet points|buzzwords|spoilers|smoking|calls|meetings|phone calls"
        r"|pork|meat|fish|gluten|dairy|nuts|alcohol|sugar|surprises|exceptions)[.! ]*$",
        r"be (?:more |less |very |always )?(?:brief|concise|blunt|honest|direct|formal|informal|polite|strict|precise|terse)\b",
        # How to answer.
        rf"(?:only |always )?{_EN_SPEAK}(?: to)?(?: me| us)? (?:only |always )?in (?!the\b|a (?:minute|moment|while|bit|sec)"
        r"|time\b)\w",
        r"(?:only |always )?(?:speak|talk|write|answer)(?: only)? [\w-]+ (?:with|to) (?:me|us)\b",
        rf"{_EN_SPEAK} (?:to me |with me )?(?:as if|more|less|slowly|plainly|formally|informally|briefly)\b",
        rf"keep (?:your |all |the )?{_EN_ANSWERS}\b|keep (?:it|things) (?:short|brief|simple|formal|concise)"
        r" (?:when|with|whenever|in|for me)\b",
        rf"your {_EN_ANSWERS} {_EN_MUST}\b",
        rf"(?:i|we)(?:'d| would)? (?:want|like|need|prefer)(?: my| your| all)? (?:\w+ )?{_EN_ANSWERS}"
        r"(?:[.! ]*$| (?:short|brief|long|in|to be|with|without)\b)",
        r"(?:i|we)(?:'d| would)? (?:want|like|prefer|need) you (?:to |not to )?(?:always|never|only|be|answer|speak|use|call"
        r"|address|keep|challenge|correct|remind|criticise|criticize|question|treat|stop|avoid)\b",
        r"(?:i'd|i would) (?:appreciate it|prefer it|be glad|be grateful|like it) if you (?:always|never|only|kept|used|didn't"
        r"|did not|wouldn't|called|addressed|answered|stopped)\b",
        r"it(?:'s| is) (?:very |really )?important (?:to me |for me )?that you\b",
        r"use (?:'|\")?(?:they|he|she)\b|use my (?:title|surname|first name|last name|full name|nickname|initials)\b",
        r"(?:only )?use (?:only )?(?:the )?(?:metric|imperial|celsius|fahrenheit|british|american|canadian|australian"
        r"|24-hour|12-hour|iso|si)\b",
        rf"(?:only )?use {_EN_OTHER}[\w' -]{{2,40}},? (?:with me|for me|when(?:ever)? you|when (?:writing|answering"
        r"|talking)|from now on|instead of|not |never |always|in (?:your|all))",
        r"(?:you (?:can|may|should) )?call me (?!(?:back|later|tomorrow|today|tonight|when|if|at|on|in|now|as soon|asap"
        r"|maybe|crazy|old|again|any ?time|soon|first|before|after|an?|the|about|every|once|and|for|to|from)\b)\w",
        r"(?:address|refer to) me (?:as|by|formally|informally|with)\b|my pronouns are\b|i go by \w+",
        r"(?:check|confirm|ask|consult|tell|warn)(?: with)?(?: me)?(?: first| for my \w+)? before\b",
        # Other requests, which hold for good by their objects: all of a kind, and how a kind of thing is to be.
        r"only (?:suggest|recommend|use|book|send|show|give|write|speak|call|contact|buy|order|answer|include|cite|schedule"
        r"|plan|offer|quote|ask|pick|choose)\b",
        rf"{_EN_DO}\b.*\bonly (?:in|on|at|if|when|after|before|by|with|from|via|for)\b",
        r"(?:round|spell|format|quote|mark|use|sign|cite|address|treat|store|save|write|show) (?:all|every|any) (?!the\b|of\b)\w",
        r"(?:sign|address|treat|spell|pronounce) my \w+s?\b",
        r"(?:write|format|show|spell|give|use|state|express|name|put)(?: me)? (?:the |all |my )?(?:dates|times|numbers|prices|amounts"
        r"|temperatures|distances|units|names|comments|variables|headings|currencies|measurements|weights) (?:as|in|with|without"
        r"|like|first|before|after|to)\b",
        r"keep [\w' -]{2,50} (?:free|private|friendly|formal|short|simple|brief|clear|confidential|neutral|polite|plain|light"
        r"|to a minimum|out of|off|away from|under|below|separate)\b",
        r"leave (?!me\b|it\b|him\b|her\b|them\b)[\w' -]{2,40} (?:free|alone|out|open|blank)\b",
        r"put [\w' -]{2,40} (?:first|last|at the (?:top|end|beginning)|in bold)[.! ]*$",
        r"all [\w' -]{2,40} in [\w' -]{2,40}(?:, please|[.! ]*$)(?<!day[.!])",
        r"nothing (?:spicy|sweet|fried|raw|too (?:sweet|spicy|salty|expensive|long|formal|fancy|early|late)|with|before|after|over|above|containing|made|that (?:contains|has)|fancy"
        r"|expensive|more expensive)\b|nothing \w+ (?:for me|please)\b",
        r"(?:whenever|every time|each time|when) you (?:answer|write|reply|respond|talk|speak|send|book|plan|suggest|recommend"
        r"|explain|code|quote|mention|order|schedule|translate)\b",
        r"unless i (?:say|ask|tell)\b",
        r"you (?:can|may) (?:now )?(?:answer|reply|write|speak|talk|use|call|schedule|book|send|suggest)\b.*"
        r" (?:again|now|from now on)\b",
        # Rules for things: "Anything in the report has to be …", "My flights should always be …".
        r"(?!.*\b(?:(?:i|we|you|he|she|they|it) (?:must|should|have|has|need)|should have to)\b)(?:anything|everything|nothing|nobody|no one"
        r"|(?:every|each|any) (?!time|day|morning|night|week|month|year|now|one)[\w-]+"
        r"|all (?:of )?(?:my |our |the |your )?(?!day|night|time|this|that)[\w-]+)\b(?: [\w-]+){0,6}"
        rf" {_EN_MUST} (?:not |never |always |only )?(?!have (?:to|been)\b)\w+",
        r"(?:every|each|all (?:our|my)) (?!time|day|morning|night|week|month|year|now|one|of)[\w-]+(?: \w+)? (?:needs?|gets?|goes|go|starts?|ends?|runs?"
        r"|carry|carries|(?:is|are) (?:written|named|formatted|signed|licensed|reviewed|tested|typed))\b",
        r"(?:(?:our|my|the) )?(?:tests|code|commits|commit messages|branch names|branches|variables|class names|functions|documents|invoices"
        r"|letters|reports|file names|releases|migrations|comments|docstrings) (?:are (?:written|named|in|formatted|always|never)|is (?:written|formatted"
        r"|in|always|never)|run|runs|go|goes|starts?|ends?|have|use|uses|live|belong|follow) ",
        r"my (?:\w+ )?(?:budget|limit|maximum|curfew|dress code|diet) (?:is|for)\b",
        r"my (?:religion|faith|diet|doctor|contract|visa) (?:forbids|doesn't allow|does not allow|won't let|only allows)\b",
        # Notes about somebody.
        r"(?:the )?(?:user|customer|client) (?:(?:strongly |always |generally )?prefers|dislikes|avoids|never|always|only)\b",
    ),
    anywhere=(
        rf"\b{_EN_MUST} (?:always|never|not ever) (?!be there|help each|have\b)\w",
        r"\bwithout asking me\b|\bunless i (?:say|ask|tell you)\b|\b(?:without|needs?) my (?:approval|consent|permission|ok)\b"
        r"|\bhas to approve\b",
        r"\b(?:from now on|going forward)\b.*\b(?:please|use|answer|call|write|want|don't|always|never|only|no)\b",
        r"\b(?:please|use|answer|call|write|want|don't|always|never|only)\b.* (?:from now on|going forward)\b",
        r", always[.! ]*$",
        r", so (?:please )?(?:no|nothing|only|always|never|don't|avoid|keep (?!up|it up|going|me )|use|give me|write|speak|describe|choose|pick"
        r"|suggest|book|make sure (?:it|they|there|the|that|every|all))\b",
        r", never (?:before|after|beside|in|on|with|without|at|by|the|a|more|less)\b",
        r"\bi (?:want|need|expect|like)\b.*\b(?:every|each|always|whenever|at all times) (?!time|day|moment|minute|one|year|second|week|step)\w",
        # The body: allergies, diets, disabilities.
        r"(?:\b(?:is|am|are)|'m|'s|'re) (?:very |severely |badly |deathly |highly |also |both |all )*allergic to\b",
        r"\b(?:have|has|'ve got|'s got) an? (?:\w+ ){0,3}(?:allergy|intolerance)\b",
        r"(?:\b(?:is|am|are)|'m|'s|'re) (?:an? |strictly |both |not |no longer |lactose[ -]|gluten[ -]|fructose[ -]|histamine[ -]"
        r"|type [12] |half |nearly |almost |partly |totally |completely |legally ){0,3}"
        r"(?:vegan|vegetarian|pescatarian|coeliac|celiac|diabetic|intolerant|teetotal|teetotall?er|colou?r-?blind"
        r"|hard of hearing|deaf|partially sighted|visually impaired|dyslexic|epileptic|asthmatic|haemophiliac|pregnant"
        r"|breastfeeding|wheelchair user|blind|housebound|bedridden|anaemic|anemic|autistic)s?\b(?! (?:recipe|food|restaurant|dish|option|cake|meal|to )\w*)",
        r"\b(?:have|has|'ve got) (?:coeliac|celiac|diabetes|epilepsy|asthma|haemophilia|dyslexia|vertigo|tinnitus|adhd|a pacemaker|no sense of"
        r"|an? (?:phobia|fear) of|a heart condition|(?:an? )?(?:bad|weak|stiff|artificial|poor) (?:back|knees?|hips?|heart|shoulders?|stomach|eyes|eyesight"
        r"|hearing|ankles?|wrists?|sight|memory))\b",
        r"\bmy (?:hearing|eyesight|sight|back|knees?|memory|heart) (?:is|are) (?:very |quite |rather )?(?:poor|bad|weak|failing|impaired)\b",
        r"\b(?:on|follow|following|keep to|stick to) (?:an? |the )?(?:[\w-]+ )?diet\b|(?:'m|\bam|'s|\bis|\btake|\btakes) (?:on )?(?:blood thinners|insulin)\b",
        r"\b(?:observe|keep) (?:the )?(?:sabbath|shabbat|ramadan|lent|halal|kosher)\b",
        r"\b(?:i|we)(?:'ve| have) (?:stopped|given up|quit|sworn off) (?:eating|drinking|smoking|flying|driving|meat|sugar|alcohol|coffee|dairy|gluten"
        r"|wheat|fish)\b",
        r"\b(?:could|would|can) kill me\b|\bmakes? me (?:ill|sick|itch|throw up|dizzy)[.! ]*$|\bgives? me (?:a rash|hives|migraines?|heartburn)\b",
        r"\b(?:i|my \w+) (?:can't|cannot|can not|can hardly|can barely) (?:see|hear|walk|sit|bend|kneel|swim|climb|carry|reach|smell|taste) (?:well|far|long"
        r"|for long|properly|at all|much|heavy|anything|without|very|colours|colors|stairs|high|low|on|more)\b",
        r"(?:\bam|'m|\bis|'s|\buse|\buses|\bneed|\bneeds) (?:in |using )?a wheelchair\b",
        r"\b(?:eat|eats|keep|keeps|cook|cooks) (?:only )?(?:kosher|halal|vegan|vegetarian|gluten-free)\b",
        r"\b(?:i|we|my \w+)(?: don't| do not| doesn't| does not| may not| never| can't| cannot| can not| mustn't| must not| won't| am not allowed to|'m not allowed to"
        r"|'re not allowed to) (?:ever )?(?:eat|digest|tolerate|stomach|lift|climb stairs|do (?:stairs|mornings|evenings"
        r"|weekends|small talk|mondays|fridays)|fly\b|smoke\b|work with|stay (?:in|at)|pay (?:by|with|in|for)|wear|celebrate|shop (?:at|in|on)|sleep (?:in|on|with)"
        r"|cook with|accept|lend|gamble|ride|swim|ski|bet"
        r"|drive(?: at night|[.! ]*$)|drink(?: (?:alcohol|coffee|milk|caffeine|wine|beer|tea)|[.! ]*$)"
        r"|have (?:any(?:thing)? (?:with|containing|made)|gluten|dairy|lactose|nuts|sugar|milk|eggs|meat|pork|fish"
        r"|caffeine|alcohol|salt|wheat|soya?|seafood|shellfish|chocolate|onions?|garlic|honey)|work (?:on|after|before|at) |take (?:calls|meetings|appointments)"
        r"|answer (?:calls|the phone|mails?|e-?mails?)\b|travel (?:on|by)\b|speak (?!up|to|for|with|out)\w|sit in )",
        r"\b(?:i|we) don't (?:have|own) an? (?:car|(?:driving )?licen[cs]e|smartphone|phone|credit card|tv|passport|oven"
        r"|dishwasher|freezer|printer)\b",
        r"\b(?:i|we) (?:eat|drink) (?:\w+ )?again\b",
        r"\b(?:i|we) can only (?!hope|imagine|wish|say|guess|think|dream|get better|agree)\w|\b(?:i|we) only (?:eat|drink|fly|speak|read|understand|buy|use|wear|accept"
        r"|deploy|ship|work (?:on|in|from|until|till|with|mornings)|pay|take (?!a)|travel|stay|answer|watch|shop|cook|do|sleep)\b",
        r"\bi (?:read|write|do|want|need|get|like|have) everything (?:in|on|by)\b",
        r"\bdon't want to (?:hear|read|see|be told) (?:about|of|any(?:thing about)?) (?!it\b|that\b|this\b)\w|\b(?:can't|cannot) stand (?!it\b|that\b|this\b|the way|by\b|up\b|to\b)\w",
        r"\b(?:i|we) (?:always |never )(?:eat|drink|fly|travel|sit|pay|spend|book|use|want (?!to)\w|need (?!to)\w|take the|buy|order|deploy|ship|wear|lend|sign|accept"
        r"|work (?:on|after|before|with)|shop|stay (?:in|at)|celebrate)\b",
        r"\bi need (?:large print|(?:everything|it all|things) in |subtitles|captions|step-free)",
        r"\bget(?:s)? (?:very |really |so )?(?:sea|car|motion|air|travel) ?-?sick\b",
        r"(?:'m|\bam|'s|\bis) (?:very |really )?(?:afraid|scared|terrified|frightened) of (?:flying|(?!\w+ing\b|what|how|the\b|my\b|your\b|it\b|that\b|this\b|you\b|a\b|them\b"
        r"|anything|nothing|change\b)\w+)",
        r"\b(?:walk|get around|rely|depend|live) (?:with|on) (?:crutches|a cane|a stick|a walker|a walking stick|an? hearing aid|hearing aids|oxygen)\b"
        r"|\bwear (?:an? )?(?:hearing aids?|pacemaker)\b|\bsober (?:for|since)\b|\brecovering (?:alcoholic|addict)\b",
        r"\bmy (?:knees?|back|hips?|heart|stomach|shoulders?|doctor|eyes|skin) (?:doesn't|don't|does not|do not|won't|can't|cannot) (?:allow|take|let|stand|cope"
        r"|tolerate|handle|like)\b|\b(?:upsets?|irritates?) my (?:stomach|skin|eyes|back)\b",
        r"\bget(?:s)? (?:very |really |so |easily )?(?:sick|dizzy|queasy|nauseous) (?:on|in|at) (?:\w+ )?(?:boats?|cars?|buses|planes?|ships?|trains?|heights|lifts|the back)",
        r"(?:'m|\bam) (?:very |quite |badly )?(?:short|long|near|far)-?sighted\b|\bcan't tell \w+ (?:from|and) \w+|\b(?:can't|cannot) read (?:small|tiny|cursive|handwriting"
        r"|without|much|music|maps)\b",
        r"\b(?:i|we) (?:have no|don't own an?) (?:car|(?:driving )?licen[cs]e|smartphone|phone|credit card|tv|television|passport|oven|dishwasher|freezer|printer"
        r"|sense of|computer|laptop|bike|garden|balcony|internet)\b",
        r"\bi need (?:an? )?(?:\w+ )?(?:ground[- ]floor|quiet|step-free|lift|non-smoking|accessible|barrier-free|low-salt|sugar-free|gluten-free) ",
        r"\bi(?: need| want|'d like| would like) (?:all|every) [\w' ]{2,30} (?:as|in) |\bi need my [\w ]{2,30} as ",
        r"\bon a (?:tight|small|limited) budget\b|\b(?:is|are) (?:not|never) to be \w+",
        r"\b(?:nothing|no (?!time|one|need)\w+) (?:before|after) (?:\d|noon|midnight|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|half|lunch|breakfast"
        r"|dinner|school|work|dark)",
        # What somebody prefers.
        r"\bi (?:much |always |really |generally |strongly |usually )?prefer (?!it\b|that\b|this\b|not to\b|to (?:stay|go|leave|wait|think|keep|stick)\b)\w",
        r"\bi (?:like|love|find|read|understand) [\w' -]{2,40} (?:better|easier(?: to \w+)?|more) than (?!ever|any|i\b|before|last|you)\w",
        r"\bi take my (?:coffee|tea|eggs|steak)\b",
        r"\b(?:i|user|she|he|customer|client)(?: would|'d)? (?:always |generally |strongly )?prefers? (?:your |short|brief|long"
        r"|formal|informal|plain|an? aisle|an? window|aisle|window|to be (?:called|addressed|contacted)|to (?:get|receive"
        r"|read))",
        r"\bi(?:'d| would) (?:always |much )?rather (?:have|get|read|see|be called|be addressed|you) .*\b(?:than|not|in)\b",
        r"\b(?:i|we) don't want (?:any |to be (?:called|disturbed|contacted|reminded)|to (?:get|receive) )",
        # Money and time.
        r"\b(?:can|will|want to|may|like to) (?:only )?(?:spend|pay) (?:at most|no more than|up to|a maximum|less than"
        r"|at the most)\b",
        r"\b(?:can't|cannot|don't want to|won't|never) (?:spend|pay) more than\b",
        rf"\b(?:{_EN_DAYS}) (?:are|is|belongs?) (?:always )?(?:reserved|for \w+|to (?:my|the|our)|off limits|off-limits"
        r"|taken|blocked|sacred|family)\b",
        rf"(?:'m|\bam|'re|\bare) (?:only |never |not )(?:available|free|reachable|in the office) (?:on |before |after |until"
        rf" |in the |during |{_EN_DAYS})",
    ),
    once=(
        r"\b(?:today|tonight|tomorrow|yesterday|this (?:time|once|morning|afternoon|evening|week|weekend)|right now|last"
        r" (?:week|night|year|time)|yet|each other|count on)\b",
        r"\b(?:used to|would have|could have|should have|was|were) (?:never|always)\b",
    ),
    asked=(
        r"(?:can|could|would|will) you (?:please )?(?:always|never|only ever|from now on)\b",
        rf"(?:can|could|would|will) you (?:please )?(?:{_EN_SPEAK}|call me|use|stop|keep)\b.*\b(?:from now on|always"
        r"|in (?:the )?future|every time)\b",
    ),
)

_DE_PLEASE: Final = (
    r"(?:antworte|antworten sie|schreibe?|schreiben sie|sprich|sprechen sie|rede|reden sie|verwende|verwenden sie|benutze"
    r"|benutzen sie|nutze|nimm|nehmen sie|buche?|buchen sie|plane|planen sie|schicke?|schicken sie|sende|gib|geben sie"
    r"|frage?|fragen sie|nenne?|nennen sie|vermeide|vermeiden sie|lass|lassen sie|mache?|machen sie|halte?|halten sie"
    r"|erkläre?|empfiehl|bestelle?|bestellen sie|lege?|setze?|teile?)\b"
)
_DE_ALWAYS: Final = r"(?:immer|nie|niemals|stets|grundsätzlich|ab jetzt|ab sofort|künftig|in zukunft)"
_DE_BODY: Final = (
    r"(?:vegan|veganer(?:in)?|vegetarisch|vegetarier(?:in)?|diabetiker(?:in)?|laktoseintolerant|farbenblind|farbenfehlsichtig"
    r"|rot-grün-blind|schwerhörig|gehörlos|taub|schwanger|epileptiker(?:in)?|asthmatiker(?:in)?|legastheniker(?:in)?"
    r"|rollstuhlfahrer(?:in)?)"
)
_DE: Final = StandingWords(
    courtesies=r"(?:(?:bitte|ok(?:ay)?|und|aber|also|ab jetzt|ab sofort|in zukunft|künftig|grundsätzlich|übrigens|für mich|merk dir"
    r"|denk daran|wichtig)\b[,:;–-]* *)*",
    beginnings=(
        rf"{_DE_PLEASE}.*\b{_DE_ALWAYS}\b",
        rf"{_DE_ALWAYS} (?:auf \w+ antworten|erst|zuerst|vorher|nur)\b",
        r"(?:antworte|antworten sie|schreibe?|schreiben sie|sprich|sprechen sie|rede)\b(?: mir| mit mir| bitte| nur)* (?:auf|in)"
        r" (?!den\b|die\b|das\b|dem\b|der\b|meine?\b|eine?r?m?\b)\w+",
        r"(?:verwende|verwenden sie|benutze|benutzen sie|nutze|schreibe?|buche?|plane|schicke?|empfiehl)\b(?: mir| bitte)*"
        r" (?:keine?n?|niemals|nur)\b",
        r"(?:nenne?|nennen sie) mich\b|du kannst mich (?:duzen|[\w-]+ nennen)|(?:duze?|sieze?|siezen sie|duzen sie) mich\b|sprich mich\b",
        r"fass dich\b.*\bkurz|halte? (?:dich|deine antworten|es) (?:bitte )?(?:kurz|knapp|einfach)",
        r"(?:deine|ihre) antworten (?:sollen|sollten|müssen|dürfen)\b",
        r"(?:vermeide|verzichte auf|spar dir|lass)\b (?!das\b|es\b|mich\b|uns\b)(?:bitte )?(?:die |alle )?\w+(?: weg)?[.! ]*$",
        r"kein(?:e|en)? [\w-]+(?: [\w-]+)? (?:vor|nach|ohne|am|an|im|während|außer)\b",
        r"kein(?:e|en)? [\w -]{3,40},? bitte\b",
        r"(?:frage?|fragen sie) mich(?: immer| vorher| erst|, bevor| bevor)",
        r"(?!.*\b(?:ich|wir|du|er|es) (?:muss|müssen|musst|soll|sollen|darf|dürfen)\b)(?:alles|alle|jede[rsn]?|nichts|niemand"
        r"|keiner?)\b(?: [\w-]+){0,6} (?:muss|müssen|soll|sollen|darf|dürfen)\b",
        r"wenn (?:du|sie) (?:mir |für mich |etwas |einen |eine |code )*(?:antwortest|antworten|schreibst|schreiben|buchst|buchen"
        r"|planst|planen|erklärst|erklären|schickst|schicken)\b",
        r"mein (?:budget|limit) (?:ist|liegt|beträgt)\b",
        r"du kannst (?:jetzt |mir )*wieder\b.*\b(?:antworten|schreiben|sprechen|verwenden|benutzen|reden)\b",
    ),
    anywhere=(
        r"\ballergisch (?:gegen|auf)\b|\b(?:gegen|auf) [\w-]+(?: und [\w-]+)? allergisch\b|\b(?:habe|hat|haben) (?:eine? )?[\w-]*(?:allergie|unverträglichkeit|intoleranz)\b",
        rf"\b(?:bin|ist|sind) (?:streng |strikt |leider |nicht mehr |kein |keine |auf einem ohr )?{_DE_BODY}\b",
        r"\b(?:im|einen) rollstuhl\b|\b(?:habe|hat) (?:höhenangst|flugangst|zöliakie|diabetes|epilepsie|asthma)\b",
        r"\b(?:ich|wir) (?:esse|essen|trinke|trinken|vertrage|vertragen|fliege|fliegen|rauche|rauchen)"
        r" (?:grundsätzlich |immer )?(?:nie|niemals|keine?n?|nicht|nur|wieder)\b",
        r"\b(?:ich|wir) (?:darf|dürfen|kann|können) (?:nicht|nichts|nie|keine?n?)\b.*\b(?:essen|trinken|heben|fliegen|vertragen"
        r"|treppen steigen)\b",
        r"\b(?:ich|wir) (?:arbeite|arbeiten|telefoniere|telefonieren) (?:nicht|nie) (?:am|an|vor|nach)\b",
        r"\bich (?:bevorzuge|ziehe\b.*\bvor\b)|\bich (?:habe|hätte|bekomme|lese|nehme|esse|trinke|mag) (?:\w+ )?lieber\b.*\bals\b",
        r"\b(?:höchstens|maximal|nicht mehr als)\b.*\b(?:ausgeben|zahlen|bezahlen)\b",
        r"\bwerde (?:sehr |leicht |schnell )*(?:seekrank|reisekrank)\b",
        rf"(?<!\bich )(?<!\bwir )(?<!\bdu )(?<!\bes )\b(?:muss|müssen|soll|sollen|sollten|darf|dürfen)\b(?: [\w-]+){{0,2}} {_DE_ALWAYS}\b",
        r"\bohne mich (?:vorher )?zu fragen\b|\bohne meine (?:zustimmung|erlaubnis)\b",
        r"\b\w*(?:montags?|dienstags?|mittwochs?|donnerstags?|freitags?|samstags?|sonntags?|wochenenden?|abende?|vormittage?"
        r"|nachmittage?) (?:gehört|gehören|ist|sind) (?:immer )?(?:der familie|meine|für \w+|reserviert|tabu)",
    ),
    once=(r"\b(?:heute|gestern|diesmal|dieses mal|gerade|noch nicht|letzte[nrs]?|vorhin|einmal)\b",),
    asked=(rf"(?:kannst|könntest|können|könnten|würdest|würden) (?:du|sie)\b.*\b{_DE_ALWAYS}\b",),
)

_FR_ALWAYS: Final = r"(?:toujours|jamais|désormais|dorénavant|à partir de maintenant|à l'avenir)"
_FR: Final = StandingWords(
    courtesies=r"(?:(?:s'il (?:te|vous) pla[iî]t|stp|svp|merci de|ok|et|mais|alors|désormais|dorénavant|à partir de maintenant"
    r"|à l'avenir|en général|note que|rappelle-toi que|souviens-toi que|pour moi|ne|n')(?:\b|(?<='))[,:;–-]* *)*",
    beginnings=(
        rf"(?:réponds?|répondez|répondre|écris|écrivez|écrire|parle|parlez|utilise|utilisez|réserve|réservez|envoie|envoyez|demande"
        rf"|demandez|planifie|planifiez|propose|proposez|cite|citez|explique|expliquez)\b.*\b{_FR_ALWAYS}\b",
        r"(?:réponds?|répondez|répondre|écris|écrivez|écrire|parle|parlez)(?:-moi| moi)? (?:toujours |uniquement |seulement )?en"
        r" (?!ce\b|un\b|une\b)\w+",
        r"(?:utilise|utilisez|emploie|écris|propose|mets|fais|mettez|envoie)(?:-moi)? (?:jamais|pas|plus) (?!ça\b|cela\b|le\b|la\b)",
        r"appelle[- ]moi (?!demain|plus tard|quand|ce soir|si)\w|appelez[- ]moi (?!demain|plus tard|quand|ce soir|si)\w|tutoie[- ]moi"
        r"|vouvoie[- ]moi|tu peux (?:m'appeler|me tutoyer)|on peut se tutoyer|(?:me|m') ?tutoie",
        r"(?:garde|gardez|fais|faites) (?:tes|vos|des) réponses\b|(?:tes|vos) réponses doivent\b|sois (?:bref|brève|concis|concise"
        r"|direct|directe|franc|franche)\b",
        r"pas de [\w' -]{3,40} (?:avant|après|sans|le|pendant)\b|pas de [\w' -]{3,40},? (?:s'il (?:te|vous) pla[iî]t|stp|svp|merci)",
        r"évite[zr]? (?!ça\b|cela\b)(?:les |le |la |l'|tout |toute )?[\w']+[.! ]*$",
        r"demande[- ]moi (?:toujours )?avant\b|demandez[- ]moi avant\b",
        r"(?:tout|tous les \w+|toutes les \w+|chaque \w+|aucune? \w+|rien|personne) (?:[\w'-]+ ){0,6}?(?:doit|doivent|devrait) (?!avoir été)",
        r"quand tu (?:me |m')?(?:réponds|écris|parles|proposes|réserves|envoies|expliques)\b",
        r"mon budget est\b|tu peux (?:de nouveau|à nouveau|maintenant)\b.*(?:répondre|écrire|parler|utiliser)|tu peux (?:répondre"
        r"|écrire|parler|utiliser)\b.*\b(?:de nouveau|à nouveau)\b",
    ),
    anywhere=(
        r"\ballergiques? (?:à|au|aux)\b|\b(?:ai|a) une (?:\w+ )?(?:allergie|intolérance)\b",
        r"\b(?:suis|est|sommes) (?:strictement |aussi |plus |une? )?(?:végane?s?|végétarien(?:ne)?s?|diabétique|cœliaque"
        r"|coeliaque|intolérante?|daltonien(?:ne)?|malentendante?|sourde?|enceinte|épileptique|asthmatique|dyslexique)\b",
        r"\ben fauteuil roulant\b|\b(?:ai le vertige|ai le mal de mer|ai peur (?:de l'avion|du vide|en avion))\b",
        r"\b(?:je|on|nous) (?:ne |n')?(?:mange|bois|supporte|digère|prends|mangeons|buvons|conduis|fume|vole) (?:pas|jamais|plus)\b"
        r"(?! (?:le|la|ça|cela) )",
        r"\b(?:je|nous) (?:ne )?(?:peux|dois|pouvons) (?:pas|plus) (?:manger|boire|porter|soulever|prendre l'avion|conduire)\b",
        r"\bje préfère [\w' -]{2,40} (?:à|au|aux|plutôt que?) ",
        r"\b(?:au plus|au maximum|pas plus de|maximum)\b.*\beuros\b|\bdépenser (?:au plus|plus de)\b",
        rf"\b(?:doit|doivent|devrait|devraient) {_FR_ALWAYS}\b",
        r"\bsans me (?:le )?demander\b|\bsans mon accord\b",
        r"\bje ne (?:travaille|suis disponible|suis joignable) pas (?:le|avant|après)\b",
        r"\b(?:lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche|matin|soir|week-end)s? (?:est|sont) (?:réservée?s?|pour (?:mes|ma|mon|la))\b",
    ),
    once=(r"\b(?:aujourd'hui|demain|hier|ce soir|cette fois|tout de suite|ce matin|dernière?|encore une fois)\b",),
    asked=(rf"(?:peux-tu|pourrais-tu|pouvez-vous|pourriez-vous|tu peux)\b.*\b{_FR_ALWAYS}\b",),
)

_ES_ALWAYS: Final = r"(?:siempre|nunca|jamás|a partir de ahora|de ahora en adelante|en adelante)"
_ES: Final = StandingWords(
    courtesies=r"(?:(?:por favor|ok|vale|y|pero|a partir de ahora|de ahora en adelante|en general|recuerda(?: que)?|ten en cuenta que|para"
    r" mí|además)\b[,:;–-]* *)*",
    beginnings=(
        rf"(?:respón\w+|responde\w*|contesta\w*|contéstame|escribe\w*|escríbeme|habla\w*|háblame|usa|use|utiliza|utilice|reserva|reserve"
        rf"|envía\w*|pregúnta\w*|pregunta|programa|cita|explica\w*|pide)\b.*\b{_ES_ALWAYS}\b",
        rf"{_ES_ALWAYS} (?:responde|contesta|escribe|habla|usa|utiliza|reserva|pregunt\w+|me \w+es|cites|uses|envíes|reserves|programes"
        r"|compartas|menciones|llames)\b",
        r"(?:respóndeme|responde|contesta|contéstame|escríbeme|escribe|háblame|habla)(?: siempre| solo| sólo)? en (?!el\b|la\b|un\b"
        r"|una\b|ese\b|este\b)\w+",
        r"no (?:uses|utilices|use|utilice|me llames|me envíes|reserves|programes|compartas|recomiendes|menciones|escribas|pongas"
        r"|incluyas|expliques) (?!eso\b|esto\b|lo\b|la\b|el\b)\w",
        r"llámame (?!mañana|luego|cuando|si|más tarde|esta)\w|puedes llamarme \w+|trátame de (?:tú|usted)|tutéame|puedes tutearme",
        r"(?:mantén|haz) (?:tus|las) respuestas\b|(?:tus|sus) respuestas (?:deben|tienen que)\b|sé (?:breve|conciso|concisa|directo|directa)\b",
        r"(?:nada de|sin|ningun[ao]?) [\w -]{3,40} (?:antes|después|los|sin)\b|(?:nada de|sin|no) [\w -]{3,40},? por favor\b",
        r"evita (?!eso\b|esto\b)(?:los |las |el |la )?\w+[.! ]*$",
        r"pregúntame (?:siempre )?antes\b|consúltame antes\b",
        r"(?:todo|todos los \w+|todas las \w+|cada \w+|ningún \w+|ninguna \w+|nada|nadie) (?:[\w-]+ ){0,6}?(?:debe|deben|tiene que|tienen"
        r" que|puede) ",
        r"cuando me (?:respondas|escribas|hables|recomiendes|expliques)\b|cuando (?:respondas|escribas|reserves)\b",
        r"mi presupuesto es\b|(?:ya )?puedes (?:volver a )?(?:responder\w*|contestar\w*|escribir\w*|hablar\w*|usar)\b.*(?:otra vez|de nuevo)",
    ),
    anywhere=(
        r"\b(?:soy|es|somos|son) (?:muy )?alérgic[oa]s? a(?:l)?\b|\b(?:tengo|tiene) (?:una )?(?:alergia|intolerancia)\b",
        r"\b(?:soy|es|somos|estoy) (?:ya no |estrictamente )?(?:vegan[oa]s?|vegetarian[oa]s?|diabétic[oa]|celíac[oa]|intolerante|daltónic[oa]"
        r"|sord[oa]|embarazada|epiléptic[oa]|asmátic[oa]|disléxic[oa])\b",
        r"\ben silla de ruedas\b|\b(?:me mareo en|tengo (?:vértigo|miedo a (?:volar|las alturas)))\b",
        r"\b(?:yo |nosotros )?(?:no|nunca) (?:como|comemos|bebo|bebemos|tomo|tomamos|tolero|fumo|vuelo|conduzco)\b(?! (?:es|si|un|tú|el|la)\b)",
        r"\bno (?:puedo|podemos|debo) (?:comer|beber|tomar|levantar|volar|conducir)\b",
        r"\bprefiero [\w -]{2,40} (?:a|en lugar de|en vez de|que) ",
        r"\b(?:como máximo|no más de|máximo)\b.*\beuros\b|\bgastar (?:como máximo|más de)\b",
        rf"\b(?:debe|deben|tiene que|tienen que|debería|deberían)\b(?: \w+)? {_ES_ALWAYS}\b",
        r"\bsin (?:preguntarme|consultarme|mi permiso)\b",
        r"\bno (?:trabajo|estoy disponible|atiendo llamadas) (?:los|antes|después)\b",
        r"\b(?:lunes|martes|miércoles|jueves|viernes|sábados?|domingos?|mañanas|tardes|fines de semana) (?:es|son) (?:de|para|sagrad[oa]s?) ",
    ),
    once=(r"\b(?:hoy|mañana por|ayer|esta vez|esta noche|ahora mismo|última?|todavía)\b",),
    asked=(rf"(?:puedes|podrías|puede|podría)\b.*\b{_ES_ALWAYS}\b",),
)

_PT_ALWAYS: Final = r"(?:sempre|nunca|jamais|a partir de agora|daqui (?:em|para a) (?:diante|frente)|de agora em diante)"
_PT: Final = StandingWords(
    courtesies=r"(?:(?:por favor|ok|e|mas|a partir de agora|de agora em diante|em geral|lembr[ae](?:-te|-se)?(?: de)? que|para mim|além"
    r" disso)\b[,:;–-]* *)*",
    beginnings=(
        rf"(?:respond[ae]\w*|escrev[ae]\w*|fal[ae]\w*|us[ae]|utiliz[ae]|reserv[ae]|envi[ae]\w*|pergunt[ae]\w*|marqu?[ae]|cit[ae]|expli\w+)\b"
        rf"(?:-\w+)?.*\b{_PT_ALWAYS}\b",
        rf"{_PT_ALWAYS} (?:me )?(?:respond[ae]|escrev[ae]|fal[ae]|us[ae]s?|utiliz\w+|reserv\w+|pergunt[ae]|marqu\w+|envi\w+|partilh\w+"
        r"|compartilh\w+|mencion\w+|cham\w+)\b",
        r"(?:respond[ae]|escrev[ae]|fal[ae])(?:-me| comigo)?(?: sempre| só)? em (?!um\b|uma\b|o\b|a\b)\w+",
        r"não (?:us[ae]s?|utiliz[ae]s?|me cham[ae]s?|envi[ae]s?|reserv[ae]s?|marqu?es?|partilh[ae]s?|compartilh[ae]s?|recomend[ae]s?|mencion[ae]s?"
        r"|escrev[ae]s?) (?!isso\b|isto\b|o\b|a\b)\w",
        r"(?:chama-me|chame-me|me chame|me chama|trata-me|trate-me|me trate)(?: de| por)? (?!amanhã|depois|quando|se)\w|pode(?:s)? me chamar \w+"
        r"|pode(?:s)? chamar-me \w+",
        r"(?:mantém|mantenha) (?:as )?(?:tuas |suas )?respostas\b|(?:as )?(?:tuas|suas) respostas (?:devem|têm que|têm de)\b|(?:seja|sê)"
        r" (?:breve|conciso|concisa|direto|direta)\b",
        r"(?:nada de|sem|nenhum[a]?) [\w -]{3,40} (?:antes|depois|às|aos|sem)\b|(?:nada de|sem) [\w -]{3,40},? por favor\b",
        r"evit[ae] (?!isso\b|isto\b)(?:os |as |o |a )?\w+[.! ]*$",
        r"(?:pergunta-me|pergunte-me|me pergunte|consulta-me|me consulte) (?:sempre )?antes\b",
        r"(?:tudo|todos os \w+|todas as \w+|cada \w+|nenhum \w+|nenhuma \w+|nada|ninguém) (?:[\w-]+ ){0,6}?(?:deve|devem|tem que|tem de|têm que"
        r"|têm de|pode) ",
        r"quando (?:me )?(?:responderes|responder|escreveres|escrever|recomendar|explicar)\b",
        r"(?:o )?meu orçamento é\b|(?:já )?pode(?:s)? (?:voltar a )?(?:responder|escrever|falar|usar)\b.*(?:outra vez|de novo|novamente)",
    ),
    anywhere=(
        r"\b(?:sou|é|somos|são) (?:muito )?alérgic[oa]s? (?:a|à|ao|aos|às)\b|\b(?:tenho|tem) (?:uma )?(?:alergia|intolerância)\b",
        r"\b(?:sou|é|somos|estou) (?:já não |estritamente )?(?:vegan[oa]s?|vegetarian[oa]s?|diabétic[oa]|celíac[oa]|intolerante|daltônic[oa]"
        r"|daltónic[oa]|surd[oa]|grávida|epilétic[oa]|epiléptic[oa]|asmátic[oa]|disléxic[oa])\b",
        r"\b(?:em|de|uma) cadeira de rodas\b|\b(?:fico enjoad[oa]|enjoo) (?:em|no|de)\b|\btenho (?:vertigens|medo de (?:voar|avião|alturas))\b",
        r"\b(?:não|nunca) (?:como|comemos|bebo|bebemos|tolero|fumo|conduzo|dirijo|posso comer|posso beber|podemos comer|posso levantar"
        r"|posso conduzir)\b(?! (?:é|se|um|tu|o|a)\b)",
        r"\bprefiro [\w -]{2,40} (?:a|ao|à|em vez de|do que) ",
        r"\b(?:no máximo|não mais de|não mais do que|até)\b.*\b(?:euros|reais)\b.*|\bgastar (?:no máximo|mais de|mais do que)\b",
        rf"\b(?:deve|devem|tem que|tem de|têm de|têm que)\b(?: \w+)? {_PT_ALWAYS}\b",
        r"\bsem (?:me perguntar|me consultar|a minha autorização|minha autorização)\b",
        r"\bnão (?:trabalho|estou disponível|atendo chamadas) (?:às|aos|antes|depois)\b",
        r"\b(?:segundas|terças|quartas|quintas|sextas|sábados|domingos|manhãs|tardes|fins de semana)(?:-feiras?)? (?:são|é) (?:d[aeo]s?|para) ",
    ),
    once=(r"\b(?:hoje|amanhã|ontem|desta vez|esta noite|agora mesmo|último|última|ainda)\b",),
    asked=(rf"(?:podes|pode|poderias|poderia)\b.*\b{_PT_ALWAYS}\b",),
)

_IT_ALWAYS: Final = r"(?:sempre|mai|d'ora in poi|d'ora in avanti|da adesso in poi|in futuro)"
_IT: Final = StandingWords(
    courtesies=r"(?:(?:per favore|per piacere|ok|e|ma|allora|d'ora in poi|d'ora in avanti|in generale|in futuro|ricorda(?:ti)?(?: che)?|per me"
    r"|tieni presente che)\b[,:;–-]* *)*",
    beginnings=(
        rf"(?:rispond[ia]\w*|scriv[ia]\w*|parl[ai]\w*|us[ai]|utilizz[ai]|prenot[ai]\w*|invi[ai]\w*|mand[ai]\w*|chied[ia]\w*|cit[ai]|spieg\w+)\b"
        rf".*\b{_IT_ALWAYS}\b",
        r"(?:rispondimi|rispondi|risponda|scrivimi|scrivi|scriva|parlami|parla|parli)(?: sempre| solo| con me)? in (?!un\b|una\b|quest\w+\b)\w+",
        r"non (?:usare|utilizzare|usi|chiamarmi|mandarmi|inviare|prenotare|prenotarmi|fissare|condividere|consigliare|consigliarmi|menzionare"
        r"|scrivere|mettere|darmi del) (?!mai quest|quest|quell|lo\b|la\b|il\b)\w",
        r"chiamami (?!domani|dopo|quando|se|più tardi|stasera)\w|puoi chiamarmi \w+|mi chiami (?!domani|dopo|quando|se)\w+|dammi del (?:tu|lei)"
        r"|mi dia del (?:tu|lei)|puoi darmi del tu",
        r"(?:tieni|mantieni) le (?:tue )?risposte\b|le (?:tue|sue) risposte (?:devono|dovrebbero)\b|sii (?:breve|conciso|concisa|diretto|diretta)\b",
        r"(?:niente|nessun[oa]?) [\w' -]{3,40} (?:prima|dopo|senza|il|la|di)\b|(?:niente|nessun[oa]?) [\w' -]{3,40},? (?:per favore|grazie)\b",
        r"evita (?!quest|quell)(?:i |le |gli |il |la |l')?\w+[.! ]*$",
        r"chiedimi (?:sempre )?prima\b|consultami prima\b",
        r"(?:tutto|tutti i \w+|tutte le \w+|ogni \w+|nessun \w+|nessuna \w+|niente|nessuno) (?:[\w'-]+ ){0,6}?(?:deve|devono|dovrebbe|può) ",
        r"quando (?:mi )?(?:rispondi|scrivi|parli|prenoti|consigli|spieghi)\b",
        r"il mio budget è\b|(?:ora )?puoi (?:di nuovo |tornare a )?(?:risponder\w*|scriver\w*|parlar\w*|usare)\b.*(?:di nuovo|ancora|adesso)",
    ),
    anywhere=(
        r"\b(?:sono|è|siamo) (?:molto )?allergic[oahei]+ (?:a|al|alla|alle|ai|agli|all')|\b(?:ho|ha) un(?:a |')(?:allergia|intolleranza)\b",
        r"\b(?:sono|è|siamo) (?:strettamente |non più )?(?:vegan[oaei]|vegetarian[oaei]|diabetic[oa]|celiac[oa]|intollerante|daltonic[oa]|sord[oa]"
        r"|incinta|epilettic[oa]|asmatic[oa]|dislessic[oa])\b",
        r"\b(?:in|la) sedia a rotelle\b|\bsoffro di (?:mal di mare|mal d'auto|vertigini|vertigine)\b|\bho (?:le vertigini|paura di volare)\b",
        r"\b(?:io |noi )?non (?:mangio|mangiamo|bevo|beviamo|tollero|digerisco|fumo|guido|posso mangiare|possiamo mangiare|posso bere"
        r"|posso sollevare|posso guidare)\b(?! (?:lo|la|il|da)\b)",
        r"\bpreferisco [\w' -]{2,40} (?:a|al|alla|alle|ai|agli|piuttosto che|invece di) ",
        r"\b(?:al massimo|non più di|massimo)\b.*\beuro\b|\bspendere (?:al massimo|più di)\b",
        rf"\b(?:deve|devono|dovrebbe|dovrebbero)\b(?: \w+)? {_IT_ALWAYS}\b",
        r"\bsenza (?:chiedermi|consultarmi|chiedermelo|il mio permesso)\b",
        r"\bnon (?:lavoro|sono disponibile|rispondo al telefono) (?:il|la|prima|dopo)\b",
        r"\b(?:lunedì|martedì|mercoledì|giovedì|venerdì|sabato|domenica|mattine|sere|weekend) (?:è|sono) (?:riservat[oaei]|per|dedicat[oaei]) ",
    ),
    once=(r"\b(?:oggi|domani|ieri|stavolta|questa volta|stasera|adesso subito|scors[oa]|ultim[oa])\b",),
    asked=(rf"(?:puoi|potresti|può|potrebbe)\b.*\b{_IT_ALWAYS}\b",),
)

STANDING_WORDS: Final[Mapping[str, StandingWords]] = MappingProxyType(
    {"de": _DE, "en": _EN, "es": _ES, "fr": _FR, "it": _IT, "pt": _PT}
)
"""The rules by language; other languages have none."""
