"""Rules for payment: cards, accounts, income, savings, debts and credit."""

from __future__ import annotations

from typing import Final

from agent_reminiscence.react.sensitive.rules import rule

_AMOUNT = (
    r"(?:(?:[$€£]|eur|usd|chf|gbp)\s?\d[\d.,']{0,14}(?: ?(?:k|m|million|mio)\b)?|\b\d[\d.,']{0,14} ?(?:k\b|€|\$|£|eur\b"
    r"|euros?\b"
    r"|dollars?\b|pounds?\b|chf\b|francs?\b|franken\b|usd\b|gbp\b|grand\b|tausend\b|thousand\b|mille\b|cents?\b"
    r"|rappen\b))"
)
_MONEY = rf"(?:{_AMOUNT}|\b(?:money|rent|taxes|thousands|millions|geld|miete|steuern|tausende)\b)"
_LENDERS = (
    r"(?:bank|credit union|lender|landlord|tax office|taxman|irs|hmrc|finanzamt|vermieter\w*|kreditgeber\w*|sparkasse)"
)

PAYMENT_RULES: Final = (
    rule(
        "payment",
        "card karte credit debit bank visa mastercard amex american maestro maxed cvv cvc pruef pin prepaid charge"
        " corporate ec ",
        r"\b(?:credit|debit|bank|visa|mastercard|amex|american express|prepaid|charge|corporate|girocard|ec)[ -]?"
        r"(?:card)?[ -](?:numbers?|expir\w+|details?|pins?|limits?|debts?|bills?|statements?|balances?)\b(?! (?:manager"
        r"|polic))",
        r"\bcards? (?:number|details|expir\w+|ending|ends|limit)\b|\b(?:card|visa|mastercard|amex|maestro"
        r"|girocard)s?\b[^.!?]{0,30}"
        r"\b(?:ends?|ending|expires?|expired|endet|endend|laeuft|gueltig) (?:in|on|with|auf|ab|bis|next|this)\b",
        r"\b(?:card|visa|mastercard|amex|karte) (?:\w{1,10} )?(?:runs out|is valid|valid until|was declined"
        r"|gilt bis)\b",
        r"\bmaxed out\b|\bcvv2?\b|\bcvc2?\b|\b(?:security|verification) code\b[^.!?]{0,30}\bcards?\b",
        r"\b(?:kredit|ec|bank|giro|debit|konto)-?karten?-?(?:nummer|daten|limit|schulden|abrechnung|pin)\w*"
        r"|\bkartennummer\w*"
        r"|\bpruefnummer\b|\bkartenpruefnummer\b",
        r"\b(?:kreditkarte|girokarte|bankkarte|ec-karte|girocard|debitkarte)\b[^.!?]{0,40}\b(?:endet|laeuft|gueltig"
        r"|gesperrt|nummer"
        r"|pin|limit|ueberzogen)\b",
        r"\bpins?\b[^.!?]{0,24}\b(?:credit|debit|bank|ec|giro)[ -]?(?:cards?|karte)\b|\b(?:credit|debit|bank|ec|giro"
        r"|atm)[ -]?"
        r"(?:card|karten)?[ -]?pins?\b",
    ),
    rule(
        "payment",
        "account acct saving erspar sort routing iban swift bank wallet konto konten blz depot overdr dispo",
        r"\b(?:bank|savings?|checking|current|joint|brokerage|deposit|giro|swiss|offshore"
        r"|payroll) accounts?\b(?! manager)",
        r"\b(?:account|acct|konto)(?: ?(?:no|nr|number|nummer))?[.:]? ?(?:is |ist )?\d{4,}\b|\bsavings\b(?! time)"
        r"|\bersparnisse\w?\b|\berspartes\b",
        r"\baccount (?:number|balance)s?\b|\bsort codes?\b|\brouting numbers?\b|\biban\b|\bswift code\b"
        r"|\bbank(?:ing)? details\b"
        r"|\bwallet address(?:es)?\b|\b(?:online|mobile|e|internet)[ -]?banking (?:password|login|credentials|pin"
        r"|details|access"
        r"|account)\b",
        r"\bkontonummer\w*|\bbankleitzahl\w*|\bblz\b|\b(?:bank|konto)verbindung\w*|\bbankdaten\b|\bkontodaten\b"
        r"|\bkontostand\w*"
        r"|\b(?:giro|spar|bank|tagesgeld|gehalts|gemeinschafts|depot|festgeld)konto\w{0,2}\b|\bkonten? bei (?:der"
        r"|einer) \w*bank\b",
        r"\b(?:konto|account)\b[^.!?]{0,30}\b(?:ueberzogen|gepfaendet|gesperrt von der bank|overdrawn|overdraft"
        r"|im minus|in the red)\b",
        r"\b(?:konto|account|depot) (?:bei|at|with) (?:der |the |einer |a )?(?:\w{1,20} ){0,2}?(?:\w{0,20}bank"
        r"|sparkasse|n26|revolut"
        r"|paypal|comdirect|credit union)\b",
        r"\b(?:overdrawn|overdraft|dispo(?:kredit)?)\b",
        r"\bonline-?banking\b[^.!?]{0,40}\b(?:password|passwort|pin|login|zugang\w*|kennwort|credentials|tan)\b"
        r"|\b(?:password|passwort|pin|login|zugang\w*|kennwort|credentials|tan)\b[^.!?]{0,40}\bonline-?\s?banking\b",
        topic=True,
        unless=r"\b(?:blood|food|data|memory|power|seed|tissue) bank\b",
    ),
    rule(
        "payment",
        "salar wage income pay earning worth rate severance geh lohn einkommen verdienst vermoegen",
        r"\bsalar(?:y|ies)\b|\bwages?\b(?! war)|\bincome\b|\bpay ?(?:cut|rise|raise|slip|check|cheque|stub|grade)s?\b"
        r"|\bearnings\b"
        r"|\bnet worth\b|\bhourly rate\b|\bday rate\b|\bseverance\b|\bgehalt(?:s(?!verhandlung"
        r"|abrechnungs?(?:en)?\b)\w*)?\b"
        r"|\bgehaelter\b|\blohn(?! der\b)\b|\b(?:monats|stunden|brutto|netto|jahres|mindest|tarif)(?:lohn|gehalt"
        r"|einkommen|verdienst)\w{0,2}\b"
        r"|\beinkommen\w{0,2}\b|\bverdienst\b|\blohnerhoehung\w*|\bgehaltserhoehung\w*|\bvermoegen\b|\bgehaltszettel\b"
        r"|\blohnzettel\b",
        topic=True,
        unless=r"\b(?:minimum wage|living wage|basic income|mindestlohn|grundeinkommen|income tax (?:law|advis"
        r"|consult)\w*"
        r"|passive income (?:blog|podcast)|low-income|salary (?:negotiation|survey|transparency)|unter(?:e"
        r"|en) einkommens"
        r"|grosses vermoegen an|das vermoegen,|wage gap|pay gap)\b",
    ),
    rule(
        "payment",
        "kriegt gehalt lohn netto brutto bank figures support alimony unterhalt welfare benefit unemploy stamps"
        " buergergeld hartz geld sozialhilfe bafoeg earn mak made paid pay get receiv bring salary bonus pension take"
        " inherit won verdien bekomm erhaelt bezieht erb saving debt schulden erspar assets stock share konto rente",
        rf"\b(?:earn(?:s|ed|ing)?|mak(?:es?|ing)|made|paid|pays?|gets?|receives?|brings? home|salary|bonus(?: of)?"
        rf"|pension(?: of)?)\b"
        rf"[^.!?]{{0,30}}?{_AMOUNT}[^.!?]{{0,12}}\b(?:a|an|per|each|every|/) ?(?:year|month|week|hour|day|annum)\b",
        rf"\b(?:earns?|earned|earning|takes? home|bonus of|pension of|inherited|won) (?:\w{{1,10}} ){{0,3}}{_AMOUNT}",
        rf"\b(?:verdien\w{{1,3}}|bekomm\w{{1,3}}|erhaelt|bezieht|erbte|geerbt)\b[^.!?]{{0,30}}{_AMOUNT}[^.!?]{{0,16}}"
        r"\b(?:im|pro|netto|brutto|jaehrlich|monatlich|die|in der)\b",
        r"\b(?:gets?|earns?|makes?|paid|receives?|bekomm\w{1,2}|verdien\w{1,2}"
        r"|kriegt) (?:\w{1,10} )?\d[\d.,]{1,10}k? (?:\w{1,8} )?"
        r"(?:a|an|per|im|pro|die|after|before) (?:month|year|hour|week|day|monat|jahr|stunde|tax)\b",
        rf"{_AMOUNT} (?:\w{{1,12}} )?(?:rente|pension|gehalt|lohn|salary|netto|brutto)\b|\b(?:christmas|annual"
        rf"|yearly) bonus\b|\bweihnachtsgeld\b",
        rf"{_AMOUNT} in (?:the|his|her|my|their) bank\b",
        r"\bearns? (?:more|less|well|little|twice|about|around|the minimum|barely|six figures|next to nothing)\b"
        r"|\bsix figures\b",
        r"\bverdien(?:t|e|en) (?:\w{1,12} )?(?:gut|mehr|weniger|schlecht|kaum|wenig|doppelt|zu wenig|genug)\b",
        r"\bchild support\b|\balimony\b|\bunterhalt(?:szahlung\w*)? (?:fuer|von|an)\b|\b(?:on|lives on|gets"
        r"|receives) (?:welfare|benefits"
        r"|unemployment|food stamps)\b|\bbuergergeld\b|\bhartz\b|\barbeitslosengeld\b|\bsozialhilfe\b|\bbafoeg\b",
        rf"\b(?:verdien(?:t|e|en|te)|geerbt|erbte) (?:\w{{1,12}} ){{0,3}}{_AMOUNT}",
        rf"{_AMOUNT} (?:in|of|an|auf dem) (?:savings?|debts?|erspartem|schulden|ersparnissen|assets|stocks|shares|konto"
        rf"|rente)\b",
        rf"\b(?:savings?|ersparnisse|erspartes|rente|pension)\b[^.!?]{{0,30}}{_AMOUNT}",
        unless=r"\b(?:for (?:charity|the school)|donat\w+|company|firm|startup|revenue|umsatz|firma|unternehmen|medals?"
        r"|points?)\b",
    ),
    rule(
        "payment",
        "debt schuld",
        r"\b(?:in|into|of|her|his|my|their|our|with|credit card|student|gambling|tax|medical|has|have|huge|heavy|no|any"
        r"|off|deep)"
        r" (?:[\w-]{1,12} ){0,2}?debts?\b|\bindebted\b|\bdebts\b|\bdebt collect\w+",
        r"\bschulden\b|\bverschuldet\w*|\bueberschuldet\w*|\bschuldnerberatung\b",
        topic=True,
        unless=r"\b(?:technical|tech|sleep|sovereign|national|public|government|cognitive|design) debt\b"
        r"|\bdebts? of (?:gratitude|honou?r)"
        r"|\bindebted to (?:his|her|my|their|the|\w+) (?:teacher|mentor|friend|grandmother)|\bschulden (?:ihm|ihr|euch"
        r"|dir|uns|ihnen)"
        r" (?:dank|eine|einen)|\btechnische\w* schulden|\bstaatsschulden|\bzu schulden kommen",
    ),
    rule(
        "payment",
        "stal rate lost gambl invest verlor verspiel verzock minus block fro gesperrt money financ cash geld finanz"
        " kasse broke ow schuld borrow lent leih lieh loan mortgag hypothek darlehen kredit credit schufa bankrupt"
        " insolv pfaend inkasso mahn vollzieher foreclos repossess garnish arrears rueckstand behind afford rent bill"
        " pleite",
        rf"\b(?:owe|owes|owed|owing)\b[^.!?]{{0,40}}{_MONEY}|\b(?:owe|owes|owed) (?:\w{{1,10}} ){{0,2}}{_LENDERS}\b",
        r"\b(?:owe|owes|owed)\b[^.!?]{0,20}\b\d[\d.,]{2,12}\b|\binstal?lments?\b|\b(?:in|die|seine|ihre|meine) raten\b"
        r"|\bratenzahlung\w*",
        rf"\b(?:lost|gambled away|invested|verlor|verspielt\w*|investiert\w*|verzockt\w*)\b[^.!?]{{0,20}}{_AMOUNT}",
        r"\bim minus\b|\b(?:blocked|froze|frozen|gesperrt)\b[^.!?]{0,30}\b(?:card|account|karte|konto)\b|\b(?:karte"
        r"|konto) gesperrt\b",
        rf"\bschulde[tn]?\b[^.!?]{{0,40}}{_MONEY}",
        rf"\b(?:borrowed|lent|leiht|lieh|geliehen)\b[^.!?]{{0,40}}{_AMOUNT}|{_AMOUNT}[^.!?]{{0,30}}\b(?:geliehen"
        rf"|borrowed)\b",
        r"\b(?:student|car|home|bank|personal|payday|business|consumer|house|private) loans?\b|\b(?:pay\w*|paid"
        r"|repay\w*|took|takes|take)"
        r" (?:off |back |out |down )?(?:\w{1,10} ){0,2}loans?\b|\bloan (?:of|from|repayments?|for (?:the|a|her|his"
        r"|my))\b",
        r"\bmortgage[sd]?\b|\bremortgag\w+|\bhypothek\w*|\bdarlehen\w?\b|\b(?:studien|auto|haus|raten|bank|konsum"
        r"|immobilien|klein|sofort)"
        r"kredite?\w?\b",
        r"\bkredit\b[^.!?]{0,40}\b(?:ab|abbezahl\w*|abzahl\w*|aufgenommen|aufnehmen|auf|raten|bank|zurueck\w*|laeuft"
        r"|tilg\w*|haus|auto)\b"
        r"|\b(?:zahlt?|tilgt|bezahlt|nahm|nimmt|aufgenommen)\b[^.!?]{0,40}\bkredit\w?\b",
        r"\bcredit (?:scores?|ratings?|history|report)\b|\bschufa\w*(?:-\w+)?\b|\bbankrupt\w*|\bprivatinsolvenz\b"
        r"|\binsolven\w+"
        r"|\bpfaendung\w*|\bgepfaendet\w*|\binkasso\w*|\bmahnbescheid\w*|\bgerichtsvollzieher\w*|\bforeclos\w+"
        r"|\brepossess\w+"
        r"|\b(?:money|financial|cash flow) (?:problems?|troubles?|difficult\w+|struggles?|worries|distress)\b"
        r"|\bgeld(?:sorgen|probleme\w?|not)\b"
        r"|\bfinanzielle\w? (?:schwierigkeiten|probleme\w?|sorgen|not)\b|\bknapp bei kasse\b"
        r"|\b(?:is|am|'m|are|was) (?:flat |totally |completely |always )?broke\b(?! (?:in|down))"
        r"|\bgarnish(?:ed|ment)\b|\bin arrears\b|\bmietrueckstand\w*|\bbehind on (?:his|her|my|the|their) (?:rent"
        r"|payments?|bills?|mortgage)\b"
        r"|\b(?:cannot|can't|could not) (?:afford|pay) (?:his|her|my|the|their) (?:rent|bills?)\b|\bpleite\b",
        topic=True,
        unless=r"\b(?:library|on) loan\b(?! from the bank)|\bloan words?\b|\bmoral(?:ly)? bankrupt|\bmortgage (?:broker"
        r"|advisor|adviser)"
        r"|\bfernleihe",
    ),
)
