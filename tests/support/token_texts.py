"""Texts of a kilobyte or two, of the kinds that memories hold, for tests of how tokens are counted."""

# ruff: noqa: RUF001 -- the texts are in many scripts on purpose

from __future__ import annotations

import json
import uuid
from typing import Final

_ENGLISH: Final = """
Nora: The kiln was still warm this morning, so I left the bowls inside until noon.
Petr: Did the blue glaze crack again? Last time it looked like a dried riverbed.
Nora: Only two of eleven. I think the clay was too wet, not the glaze too thick.
Petr: Then we should weigh each lump before throwing it, as my grandfather used to.
Nora: Agreed. By the way, the market moved from Saturday to Sunday, starting in October.
Petr: That clashes with the choir. Could your cousin take the stall for the first hours?
Nora: She offered, but she wants to know what we charge for the large jugs. Forty-five?
Petr: Forty-eight. We paid more for the delivery, and nobody haggled in the summer.
Nora: Please remember that I cannot lift anything heavy until my shoulder has healed.
Petr: I know. The physiotherapist said six weeks, didn't she? I'll carry the crates.
Nora: One more thing: the landlord finally answered. The lease runs for another three years.
Petr: Wonderful! Let's celebrate on Thursday, somewhere quiet, with decent dumplings.
"""
_GERMAN: Final = """
Die Fähre nach Amrum fuhr gestern nicht, weil der Wind zu stark war, also haben wir in Dagebüll übernachtet.
Mein Bruder restauriert seit dem Frühjahr ein altes Segelboot und sucht noch einen zuverlässigen Zimmermann.
Kannst du mir bitte aufschreiben, welche Unterlagen die Krankenversicherung von uns haben möchte?
Wir treffen uns jeden zweiten Mittwoch im Gemeindehaus, außer in den Schulferien.
Ich trinke keinen Kaffee mehr nach fünfzehn Uhr, sonst liege ich bis Mitternacht wach.
Die Handwerker wollten am Montag kommen, haben aber wegen eines Rohrbruchs kurzfristig abgesagt.
Lieselotte hat beschlossen, ihre Doktorarbeit über die Geschichte der Getreidemühlen zu schreiben.
Für das Sommerfest brauchen wir noch sieben Tische, zwanzig Bänke und jemanden mit einem Anhänger.
"""
_RUSSIAN: Final = """
Вчера паром отменили из-за сильного ветра, поэтому мы остались ночевать на побережье.
Мой брат с весны чинит старую яхту и никак не найдёт хорошего плотника.
Запиши, пожалуйста, какие документы нужны страховой компании до конца месяца.
Мы собираемся каждую вторую среду в библиотеке, кроме школьных каникул.
После трёх часов дня я больше не пью кофе, иначе не могу заснуть до полуночи.
Рабочие обещали прийти в понедельник, но отказались: где-то прорвало трубу.
Лиза решила написать диссертацию об истории водяных мельниц.
На летний праздник нам нужны ещё семь столов и кто-нибудь с прицепом.
"""
_ARABIC: Final = """
ألغيت العبارة أمس بسبب الرياح القوية، فبقينا ليلة أخرى عند الساحل.
يصلح أخي قاربا شراعيا قديما منذ الربيع، وما زال يبحث عن نجار جيد.
اكتب لي من فضلك ما هي الأوراق التي تطلبها شركة التأمين قبل نهاية الشهر.
نجتمع كل أربعاء ثان في المكتبة، إلا في العطلة المدرسية.
لم أعد أشرب القهوة بعد الساعة الثالثة، وإلا فلن أنام حتى منتصف الليل.
وعد العمال بالحضور يوم الاثنين لكنهم اعتذروا لأن أنبوبا انكسر.
قررت ليلى أن تكتب رسالتها عن تاريخ طواحين الماء.
نحتاج إلى سبع طاولات أخرى لحفلة الصيف وإلى شخص لديه عربة.
"""
_CHINESE: Final = """
昨天风太大,渡轮停开了,所以我们在海边又住了一晚。
我哥哥从春天开始修理一条旧帆船,一直没找到好的木匠。
请帮我记下保险公司月底之前需要哪些文件。
除了学校放假,我们每隔一个星期三在图书馆见面。
下午三点以后我不再喝咖啡,不然半夜都睡不着。
工人本来说星期一来,可是因为水管破裂临时取消了。
丽莎决定写一篇关于水磨历史的博士论文。
夏天的聚会我们还需要七张桌子,还有一个有拖车的人。
"""
_JAPANESE: Final = """
昨日は風が強くてフェリーが欠航になり、海辺の宿にもう一泊しました。
兄は春から古いヨットを直していて、腕のいい大工をまだ探しています。
月末までに保険会社に出す書類を書き留めておいてください。
学校の休みを除いて、隔週の水曜日に図書館で集まっています。
午後三時を過ぎるとコーヒーは飲みません。夜中まで眠れなくなるからです。
職人さんは月曜日に来るはずでしたが、水道管が破裂したので中止になりました。
リサは水車の歴史について博士論文を書くことにしました。
夏祭りには机があと七つと、荷台のある車を持っている人が必要です。
"""
_KOREAN: Final = """
어제는 바람이 너무 세서 배가 뜨지 않았고, 우리는 바닷가에서 하룻밤을 더 묵었습니다.
형은 봄부터 오래된 요트를 고치고 있는데 아직 좋은 목수를 찾지 못했어요.
보험 회사에 월말까지 내야 할 서류를 적어 주세요.
방학을 빼고는 격주 수요일마다 도서관에서 만나요.
오후 세 시가 지나면 커피를 마시지 않아요. 밤늦게까지 잠이 안 오거든요.
월요일에 오기로 한 기술자가 수도관이 터져서 약속을 취소했습니다.
"""
_HINDI: Final = """
कल तेज़ हवा के कारण नाव नहीं चली, इसलिए हम समुद्र के किनारे एक रात और रुके।
मेरा भाई वसंत से एक पुरानी नाव ठीक कर रहा है और उसे अब तक अच्छा बढ़ई नहीं मिला।
कृपया लिख लीजिए कि बीमा कंपनी को महीने के अंत तक कौन से कागज़ चाहिए।
स्कूल की छुट्टियों को छोड़कर हम हर दूसरे बुधवार को पुस्तकालय में मिलते हैं।
मैं तीन बजे के बाद कॉफ़ी नहीं पीता, नहीं तो आधी रात तक नींद नहीं आती।
"""
_FRENCH: Final = """
Le bac n'est pas parti hier à cause du vent, alors nous avons passé une nuit de plus au bord de la mer.
Depuis le printemps, mon frère répare un vieux voilier, et il cherche toujours un bon menuisier.
Peux-tu noter quels papiers l'assurance veut recevoir avant la fin du mois ?
Nous nous réunissons un mercredi sur deux à la bibliothèque, sauf pendant les vacances scolaires.
Je ne bois plus de café après quinze heures, sinon je reste éveillé jusqu'à minuit.
Élise a décidé d'écrire sa thèse sur l'histoire des moulins à eau.
"""
_PORTUGUESE: Final = """
Mudei-me para Lisboa no mês passado, por isso o apartamento no Porto está vazio agora.
Podes lembrar-me de ligar ao dentista amanhã às nove e meia da manhã?
O meu irmão está a restaurar um veleiro antigo desde a primavera e ainda não encontrou um bom carpinteiro.
Decidimos adiar a migração para o dia catorze, porque o fornecedor ainda não assinou o contrato.
A minha irmã faz anos a três de junho; gosta de mapas antigos e de café forte.
A propósito, sou alérgica a nozes, não me sugiras receitas que as tenham, por favor.
"""
_SPANISH: Final = """
El mes pasado me mudé a Lisboa, así que el piso de Oporto está vacío ahora.
¿Puedes recordarme mañana a las nueve y media que llame al dentista?
Mi hermano restaura un velero antiguo desde la primavera y todavía busca un buen carpintero.
Hemos decidido aplazar la migración hasta el día catorce porque el proveedor aún no ha firmado.
El cumpleaños de mi hermana es el tres de junio; le gustan los mapas viejos y el café fuerte.
Por cierto, soy alérgica a las nueces, así que no me sugieras ninguna receta con ellas.
"""
_VIETNAMESE: Final = """
Tháng trước tôi đã chuyển đến Lisbon, nên căn hộ ở Porto bây giờ đang để trống.
Bạn có thể nhắc tôi gọi cho nha sĩ lúc chín giờ rưỡi sáng mai không?
Anh trai tôi sửa một chiếc thuyền buồm cũ từ mùa xuân và vẫn chưa tìm được thợ mộc giỏi.
Chúng tôi quyết định hoãn việc di chuyển hệ thống đến ngày mười bốn vì nhà cung cấp chưa ký hợp đồng.
Em gái tôi sinh ngày ba tháng sáu; em ấy thích bản đồ cũ và cà phê đậm.
Nhân tiện, tôi bị dị ứng với quả óc chó, xin đừng bao giờ gợi ý món ăn có nó.
"""
_CZECH: Final = """
Minulý měsíc jsem se přestěhovala do Lisabonu, takže byt v Portu je teď prázdný.
Můžeš mi zítra v půl desáté připomenout, abych zavolala zubaři?
Můj bratr od jara opravuje starou plachetnici a pořád hledá dobrého truhláře.
Rozhodli jsme se odložit přesun na čtrnáctého, protože dodavatel ještě nepodepsal smlouvu.
Moje sestra má narozeniny třetího června; má ráda staré mapy a silnou kávu.
Mimochodem, jsem alergická na vlašské ořechy, nikdy mi prosím nenabízej recept s nimi.
"""
_POLISH: Final = """
W zeszłym miesiącu przeprowadziłam się do Lizbony, więc mieszkanie w Porto stoi teraz puste.
Czy możesz mi jutro o wpół do dziesiątej przypomnieć, żebym zadzwoniła do dentysty?
Mój brat od wiosny naprawia starą żaglówkę i wciąż szuka dobrego stolarza.
Postanowiliśmy przełożyć przeprowadzkę na czternastego, bo dostawca jeszcze nie podpisał umowy.
Moja siostra ma urodziny trzeciego czerwca; lubi stare mapy i mocną kawę.
Poza tym mam alergię na orzechy włoskie, więc proszę, nie proponuj mi takich przepisów.
"""
_CROATIAN: Final = """
Prošli mjesec preselila sam se u Lisabon, pa je stan u Portu sada prazan.
Možeš li me sutra u pola deset podsjetiti da nazovem zubara?
Moj brat od proljeća popravlja staru jedrilicu i još uvijek traži dobrog stolara.
Odlučili smo odgoditi selidbu do četrnaestog jer dobavljač još nije potpisao ugovor.
Moja sestra ima rođendan trećeg lipnja; voli stare karte i jaku kavu.
Usput, alergična sam na orahe, pa mi molim te nikada ne predlaži recepte s njima.
"""
_TURKISH: Final = """
Geçen ay Lizbon'a taşındım, bu yüzden Porto'daki daire şimdi boş.
Yarın sabah dokuz buçukta dişçiyi aramamı hatırlatır mısın?
Ağabeyim ilkbahardan beri eski bir yelkenliyi onarıyor ve hâlâ iyi bir marangoz arıyor.
Tedarikçi henüz sözleşmeyi imzalamadığı için taşınmayı ayın on dördüne ertelemeye karar verdik.
Kız kardeşimin doğum günü üç Haziran; eski haritaları ve sert kahveyi sever.
Bu arada cevize alerjim var, lütfen bana içinde ceviz olan bir tarif önerme.
"""
_HUNGARIAN: Final = """
Múlt hónapban Lisszabonba költöztem, ezért a portói lakás most üresen áll.
Emlékeztetnél holnap fél tízkor, hogy hívjam fel a fogorvost?
A bátyám tavasz óta egy régi vitorlást javít, és még mindig jó asztalost keres.
Úgy döntöttünk, hogy az átállást tizennegyedikére halasztjuk, mert a szállító még nem írta alá a szerződést.
A húgom születésnapja június harmadikán van; szereti a régi térképeket és az erős kávét.
Egyébként allergiás vagyok a dióra, kérlek, soha ne ajánlj olyan receptet.
"""
_FINNISH: Final = """
Muutin viime kuussa Lissaboniin, joten Porton asunto on nyt tyhjänä.
Voisitko muistuttaa minua huomenna puoli kymmeneltä soittamaan hammaslääkärille?
Veljeni on korjannut vanhaa purjevenettä keväästä asti ja etsii yhä hyvää puuseppää.
Päätimme siirtää muuton neljänteentoista päivään, koska toimittaja ei ole vielä allekirjoittanut sopimusta.
Siskoni syntymäpäivä on kolmas kesäkuuta; hän pitää vanhoista kartoista ja vahvasta kahvista.
Olen muuten allerginen saksanpähkinöille, joten älä koskaan ehdota niitä sisältävää reseptiä.
"""
_SWEDISH: Final = """
Förra månaden flyttade jag till Lissabon, så lägenheten i Porto står tom nu.
Kan du påminna mig om att ringa tandläkaren i morgon klockan halv tio?
Min bror har renoverat en gammal segelbåt sedan i våras och söker fortfarande en bra snickare.
Vi bestämde oss för att skjuta upp flytten till den fjortonde, eftersom leverantören inte har skrivit under än.
Min syster fyller år den tredje juni; hon tycker om gamla kartor och starkt kaffe.
Jag är förresten allergisk mot valnötter, så föreslå aldrig recept med sådana.
"""
_ROMANIAN: Final = """
Luna trecută m-am mutat la Lisabona, așa că apartamentul din Porto este gol acum.
Poți să-mi amintești mâine la nouă și jumătate să sun la dentist?
Fratele meu repară din primăvară o barcă veche cu pânze și încă mai caută un tâmplar bun.
Am hotărât să amânăm mutarea până pe paisprezece, pentru că furnizorul nu a semnat încă.
Sora mea își serbează ziua pe trei iunie; îi plac hărțile vechi și cafeaua tare.
Apropo, sunt alergică la nuci, te rog să nu-mi propui niciodată rețete cu ele.
"""
_CODE: Final = '''
class TideTable:
    """High and low water at one harbour."""

    def __init__(self, harbour: str, readings: list[tuple[datetime, float]]) -> None:
        self._harbour = harbour
        self._readings = sorted(readings)

    def next_high_water(self, after: datetime, *, tolerance_minutes: int = 15) -> datetime | None:
        for index, (moment, level) in enumerate(self._readings[1:-1], start=1):
            if moment <= after - timedelta(minutes=tolerance_minutes):
                continue
            if self._readings[index - 1][1] < level >= self._readings[index + 1][1]:
                return moment
        return None

    def toCsvLine(self, separator=";"):
        return separator.join(f"{moment:%Y-%m-%d %H:%M}{separator}{level:.2f}" for moment, level in self._readings)


if __name__ == "__main__":
    table = TideTable("Husum", load_readings(sys.argv[1]))
    print(table.next_high_water(datetime.now(UTC)) or "no high water today")
'''
_LOG: Final = "\n".join(
    f"2026-03-{day:02}T0{day % 10}:17:{day * 2:02}.{day * 31:03}Z INFO  http.server"
    f' "GET /api/v2/boats/{day * 977}?full=1 HTTP/1.1" 200 {day * 1311} 0.{day * 13:03}s'
    for day in range(1, 24)
)
_EMOJI: Final = (
    "Great news 🎉🎉 see you at the harbour ⛵️ ❤️ 👍🏽 👨‍👩‍👧 🇵🇹 😂😂😂 bring the dog 🐶 and coffee ☕️ 🙏\n" * 12
)

TOKEN_TEXTS: Final[dict[str, str]] = {
    "english": _ENGLISH,
    "german": _GERMAN,
    "french": _FRENCH,
    "portuguese": _PORTUGUESE,
    "spanish": _SPANISH,
    "vietnamese": _VIETNAMESE,
    "czech": _CZECH,
    "polish": _POLISH,
    "croatian": _CROATIAN,
    "turkish": _TURKISH,
    "hungarian": _HUNGARIAN,
    "finnish": _FINNISH,
    "swedish": _SWEDISH,
    "romanian": _ROMANIAN,
    "russian": _RUSSIAN,
    "arabic": _ARABIC,
    "hindi": _HINDI,
    "chinese": _CHINESE,
    "japanese": _JAPANESE,
    "korean": _KOREAN,
    "code": _CODE,
    "log": _LOG,
    "json": json.dumps(
        [
            {"id": number * 7919, "name": f"boat {number}", "isOpen": number % 2 == 0, "length_m": number * 1.35}
            for number in range(1, 25)
        ],
        indent=2,
    ),
    "uuids": "\n".join(str(uuid.UUID(int=number * 0x1234567890ABCDEF1234567)) for number in range(1, 41)),
    "emoji": _EMOJI,
}
