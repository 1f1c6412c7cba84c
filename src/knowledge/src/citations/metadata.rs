//! What registries say about a paper.

use atom_syndication::{Entry, Feed};
use serde_json::Value;

use super::identifiers::PaperId;

const MAX_TITLE_CHARS: usize = 500;
const MAX_NAME_CHARS: usize = 200;
pub const MAX_AUTHORS: usize = 100;

/// What is known of a paper. All texts are single lines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PaperMetadata {
    pub title: Option<String>,
    pub authors: Vec<AuthorName>,
    pub year: Option<i16>,
    /// The journal, book or conference.
    pub published_in: Option<String>,
    /// Its type in BibTeX.
    pub entry_type: Option<&'static str>,
    /// Where to read it, if that is not the address of its identifier.
    pub url: Option<String>,
    /// The DOI of the published form of a paper on arXiv.
    pub doi: Option<String>,
}

/// An author.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorName {
    /// The surname, or the name of an organisation.
    pub family: String,
    /// The other names.
    pub given: String,
}

impl AuthorName {
    /// A name as people write it: `Ann Lee`, `Lee, Ann`, or that of an organisation.
    pub fn parse(text: &str) -> Self {
        let text = one_line(text, MAX_NAME_CHARS);
        if let Some((family, given)) = text.split_once(',') {
            return Self { family: family.trim().to_owned(), given: given.trim().to_owned() };
        }
        let words: Vec<&str> = text.split(' ').collect();
        // Lower-case words before the last one are a part of the surname.
        let is_particle = |word: &&str| word.chars().next().is_some_and(char::is_lowercase);
        let particles = words.iter().rev().skip(1).take_while(|word| is_particle(word)).count();
        let (given, family) = words.split_at(words.len().saturating_sub(1 + particles));
        Self { family: family.join(" "), given: given.join(" ") }
    }

    /// The name as it is read.
    pub fn display(&self) -> String {
        [&*self.given, &*self.family].join(" ").trim().to_owned()
    }

    /// The name as BibTeX sorts it.
    pub fn sorted(&self) -> String {
        match self.given.is_empty() {
            // Braces keep the name of an organisation together.
            true if self.family.contains(' ') => format!("{{{}}}", self.family),
            true => self.family.clone(),
            false => format!("{}, {}", self.family, self.given),
        }
    }
}

impl PaperMetadata {
    /// This, and from another one what it lacks.
    pub fn or(self, other: &Self) -> Self {
        let other = other.clone();
        Self {
            title: self.title.or(other.title),
            authors: if self.authors.is_empty() { other.authors } else { self.authors },
            year: self.year.or(other.year),
            published_in: self.published_in.or(other.published_in),
            entry_type: self.entry_type.or(other.entry_type),
            url: self.url.or(other.url),
            doi: self.doi.or(other.doi),
        }
    }

    /// Reads CSL-JSON; none without a title.
    pub fn from_csl(csl: &Value) -> Option<Self> {
        // Some registries send lists.
        let text = |key: &str| {
            let value = csl.get(key)?;
            let text = value.as_str().or_else(|| value.get(0)?.as_str())?;
            Some(one_line(&without_markup(text), MAX_TITLE_CHARS)).filter(|text| !text.is_empty())
        };
        let author = |author: &Value| {
            let part = |key: &str| {
                author.get(key).and_then(Value::as_str).map(|name| one_line(&without_markup(name), MAX_NAME_CHARS))
            };
            let literal = part("literal").or_else(|| part("name"));
            let family = match (part("non-dropping-particle"), part("family")) {
                (Some(particle), Some(family)) => Some(format!("{particle} {family}")),
                (_, family) => family,
            };
            let name = match family {
                Some(family) => AuthorName { family, given: part("given").unwrap_or_default() },
                None => AuthorName { family: literal?, given: String::new() },
            };
            Some(name).filter(|name| !name.family.is_empty())
        };
        let authors = csl.get("author").and_then(Value::as_array).into_iter().flatten();
        let year = |key: &str| {
            let first = csl.get(key)?.get("date-parts")?.get(0)?.get(0)?;
            first.as_i64().or_else(|| first.as_str()?.parse().ok()).and_then(|year| i16::try_from(year).ok())
        };
        Some(Self {
            title: Some(text("title")?),
            authors: authors.filter_map(author).take(MAX_AUTHORS).collect(),
            year: year("issued").or_else(|| year("published")).filter(|year| (1000..=9999).contains(year)),
            published_in: text("container-title"),
            entry_type: csl.get("type").and_then(Value::as_str).map(entry_type),
            url: None,
            doi: None,
        })
    }

    /// Whether an answer is one of arXiv, and not such as a page about too many requests.
    pub fn is_feed(atom: &[u8]) -> bool {
        Feed::read_from(atom).is_ok()
    }

    /// Reads the answer of arXiv; none if it does not have the paper.
    pub fn from_atom(atom: &[u8]) -> Option<Self> {
        let feed = Feed::read_from(atom).ok()?;
        let entry = feed.entries().first().filter(|entry| !entry.id().contains("/api/errors"))?;
        let extension = |entry: &Entry, name: &str| {
            let value = entry.extensions().get("arxiv")?.get(name)?.first()?.value()?;
            Some(one_line(value, MAX_TITLE_CHARS)).filter(|value| !value.is_empty())
        };
        let title = one_line(&without_markup(entry.title().as_str()), MAX_TITLE_CHARS);
        let date = entry.published().unwrap_or_else(|| entry.updated());
        let doi = extension(entry, "doi").and_then(|doi| match PaperId::parse_doi("doi", &doi).ok()? {
            PaperId::Doi(doi) => Some(doi),
            PaperId::Arxiv(_) => None,
        });
        (!title.is_empty()).then(|| Self {
            title: Some(title),
            authors: entry.authors().iter().map(|author| AuthorName::parse(author.name())).take(MAX_AUTHORS).collect(),
            year: date.format("%Y").to_string().parse().ok(),
            published_in: extension(entry, "journal_ref"),
            entry_type: Some("misc"),
            url: None,
            doi,
        })
    }
}

/// The type in BibTeX of a type in CSL.
fn entry_type(csl: &str) -> &'static str {
    match csl {
        "article-journal" | "journal-article" | "article-magazine" => "article",
        "paper-conference" | "proceedings-article" => "inproceedings",
        "book" | "monograph" => "book",
        "chapter" | "book-chapter" => "incollection",
        "thesis" | "dissertation" => "phdthesis",
        "report" => "techreport",
        _ => "misc",
    }
}

/// A text on one line without hidden characters, cut at a number of characters.
pub fn one_line(text: &str, max_chars: usize) -> String {
    let text: String = text.chars().filter(|character| !is_hidden(*character)).collect();
    let words = text.split(|character: char| character.is_whitespace() || character.is_control());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join(" ").chars().take(max_chars).collect::<String>().trim_end().to_owned()
}

/// Whether a character is not seen, or changes the order of others.
const fn is_hidden(character: char) -> bool {
    matches!(character, '\u{200b}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// A title without tags and with the characters that its entities mean: registries send parts of
/// HTML and of JATS.
fn without_markup(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        plain.push_str(&rest[..start]);
        rest = &rest[start..];
        let is_tag = rest[1..].starts_with(|character: char| character.is_ascii_alphabetic() || character == '/');
        match rest.find('>').filter(|_| is_tag) {
            Some(end) => rest = &rest[end + 1..],
            None => {
                plain.push('<');
                rest = &rest[1..];
            }
        }
    }
    plain.push_str(rest);
    [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")]
        .into_iter()
        .fold(plain, |text, (entity, character)| text.replace(entity, character))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn csl_of_several_registries_is_read() {
        let crossref = json!({ "type": "article-journal", "title": "A <i>new</i>\n  method &amp; more", "DOI": "10.1/x",
            "author": [{ "family": "Lee", "given": "Ann" }, { "literal": "The Group" }, { "family": "Maaten", "non-dropping-particle": "van der" }, {}],
            "issued": { "date-parts": [[2021, 3]] }, "container-title": ["Journal of X"] });
        let read = PaperMetadata::from_csl(&crossref).unwrap();
        assert_eq!(read.title.as_deref(), Some("A new method & more"));
        let names: Vec<String> = read.authors.iter().map(AuthorName::display).collect();
        assert_eq!(names, ["Ann Lee", "The Group", "van der Maaten"]);
        assert_eq!(
            (read.year, read.published_in.as_deref(), read.entry_type),
            (Some(2021), Some("Journal of X"), Some("article"))
        );
        for csl in [json!({}), json!([]), json!("text"), json!({ "title": "" }), json!({ "title": 7 })] {
            assert_eq!(PaperMetadata::from_csl(&csl), None, "{csl}");
        }
        let odd = json!({ "title": ["x".repeat(9_000)], "author": "Ann", "issued": { "date-parts": [["99999"]] } });
        let read = PaperMetadata::from_csl(&odd).unwrap();
        assert_eq!((read.title.unwrap().len(), read.authors.len(), read.year), (500, 0, None));
        let many = json!({ "title": "x", "author": vec![json!({ "family": "A" }); 500] });
        assert_eq!(PaperMetadata::from_csl(&many).unwrap().authors.len(), 100);
        assert_eq!(one_line(" \u{202e}a\u{200b}\n\u{7}b\u{feff} ", 9), "a b");
        assert_eq!(without_markup("a < b <x> c </b"), "a < b  c </b");
    }

    #[test]
    fn answers_of_arxiv_are_read() {
        let atom = |entry: &str| {
            format!(
                "<?xml version=\"1.0\"?><feed xmlns=\"http://www.w3.org/2005/Atom\" xmlns:arxiv=\"http://arxiv.org/schemas/atom\">\
                 <id>q</id><title>q</title><updated>2024-01-01T00:00:00Z</updated>{entry}</feed>"
            )
        };
        let entry = atom(
            "<entry><id>http://arxiv.org/abs/1706.03762v7</id><published>2017-06-12T17:57:34Z</published>\
             <updated>2023-08-02T00:41:18Z</updated><title>Attention Is\n  All You Need</title><summary>s</summary>\
             <author><name>Ashish Vaswani</name></author><author><name>Noam Shazeer</name></author>\
             <arxiv:doi>10.1000/ABC</arxiv:doi><arxiv:journal_ref>NeurIPS 2017</arxiv:journal_ref></entry>",
        );
        let read = PaperMetadata::from_atom(entry.as_bytes()).unwrap();
        assert_eq!((read.title.as_deref(), read.year), (Some("Attention Is All You Need"), Some(2017)));
        assert_eq!(read.authors[0], AuthorName { family: "Vaswani".to_owned(), given: "Ashish".to_owned() });
        assert_eq!((read.doi.as_deref(), read.published_in.as_deref()), (Some("10.1000/abc"), Some("NeurIPS 2017")));
        let error = "<entry><id>http://arxiv.org/api/errors#x</id><title>Error</title><updated>2024-01-01T00:00:00Z</updated></entry>";
        for text in [atom(""), atom(error), "no xml".to_owned(), String::new()] {
            assert_eq!(PaperMetadata::from_atom(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn names_are_divided_into_surname_and_other_names() {
        for (text, family, given) in [
            ("Ann Lee", "Lee", "Ann"),
            ("Lee, Ann M.", "Lee", "Ann M."),
            ("Ludwig van Beethoven", "van Beethoven", "Ludwig"),
            ("de la Cruz", "de la Cruz", ""),
            ("王小明", "王小明", ""),
            ("WHO", "WHO", ""),
            ("", "", ""),
        ] {
            let name = AuthorName::parse(text);
            assert_eq!((&*name.family, &*name.given), (family, given), "{text}");
        }
    }
}
