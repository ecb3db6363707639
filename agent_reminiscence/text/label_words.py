"""Words before a colon: those that name a thing, those that name a role, and given names."""

from __future__ import annotations

from typing import Final

from agent_reminiscence.text.folding import fold_name
from agent_reminiscence.text.name_lists import given_names

ROLES: Final = frozenset({"user", "assistant", "system", "tool", "human", "ai", "agent"})
"""Labels that are speakers in any case."""

_ENGLISH = """
abstract accept access accommodation account accounts acknowledgements action actions actor added address admin
advantages advice after age agenda aim alias allergies allergy allocation allowed also alternatively amount amounts
anamnesis answer api appendix appetizer application approach approved architecture area args arguments arrival artist
asset assets assigned assignee assumption assumptions attachment attachments attendees attention attribute attributes
attribution audience author authorization authors availability background balance bank base batch bcc because before
benefits billing birth birthday blood board body bonus booking boolean branch brand breakfast browser budget bug build
builder but button cache calories campaign cancelled capacity caption car carbs card case cast catalog category cause
caution cc certificate changelog changes channel chapter charge checked choices city class client cluster code codec
color column command comment comments commit company compiler complaint complaints completed complexity components
concern conclusion conclusions condition config connection cons consequence consequences console constraint constraints
contact contents context contract controls cookie copyright core cost count counter country courses cpu created
credential credentials critical currencies currency current dashboard data database databases dataset date dates day
days deadline debug december decision decisions default deferred definition delete deleted delivery departure
dependencies dependency deploy deployment deprecated description design dessert destination detail details device
diagnosis diameter diet difference difficulty dimension dimensions dinner directions directory disadvantages disclaimer
discount display distance distribution division dns doc docs document documentation documents domain dosage dose
download driver drivers due duration duties edit education effect effort elevation eligible email employees employer
employment enabled encoding end endpoint engine entries entry environment environments equipment error errors escalation
estimate etag event evidence example examples exception exceptions exit expected expenses expiration expires expiry
explanation export extension facility fact facts fallback family fare fatal fax feature features february feedback fees
field fields figure file files filling filter finally findings first fix fixed fixme flag flags flight floor folder font
footer foreword format formula framework freight frequency friday from ftp fuel function functions funding garnish
gateway gear gender generated genre given goal goals grade group groups guests hack hardware header headers heading
headline height hint hints history hobbies hobby home hometown hospital host hostname hosts hours house how however http
https hypothesis iban icon id idea ideas identifier identity image images immunizations impact import importance
important improved index industry info information ingredients initial input inputs install installation instance
instruction instructions insurance intent interest interests internal interval introduction inventory invoice ip iso
issue issues item items iteration itinerary january java jira job july kernel key keys keywords kind kitchen lab label
labels laboratory language last latency latitude layer layout lead legend length lesson lessons level levels libraries
library licence license limit limitations line link linked links list litre loan local locale location log logging login
logs longitude lunch machine mail mailto main maintainer maintainers make manager manifest manufacturer map march margin
market master material materials maximum meals meaning means measurements media medication medications medicine
medicines meeting member members memory menu merged message metadata method methods metric metrics migration migrations
milestone minimum minutes misc mission mobile mode model modified module modules monday monitoring monthly mood more
motivation motto mount movie multiplier name names namespace nationality network new next nickname node nodes note notes
notice november number nutrition object objective objectives objects observation occupation october offset onset open
opened operator option options or order orders organisation organization organizer origin os other outcome outcomes
outlook output overview owner owners package packages page pages pain paragraph parameter parameters part participant
participants passport password patch path paths patient patients payment per period permissions pets pharmacy phase
phone photo physician pickup pin place plan plans please plugin plugins point points policies policy port ports position
post postal postcode posted postscript power ppm preconditions preface premise premium preparation prerequisite
prerequisites present presenter previous price primary principal priority private problem problems procedure process
production profession profile profiles progress project prompt property proposal pros protein protocol provider ps
public publication published publisher purchase purpose quality quantity quarter query question questions quota quote
race raises ram range rank rating rationale reach reading reads rear reason reasons recap receipt received recipe
recipient recommendation recommendations recommended record records reference references region regions registry
relation release released releases remark remarks remedy remember reminder remote removed rent repo report reported
reporter reports repository request required requirement requirements research reservation resolution resource resources
response responsibilities responsible restart restrictions result results retention retry return returns revenue review
reviewer reviewers reviews risk risks rollback room rooms root round route router rows rule rules runtime salary sale
sales sample sandbox saturday schedule scheduled schema school scope score scripts sea search seat secondary secret
section sections sector security see seed sent september series server servers service services servings session setting
settings setup severity sex shift shipping signature signed sincerely site size sizes skill skills sku sleep slot slug
snack so software sold solution solutions source sources space specialty specification speed spoiler sponsor sprint
staff stage staging stakeholder stakeholders standard start started starter state statement states station stats status
stderr stdout step steps stock stop storage store strategy street strength strengths structure student studio style
subject subtitle suggestion suggestions summary sunday supplier support surgeries surgery surname symptom symptoms
synopsis syntax table tables tag tagline tags takeaway takeaways target task tasks team teams tech technologies
technology tel telephone temperature template tenant term terminal terms test tests text theme then theory therefore
thesis thought threshold thumbnail thursday thus ticket tier time timeline times timestamp tip tips title tldr to today
todo todos tomorrow tools topic topics topping toppings tot total trace track trade trail training transfer translation
transport treasurer treatment treatments trends trigger troubleshooting truck truth tuesday turnover tutor type unit
units update updated updates uptime url usage user-agent username vaccine vaccines value values vendor venue verdict
verified version versions via visibility vitals vocabulary volume votes wages warn warning warnings warranty weaknesses
weather web website wednesday week weight what when where which who why width wifi winner work workaround worker
workflow working works workspace xxx year yesterday yield yields zip zone
"""
_GERMAN = """
abfahrt abschluss abteilung achtung adresse allergie allergien alter anbieter anfang anforderungen angebot ankunft
anlage anlass anmerkung anmerkungen anrede anschrift ansprechpartner antwort antworten anwesend anzahl arbeitgeber art
arzt aufgabe aufgaben aufwand ausgabe auswahl autor backzeit bearbeiter bedeutung bedingung befund beginn begründung
beilage beispiel bemerkung bemerkungen benutzer benutzername beruf beschluss beschreibung besitzer bestellung betrag
betreff bewertung blutgruppe breite datei daten datenbank datum dauer definition dezember diagnose dienstag donnerstag
dosierung eigentümer einheit einleitung einnahme eltern empfänger ende entscheidung ergebnis ergebnisse erstellt fach
farbe fazit februar fehler fest firma form frage fragen freitag frist funktion füllung geburtsdatum geburtsort
gegenstand gehalt gericht geschlecht gestern gewicht grund größe gäste gültig hausaufgaben hersteller heute hinweis
hinweise hobby hobbys höhe inhalt interessen januar juli juni kapitel kategorie kategorien kennung kennwort klasse
kommentar kontakt konto kosten krankenkasse kunde kundennummer land leiter leitung lieferant lieferung linie länge
lösung material maße maßnahme maßnahmen medikament medikamente menge miete mitglieder mittwoch montag morgen märz
nachname nachspeise nachteile name notiz notizen nummer oktober ort passwort patient personen preis priorität problem
produkt projekt protokollant punkt quelle quellen raum rechnung rechnungsnummer region reihenfolge rolle ruftnummer
samstag schlüssel schritt schule seite sonntag speicher sprache stadt stand standort status stichtag straße stufe summe
symptome tag tage teig teil teilnehmer telefon termin text thema themen therapie tipp tipps titel top typ uhrzeit
umgebung unterschrift unverträglichkeiten urlaub ursache variante verantwortlich verantwortliche verantwortlicher verein
version vertrag verwendung vorerkrankungen vorname vorspeise vorteile warnung wert wetter wichtig wohnort zahl zeit
zeitraum ziel ziele zimmer zubereitung zusammenfassung zustand zuständig zutaten zweck
"""
_FRENCH = """
accompagnement adresse allergie allergies allergènes annexe antécédents août arrivée astuce attention aujourd'hui auteur
avantages avis avril base besoin but catégorie cause chambre chapitre client code commande commentaire commentaires
compte conclusion conditions conseil conseils contenu couleur cuisson date demain description destinataire diagnostic
difficulté dimanche données dosage dose durée début décembre décision définition délai départ détails emploi entreprise
entrée erreur exemple exemples expéditeur facture fichier fin fonction fournisseur février garniture hauteur heure hier
horaires identifiant important inconvénients ingrédients inscription janvier jeudi jour juillet juin langue largeur lien
lieu ligne liste livraison longueur lundi mai maladie mardi marque mars matériel membres mercredi mesure mobile modèle
montant motif médecin médicament médicaments nom nombre note notes novembre numéro objectif objectifs objet octobre
ordre origine page participants partie patient pays poids point port prix problème produit profession projet
propriétaire prénom préparation présents question questions raison recette remarque remarques responsable référence
région réponse réponses résultat résultats résumé rôle salle samedi section semaine septembre serveur sexe site solution
source statut sujet symptômes taille tarif temps texte thème titre total traitement type tâche tâches téléphone unité
urgent utilisateur valeur vendredi version ville âge échéance école élèves équipe étape état étiquette
"""
_SPANISH = """
abril agosto alergia alergias alumno apellido apellidos asistentes asunto atención autor ayer ayuda base calle cantidad
capítulo cargo categoría causa ciudad clave cliente color comentario comentarios conclusión condiciones consejo contacto
contenido contraseña correo coste cuenta código datos decisión definición descripción destino desventajas detalles
diagnóstico diciembre dificultad dirección domicilio domingo dosis dueño duración edad ejemplo ejemplos empresa enero
enfermedad entrada equipo error escuela estado etapa etiqueta factura febrero fecha fin formato fuente función grupo
hora horario hoy idioma importante ingredientes inicio instrucciones jueves junio lugar lunes marca martes marzo
material mayo mañana medicación medicamento medicamentos medida miembros miércoles modelo motivo médico nivel nombre
nota notas noviembre número objetivo objetivos objeto observaciones octubre origen paciente participantes paso pasos
patología país pedido persona peso población precio pregunta preguntas preparación prioridad problema producto profesión
propietario proveedor proyecto puerto página receta recomendaciones recomendación región relleno responsable respuesta
respuestas resultado resultados resumen rol sección semana septiembre servidor sexo solución sábado síntomas tamaño
tarea tareas teléfono tema texto tiempo tipo total tratamiento título ubicación unidad usuario valor ventajas versión
viernes
"""
_ITALIAN = """
agosto allegato allergia allergie altezza aprile argomento arrivo attenzione autore azienda capitolo categoria causa
città cliente codice cognome colore commenti commento conclusione condizioni consiglio contatto contenuto corso costo
data database decisione definizione descrizione destinazione dettagli diagnosi dicembre difficoltà dimensioni domanda
domande domani domenica dose durata errore esempio età farmaci fattura febbraio file fine fonte fornitore funzione
gennaio giorno giovedì giugno gruppo ieri importante importo indirizzo ingredienti inizio lingua livello luglio lunedì
luogo maggio marca martedì materiale medicinali medico membri mercoledì modello motivo nome nota note numero obiettivi
obiettivo oggetto oggi ora orario ordine origine ottobre paese pagina partecipanti partenza passo password paziente peso
preparazione prezzo priorità problema prodotto professione progetto proprietario quantità regione responsabile riassunto
ricetta riferimento ripieno riposta risposta risposte risultati risultato ruolo sabato scadenza scuola sesso settembre
sezione sintomi soluzione stato suggerimento telefono tema tempo terapia testo tipo titolo totale unità utente valore
vantaggi venerdì versione via
"""
_PORTUGUESE = """
alergia alergias altura amanhã anexo assunto atenção autor bairro banco capítulo cargo categoria causa cidade cliente
comentário comentários conclusão condições conselho conta contacto contato conteúdo cor custo código dados data decisão
definição descrição destino detalhes dezembro diagnóstico dica dicas dificuldade doença dono dose duração e-mail empresa
endereço equipamento equipe erro escola estado etapa exemplo fatura fevereiro fim fonte fornecedor função grupo hoje
hora horário idade idioma importante ingredientes instruções início janeiro julho junho largura local lugar maio marca
março material medicamentos medicação membros meta modelo modo motivo médico nome nota notas novembro nível número
objetivo objetivos observação observações ontem ordem origem outubro paciente participantes passo país pedido pergunta
perguntas peso porta prazo preparo preço prioridade problema produto profissão projeto proprietário página quantidade
quarta quinta receita recheio recomendação região responsável resposta respostas resultado resultados resumo rua segunda
semana senha servidor setembro sexo sexta seção sintomas sobrenome solução tamanho tarefa tarefas telefone tema tempo
terça texto tipo total tratamento título unidade usuário valor vantagens versão
"""
_DUTCH = """
aantal aanwezig achternaam adres afdeling allergie allergieën antwoord antwoorden augustus auteur bedrag beschrijving
besluit bestand bron conclusie datum deadline diagnose dinsdag doel doelen donderdag dosering duur eigenaar eind
einddatum factuur februari fout functie gebruiker gegevens geslacht gewicht gisteren groep hoofdstuk ingrediënten inhoud
januari juli juni kamer klant kleur kosten land leeftijd let locatie maandag maart medicatie medicijnen morgen naam
nadelen nummer oktober omschrijving onderwerp oorzaak oplossing opmerking opmerkingen periode plaats prijs prioriteit
probleem product project punt reden resultaat samenvatting school soort stap start straat symptomen taak taal taken
tekst telefoon thema tijd tip titel toelichting totaal type uitkomst vader vandaag verantwoordelijk verantwoordelijke
versie voorbeeld voordelen voornaam vraag vragen vrijdag waarde wachtwoord woensdag zaterdag zondag
"""
_POLISH = """
adres alergie autor cel cena czas data dawka decyzja diagnoza długość imię język kategoria klient kod kolor komentarz
kontakt koszt kraj lekarstwa lekarz leki liczba miasto miejsce nazwa nazwisko notatka numer odpowiedzi odpowiedź opis
pacjent powód problem produkt projekt przykład pytania pytanie płeć rola rozmiar rozwiązanie składniki status telefon
temat termin tytuł uczestnicy uwaga uwagi waga wersja wniosek wynik wzrost właściciel zadania zadanie źródło
"""
_RUSSIAN = """
автор адрес аллергии аллергия вес возраст вопрос вопросы время город дата диагноз должность задача задачи заказ имя
ингредиенты итог категория клиент комментарий контакт лекарства место название номер описание ответ ответы отчество
пациент пол почта пример примечание проблема проект результат роль рост сервер симптомы состав срок ссылка статус страна
сумма телефон тема тип участники фамилия цвет цель цена язык
"""
_TURKISH = """
ad adres alerji alerjiler amaç açıklama başlık cevap dil doğum hasta ilaçlar isim konu malzemeler not numara renk sonuç
soru soyad tarih telefon tür yanıt yaş yer öneri örnek şehir
"""  # noqa: RUF001
_PERSONS = """
dein deine dich dir du eu euch i i'd i'll i'm i've ich ihr ik io j'ai je jij jou jouw jullie ma me mein meine meu mi mia
mich mij mijn mine minha mio mir moi mon my mí noi nosotros nosso nostro notre nous nuestro nós ons onze our te teu toi
tu tua tuo tú uns unser unsere us usted ustedes você vocês voi vosotros vostro votre vous we we'll we're we've wij wir
yo you you'll you're your yours вас вы меня мне мой мы нам тебя ты я
"""
NOT_SPEAKERS: Final = frozenset(
    fold_name(word)
    for words in (_ENGLISH, _GERMAN, _FRENCH, _SPANISH, _ITALIAN, _PORTUGUESE, _DUTCH, _POLISH, _RUSSIAN, _TURKISH)
    for word in words.split()
)
"""Folded last words of labels that are not speakers' names: `Note:`, `Due Date:`, `Content-Type:`, `Allergien:`."""

GIVEN_NAMES: Final = given_names()
"""Folded given names that are common in some language; a name that is not among them needs other evidence."""

FIRST_AND_SECOND_PERSON: Final = frozenset(_PERSONS.split())
"""Words with which people speak of themselves and to each other."""
