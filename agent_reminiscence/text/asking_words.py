"""The phrases with which each language asks, without saying what about; `asking` reads them.

Patterns are regular expressions in lower case; a space stands for any white space, `'` for either apostrophe. `{topic}`
is what is asked about; where it is not written, it comes last. A new language is an entry here and cases in the tests.
"""
# ruff: noqa: E501, RUF001  # a phrase is on one line; letters of many scripts

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class AskingPhrases:
    """How one language asks."""

    # Ask for an answer: "can you tell me", "do you remember".
    openers: tuple[str, ...]
    # Ask for what was said or is known of a topic: "what did I say about". Who speaks here is the one who asks.
    talks: tuple[str, ...]
    # Ask who somebody is; these words stay in the question.
    who: tuple[str, ...]
    # What the person who asks is called in a topic: "me".
    selves: str
    # Ask who the person is who asks.
    who_am_i: str
    # May stand before any of these.
    polite: str = ""
    # May stand at the end.
    closers: str = ""


_ENGLISH_WHO: Final = "(?:i|we|you and i|you)"
_ENGLISH_SAY: Final = "(?:say|tell you|talk(?: to you)?|speak(?: to you)?|chat|mention|discuss|write|ask you|share)"
_ENGLISH_SAID: Final = (
    "(?:said|told you|talked(?: to you)?|spoken?|spoke|chatted|mentioned|discussed|written|wrote|asked you|shared)"
)
_ENGLISH_SOFAR: Final = "(?: so far| before| earlier| already| previously| recently| in the past)?"
_ENGLISH_EVER: Final = "(?: ever| already| just| previously| last| first)?"
_ENGLISH_ABOUT: Final = "(?:about|regarding|concerning)"
_ENGLISH_THINGS: Final = "(?:what|whatever|everything|anything|something|all|the things|things)(?: else)?(?: that)?"

_GERMAN_SAID: Final = (
    "(?:gesagt|erzählt|erwähnt|besprochen|geredet|gesprochen|angesprochen|geschrieben|berichtet|genannt|diskutiert)"
)
_GERMAN_FILLERS: Final = (
    "(?: dir| euch| mir| uns| schon| bisher| noch| denn| eigentlich| alles| so| mal| jemals| je| etwas)*"
)
_GERMAN_ABOUT: Final = "(?:über|zu|zum|zur|von|vom|wegen)"

_FRENCH_OF: Final = (
    "(?:à propos (?:de la|de l'|de|du|des|d')|au sujet (?:de la|de l'|de|du|des|d')|concernant|sur|de l'|de|du|des|d')"
)
_FRENCH_SAID: Final = "(?:dit|raconté|mentionné|discuté|évoqué|écrit|parlé|abordé|noté)"

_SPANISH_OF: Final = "(?:acerca del?|sobre|respecto al?|del?)"
_SPANISH_SAID: Final = (
    "(?:(?:he|hemos|había|habíamos) (?:dicho|contado|mencionado|comentado|hablado|discutido)|dije|conté|mencioné|comenté"
    "|hablé|dijimos|hablamos|comentamos|discutimos|mencionamos|contamos)"
)

_PORTUGUESE_OF: Final = "(?:sobre(?: [oa]s?)?|acerca d[eoa]s?|a respeito d[eoa]s?|d[eoa]s?)"
_PORTUGUESE_SAID: Final = (
    "(?:disse|falei|contei|mencionei|comentei|escrevi|falamos|falámos|dissemos|discutimos|conversamos|conversámos"
    "|mencionamos|mencionámos)"
)

_ITALIAN_OF: Final = (
    "(?:riguardo (?:a|al|alla|ai|alle|allo|agli)|a proposito (?:di|del|della|dei|delle|dello|degli|dell')"
    "|dell'|del|della|dei|delle|dello|degli|di|sull'|sul|sulla|sui|sulle|sugli|su)"
)
_ITALIAN_SAID: Final = "(?:detto|raccontato|menzionato|discusso|accennato|scritto|parlato|nominato|citato)"

_DUTCH_SAID: Final = "(?:gezegd|verteld|besproken|genoemd|gesproken|gepraat|geschreven|vermeld|aangekaart)"
_DUTCH_FILLERS: Final = "(?: je| jou| u| me| al| eerder| ooit| nog| allemaal| eens| even| iets)*"

_RUSSIAN_SAID: Final = (
    "(?:говорил[аи]?|сказал[аи]?|рассказывал[аи]?|рассказал[аи]?|упоминал[аи]?|упомянул[аи]?|обсуждал[аи]?|обсудил[аи]?"
    "|писал[аи]?|разговаривали|поднимал[аи]?)"
)
_RUSSIAN_ABOUT: Final = "(?:обо|об|о|про|насчёт|насчет)"

_CHINESE_SAID: Final = "(?:说过|讲过|提到过|提过|聊过|谈过|讨论过|告诉过你|提到|说了|聊了|讨论了)"
_CHINESE_WHAT: Final = "(?:的?(?:一些|些)?(?:什么|哪些|事情|事|内容|一切|情况)+)?"
_JAPANESE_ABOUT: Final = "(?:について|に関して|のことについて|のことを|のこと)[、,]?"
_JAPANESE_SAID: Final = "(?:言|話|伝え|教え|書)(?:い|っ|し|き)?(?:ました|まし|た|ていました|ていた|たこと)(?:ことを?)?(?:っけ|のですか|んですか|のか|の|か)*"
_JAPANESE_I: Final = "(?:私たち|僕たち|私|わたし|僕|俺)(?:が|は)[、,]?(?:以前|前に|これまでに)?"

ASKING_PHRASES: Final[Mapping[str, AskingPhrases]] = MappingProxyType(
    {
        "en": AskingPhrases(
            openers=(
                "(?:can|could|would|will) you (?:please )?(?:(?:remind|tell|show|give) me(?: again)?|recall|remember|recap|summari[sz]e|list(?= the| all| every| what| my| our))(?: (?:about|of))?",
                "(?:remind|tell) me(?: again| more| everything| something| anything)?(?: (?:about|of))?",
                "(?:list|name|recap|summari[sz]e|recall)(?: for me)?(?= the order| all| every| everything| what)",
                "(?:do|did|don't) you (?:still |even |happen to )?(?:remember|recall|know)(?: (?:about|if|whether|that))?",
                "i(?:'d| would)? (?:want|like|need|love) to (?:know|remember|recall)(?: (?:about|if|whether))?",
                "(?:i (?:wonder|can't remember|cannot remember|don't remember|forgot)|i'm wondering|i am wondering)(?: (?:if|whether)|(?=,? (?:what|where|when|who|how|which|why)))",
                "i(?:'m| am) trying to (?:remember|recall)",
                "(?:please )?(?:refresh my memory|help me (?:to )?remember)(?: (?:about|on|of))?",
            ),
            talks=(
                f"{_ENGLISH_THINGS} {_ENGLISH_WHO}(?:'ve|'d| have| had)?{_ENGLISH_EVER} {_ENGLISH_SAID}{_ENGLISH_SOFAR} {_ENGLISH_ABOUT}",
                f"what(?: else| all| exactly)? (?:did|have|had) {_ENGLISH_WHO}{_ENGLISH_EVER} (?:{_ENGLISH_SAY}|{_ENGLISH_SAID}){_ENGLISH_SOFAR} {_ENGLISH_ABOUT}",
                f"what(?: else| all)? (?:do|did|can) you (?:still |already )?(?:know|remember|recall|tell me) (?:{_ENGLISH_ABOUT}|of)",
                f"{_ENGLISH_THINGS} you (?:still |already )?(?:know|remember|recall) (?:{_ENGLISH_ABOUT}|of)",
                "(?:the order in which|the order(?: that)?|in (?:what|which) order did|in (?:what|which) order) (?:i|we) (?:brought up|bring up|mentioned|mention|discussed?|(?:talk(?:ed)?|sp(?:eak|oke)) about|raised?)",
                f"(?:when|where|how often|how many times|why) (?:did|have) (?:i|we){_ENGLISH_EVER} (?:mention(?:ed)?|discuss(?:ed)?|bring up|brought up|(?:tell you|told you|talk|talked|speak|spoken) about)",
                f"(?:did|have) (?:i|we){_ENGLISH_EVER} (?:mention(?:ed)?|discuss(?:ed)?|bring up|brought up|(?:say|said|tell you|told you|talk|talked|speak|spoken)(?: anything| something)? about)",
                "our (?:last |previous |earlier )?(?:conversations?|chats?|discussions?|talks?) (?:about|on|regarding)",
            ),
            who=("who(?:'s| is| was| are| were)", "who {topic} (?:is|was|are|were)"),
            selves="me|myself",
            who_am_i="who am i|who i am",
            polite="hey|hi|hello|ok|okay|so|and|also|please|by the way|now",
            closers="please|thanks|thank you|do you (?:remember|know|recall)|if you (?:remember|know)|remember",
        ),
        "de": AskingPhrases(
            openers=(
                "(?:kannst|könntest|würdest) du (?:mir|mich)(?: bitte)?(?: noch ?mal)? (?:sagen|erzählen|zeigen|daran erinnern|nennen)",
                "(?:kannst|könntest) du mir(?: bitte)?(?: noch ?mal)?(?: etwas| alles| mehr| was)? (?:über|von|vom|zu|zum|zur) {topic} (?:sagen|erzählen|berichten)",
                "(?:kannst|könntest) du mich(?: bitte)?(?: noch ?mal)? an {topic} erinnern",
                "(?:sage?|erzähle?|zeige?|nenne?) mir(?: bitte)?(?: noch ?mal)?(?: etwas| alles| mehr| was(?= über| von))?(?: (?:über|von|vom))?",
                "erinnere? mich(?: bitte)?(?: noch ?mal)?(?: (?:daran|an))?",
                "erinnerst du dich(?: noch)?(?: (?:daran|an))?",
                "(?:weißt|weisst) du(?: noch| eigentlich)?(?: ob)?",
                "ich (?:möchte|will|würde gerne?|wüsste gerne?)(?: wissen)?(?=,? (?:was|wo|wann|wer|wie|ob|welche))",
                "(?:liste|zähle?)(?: mir)?(?: bitte)?(?=,? (?:die reihenfolge|alles|was))",
            ),
            talks=(
                f"was (?:habe?|haben|hatten?) (?:ich|wir){_GERMAN_FILLERS} {_GERMAN_ABOUT} {{topic}} {_GERMAN_SAID}",
                f"(?:alles, )?was (?:ich|wir){_GERMAN_FILLERS} {_GERMAN_ABOUT} {{topic}} {_GERMAN_SAID}(?: haben?| hatten?)?(?: auf)?",
                f"was weißt du{_GERMAN_FILLERS} {_GERMAN_ABOUT}",
                f"(?:alles, )?was du{_GERMAN_FILLERS} {_GERMAN_ABOUT} {{topic}} weißt",
                f"in welcher reihenfolge (?:habe?|haben) (?:ich|wir){_GERMAN_FILLERS} {{topic}} {_GERMAN_SAID}",
                f"die reihenfolge, in der (?:ich|wir){_GERMAN_FILLERS} {{topic}} {_GERMAN_SAID}(?: haben?| hatten?)?(?: auf)?",
                f"(?:wann |wo |wie oft )?(?:habe?|haben) (?:ich|wir){_GERMAN_FILLERS}(?: zuletzt)? (?:über|von|vom) {{topic}} (?:erzählt|gesprochen|geredet|gesagt|berichtet)",
            ),
            who=("wer (?:ist|war|sind)", "wer {topic} (?:ist|war|sind)"),
            selves="mich|mir|mich selbst|mir selbst",
            who_am_i="wer (?:bin ich|ich bin)",
            polite="hallo|hey|hi|ok|okay|also|und|bitte|übrigens",
            closers="bitte|danke|weißt du(?: das)?(?: noch)?|erinnerst du dich",
        ),
        "fr": AskingPhrases(
            openers=(
                f"(?:(?:peux|pourrais)[- ]tu|(?:pouvez|pourriez)[- ]vous|(?:est-ce que )?tu (?:peux|pourrais)) (?:me |m')(?:dire|rappeler|raconter|montrer|parler|donner|expliquer)(?: si)?(?: {_FRENCH_OF})?",
                f"(?:dis|rappelle|raconte|montre|parle|dites|rappelez|racontez|parlez)[- ]moi(?: encore)?(?: {_FRENCH_OF})?",
                f"(?:(?:te|vous) (?:souviens|rappelles|souvenez|rappelez)[- ](?:tu|vous)|(?:est-ce que )?tu te (?:souviens|rappelles))(?: {_FRENCH_OF})?",
                "(?:sais-tu|savez-vous|(?:est-ce que )?tu sais)(?: si)?",
                "je (?:voudrais|veux|aimerais) savoir(?: si)?",
                "(?:énumère|liste)(?=,? (?:l'ordre|tout ce|ce que|les choses))",
            ),
            talks=(
                f"(?:qu'est-ce que?|tout ce que?|ce que?|ce dont) ?(?:je t'ai|je vous ai|j'ai|nous avons|on a|tu as)(?: déjà)? {_FRENCH_SAID} {_FRENCH_OF}",
                f"(?:que t'ai-je|qu'ai-je|qu'avons-nous)(?: déjà)? {_FRENCH_SAID} {_FRENCH_OF}",
                f"(?:que (?:sais-tu|savez-vous)|(?:qu'est-ce que|ce que|tout ce que) tu sais) {_FRENCH_OF}",
                f"(?:dans quel ordre|l'ordre dans lequel) (?:ai-je|avons-nous|j'ai|nous avons|on a) {_FRENCH_SAID}(?: {_FRENCH_OF})?",
                f"(?:est-ce que je t'ai|t'ai-je|je t'ai)(?: déjà)? (?:parlé|raconté|dit quelque chose) {_FRENCH_OF}",
                f"(?:quand|où) (?:est-ce que )?(?:ai-je|avons-nous|j'ai|nous avons|on a)(?: déjà)? (?:parlé|discuté) {_FRENCH_OF}",
            ),
            who=("qui (?:est|était)(?: donc)?", "c'est qui,?"),
            selves="moi|moi-même",
            who_am_i="qui (?:suis-je|je suis)",
            polite="bonjour|salut|ok|alors|et|s'il (?:te|vous) plaît",
            closers="s'il (?:te|vous) plaît|merci|tu te (?:souviens|rappelles)",
        ),
        "es": AskingPhrases(
            openers=(
                f"(?:puedes|podrías|puede|podría)(?: por favor)? (?:decirme|recordarme|contarme|mostrarme|hablarme|darme)(?: si)?(?: {_SPANISH_OF})?",
                f"me (?:puedes|podrías) (?:decir|recordar|contar|hablar)(?: si)?(?: {_SPANISH_OF})?",
                f"(?:dime|recuérdame|cuéntame|háblame|muéstrame)(?: otra vez| de nuevo| algo| todo)?(?: {_SPANISH_OF})?",
                f"(?:te acuerdas|recuerdas|se acuerda)(?: {_SPANISH_OF})?",
                "sabes(?: si)?",
                "(?:quiero|quisiera|me gustaría) saber(?: si)?",
                "(?:enumera|lista)(?=,? (?:el orden|todo lo|lo que|las cosas))",
            ),
            talks=(
                f"(?:qué(?: cosas)?|todo lo que|lo que|las cosas que) (?:yo )?(?:te |os |le )?{_SPANISH_SAID} {_SPANISH_OF}",
                f"(?:qué(?: cosas)?|todo lo que|lo que) (?:sabes|recuerdas) {_SPANISH_OF}",
                f"(?:en qué orden|el orden en (?:el )?que) (?:te )?{_SPANISH_SAID}(?: {_SPANISH_OF})?",
                f"te (?:he|había) (?:hablado|contado|dicho)(?: algo)? {_SPANISH_OF}",
                f"(?:cuándo|dónde) (?:te )?(?:hablé|conté|hablamos|he hablado|hemos hablado) {_SPANISH_OF}",
            ),
            who=("quién (?:es|era|fue)", "quién {topic} (?:es|era)"),
            selves="mí|mi|mí mism[oa]",
            who_am_i="quién soy(?: yo)?",
            polite="hola|oye|ok|y|por favor|bueno",
            closers="por favor|gracias|(?:te acuerdas|recuerdas)",
        ),
        "pt": AskingPhrases(
            openers=(
                f"(?:você )?(?:pode|poderia|podes|podias)(?: por favor)? (?:me )?(?:dizer|lembrar|contar|mostrar|falar|recordar)(?:-me)?(?: se)?(?: {_PORTUGUESE_OF})?",
                f"(?:me (?:diga|diz|lembre|lembra|conte|conta|fale|fala)|(?:diga|diz|lembre|lembra|conte|conta|fale|fala|recorda)-me)(?: de novo| outra vez| algo| tudo)?(?: {_PORTUGUESE_OF})?",
                f"(?:você (?:se )?lembra|tu lembras|lembras-te|lembra-se|lembras)(?: {_PORTUGUESE_OF})?",
                "(?:você sabe|tu sabes|sabes|sabe)(?: se)?",
                "(?:eu )?(?:quero|queria|gostaria de) saber(?: se)?",
                "(?:enumere|enumera|liste)(?=,? (?:a ordem|tudo o|o que|as coisas))",
            ),
            talks=(
                f"(?:o que|o quê|tudo o que|as coisas que)(?: é que)? (?:eu |nós |a gente )?(?:(?:te|lhe|já) )*{_PORTUGUESE_SAID}(?: a você| para você| a ti)? {_PORTUGUESE_OF}",
                f"(?:o que|tudo o que)(?: é que)? (?:você |tu )?(?:sabes?|lembras?) {_PORTUGUESE_OF}",
                f"(?:em que ordem|a ordem em que) (?:eu |nós )?(?:te )?{_PORTUGUESE_SAID}(?: {_PORTUGUESE_OF})?",
                f"(?:eu )?(?:já )?te (?:falei|contei|disse)(?: algo)? {_PORTUGUESE_OF}",
                f"(?:quando|onde)(?: é que)? (?:eu |nós )?(?:te )?(?:falei|contei|falamos|falámos|conversamos) {_PORTUGUESE_OF}",
            ),
            who=("quem (?:é|era|foi)", "quem {topic} (?:é|era)"),
            selves="mim|mim mesm[oa]",
            who_am_i="quem (?:sou eu|eu sou)",
            polite="olá|oi|ok|e|por favor|bom",
            closers="por favor|obrigad[oa]|(?:você )?(?:se )?lembra|lembras-te",
        ),
        "it": AskingPhrases(
            openers=(
                f"(?:puoi|potresti|può|potrebbe)(?: per favore)? (?:dirmi|ricordarmi|raccontarmi|mostrarmi|parlarmi)(?: se)?(?: {_ITALIAN_OF})?",
                f"mi (?:puoi|potresti) (?:dire|ricordare|raccontare|parlare)(?: se)?(?: {_ITALIAN_OF})?",
                f"(?:dimmi|ricordami|raccontami|parlami|mostrami)(?: di nuovo| ancora| qualcosa| tutto)?(?: {_ITALIAN_OF})?",
                f"(?:ti ricordi|ricordi|si ricorda)(?: {_ITALIAN_OF})?",
                "(?:sai|sapresti dirmi)(?: se)?",
                "(?:vorrei|voglio) sapere(?: se)?",
                "elenca(?:mi)?(?=,? (?:l'ordine|tutto|quello che|le cose))",
            ),
            talks=(
                f"(?:che cosa|cosa|che|tutto quello che|quello che|tutto ciò che|ciò che|le cose che) (?:ti |vi )?(?:ho|abbiamo)(?: già)? {_ITALIAN_SAID} {_ITALIAN_OF}",
                f"(?:che cosa|cosa|tutto quello che|quello che|ciò che) (?:ti )?(?:sai|ricordi) {_ITALIAN_OF}",
                f"(?:in (?:che|quale) ordine|l'ordine in cui) (?:ti )?(?:ho|abbiamo) {_ITALIAN_SAID}(?: {_ITALIAN_OF})?",
                f"ti ho (?:mai |già )?(?:parlato|raccontato|detto qualcosa) {_ITALIAN_OF}",
                f"(?:quando|dove) (?:ti )?(?:ho|abbiamo) (?:parlato|discusso) {_ITALIAN_OF}",
            ),
            who=("chi (?:è|era)", "chi sia"),
            selves="me|me stess[oa]",
            who_am_i="chi sono(?: io)?",
            polite="ciao|ehi|ok|e|per favore|allora",
            closers="per favore|grazie|ti ricordi",
        ),
        "nl": AskingPhrases(
            openers=(
                "(?:kun|kan|zou|wil) (?:je|jij|u) (?:me|mij)(?: alsjeblieft| even| nog eens)* (?:vertellen|zeggen|laten zien)",
                "(?:kun|kan|zou|wil) (?:je|jij|u) (?:me|mij)(?: alsjeblieft| even| iets| meer| alles)* over {topic} vertellen",
                "(?:kun|kan|zou|wil) (?:je|jij|u) (?:me|mij)(?: alsjeblieft| even)* (?:iets|meer|alles) vertellen over",
                "(?:vertel|zeg) (?:me|mij)(?: alsjeblieft| nog eens| iets| meer| alles)*(?: over)?",
                "herinner (?:me|mij)(?: er)?(?: (?:aan|eraan))?",
                "herinner (?:je|jij) je(?: nog)?",
                "weet (?:je|jij|u)(?: nog)?(?: of)?",
                "ik (?:wil|zou)(?: graag)?(?: willen)? weten(?: of)?",
            ),
            talks=(
                f"wat (?:heb|hebben|had) (?:ik|we|wij){_DUTCH_FILLERS} {_DUTCH_SAID} over",
                f"wat (?:heb|hebben|had) (?:ik|we|wij){_DUTCH_FILLERS} over {{topic}} {_DUTCH_SAID}",
                f"(?:alles )?wat (?:ik|we|wij){_DUTCH_FILLERS} over {{topic}} (?:(?:heb|hebben) {_DUTCH_SAID}|{_DUTCH_SAID}(?: heb| hebben)?)",
                f"wat (?:weet|herinner) (?:je|jij|u)(?: je)?{_DUTCH_FILLERS} (?:over|van)",
                "alles wat (?:je|jij|u) weet over|wat (?:je|jij|u) weet over",
                f"in welke volgorde (?:heb|hebben) (?:ik|we|wij){_DUTCH_FILLERS} {{topic}} {_DUTCH_SAID}",
                f"de volgorde waarin (?:ik|we|wij){_DUTCH_FILLERS} {{topic}} (?:(?:heb|hebben) {_DUTCH_SAID}|{_DUTCH_SAID}(?: heb| hebben)?)",
                f"(?:wanneer |waar )?(?:heb|hebben) (?:ik|we|wij){_DUTCH_FILLERS} (?:over|van) {{topic}} (?:verteld|gesproken|gepraat)",
            ),
            who=("wie (?:is|was)", "wie {topic} (?:is|was)"),
            selves="me|mij|mezelf|mijzelf",
            who_am_i="wie (?:ben ik|ik ben)",
            polite="hallo|hoi|hé|ok|oké|en|dus|alsjeblieft",
            closers="alsjeblieft|alstublieft|bedankt|weet je(?: dat)?(?: nog)?",
        ),
        "ru": AskingPhrases(
            openers=(
                f"(?:(?:ты )?можешь|можете|не мог(?:ла|ли)? бы(?: ты| вы)?)(?: пожалуйста)?(?: мне)? (?:сказать|рассказать|напомнить|показать)(?: мне)?(?: {_RUSSIAN_ABOUT})?",
                f"(?:скажи|расскажи|напомни|покажи)(?:те)?(?: мне)?(?:,? пожалуйста)?(?: {_RUSSIAN_ABOUT})?",
                f"(?:ты |вы )?(?:помнишь|помните|знаешь|знаете)(?: ли)?(?: ты| вы)?(?: {_RUSSIAN_ABOUT})?",
                "я (?:хочу|хотел бы|хотела бы) (?:знать|узнать|вспомнить)",
                "перечисли(?:те)?(?=,? (?:порядок|всё|все|что))",
            ),
            talks=(
                f"(?:что|вс[её],? что|то,? что) (?:я|мы)(?: тебе| вам| уже| раньше)* {_RUSSIAN_SAID}(?: тебе| вам)? {_RUSSIAN_ABOUT}",
                f"(?:что|вс[её],? что) (?:ты |вы )(?:знаешь|знаете|помнишь|помните) {_RUSSIAN_ABOUT}",
                f"(?:в каком порядке|порядок,? в котором) (?:я|мы) {_RUSSIAN_SAID}(?: {_RUSSIAN_ABOUT})?",
                f"(?:когда )?(?:я|мы)(?: тебе| вам| уже| когда-нибудь)* {_RUSSIAN_SAID}(?: тебе| вам)? {_RUSSIAN_ABOUT}",
            ),
            who=("кто(?: такой| такая| такие| это)?", "кто {topic}(?: такой| такая)"),
            selves="мне|меня|себе|себя|самом себе|самой себе",
            who_am_i="кто я(?: такой| такая)?",
            polite="привет|слушай|а|и|ну|так|пожалуйста",
            closers="пожалуйста|спасибо|помнишь",
        ),
        "zh": AskingPhrases(
            openers=(
                "(?:你)?(?:能不能|可不可以|能|可以)(?:请)?(?:告诉我|提醒我|给我讲讲|跟我说说)(?:一下)?(?:关于|有关)?{topic}",
                "(?:告诉我|提醒我|给我讲讲|跟我说说|说说|介绍一下)(?:一下)?(?:关于|有关)?{topic}(?:的(?:事情|事|情况))?",
                "你(?:还)?(?:记不记得|知不知道|记得|知道)(?:关于|有关)?{topic}",
                "我想知道{topic}",
            ),
            talks=(
                f"(?:我们|我)(?:之前|以前|上次|曾经|曾)?(?:跟你|对你|和你)?{_CHINESE_SAID}(?:的)?(?:哪些|什么)?(?:关于|有关){{topic}}{_CHINESE_WHAT}",
                f"(?:关于|有关|对于|对){{topic}}[，,]?(?:我们|我)(?:之前|以前|上次|曾经|曾)?(?:跟你|对你|和你)?{_CHINESE_SAID}(?:些)?{_CHINESE_WHAT}",
                f"(?:关于|有关|对于|对){{topic}}[，,]?你(?:都|还)?(?:知道|记得|了解)(?:些|多少|什么|哪些|吗)*{_CHINESE_WHAT}",
                f"你(?:都|还)?(?:知道|记得|了解)(?:些|什么|哪些)*(?:关于|有关){{topic}}(?:的)?{_CHINESE_WHAT}",
                "你(?:对|关于){topic}(?:都|还)?(?:有什么|有哪些)?(?:知道|记得|了解)(?:些|多少|什么|哪些|吗)*",
                "你了解{topic}(?:吗|多少|什么)",
                "(?:我们|我)(?:是)?(?:按|以)(?:什么|怎样的|哪种)顺序(?:提到|说到|讨论|聊到)(?:过|了|的)?{topic}(?:的)?",
            ),
            who=("谁是{topic}", "{topic}是谁"),
            selves="我|我自己|自己",
            who_am_i="我是谁",
            polite="你好|请问|请",
            closers="谢谢|好吗|可以吗",
        ),
        "ja": AskingPhrases(
            openers=(
                f"{{topic}}{_JAPANESE_ABOUT}?(?:もう一度)?(?:教えて|思い出させて|話して)(?:ください|くれますか|くれる|もらえますか|ほしい|下さい|ね)?",
                "{topic}(?:のことを|のこと|を)?覚えて(?:い)?(?:ますか|る)",
            ),
            talks=(
                f"{{topic}}{_JAPANESE_ABOUT}{_JAPANESE_I}(?:何を|何と|何て|なんて)?{_JAPANESE_SAID}",
                f"{_JAPANESE_I}{{topic}}{_JAPANESE_ABOUT}(?:あなたに)?(?:何を|何と|何て|なんて)?{_JAPANESE_SAID}",
                f"{{topic}}{_JAPANESE_ABOUT}(?:何を?|何か|どんなことを)?(?:知って|覚えて)(?:い)?(?:ますか|る)(?:の|か|こと)*",
                f"{{topic}}{_JAPANESE_ABOUT}(?:以前|前に|これまでに)?(?:何を|何て|なんて)?{_JAPANESE_SAID}",
                f"{_JAPANESE_I}どんな順番で{{topic}}(?:について|を|の話を)?(?:話|言|挙げ|触れ)\\S*",
            ),
            who=("{topic}(?:って|とは|は)(?:誰|だれ)(?:です|なの)?(?:か)?",),
            selves="私|わたし|僕|俺|自分|私自身",
            who_am_i="(?:私|わたし|僕|俺)は(?:誰|だれ)(?:です)?か?",
            polite="すみません|ねえ|えっと|では",
            closers="お願いします|ありがとう",
        ),
        "ar": AskingPhrases(
            openers=(
                "(?:هل )?(?:يمكنك|تستطيع|بإمكانك)(?: أن)? (?:تخبرني|تذكرني|تقول لي|إخباري|تذكيري)(?: (?:عن|بما))?",
                "(?:من فضلك )?(?:أخبرني|اخبرني|ذكرني|ذكّرني|قل لي|حدثني|حدّثني)(?: (?:عن|بما))?",
                "(?:أخبرني|اخبرني|حدثني|حدّثني) عن(?=ي$){topic}",
                "هل (?:تتذكر|تذكر|تعرف|تعلم)(?: عن)?",
                "أريد أن أعرف",
            ),
            talks=(
                "(?:ماذا|ما الذي|ما|كل ما) (?:قلت|قلنا|قلته|ذكرت|ذكرته|ذكرنا|أخبرتك|ناقشنا|تحدثنا|تحدثت)(?: لك| به)? (?:عن|حول|بخصوص)",
                "(?:ماذا|ما الذي|ما|كل ما) (?:تعرفه?|تعلمه?|تتذكره?)(?: عن| حول| بخصوص)",
                "(?:ماذا|ما الذي|ما|كل ما) (?:تعرفه?|تعلمه?|تتذكره?|قلت لك|أخبرتك) عن(?=ي$){topic}",
                "(?:بأي ترتيب|الترتيب الذي) (?:ذكرت|ذكرنا|ناقشنا)(?: به)?",
                "هل (?:أخبرتك|حدثتك|تحدثنا) عن",
            ),
            who=("من (?:هو|هي|هم|يكون|تكون)",),
            selves="ي|نفسي",
            who_am_i="من أنا",
            polite="مرحبا|مرحبًا|من فضلك|و",
            closers="من فضلك|شكرا|شكرًا",
        ),
    }
)  # fmt: skip
