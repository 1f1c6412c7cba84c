#!/usr/bin/env python3
"""Expected results of word search and of `fold_name`, computed with Python's `unicodedata`.

Writes `pairs.tsv` (script, text of a page, query, 1 if the query finds the page) and the case
folding of every character that has one. With `--check`: fails if a file differs.

The rule (decision D30), here by category and name of characters, in the program by code point:
NFKC, full case folding, removal of the nonspacing marks that writers may leave out, NFC. Pages and
queries of scripts without spaces are compared by substring, at the boundaries of characters.
"""

import sys
import unicodedata as u
from pathlib import Path

HERE = Path(__file__).parent
PAIRS = HERE / "pairs.tsv"
NAMES = HERE / "../../../../../text/src/fold/names.tsv"

# Beginnings of the names of nonspacing marks that writers may leave out.
OPTIONAL = ("COMBINING ", "HEBREW ", "ARABIC ", "SYRIAC ", "ETHIOPIC COMBINING", "VEDIC ",
            "DEVANAGARI STRESS SIGN", "VARIATION SELECTOR")
KEYBOARD = str.maketrans({"æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ð": "d", "ł": "l", "ı": "i"})


def is_optional(char):
    name = u.name(char, "")
    if u.category(char) == "Cf" or name == "ARABIC TATWEEL":
        return True
    if u.category(char) not in ("Mn", "Me") or "KATAKANA" in name:
        return False
    return name.startswith(OPTIONAL) or name.endswith("SIGN NUKTA") and name.split()[0] in (
        "DEVANAGARI", "BENGALI", "GURMUKHI", "GUJARATI", "ORIYA", "KANNADA")


def fold(text):
    decomposed = u.normalize("NFKD", u.normalize("NFKC", text).casefold())
    return u.normalize("NFC", "".join(c for c in decomposed if not is_optional(c)).translate(KEYBOARD))


def clusters(text):
    """The characters of a folded text, each with its marks."""
    found = []
    for char in text:
        if found and u.category(char).startswith("M"):
            found[-1] += char
        else:
            found.append(char)
    return found


def is_found(text, query, dense):
    if not dense:
        return fold(query) in fold(text).split()
    text, query = clusters(fold(text)), clusters(fold(query))
    if len(query) == 1:  # one character also finds those with a further mark
        return any(cluster.startswith(query[0]) for cluster in text)
    return any(text[at:at + len(query)] == query for at in range(len(text)))


def without_marks(text):
    """Without all nonspacing marks, also those that distinguish words."""
    return u.normalize("NFC", "".join(c for c in u.normalize("NFD", text) if u.category(c) != "Mn"))


def wide(text):
    return "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text)


VARIANTS = [lambda t: t, lambda t: u.normalize("NFD", t), lambda t: u.normalize("NFC", t), str.upper, str.title,
            str.lower, without_marks, wide, lambda t: t[1:], lambda t: t[:1] + "\u00ad" + t[1:]]

# Spaced scripts: words. None changes by the removal of English suffixes.
SPACED = {
    "Latin": "Öl naïf Łódź smørbrød Straße STRASSE ſchön İzmir ılık ﬁfþ Ærø Œuvre ŉa Ǆep Åbo Việt phở ﬀ đá ÅNG",
    "Greek": "ΣΊΣΥΦΟΣ Ελλάδα ὈΔΥΣΣΕΎΣ λόγος ΰψος άνθρωπος Ϊος ϐίος μῆνις θεά",
    "Cyrillic": "Ёлка майский Київ Ґанок вода́ за́мок Ѳома ЇЖАК Ўзбек ЛЬВІВ",
    "Armenian": "Երևան եւ Հայաստան ԵՐԵՒԱՆ մայր ծով",
    "Georgian": "თბილისი ᲗᲑᲘᲚᲘᲡᲘ ზღვა მთვარე დედა",
    "Hebrew": "שָׁלוֹם שלום סֵפֶר מַיִם יְרוּשָׁלַיִם שֶׁמֶשׁ ﬡב",
    "Arabic": "كِتَابٌ كتاب أحمد آمال مُحَمَّد ﻛﺘﺎﺏ كتــــاب القُرْآن مسؤول ٱلله",
    "Persian": "کِتاب دریا ماه پاییز گُل",
    "Syriac": "ܫܠܳܡܳܐ ܡܰܠܟܳܐ ܟܬܳܒܳܐ",
    "Thaana": "ދިވެހި ރާއްޖެ މާލެ",
    "Ethiopic": "አማርኛ ኢትዮጵያ ባሕር ጨረቃ",
    "Devanagari": "हिन्दी ज़रूर जरूर क़िला समुद्र चाँद सड़क अ॒ग्नि पानी",
    "Bengali": "বাংলা সময় চাঁদ সমুদ্র আড়াই",
    "Gurmukhi": "ਪੰਜਾਬੀ ਸ਼ਹਿਰ ਪਾਣੀ ਚੰਦ",
    "Gujarati": "ગુજરાતી પાણી ચંદ્ર સમુદ્ર",
    "Tamil": "தமிழ் கடல் நிலா கொடி",
    "Telugu": "తెలుగు సముద్రం చంద్రుడు నీరు",
    "Kannada": "ಕನ್ನಡ ಸಮುದ್ರ ಚಂದ್ರ ನೀರು",
    "Malayalam": "മലയാളം കടൽ ചന്ദ്രൻ വെള്ളം",
    "Sinhala": "සිංහල මුහුද සඳ ශ්‍රී",
    "Cherokee": "ᏣᎳᎩ ꮳꮃꭹ Ꭰꮉ",
    "Deseret": "𐐔𐐇𐐝𐐀𐐡𐐇𐐓 𐐼𐐯𐑅",
    "Mathematical": "𝔉𝔯𝔞𝔨 𝐛𝐨𝐥𝐝 ⅷ ｗｉｄｅ ①② x²",
}

# Scripts without spaces: text and queries.
DENSE = {
    "Han": ("日本語の文書 3月の会議 N月号 v2版です 2024年12月 ＩＴ業界 葛\U000e0100城 ⼀月 神神 ｖ２版",
            "日本語 本語 語 3月 月 N月 版 v2版 業界 IT業界 年12月 12月 日語 葛城 一月 神 月の 2版"),
    "Kana": ("がぎぐげご カキクケコ ｶﾞｷﾞｸﾞ ﾊﾟﾋﾟﾌﾟ がっこう ヴァイオリン コーヒー",
             "が か がぎ かき ガギ ガ カ ﾊﾟ パピ ハ っこ がっ かっ ヴァ ウ ーヒ ｶﾞｷﾞ コー"),
    "Hangul": ("한국어 서울시 3월 각하 값", "한국 국어 한 어 서울 월 3월 각 가 값 갑 서월"),
    "Thai": ("ภาษาไทย น้ำทะเล ที่นี่ ตาราง3วัน", "ไทย ภาษา น้ำ นำ ทะเล ที่ ที นี่ วัน 3วัน ราง ตาร"),
    "Lao": ("ພາສາລາວ ນ້ຳ ທະເລ", "ລາວ ພາສາ ນ້ຳ ນຳ ເລ ທະ"),
    "Khmer": ("ភាសាខ្មែរ សមុទ្រ ព្រះចន្ទ", "ខ្មែរ ខ្មែ សមុទ្រ សមុទ ចន្ទ ភាសា"),
    "Myanmar": ("မြန်မာစာ ပင်လယ် လမင်း", "မြန်မာ မြန် ပင်လယ် မင်း မင စာ"),
}


def pairs():
    for script, words in SPACED.items():
        words = words.split()
        for word in words:
            queries = dict.fromkeys(variant(word) for variant in VARIANTS)
            for query in [*queries, *words]:
                if any(u.category(c)[0] in "LN" for c in query) and not (query in words and query[0] != word[0]):
                    yield script, word, query, is_found(word, query, dense=False)
    for script, (texts, queries) in DENSE.items():
        for text in texts.split():
            for form in dict.fromkeys([text, u.normalize("NFD", text)]):
                for query in queries.split():
                    for wanted in dict.fromkeys([query, u.normalize("NFD", query), u.normalize("NFKC", query)]):
                        expected = is_found(form, wanted, dense=True)
                        if expected or fold(wanted)[0] in fold(form) or without_marks(wanted) in without_marks(form):
                            yield script, form, wanted, expected


def names():
    for point in range(sys.maxunicode + 1):
        char = chr(point)
        if char.casefold() != char:
            folded = u.normalize("NFC", u.normalize("NFD", char).casefold())
            yield f"{point:04X}", " ".join(f"{ord(c):04X}" for c in folded)


def main():
    rows = dict.fromkeys((script, text, query, str(int(found))) for script, text, query, found in pairs())
    is_same = True
    for path, table in [(PAIRS, rows), (NAMES, names())]:
        content = "".join("\t".join(row) + "\n" for row in table)
        if sys.argv[1:] == ["--check"]:
            is_same &= path.read_text() == content
        else:
            path.write_text(content)
    scripts = {row[0] for row in rows}
    found = sum(row[3] == "1" for row in rows)
    print(f"{len(rows)} pairs ({found} found) in {len(scripts)} scripts, Unicode {u.unidata_version}")
    if not is_same:
        sys.exit("the tables differ from what this script writes; run it without --check")


main()
