//! Normal forms of text that is compared: names (links, aliases, tags) and words of search.

use std::borrow::Cow;

use caseless::Caseless;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

/// Applies full case folding (Unicode, `CaseFolding.txt`, statuses C and F) and NFC. Names that
/// differ only in case or in how accents are encoded get the same text: `Réunion` written on macOS
/// (NFD) equals `réunion` written on Linux, `STRASSE` equals `straße`.
///
/// Accents count: `résumé` and `resume` are different names.
#[must_use]
pub fn fold_name(name: &str) -> Cow<'_, str> {
    if name.is_ascii() {
        return if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            Cow::Owned(name.to_ascii_lowercase())
        } else {
            Cow::Borrowed(name)
        };
    }
    // Folding decomposed text and composing the result gives one form for both encodings
    // (Unicode Standard 3.13, D145 without the second pass, which only rare Greek text needs).
    let folded: String = name.nfd().default_case_fold().nfc().collect();
    match is_nfc_quick(name.chars()) {
        IsNormalized::Yes if folded == name => Cow::Borrowed(name),
        _ => Cow::Owned(folded),
    }
}

/// The form in which search compares words: compatibility forms unified (NFKC), full case folding,
/// and without the marks that writers may leave out.
///
/// Removed are accents of Latin, Greek and Cyrillic, Hebrew points, Arabic and Syriac vowel signs
/// (hamza and madda on a letter included), Ethiopic and Vedic accents, the nuktas of Indic scripts
/// (`ज़रूर` is also written `जरूर`), and what is invisible: soft hyphens, joiners, variation
/// selectors, and the Arabic tatweel. All other marks make another word and stay: vowel signs and
/// viramas of Indic scripts, vowels and tones of Thai, Lao, Khmer and Myanmar, and the Japanese
/// voicing marks (`が` is not `か`). Latin letters that have no decomposition are spelled as they are
/// on a keyboard without them (`ø` as `o`, `æ` as `ae`).
#[must_use]
pub fn fold_word(word: &str) -> Cow<'_, str> {
    if word.is_ascii() {
        return fold_name(word);
    }
    // Case folding decomposes some letters (`İ`), and marks are removed from decomposed text.
    let decomposed = word.nfkc().default_case_fold().nfkd();
    Cow::Owned(decomposed.filter(|character| !is_optional(*character)).flat_map(keyboard_letters).nfc().collect())
}

/// Whether two spellings of a word may differ in this character.
fn is_optional(character: char) -> bool {
    matches!(character,
        '\u{0300}'..='\u{036F}' | '\u{1AB0}'..='\u{1AFF}' | '\u{1DC0}'..='\u{1DFF}' // accents
        | '\u{20D0}'..='\u{20FF}' | '\u{FE20}'..='\u{FE2F}'
        | '\u{0483}'..='\u{0489}' | '\u{A66F}'..='\u{A672}' | '\u{A674}'..='\u{A67D}' // Cyrillic
        | '\u{2DE0}'..='\u{2DFF}'
        | '\u{0591}'..='\u{05BD}' | '\u{05BF}' | '\u{05C1}' | '\u{05C2}' | '\u{05C4}' | '\u{05C5}' // Hebrew
        | '\u{05C7}' | '\u{FB1E}'
        | '\u{0610}'..='\u{061A}' | '\u{0640}' | '\u{064B}'..='\u{065F}' | '\u{0670}' // Arabic
        | '\u{06D6}'..='\u{06DC}' | '\u{06DF}'..='\u{06E4}' | '\u{06E7}' | '\u{06E8}'
        | '\u{06EA}'..='\u{06ED}' | '\u{0898}'..='\u{089F}' | '\u{08CA}'..='\u{08E1}' | '\u{08E3}'..='\u{08FF}'
        | '\u{0711}' | '\u{0730}'..='\u{074A}' // Syriac
        | '\u{135D}'..='\u{135F}' // Ethiopic
        | '\u{0951}'..='\u{0954}' | '\u{1CD0}'..='\u{1CD2}' | '\u{1CD4}'..='\u{1CE0}' // Vedic
        | '\u{1CE2}'..='\u{1CE8}' | '\u{1CED}' | '\u{1CF4}' | '\u{1CF8}' | '\u{1CF9}'
        | '\u{093C}' | '\u{09BC}' | '\u{0A3C}' | '\u{0ABC}' | '\u{0B3C}' | '\u{0CBC}' // nuktas
        | '\u{00AD}' | '\u{061C}' | '\u{200B}'..='\u{200F}' | '\u{2060}'..='\u{2064}' | '\u{FEFF}' // invisible
        | '\u{180B}'..='\u{180F}' | '\u{FE00}'..='\u{FE0F}' | '\u{E0100}'..='\u{E01EF}')
}

/// A letter as written on a keyboard without it.
fn keyboard_letters(letter: char) -> impl Iterator<Item = char> {
    let (first, second) = match letter {
        'æ' => ('a', Some('e')),
        'œ' => ('o', Some('e')),
        'ø' => ('o', None),
        'đ' | 'ð' => ('d', None),
        'ł' => ('l', None),
        'ı' => ('i', None),
        _ => (letter, None),
    };
    std::iter::once(first).chain(second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_in_case_or_encoding_fold_alike() {
        for (left, right) in [
            ("Réunion", "re\u{301}union"),
            ("RE\u{301}UNION", "réunion"),
            ("STRASSE", "straße"),
            ("ΣΊΣΥΦΟΣ", "σίσυφος"),
            ("\u{1100}\u{1161}", "가"),
            ("ſ", "s"),
            ("Å", "\u{212B}"),
            ("ﬁn", "FIN"),
        ] {
            assert_eq!(fold_name(left), fold_name(right), "{left} {right}");
        }
        assert_ne!(fold_name("resume"), fold_name("résumé"));
    }

    /// Code points and their folded form, of every character whose case folding differs from it in
    /// Unicode 14; written by `src/index/src/search/tests/folding/pairs.py`.
    const FOLDED_CHARACTERS: &str = include_str!("fold/names.tsv");

    /// Letters with case that are newer than Unicode 14.
    const NEWER: [std::ops::RangeInclusive<char>; 4] =
        ['\u{1C89}'..='\u{1C8A}', '\u{A7CB}'..='\u{A7DC}', '\u{10D50}'..='\u{10D65}', '\u{16EA0}'..='\u{16EB8}'];

    #[test]
    fn every_character_is_folded_as_by_python() {
        let character = |hex: &str| char::from_u32(u32::from_str_radix(hex, 16).unwrap()).unwrap();
        let expected: std::collections::BTreeMap<char, String> = FOLDED_CHARACTERS
            .lines()
            .filter_map(|line| line.split_once('\t'))
            .map(|(from, to)| (character(from), to.split(' ').map(character).collect()))
            .collect();
        assert!(expected.len() > 1_500);
        for (from, to) in &expected {
            assert_eq!(fold_name(&from.to_string()), *to, "U+{:04X}", u32::from(*from));
        }
        for other in (char::MIN..=char::MAX).filter(|other| !expected.contains_key(other)) {
            let (text, is_newer) = (other.to_string(), NEWER.iter().any(|range| range.contains(&other)));
            let is_same = fold_name(&text) == text.nfc().collect::<String>();
            assert!(is_same || is_newer, "U+{:04X}", u32::from(other));
        }
    }

    #[test]
    fn folding_twice_changes_nothing() {
        for name in ["İstanbul", "ᾳ\u{345}", "ὈΔΥΣΣΕΎΣ", "ẞ", "ŉ", "plain", "Ａ", "が", "ㅎㅏㄴ", "ﷺ", "½", "ज़"]
        {
            for fold in [fold_name, fold_word] {
                let once = fold(name).into_owned();
                assert_eq!(fold(&once), once, "{name}");
            }
        }
    }
}
