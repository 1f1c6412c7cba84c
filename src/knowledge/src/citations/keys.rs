//! BibTeX keys: surname, year and a word of the title, in ASCII.

use deunicode::deunicode;

use super::identifiers::PaperId;
use super::metadata::PaperMetadata;

/// Characters of a surname and of a word.
const MAX_PART_CHARS: usize = 40;

/// Words of titles that say nothing.
const STOP_WORDS: [&str; 38] = [
    "a", "an", "and", "are", "as", "at", "be", "by", "can", "das", "de", "der", "die", "do", "does", "ein", "eine",
    "el", "for", "from", "how", "in", "is", "la", "le", "les", "of", "on", "or", "the", "to", "towards", "un", "une",
    "what", "when", "why", "with",
];

/// The key of a paper; without a title and an author, one of its identifier.
pub fn citation_key(id: &PaperId, metadata: &PaperMetadata) -> String {
    let surname = metadata.authors.first().map(|author| ascii(&author.family)).unwrap_or_default();
    let year = metadata.year.map(|year| year.to_string()).unwrap_or_default();
    let word = metadata.title.as_deref().map(title_word).unwrap_or_default();
    match (surname.is_empty(), word.is_empty()) {
        (true, true) => format!("{}{}", id.key().trim_end_matches("_id"), ascii_part(id.value(), 100)),
        (true, false) => format!("anon{year}{word}"),
        (false, _) => format!("{surname}{year}{word}"),
    }
}

/// What distinguishes the papers of one key, as in bibliographies: nothing, `b`, `c` …
pub fn suffix(number: usize) -> String {
    match u8::try_from(number) {
        Ok(0) => String::new(),
        Ok(number @ 1..26) => char::from(b'a' + number).to_string(),
        Ok(_) | Err(_) => format!("-{}", number + 1),
    }
}

/// The first word of a title that says something.
fn title_word(title: &str) -> String {
    let words = deunicode(title);
    let words = words.split(|character: char| !character.is_ascii_alphanumeric()).map(ascii);
    let words: Vec<String> = words.filter(|word| !word.is_empty()).collect();
    let telling = words.iter().find(|word| !STOP_WORDS.contains(&word.as_str()));
    telling.or(words.first()).cloned().unwrap_or_default()
}

/// A text as lower-case letters and digits of ASCII.
fn ascii(text: &str) -> String {
    ascii_part(text, MAX_PART_CHARS)
}

fn ascii_part(text: &str, max: usize) -> String {
    let letters = deunicode(text).to_ascii_lowercase();
    letters.chars().filter(char::is_ascii_alphanumeric).take(max).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::citations::metadata::AuthorName;

    #[test]
    fn keys_are_ascii_for_names_of_every_script() {
        let doi = PaperId::Doi("10.1000/a.b(c)".to_owned());
        for (author, year, title, key) in [
            ("Ashish Vaswani", Some(2017), "Attention Is All You Need", "vaswani2017attention"),
            ("Müller, Ö.", Some(1999), "Die Größe der Dinge", "muller1999grosse"),
            ("Ødegård, Å", Some(2001), "The æther", "odegard2001aether"),
            ("Łukasz Kaiser", None, "A", "kaisera"),
            ("Достоевский, Ф.", Some(1866), "Преступление и наказание", "dostoevskii1866prestuplenie"),
            ("van der Maaten, Laurens", Some(2008), "Visualizing data using t-SNE", "vandermaaten2008visualizing"),
            ("O'Neil, Cathy", Some(2016), "Weapons of Math Destruction", "oneil2016weapons"),
            ("", Some(2020), "3D models", "anon20203d"),
            ("WHO", None, "", "who"),
            ("", None, "", "doi101000abc"),
            ("???", None, "...", "doi101000abc"),
        ] {
            let authors = (!author.is_empty()).then(|| AuthorName::parse(author)).into_iter().collect();
            let title = (!title.is_empty()).then(|| title.to_owned());
            let metadata = PaperMetadata { authors, year, title, ..PaperMetadata::default() };
            assert_eq!(citation_key(&doi, &metadata), key, "{author} {year:?}");
        }
        for (author, title) in [("王小明", "深度学习"), ("田中 太郎", "日本語の論文"), ("محمد", "نص"), ("김", "한국어")]
        {
            let metadata = PaperMetadata {
                authors: vec![AuthorName::parse(author)],
                title: Some(title.to_owned()),
                ..PaperMetadata::default()
            };
            let key = citation_key(&doi, &metadata);
            let is_key = |key: &str| key.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
            assert!(is_key(&key) && !key.starts_with("doi") && !key.starts_with("anon"), "{author}: {key}");
        }
        let arxiv = PaperId::Arxiv("math/0309136".to_owned());
        assert_eq!(citation_key(&arxiv, &PaperMetadata::default()), "arxivmath0309136");
        assert_eq!([0, 1, 25, 26].map(suffix), ["", "b", "z", "-27"]);
    }
}
