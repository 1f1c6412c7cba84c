"""2,000 lines of mixed languages, to compare tokenizers."""

import random

SENTENCES = [
    "How do I schedule a nightly backup of the database?",
    "The committer's queue isn't empty; 12,345 changes (98.6%) are in flight.",
    "Déjà vu: naïve façades, crème brûlée, Ångström, São Tomé, coöperation",
    "Wie stelle ich eine gelöschte Seite wieder her? Größe: 5 MB, Straße, Übermaß.",
    "¿Dónde está la página que borré ayer? ¡Aquí, en el año 2026!",
    "Où se trouve l'historique d'une page ? À côté de l'éditeur, bien sûr.",
    "Dove trovo le pagine più lette? Perché è così lento?",
    "Como faço para recuperar uma versão anterior da página?",
    "Gdzie są usunięte strony? Zażółć gęślą jaźń.",
    "Kde najdu smazané stránky? Příliš žluťoučký kůň úpěl ďábelské ódy.",
    "Hol találom a törölt oldalakat? Árvíztűrő tükörfúrógép.",
    "Silinen sayfaları nasıl geri getirebilirim? İstanbul, ılık, ğ, ş.",
    "Làm thế nào để khôi phục một trang đã bị xóa?",
    "Hvor finder jeg slettede sider? Rødgrød med fløde på ærø.",
    "Hur återställer jag en sida? Älgar och öar.",
    "Mistä löydän poistetut sivut? Yöttömän yön äiti.",
    "Где найти удалённые страницы? Съешь же ещё этих мягких французских булок.",
    "Де знайти видалені сторінки? Її єдиний ґанок.",
    "Πού βρίσκω τις διαγραμμένες σελίδες; Ξεσκεπάζω την ψυχοφθόρα.",
    "איפה נמצאים הדפים שנמחקו? שָׁלוֹם עוֹלָם",
    "أين أجد الصفحات المحذوفة؟ مَرْحَبًا بِالْعَالَم",
    "हटाए गए पृष्ठ कहाँ मिलेंगे? नमस्ते दुनिया।",
    "মুছে ফেলা পাতা কোথায় পাব? ওহে বিশ্ব",
    "நீக்கப்பட்ட பக்கங்கள் எங்கே? வணக்கம் உலகம்",
    "จะหาหน้าที่ถูกลบได้ที่ไหน สวัสดีชาวโลก",
    "삭제된 페이지는 어디에서 찾을 수 있습니까? 안녕하세요 세계",
    "削除したページはどこにありますか？ カタカナとひらがな、漢字。",
    "被删除的页面在哪里可以找到？你好，世界！",
    "哪裡可以找到被刪除的頁面？繁體中文「測試」。",
    "წაშლილი გვერდები სად არის? გამარჯობა მსოფლიო",
    "Որտե՞ղ են ջնջված էջերը։ Բարեւ աշխարհ",
    "የተሰረዙ ገጾች የት አሉ? ሰላም ዓለም",
    "`fn main() -> Result<(), Box<dyn Error>> { println!(\"{:?}\", x?); }`",
    "SELECT path, count(*) FROM pages WHERE tag='ops' GROUP BY 1;",
    "- [ ] see [[notes/Plan B|the plan]] and https://example.org/a?b=c&d=%20#e",
    "E = mc² ≈ 9×10¹⁶ J; x₁ ≤ ½ · ∑ᵢ aᵢ → ∞, 20 °C ± 0.5 ‰, № 5, ﬁne ﬂow",
    "Emoji 🙂👩‍👩‍👧‍👦🏳️‍🌈 🇩🇪 and ☃ ✓ ★ “quotes” ‘single’ — dash – en … ‹x›",
    "zero\u200bwidth\u00a0space\u2003em\u3000wide\ufeffbom soft\u00adhyphen",
    "tab\tvertical\x0bform\x0cnull\x00replacement\ufffd bell\x07 del\x7f nel\x85",
    "combining a\u0301e\u0308n\u0303 c\u0327 and a\u0300\u0301\u0302 stacked, ﷺ ㍿ ⅷ Ⅷ ǆ ẞ ß ſ",
    "supercalifragilisticexpialidocious antidisestablishmentarianism kubernetes pneumonoultramicroscopic",
    "v1.2.3-rc.4+build_567 snake_case camelCase kebab-case SCREAMING_CASE $PATH ${HOME}/.config @user #tag",
    "[CLS] [SEP] [MASK] [UNK] [PAD] ##ing ##s [unused1]",
    "\U00020000\U0002a700 rare ideographs, \ue000 private use, \U000e0041 tag",
]


def lines() -> list[str]:
    """The sentences, and random mixtures of their words and characters; always the same."""
    source = random.Random(40)
    words = [word for sentence in SENTENCES for word in sentence.split(" ")]
    made = list(SENTENCES)
    while len(made) < 2_000:
        line = " ".join(source.choices(words, k=source.randint(1, 14)))
        match source.randrange(5):
            case 0:
                line = line.upper()
            case 1:
                line = line.title()
            case 2:
                characters = list(line)
                source.shuffle(characters)
                line = "".join(characters)
            case 3:
                line = line.replace(" ", source.choice(["", "  ", "-", ", ", "\t"]))
        made.append(line.replace("\n", " ").replace("\r", " "))
    return made
