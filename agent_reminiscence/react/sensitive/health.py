"""Rules for health: illnesses, injuries, treatments, drugs, therapy, addiction, pregnancy, disability, intolerances."""

from __future__ import annotations

from typing import Final

from agent_reminiscence.react.sensitive.rules import rule

# Whose body it is: "his left knee".
_BODY = (
    r"(?:legs?|arms?|wrists?|ankles?|hips?|collarbones?|ribs?|nose|fingers?|toes?|foot|feet|knees?|shoulders?|back"
    r"|hands?"
    r"|elbows?|jaw|neck|spine|ligaments?|acl|meniscus|achilles|tendons?|hamstring|skull|thumb|pelvis|kneecap"
    r"|vertebra\w?)"
)
_GERMAN_BODY = (
    r"(?:bein|arm|unterarm|handgelenk|knoechel|rippen?|nase|schluesselbein|fuss|finger|zeh|zehe|hand|huefte|wirbel"
    r"|daumen|ellenbogen|becken|schulter|knie)"
)
_ADVERBS = (
    r"(?:(?:very|so|often|seriously|quite|still|really|chronically|terminally|mentally|critically|too|not|currently|off"
    r"|almost|nearly|completely|legally|partially|partly|totally|fully|born|gravely) ){0,2}"
)
_IS = r"(?:is|was|are|were|am|been|be|'m|'s|'re|became|becoming|going|went|fell|falls?|feels?|felt|got|gets?|getting)"
_FOODS = (
    r"(?:laktose|lactose|gluten|fruktose|fructose|histamine?|milch|kuhmilch|milk|dairy|weizen|wheat|nuesse|nuts|eier"
    r"|eggs"
    r"|soja|soy|penicillin|alkohol|food|lebensmittel|sorbit)"
)
_ILLNESSES = (
    # Metabolism, heart, lungs, blood, inner organs
    r"\bdiabet\w+|\basthma\w*|\bcopd\b|\bbronchitis\b|\bpneumoni\w+|\blungenentzuendung\w*|\btuberculosis\b"
    r"|\btuberkulose\b"
    r"|\bhypertens\w+|\bbluthochdruck\b|\bhypotens\w+|\banaemi\w+|\banemi[ac]\b|\bcholesterol\b|\bcholesterin\w*"
    r"|\bhigh blood pressure\b|\bblood (?:pressure|sugar|clots?|tests?|work|results?|thinners?|count|transfusions?)\b"
    r"|\bblut(?:druck|zucker|werte\w?|bild|probe|verduenner|gerinnsel|armut|vergiftung|test)\w*"
    r"|\b(?:lab|leber|nieren|laborw?|schilddruesen|entzuendungs)-?werte\w?\b|\ba1c\b|\bhba1c\b"
    r"|\bheart (?:attacks?|disease|failure|condition|defect|murmur|problems?|trouble|surgery|arrhythmia)\b"
    r"|\barrhythmia\b"
    r"|\bherz(?:infarkt|fehler|insuffizienz|rhythmus|krank|leiden|probleme?|schwaeche|klappe|muskelentz"
    r"|schrittmacher)\w*"
    r"|\bschlaganfa(?:e)?ll\w*|\bpacemakers?\b|\bangina\b|\bthrombos\w+|\bembolism\b|\bembolie\w*|\baneurysm\w*"
    r"|\b(?:kidney|liver|lung|thyroid|gall ?bladder|prostate|bowel|brain|autoimmune|immune|bladder|skin|eye|bone"
    r"|spinal)"
    r" (?:disease|conditions?|failure|problems?|stones?|trouble|infections?|disorders?|transplants?|tumou?rs?|injur\w+"
    r"|damage|surgery|cancer)\b"
    r"|\b(?:nieren|gallen|leber|lungen|magen|darm|blasen|haut|schilddruesen|augen)-?"
    r"(?:steine?|versagen|krank\w*|leiden|entzuendung\w*|geschwuer\w*|probleme?n?|infekt\w*|schaden|beschwerden"
    r"|krebs)\b"
    r"|\bgallstones?\b|\bulcers?\b|\bcrohn'?s?\b|\bcolitis\b|\bibs\b|\breizdarm\w*|\bc(?:o)?eliac\b|\bzoeliakie\b"
    r"|\bgout\b"
    r"|\bgicht\b|\bhernia\b|\bleistenbruch\b|\bhepatitis\b|\bcirrhosis\b|\bzirrhose\b|\bdialys\w+|\btransplantat\w+"
    r"|\bhashimoto\w*|\bhypothyroid\w*|\bhyperthyroid\w*|\bcystic fibrosis\b|\bmukoviszidose\b|\bhaemophil\w+"
    r"|\bhemophil\w+"
    # Cancer
    r"|\btumou?r\w*|\bleuk(?:a)?emi\w*|\blymphom\w*|\bmelanom\w*|\bcarcinoma\b|\bkarzinom\w*|\bmetasta\w+"
    r"|\bchemo(?:therap\w+)?\b|\bradiotherapy\b|\bradiation therapy\b|\bbestrahlung\w*|\bin remission\b|\bmastectom\w+"
    r"|\boncolog(?:y|ical) (?:treatment|ward)\b|\bmultiple myeloma\b"
    # Nerves, joints, senses
    r"|\bmultiple[rn]? s(?:cl|kl)eros[ei]s?\b|\bparkinson(?:'s)?\b(?!'s law| law)|\balzheimer\w*|\bdement\w+"
    r"|\bepilep\w+"
    r"|\bseizures?\b|\bmigr(?:a|ae)in\w*|\bmigraene\w*|\bneuropath\w+|\bals\b(?= disease| diagnos)|\barthrit\w+"
    r"|\barthros\w+"
    r"|\bosteo\w+|\brheuma\w*|\blupus\b|\bfibromyalgi\w*|\bscoliosis\b|\bskoliose\b|\bsciatica\b|\bischias\b"
    r"|\bhexenschuss\b"
    r"|\bslipped (?:disc|disk)\b|\bherniated\b|\bbandscheiben\w+|\bconcussion\b|\bgehirnerschuetterung\w*|\btinnitus\b"
    r"|\bvertigo\b|\bglaucoma\b|\bglaukom\b|\bcataracts?\b|\bgrauen? star\b|\bpsoriasis\b|\bschuppenflechte\b"
    r"|\beczema\b"
    r"|\bneurodermit\w+|\bekzem\w*|\bshingles\b|\bguertelrose\b|\bendometrios\w+|\bpcos\b|\bmyoma\w*|\bfibroids\b"
    r"|\bmenopaus\w+|\bwechseljahre\w*|\bchronic (?:fatigue|illness|disease|condition|bronchitis)\b|\blong covid\b"
    # Infections
    r"|\bhiv\b|\bherpes\b|\bchlamydia\b|\bgonorrh\w+|\bsyphilis\b|\bmalaria\b|\bdengue\b|\bmeasles\b|\bmasern\b"
    r"|\bmumps\b"
    r"|\bchickenpox\b|\bwindpocken\b|\bborreliose\b|\blyme\b|\bcovid(?:-19)?\b|\binfluenza\b|\bthe flu\b|\bgrippe\b"
    r"|\btonsillitis\b|\bsinusitis\b|\bappendicitis\b|\bblinddarm\w*|\bmittelohrentz\w+|\bsepsis\b|\bscharlach\b"
    # The mind
    r"|\bbipolar\w*|\bschizophren\w*|\bpsychos[ei]\w*|\bpsychotic\b|\bautis\w+|\basperger\w*|\badh[ds]\b|\bptsd\b"
    r"|\bptbs\b"
    r"|\banore(?:x|ct)\w+|\bmagersucht\b|\bbulimi\w*|\beating disorders?\b|\bessstoerung\w*|\binsomnia\b"
    r"|\bschlafstoerung\w*"
    r"|\bschlaflosigkeit\b|\bsleep apn\w+|\bschlafapnoe\b|\banxiety\b|\bpanic (?:attacks?|disorder)\b"
    r"|\bpanikattacken?\b"
    r"|\b(?:angst|zwangs|persoenlichkeits|belastungs|aufmerksamkeits|bindungs|hoer|sprach|blutgerinnungs)stoerung\w*"
    r"|\bclaustrophob\w+|\bagoraphob\w+|\bplatzangst\b|\bmental(?:ly)? (?:health|ill|illness|disorder)\b|\bburn-?out\b"
    r"|\bnervous breakdown\b|\bnervenzusammenbruch\b|\bpostpartum\b|\bself-?harm\w*|\bselbstverletz\w+|\bsuicid\w+"
    r"|\bsuizid\w*|\bselbstmord\w*|\bpsychisch\w* \w*|\btrauma therapy\b|\bdyslexi\w*|\blegastheni\w*|\btourette\w*"
    r"|\bdepressions?\b|\bdepressionen\b|\bdepressiv\w*|\bdepressed\b|\bstutter\w*|\bdown'?s? syndrom\w*"
    # In general
    r"|\billness(?:es)?\b|\bdiseases?\b|\bkrankheit\w*|\berkrankung\w*|\berkrankt\w*|\bsymptoms?\b|\bsymptome\w*"
    r"|\bdiagnosed (?:with|as)\b|\bhealth (?:problems?|issues?|conditions?|scare)\b|\bpoor health\b|\bill health\b"
    r"|\b(?:vitamin|iron|growth|immune|b12) ?\w{0,3} ?deficien\w+|\b(?:eisen|vitamin|vitamin-\w|vitamin \w"
    r"|jod)-?mangel\b"
    r"|\bthyroid\b|\bschilddruese\w*|\bmorning sickness\b|\b(?:baby|twins|child) (?:is|are) due\b|\bmemory loss\b"
    r"|\brelaps\w+"
    r"|\bshort(?:ness)? of breath\b|\batemnot\b|\b(?:breathing|sleeping) (?:problems?|difficult\w+)\b"
    r"|\btrouble (?:sleeping|breathing)\b"
    r"|\bheart (?:bypass|operation|transplant|valve)\b|\b(?:medical|health) check\w*|\bvorsorgeuntersuchung\w*"
    r"|\b(?:psychiatric|rehab|detox|sleep|pain|fertility|eye) (?:clinic|hospital|ward|unit)\b|\bgenetic (?:mutation"
    r"|disorder|condition)\b"
    r"|\bin a (?:plaster )?cast\b|\bim gips\b|\b(?:weak|poor|failing|bad) (?:heart|eyesight|hearing|vision|sight"
    r"|memory)\b"
    r"|\b(?:eyesight|hearing|sight|vision|memory) (?:is|are|has been|keeps) (?:failing|getting worse|poor|bad|going"
    r"|deteriorat\w+)\b"
    r"|\b(?:lost|losing|lose|missing|without) (?:(?:a|an|one|his|her|my|their|both|the|most of his|most of her) )"
    r"(?:left |right )?(?:legs?|arms?|fingers?|eyes?|kidneys?|breasts?|toes?|hands?|feet|foot|hearing|sight|eyesight"
    r"|hair)\b"
    r"|\b(?:can't|cannot|can not|can no longer|unable to|can hardly|can barely) (?:walk|see|hear|stand|climb stairs"
    r"|bend|lift)\b"
    r"|\b(?:kann|koennen) (?:\w{1,10} )?(?:nicht mehr|nicht|kaum) (?:richtig |gut )?(?:laufen|gehen|sehen|hoeren"
    r"|stehen)\b"
    r"|\b(?:hoert|sieht|hoere|sehe)\b[^.!?]{0,40}\b(?:nichts mehr|schlecht|kaum noch|nur noch|fast nichts)\b"
    r"|\bpalpitations\b|\banaphyla\w+|\bnausea\w*|\bvomit\w*|\bfainted\b|\bdiarrh(?:o)?ea\b|\brash\b(?= on)"
    r"|\b\w{2,}phobia\b"
    r"|\btraumati[sz]ed\b|\btraumatisiert\w*|\bblood (?:type|group)\b|\bblutgruppe\b|\bbedridden\b|\bbettlaegerig\w*"
    r"|\bpflegebeduerftig\w*|\bpflegeheim\b|\bnursing home\b|\bhospi(?:ce|z)\b|\bpalliativ\w*|\buebelkeit\b"
    r"|\bdurchfall\b"
    r"|\bhautausschlag\b|\b(?:ruecken|magen|herz|knie|atem|hals)-?(?:beschwerden|probleme)\b|\bberufsunfaehig\w*"
    r"|\barbeitsunfaehig\w*|\bmedical (?:condition|leave|treatment|history|problem|procedure|emergency)s?\b"
    r"|\bgesundheitlich\w*"
    r"|\bgesundheitsproblem\w*|\bentzuendung\w*|\b\w{4,}itis\b"
)
_TREATMENTS = (
    r"\bmedication\w*|\bmedikament\w*|\bmeds\b|\binsulin\b|\bmetformin\b|\bibuprofen\b|\bparacetamol\b"
    r"|\bacetaminophen\b"
    r"|\baspirin\b|\btylenol\b|\bnaproxen\b|\bdiclofenac\b|\bantidepress\w+|\bantibioti\w+|\bantihistamin\w*"
    r"|\bcortison\w*"
    r"|\bcortisol\b|\bsteroids\b|\bstatins?\b|\bbeta.?blo(?:ck|k)er\w*|\binhalers?\b|\basthmaspray\b|\bepi-?pens?\b"
    r"|\britalin\b"
    r"|\bmethylphenidate?\b|\badderall\b|\bprozac\b|\bzoloft\b|\bxanax\b|\bvalium\b|\bwarfarin\b|\bl-?thyroxin\w*"
    r"|\blevothyroxin\w*|\bopioids?\b|\bmorphin\w*|\bmethadon\w*|\bpain ?killers?\b|\bschmerzmittel\w*"
    r"|\bschlaftabletten\b"
    r"|\bsleeping pills?\b|\bozempic\b|\bviagra\b|\bantipsychoti\w+|\bantiepilep\w+|\bblood thinners?\b"
    r"|\b\w{3,}(?:azepam|zolam|oxetine?|traline?|alopram|vastatin|prazole?|sartan|cillin|mycin|cycline?|triptan|glutide"
    r"|codone|profen|pregabalin|gabapentin)\b|\b(?:lisino|rami|enala|capto)pril\b|\b(?:meto|biso|ateno|propra)\w*olol\b"
    r"|\bprescri(?:bed|ptions?)\b|\bverschreib\w*|\bverschrieben\w*|\bvaccinat\w+|\bvaccines?\b|\bgeimpft\w*|\bimpf\w+"
    r"|\bbirth control\b|\bcontracepti\w+|\bverhuetung\w*|\broot canal\b|\bwisdom teeth\b|\bstents?\b|\bcatheter\b"
    r"|\bkatheter\b"
    r"|\bstoma\b|\barthroscopy\b|\bhormone (?:therapy|replacement|treatment)\b|\bivf\b|\binfertil\w+|\bunfruchtbar\w*"
    r"|\bkuenstliche befruchtung\b"
    r"|\bkinderwunschbehandlung\w*|\bfertility (?:treatment|clinic|problems?)\b"
    r"|\bmiscarr(?:iage(?! of justice)|ied)\w*|\bfehlgeburt\w*|\babortion\b|\babtreibung\w*|\bstillborn\b"
    r"|\btotgeburt\w*"
    r"|\bpregnan(?:t(?! pause)|cy|cies)\b|\bschwanger\w*|\bphysiotherap(?:y|ie)\b|\bphysio\b|\bkrankengymnastik\b"
    r"|\bpsychotherap(?:y|ie)\b|\brehab(?:ilitation)?\b|\breha\b|\bbiops(?:y|ie\w*)\b|\bmri\b|\bmrt\b|\bct[ -]scans?\b"
    r"|\bmammogra\w+|\bcolonoscop\w+|\bdarmspiegelung\w*|\bmagenspiegelung\w*|\bultrasound\b|\bultraschall\w*"
    r"|\bx-?rays?\b"
    r"|\bcardiogram\b|\becg\b|\bekg\b|\bappendectomy\b|\bhysterectomy\b|\bvasectomy\b|\bcaesarean\b|\bc-section\b"
    r"|\bkaiserschnitt\b|\b(?:hip|knee) replacements?\b|\b(?:bypass|knie|hueft|herz|augen|ruecken|mandel|not"
    r"|brust)-ops?\b"
    r"|\b(?:lab|genetic|pregnancy|hiv|covid|allergy|medical|std|hormone|thyroid|hearing|screening) (?:tests?"
    r"|results?)\b"
)
_DISABILITIES = (
    r"\bwheelchairs?\b|\brollst(?:u|ue)hl\w*|\bdisabilit(?:y|ies)\b|\bbehinderung\w*|\bschwerbehinder\w*"
    r"|\bgehbehinder\w*"
    r"|\bsehbehinder\w*|\bhard of hearing\b|\bhearing (?:loss|aids?|impair\w+)\b|\bvisually impaired\b|\bgehoerlos\w*"
    r"|\bschwerhoerig\w*|\bhoergeraete?\w?\b|\bcochlea\w*|\bprosthe\w+|\bprothese\w*|\bamputat\w+|\bamputiert\w*"
    r"|\bparaly[sz]ed\b|\bparapleg\w+|\bquadripleg\w+|\bquerschnitt\w*gelaehmt\w*|\bgelaehmt\w*|\bcrutches\b"
    r"|\bkruecken\b"
    r"|\bwalks with a (?:cane|limp|stick)\b|\bgeht am stock\b|\bwalking (?:frame|stick)\b|\brollator\w*|\bpflegegrad\b"
    r"|\bpflegestufe\b|\bcolou?r[ -]?blind\w*|\bfarbenblind\w*"
    r"|\bcerebral palsy\b|\bdeaf(?! to\b)\b|\btaub(?:stumm)?\b|\blearning difficult\w+|\blernschwaeche\b"
)
_SPECIALISTS = (
    r"(?:psychiatrists?|psychologists?|psychotherapists?|therapists?|oncologists?|cardiologists?|neurologists?"
    r"|gyna?ecologists?|dermatologists?|urologists?|counsell?ors?|doctors?|gp|dentists?|physicians?|surgeons?"
    r"|orthop(?:a)?edists?|endocrinologists?|rheumatologists?|midwife|physiotherapists?|psychoanalysts?|shrink)"
)
_GERMAN_SPECIALISTS = (
    r"(?:(?!tier)\w{0,20}(?:arzt|aerztin)|psychiater(?:in)?|psycholog(?:e|in)\w?|\w{0,14}therapeut(?:en|in)?"
    r"|onkolog(?:en?|in)|kardiolog(?:en?|in)|neurolog(?:en?|in)|gynaekolog(?:en?|in)|urolog(?:en?|in)|hebamme)"
)
_DRUGS = (
    r"(?:opioids?|heroin|alcohol|drugs?|gambling|nicotine|cocaine|pain ?killers?|pills|meth|benzos?|benzodiazepines"
    r"|crack"
    r"|fentanyl|morphine|cannabis|sleeping pills|oxycodone)"
)

HEALTH_RULES: Final = (
    rule(
        "health",
        "",
        _ILLNESSES,
        topic=True,
        unless=r"\b(?:great|economic|tropical) depression\b|\bdepressed (?:area|region|price|market|econom)\w*"
        r"|\bdepressions? (?:era|in the (?:ground|road|market))|\b(?:im|i)mposter|\bstockholm syndrome"
        r"|\bapplication'?s? performance|\bmachine\b.*\bseizure|\b(?:bipolar) (?:transistor|junction|power supply)"
        r"|\bseizures? of\b|\bautist\w* (?:of|from) the\b",
    ),
    rule("health", "", _TREATMENTS, topic=True, unless=r"\bsubscription to\b"),
    rule(
        "health",
        "",
        _DISABILITIES,
        topic=True,
        unless=r"\btaube\w*\b|\btaubenschlag\b|\bwheelchair[- ](?:accessib|ramp|user group)",
    ),
    rule(
        "health",
        "cancer",
        r"\bcancers?\b",
        topic=True,
        unless=r"\bzodiac|\bstar ?sign|\btropic of cancer|\b(?:is|am|'m|was) a cancer\b(?! (?:survivor|patient))"
        r"|\bhoroscope"
        r"|\b(?:leo|virgo|gemini|aries|taurus|libra|scorpio|sagittarius|capricorn|aquarius|pisces)\b",
    ),
    rule(
        "health",
        "krebs",
        r"\b(?:\w{2,20})?krebs(?:erkrankung|diagnose|therapie|leiden|krank\w*|patientin|patient)?\b",
        topic=True,
        unless=r"\bsternzeichen\b|\bhoroskop\b|\b(?:ist|bin) (?:ein )?krebs\b|\b(?:fluss|taschen|einsiedler"
        r"|speise)krebs"
        r"|\bkrebs(?:suppe|fleisch)",
    ),
    # Cased, since in lower case they are other words.
    rule(
        "health",
        "AIDS OCD BPD STD DVT UTI MS Corona",
        r"\b(?:AIDS|OCD|BPD|STD|DVT|UTI)\b",
        r"\b(?:has|have|had|having|with|suffers? from|hat|habe|hatte)\s+MS\b(?! (?:Office|Word|Excel|Teams|Windows|SQL"
        r"|in)\b)",
        r"\bhat(?:te)? Corona\b|\b[Aa]n Corona\b|\bCorona-?(?:[Ii]nfektion|[Tt]est|[Ee]rkrankung)\b",
        topic=True,
        cased=True,
    ),
    rule(
        "health",
        "allerg",
        r"\ballergi(?:c|es|y|e|en|sch\w*|ker\w*)\b",
        r"\ballergy\b",
        r"\b\w{3,20}allergie\w?\b",
        topic=True,
        unless=r"\b(?:allergic|allergisch|allergy) (?:to|gegen|auf) (?:\w{1,20} ){0,2}?(?:meetings?|mondays?|work"
        r"|nonsense"
        r"|bureaucracy|small talk|stupid\w*|drama|commitment|mornings?|excel|e-?mails?|failure|lies|lying|change"
        r"|buzzwords?"
        r"|hype|homework|politics|spreadsheets?|deadlines?|fun|noise|cliches?|criticism|paperwork|jargon|montage|arbeit"
        r"|kritik|laerm|unpuenktlich\w*|buerokratie|luegen|besprechungen|montagmorgen|unordnung)\b",
    ),
    rule(
        "health",
        "intoleran unvertraeg vertr",
        rf"\b{_FOODS}-?\s?intoleran\w*",
        rf"\bintoleran(?:t|ce) (?:to|of|gegen\w*) {_FOODS}\b",
        r"\bunvertraeglichkeit\w*|\b\w{3,20}unvertraeglichkeit\w*",
        rf"\bvertr(?:ae|a)g\w{{1,3}} (?:\w{{1,12}} )?(?:kein\w{{0,2}} )?{_FOODS}\b",
        r"\bfood intolerances?\b",
        topic=True,
    ),
    rule(
        "health",
        "sick ill krank",
        rf"(?<![\w])(?:{_IS}|'s|'m) {_ADVERBS}(?:sick|ill)\b(?! (?:of|advised|equipped|prepared|at ease"
        rf"|suited)\b)(?!-)",
        r"\b(?:call(?:s|ed)? in|off|home) sick\b|\bsick (?:leave|note|pay|days?)\b(?! polic)|\bterminally ill\b",
        r"\b(?:ist|bin|war|sind|wird|wurde|wurden|oft|sehr|schwer|schwerst|chronisch|dauernd|wieder|todkrank|liegt"
        r"|psychisch)"
        r" (?:\w{1,12} ){0,3}krank\b(?! vor\b)",
        r"\bkrank(?:geschrieben|gemeldet|schreibung|meldung|enstand|engeld|er|en)\b(?= |$|,)(?! ?(?:schwester"
        r"|pfleger))",
        r"\btodkrank\b|\bschwerkrank\b|\bkrankgeschrieben\b|\bkrankschreibung\b|\bim krankenstand\b",
        unless=r"\b(?:printer|computer|server|drucker|economy|wirtschaft|joke\w*|witz\w*)\b",
        topic=True,
    ),
    rule(
        "health",
        "stroke pain ache schmerz weh fever cold infect heuschnupfen erkaelt fieber infekt",
        r"\b(?:had|suffer(?:s|ed|ing)?|after|survived|since|recover\w*|recovering from|has had)"
        r" (?:(?:a|an|his|her|my|their|the|from|two|another|minor|mini|small|severe|light) ){0,3}strokes?\b"
        r"(?! of (?:luck|genius|the|inspiration|good))",
        r"\b(?:back|neck|chest|knee|hip|joint|chronic|constant|severe|stomach|shoulder|foot|nerve|phantom|pelvic|muscle"
        r"|leg|tooth|period|abdominal|ear)[ -]?(?:pains?|aches?)\b|\b(?:headaches?|toothaches?|backaches?"
        r"|stomach aches?)\b",
        r"\bin (?:a lot of |great |constant |chronic |severe |terrible )?pain\b|\bpains? in (?:his|her|my|the"
        r"|their) \w+",
        r"\b\w{0,16}schmerzen\b|\b(?:hals|kopf|bauch|zahn|ohren)weh\b",
        r"\b(?:has|had|have|having|with|runs?|running|ran|hay|caught|caught a|has a|high|slight) (?:a |the )?"
        r"(?:high |slight |bad |nasty |terrible )?(?:fever|cold|infection)\b(?! (?:pitch|brew|beer|drink|water|start"
        r"|case))",
        r"\b(?:heuschnupfen|erkaelt(?:et|ung)\w*|fieber|infekt\w{0,7})\b",
        topic=True,
        unless=r"\b(?:cabin|gold|dance|football|election) fever|\bpain in the (?:neck|ass|butt)\b"
        r"|\bheadaches? for the\b"
        r"|\bhas (?:a )?cold (?:hands|feet|heart|house|room|cellar)|\bnoun\b|\bheld the book\b",
    ),
    rule(
        "health",
        "blind sighted",
        rf"(?:\b|(?<='))(?:is|was|are|am|been|became|going|went|born|m|s) {_ADVERBS}blind\b"
        r"(?! (?:date|spot|to\b|tast|audition|faith|trust|test|review|copy))",
        r"\bblind in (?:one|both|his|her|my|the) \w+\b|\bpartially sighted\b",
        r"\b(?:ist|war|bin|sind|wird|wurde|fast|voellig|nacht|auge|augen"
        r"|seit \w+) (?:\w{1,12} ){0,1}(?:er)?blind\b(?! (?:vor|fuer)\b)",
        topic=True,
    ),
    rule(
        "health",
        "disabled behindert",
        rf"\b(?:is|was|am|are|been|born|severely|physically|mentally|registered|partially"
        rf"|permanently) {_ADVERBS}disabled\b",
        r"\b(?:ist|war|bin|sind|wird|schwer|geistig|koerperlich|seh|geh|mehrfach"
        r"|stark)[ -]?(?:\w{1,12} )?behindert\w{0,2}\b",
        unless=r"\b(?:notifications?|alarms?|features?|accounts?|settings?|options?|plugins?|sync|bluetooth|mode"
        r"|javascript"
        r"|cookies?|buttons?|default|logins?|apps?|ssl|tls|cache|wi-?fi|gps|location|updates?|tracking|autocorrect"
        r"|camera"
        r"|microphone|comments|benachrichtigung\w*|verkehr|zutritt|sicht|stau)\b",
        topic=True,
    ),
    rule(
        "health",
        "br fractur sprain dislocat tor twist injur hurt ruptur strain shatter swollen bad operation surger verstaucht"
        " verletz gezerrt geriss operiert riss zerrung meniskus",
        r"\b(?:broke|broken|breaks|fractured|sprained|dislocated|tore|torn|twisted|injured|hurts?|bruised|ruptured"
        r"|strained"
        rf"|shattered) (?:(?:my|his|her|their|both|the|an?|one|two|[\w-]{{1,20}}'s) )?(?:[\w-]{{1,14}} )?{_BODY}\b",
        rf"\b(?:fractured?|torn|sprained|broken|injured|bad|swollen|dislocated) (?:[\w-]{{1,14}} )?{_BODY}\b",
        rf"\b{_BODY} (?:fractures?|injur(?:y|ies)|operations?|surgery)\b",
        rf"\b{_GERMAN_BODY}\w{{0,2}} (?:\w{{1,12}} )?(?:an|durch)?(?:gebrochen|verstaucht|verletzt|gezerrt|gerissen"
        rf"|operiert)\b",
        rf"\b(?:gebrochen\w*|verstaucht\w*|verletzt\w*) \w{{0,14}}{_GERMAN_BODY}\b",
        r"\b(?:bein|arm|rippen|knochen|schaedel|wirbel|huefte?|hueft|oberschenkel|handgelenks?|becken)bruch\b",
        r"\b(?:kreuzband|baender|muskelfaser|meniskus|achillessehnen)riss\b|\bzerrung\b|\bmeniskus\b",
        topic=True,
        unless=r"\bback ?(?:end|up|door|log|pack|yard|ground)\b|\bchair'?s\b|\btable'?s?\b|\btorn the\b|\b(?:statue"
        r"|doll|figure|chair|puppet|toy|robot|puppe)\w?\b",
    ),
    rule(
        "health",
        "injur hurt verletz",
        r"\binjur(?:y|ies|ed)\b|\b(?:got|was|been) hurt\b|\bverletz(?:t|ung\w{0,2})\b|\w{3,20}verletzung\w{0,2}\b",
        near=r"\b(?:my|his|her|their|our|myself|himself|herself|got|is|was|has|had|been|mein\w*|sein\w*|ihr\w*|sich|ist"
        r"|hat|wurde)\b",
        unless=r"\bpersonal injur|\b(?:feelings|pride|gefuehle|stolz|regel\w*|vertrag\w*|privatsphaere"
        r"|urheberrecht\w*)\b",
        topic=True,
    ),
    rule(
        "health",
        "surger operat operiert op",
        r"\b(?:had|has|have|having|needs?|needed|after|awaiting|before|for|her|his|my|their|underwent|undergo\w*"
        r"|scheduled"
        r"|recover\w*(?: from)?|facing)(?: [\w-]{1,16}){0,3} (?:surgery|surgeries)\b",
        r"\b(?:was|were|is being|been|be|got|gets?) operated on\b|\b(?:had|having|needs?|after) an operation\b",
        r"\b(?:wurde|wurden|wird|werden|worden|lassen|frisch|bereits|zweimal|mehrmals)\b[^.!?]{0,40}\boperiert\b"
        r"|\boperiert (?:worden|werden|wurde)\b|\bvor (?:einer|der|seiner|ihrer|meiner) \w{0,10}operation\b"
        r"|\b(?:hatte|hat|nach|braucht) (?:einer?|ihrer|seiner|meiner|der) (?:\w{1,14} )?\w{0,10}(?:operation|op)\b",
        topic=True,
        unless=r"\b(?:tree|plastic) surgery (?:clinic|practice)\b|\bmilitary operation\b",
    ),
    rule(
        "health",
        "hospital intensive icu clinic ward psychiatr emergency krankenhaus spital klinik",
        r"\b(?:hospitali[sz]\w*|intensive care|icu)\b",
        r"\b(?:admitted|rushed|taken|discharged|released|referred)(?: back)? (?:to|from) (?:the |a )?(?:\w{1,14} )?"
        r"(?:hospital|clinic|ward|psychiatr\w*|emergency)\b",
        r"\b(?:is|was|has been|been|went|came|spent|lying|lies|stays?|stayed|home|weeks?|days?|nights?|ended up|back)\b"
        r"[^.!?]{0,30}\b(?:in|into|to|from) (?:the |a )?hospital\b(?! (?:to work|building|administration|design))",
        r"\b(?:liegt|lag|kam|kommt|musste|muss|war|ist|eingeliefert|entlassen|wochen|tage|wurde)\b[^.!?]{0,40}"
        r"\b(?:im|ins|aus dem|in die|in der) (?:krankenhaus|spital|klinik|psychiatrie)\b",
        r"\b(?:im|ins) (?:krankenhaus|spital) (?:liegt|lag|liegen|kam|musste|eingeliefert|gebracht)\b"
        r"|\bkrankenhausaufenthalt\w*",
        unless=r"\b(?:work\w*|job|nurse|doctor|surgeon|volunteer\w*|employed|intern\w*|visit\w*|arbeite\w*|besuch\w*"
        r"|als|cafe)\b",
    ),
    rule(
        "health",
        "test injection spritz medicine pill tablet tropfen medizin lithium mg milligram expecting erwartet",
        r"\btest(?:ed|s|ing)? (?:\w{1,12} )?(?:positive|negative)\b(?! feedback)",
        r"\b(?:positiv|negativ) (?:auf \w{1,20} )?getestet\b|\btest (?:war|ist|fiel) (?:\w{1,12} )?(?:positiv"
        r"|negativ)\b",
        r"\b(?:takes?|taking|took|swallows?|prescribed|stopped taking|on) (?:[\w-]{1,14} ){0,3}"
        r"(?:medicines?|pills?|tablets)\b",
        r"\b(?:takes?|taking|took) (?:a|two|three|her|his|my|one) (?:\w{1,12} )?(?:tablet|pill|medicine)s?\b|\b(?:gets?"
        r"|weekly|monthly) injections?\b"
        r"|\bspritzt sich\b",
        r"\b(?:nimmt|nehme|nehmen|braucht|schluckt)\b[^.!?]{0,30}\b(?:tabletten|pille|tropfen|medizin|pillen)\b",
        r"\b(?:takes?|taking|took|on|nimmt|nehme) lithium\b|\b\d{1,4} ?mg\b|\bmilligram(?:s|m)?\b",
        r"\bexpecting (?:(?:a|an|her|his|their|our|my|another|first|second|third) ){0,2}(?:baby|child|twins|girl|boy"
        r"|son"
        r"|daughter)\b|\berwartet (?:\w{1,10} ){0,2}(?:baby|kind|zwillinge|nachwuchs)\b",
        unless=r"\b(?:bottle of|wrote on|drew on|reads on|caffeine)\b",
        topic=True,
    ),
    rule(
        "health",
        "see saw visit goes go appointment refer talk call his her my their our the a termin beim zum zur vom von zu"
        " mit bei mein sein ihr unser d",
        rf"\b(?:see|sees|seeing|saw|visits?|visited|goes to|going to|went to|go to|appointment (?:with|at)|referred to"
        rf"|talks to"
        rf"|calls?) (?:(?:a|an|the|his|her|my|their|our) )?(?:[\w-]{{1,14}} )?{_SPECIALISTS}\b",
        rf"\b(?:his|her|my|their|our|the|a) (?:[\w-]{{1,14}} )?{_SPECIALISTS} (?:has |had |have )?(?:told|said|says"
        rf"|advised|prescribed|recommend"
        r"|warned|found|diagnosed|thinks|suspects|wants|put|ordered|referred|suggested|confirmed)",
        r"\b(?:his|her|my|their) (?:therapist|psychiatrist|psychologist|oncologist|cardiologist|neurologist"
        r"|gyna?ecologist|psychotherapist|rheumatologist)s?\b(?! friend| colleague)",
        r"\b(?:dentist|doctor|doctor's|medical|therapy|physio|hospital|clinic|ultrasound|scan) appointments?\b",
        rf"\b(?:beim|zum|zur|vom|(?:von|bei|zu|mit) (?:dem|der|eine[rm]|ihre[rm]|seine[rm]|meine[rm]"
        rf"|unsere[rm])) (?:\w{{1,14}} )?{_GERMAN_SPECIALISTS}\b",
        rf"\b(?:mein|sein|ihr|unser|der|die|meine|seine|ihre) {_GERMAN_SPECIALISTS} (?:sag|rat|riet|hat|mein|verschr"
        rf"|empf|warn)",
        r"\b(?:arzt|zahnarzt|facharzt)termin\w*\b",
        unless=r"\bwitch doctor|\bdoctor who\b|\b(?:as|als) (?:a )?(?:doctor|dentist|therapist|psychologist|arzt"
        r"|aerztin)\b"
        r"|\bausbildung zu[mr]\b|\b(?:lernt|studiert|wird|machte?) \b",
    ),
    rule(
        "health",
        "therap counsel psychoanalysis group",
        r"\b(?:in|to|does|do|doing|started|starts|starting|stopped|needs?|having|has|have|attends?|attending|his|her|my"
        r"|their"
        r"|couples?|speech|physical|radiation|behaviou?ral|talk|cognitive|family|group|weekly|occupational|exposure"
        r"|trauma"
        r"|goes to|through|into|after) (?:[\w-]{1,14} )?therapy\b(?! (?:dogs?|degree|practice|room|training))",
        r"\b(?:macht|mache|machen|braucht|begann|beginnt|in|nach|seit|eine|ihre|seine|ihrer|seiner|meine|meiner)"
        r" (?:\w{1,14} ){0,2}?(?:\w{1,20})?therapie\b",
        r"\b(?:goes to|attends|in|started|needs) (?:\w{1,14} )?(?:counsel(?:l)?ing|psychoanalysis|group sessions)\b",
        topic=True,
        unless=r"\b(?:retail|chocolate|music|art|garden|sound) ?therapy\b",
    ),
    rule(
        "health",
        "alcohol addict abuse disorder depend problem drink overdos sober sobri clean rehab withdrawal alkohol entzug"
        " sucht drogen spiel tabletten medikamenten",
        r"\b(?:is|was|'s|'m|am|an?|recovering|former|his|her|my)(?: (?:a|an|dry|recovering|functioning|former|an ex"
        r"|\w{1,12} is an?))?"
        r" alcoholics?\b(?! (?:drink|bever|beer|wine|cider|cocktail|punch|liqueur|spirit))",
        r"\balcoholism\b|\balcoholics anonymous\b|\b(?:alcohol|drug|substance|gambling|opioid) (?:abuse|addict\w*"
        r"|dependen\w+"
        r"|problem|use disorder)\b|\bdrinking problem\b",
        rf"\baddict(?:ed|ion|ions)? to (?:\w{{1,12}} )?{_DRUGS}\b|\b{_DRUGS} addict(?:s|ion)?\b|\boverdos\w+",
        r"\bsober (?:for|since|again|now)\b|\bsobriety\b|\bclean for \w+ (?:days|months|years)\b|\b(?:in|into|to|after"
        r"|through)"
        r" (?:drug |alcohol )?rehab\b|\bwithdrawal symptoms\b",
        r"\balkoholiker\w*|\balkoholkrank\w*|\balkoholsuecht\w*|\b(?:drogen|spiel|sucht|tabletten"
        r"|medikamenten)(?:suecht|krank"
        r"|abhaengig|sucht|problem)\w*|\balkoholproblem\w*|\b(?:im|auf|macht einen|alkohol|drogen)[ -]?entzug\b"
        r"|\bentzugs?klinik\b"
        r"|\bsuchtklinik\b|\banonymen? alkoholiker\w*",
        topic=True,
    ),
    rule(
        "health",
        "diagnos",
        r"\bdiagnos(?:e|en|is|es)\b",
        r"\bdiagnostiziert\w*\b",
        near=r"\b(?:my|his|her|their|our|[\w-]{1,30}'s|mein\w*|sein\w*|ihr\w*|bei (?:ihr|ihm|mir|uns|ihnen)|bekam"
        r"|erhielt|got a|received"
        r"|wurde bei|since the|seit der|nach der|second opinion)\b",
        unless=r"\b(?:bugs?|network|netzwerk\w*|outage|server|engines?|motor\w*|fehlers?|cars?|system|software|code"
        r"|device|machine"
        r"|problem in|circuit|maschine\w*|auto|leak|hardware|performance)\b",
        topic=True,
    ),
    rule(
        "health",
        "recover obes weight gewicht adipos bmi burn remission support dialysis terminal transplant spender",
        r"\brecover(?:s|ed|ing)? from (?:(?:a|an|his|her|my|the) )?(?:\w{1,14} )?(?:accident|illness|operation|bypass"
        r"|fall|crash|addiction)\b",
        r"\bobes(?:e|ity)\b|\boverweight\b|\bunderweight\b|\buebergewicht\w*|\badipositas\b|\bbmi\b|\bfeels? burn(?:ed"
        r"|t) out\b",
        r"\b(?:is|was|am|been) (?:in|on) (?:remission|life support|dialysis)\b|\bterminal (?:illness|cancer"
        r"|diagnosis)\b",
        r"\b(?:had|has|received|needs|waiting for|braucht|bekam|hat)\b[^.!?]{0,20}\b(?:transplant|spenderniere"
        r"|spenderherz)\b",
        topic=True,
        unless=r"\b(?:baggage|luggage|suitcase|rated|stock|shares)\b",
    ),
)
