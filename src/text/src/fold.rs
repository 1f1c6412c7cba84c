//! Normal form in which names are compared: links, aliases, tags and the search field `path:`.

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

    #[test]
    fn folding_twice_changes_nothing() {
        for name in ["İstanbul", "ᾳ\u{345}", "ὈΔΥΣΣΕΎΣ", "ẞ", "ŉ", "plain", "Ａ", "が"] {
            let once = fold_name(name).into_owned();
            assert_eq!(fold_name(&once), once, "{name}");
        }
    }
}
