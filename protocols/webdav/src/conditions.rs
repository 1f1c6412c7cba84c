//! Conditions, read as the standards write them and written anew as dav-server reads them. It takes one that it cannot read for none: a write that was to
//! be done under a condition would be done without.
//!
//! Of a list of ETags (`If-Match`, `If-None-Match`) a value that is no ETag matches nothing (gaps.md D46): clients send invented ones.

use winnow::Parser;
use winnow::Result;
use winnow::ascii::{Caseless, space0};
use winnow::combinator::{alt, delimited, eof, opt, repeat};
use winnow::token::take_till;

/// A resource that is none of ours, whatever its address is.
const ELSEWHERE: &str = "urn:elsewhere";

/// The header `If` (RFC 4918 10.4.2) without blanks in what stands in brackets, its resources as whole addresses, of which dav-server heeds the path;
/// none for one that is none.
///
/// Why is a resource said before each of its lists? Because dav-server takes only the first one for its.
pub(crate) fn of_dav(header: &str, path_of: &dyn Fn(&str) -> String) -> Option<String> {
    let of_resources = repeat::<_, _, Vec<String>, _, _>(
        1..,
        (|input: &mut &str| resource(input, path_of), lists).map(|(resource, lists)| {
            lists.iter().map(|list| format!("<{resource}> {list}")).collect::<Vec<_>>().join(" ")
        }),
    );
    let mut whole = delimited(space0, alt((of_resources, lists)), space0);
    whole.parse(header).ok().map(|lists| lists.join(" "))
}

/// An ETag that no file has.
const NO_FILE: &str = "\"-\"";

/// `If-Match` (RFC 9110 13.1.1): `*`, or those of the values that are ETags; where none is, one that matches nothing.
pub(crate) fn of_match(header: &str) -> String {
    let values = values(header);
    if values.len() == 1 && values.first().is_some_and(ConditionValue::is_any) {
        return "*".to_owned();
    }
    let tags: Vec<_> = values.into_iter().filter_map(ConditionValue::into_tag).collect();
    if tags.is_empty() { NO_FILE.to_owned() } else { tags.join(", ") }
}

/// `If-None-Match` (RFC 9110 13.1.2): `*`, or those of the values that are ETags, weak ones as if they were not; none where none is, which holds.
///
/// Why `*` among other values? Because a client that means "create only" must never replace a file.
pub(crate) fn of_none_match(header: &str) -> Option<String> {
    let values = values(header);
    if values.iter().any(ConditionValue::is_any) {
        return Some("*".to_owned());
    }
    let strong = |tag: String| tag.strip_prefix("W/").map(str::to_owned).unwrap_or(tag);
    let tags: Vec<_> = values.into_iter().filter_map(ConditionValue::into_tag).map(strong).collect();
    (!tags.is_empty()).then(|| tags.join(", "))
}

/// One value of a list.
#[derive(Debug, PartialEq, Eq)]
enum ConditionValue {
    Tag(String),
    /// No ETag.
    Other(String),
}

impl ConditionValue {
    fn is_any(&self) -> bool {
        matches!(self, Self::Other(text) if text == "*")
    }
    fn into_tag(self) -> Option<String> {
        match self {
            Self::Tag(tag) => Some(tag),
            Self::Other(_) => None,
        }
    }
}

/// The values of a list; nothing between two commas is nothing (RFC 9110 5.6.1). A comma in an ETag does not end it.
fn values(mut header: &str) -> Vec<ConditionValue> {
    let mut values = Vec::new();
    loop {
        let ends = alt((",", eof));
        // Of what is no ETag nothing may be consumed: its rest could be one.
        let mut rest = header;
        let tag: Result<String> = delimited(space0, tag, (space0, ends)).parse_next(&mut rest);
        match tag {
            Ok(tag) => values.push(ConditionValue::Tag(tag)),
            Err(_) => {
                let (value, behind) = header.split_once(',').unwrap_or((header, ""));
                rest = behind;
                let value = value.trim();
                values.extend((!value.is_empty()).then(|| ConditionValue::Other(value.to_owned())));
            }
        }
        header = rest;
        if header.is_empty() {
            return values;
        }
    }
}

/// Whether it is one tag.
pub(crate) fn is_tag(text: &str) -> bool {
    tag.parse(text).is_ok()
}

fn lists(input: &mut &str) -> Result<Vec<String>> {
    repeat(1.., list).parse_next(input)
}

fn list(input: &mut &str) -> Result<String> {
    let conditions = repeat::<_, _, Vec<String>, _, _>(1.., condition);
    let conditions = delimited(padded("("), conditions, padded(")"));
    conditions.map(|conditions| format!("({})", conditions.join(" "))).parse_next(input)
}

fn condition(input: &mut &str) -> Result<String> {
    let token = url.verify(|url: &str| is_absolute(url)).map(|url| format!("<{url}>"));
    let tag = delimited(padded("["), tag, padded("]")).map(|tag| format!("[{tag}]"));
    let not = opt(padded("Not")).map(|not| not.map_or("", |_| "Not "));
    (not, alt((token, tag))).map(|(not, what)| format!("{not}{what}")).parse_next(input)
}

/// A resource: an address, or the path of one.
fn resource(input: &mut &str, path_of: &dyn Fn(&str) -> String) -> Result<String> {
    let placed = |url: &str| match url.split_once("://") {
        _ if url.starts_with("//") => None,
        _ if url.starts_with('/') => Some(here(&path_of(url))),
        _ if !is_absolute(url) => None,
        Some((_, rest)) => Some(here(&path_of(rest.find('/').map_or("/", |slash| &rest[slash..])))),
        None => Some(ELSEWHERE.to_owned()),
    };
    url.verify_map(placed).parse_next(input)
}

/// A whole address of a path. What would be taken for a slash in it is none.
fn here(path: &str) -> String {
    format!("http://localhost{}", path.replace('\\', "%5C"))
}

/// A coded URL.
fn url<'a>(input: &mut &'a str) -> Result<&'a str> {
    let ends = |letter: char| matches!(letter, '<' | '>' | '"') || !letter.is_ascii_graphic();
    delimited(padded("<"), take_till(1.., ends), padded(">")).parse_next(input)
}

/// Whether it begins with a scheme (RFC 3986 3.1).
fn is_absolute(url: &str) -> bool {
    let is_of_scheme = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '+' | '-' | '.');
    url.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic()) && scheme.chars().all(is_of_scheme)
    })
}

/// An ETag. What dav-server would end it at has no tag of ours in it: whatever stands there instead, it is another one.
fn tag(input: &mut &str) -> Result<String> {
    let tag = (opt("W/"), delimited("\"", take_till(0.., '"'), "\""));
    let written = |(weak, tag): (Option<&str>, &str)| {
        format!("{}\"{}\"", weak.unwrap_or_default(), tag.replace([' ', '\t', ','], "_"))
    };
    tag.map(written).parse_next(input)
}

/// A word with blanks around it.
fn padded<'a>(word: &'static str) -> impl Parser<&'a str, &'a str, winnow::error::ContextError> {
    delimited(space0, Caseless(word), space0)
}

#[cfg(test)]
mod tests {
    use super::{NO_FILE, of_dav, of_match, of_none_match};

    #[test]
    fn a_condition_is_read_as_the_standard_writes_it() {
        for (told, as_read) in [
            (
                "(<urn:uuid:181d4fae-7d8c-11d0-a765-00a0c91e6bf2> [\"I am an ETag\"]) ([\"I am another ETag\"])",
                "(<urn:uuid:181d4fae-7d8c-11d0-a765-00a0c91e6bf2> [\"I_am_an_ETag\"]) ([\"I_am_another_ETag\"])",
            ),
            ("(Not <urn:uuid:181d4fae> <urn:uuid:58f202ac>)", "(Not <urn:uuid:181d4fae> <urn:uuid:58f202ac>)"),
            ("(<urn:uuid:181d4fae>) (Not <DAV:no-lock>)", "(<urn:uuid:181d4fae>) (Not <DAV:no-lock>)"),
            (
                "</resource1> (<urn:uuid:181d4fae> [W/\"A weak ETag\"]) ([\"strong ETag\"])",
                "<http://localhost/resource1> (<urn:uuid:181d4fae> [W/\"A_weak_ETag\"]) <http://localhost/resource1> ([\"strong_ETag\"])",
            ),
            (
                "<http://www.example.com/specs/> (<urn:uuid:181d4fae>)</a>([\"4217\"])",
                "<http://localhost/specs/> (<urn:uuid:181d4fae>) <http://localhost/a> ([\"4217\"])",
            ),
            ("<urn:x>(not< urn:y >[ \"z\" ])", "<urn:elsewhere> (Not <urn:y> [\"z\"])"),
            ("</a\\b>([\"\"])", "<http://localhost/a%5Cb> ([\"\"])"),
        ] {
            assert_eq!(of_dav(told, &str::to_owned).as_deref(), Some(as_read));
        }
        for other in [
            "",
            "(",
            "()",
            "((",
            "(<a>",
            "(<a>)",
            "([nope])",
            "([\"nope\"]) junk",
            "<a:>",
            "(<a:>) <b>",
            "urn:x",
            "(Not)",
            "(Not Not <a:>)",
            "<a> (<b:>)",
            "<//a> (<b:>)",
            "(<a:\">)",
            "(<:>)",
            "(<a: b>)",
        ] {
            assert_eq!(of_dav(other, &str::to_owned), None, "{other}");
        }
    }

    #[test]
    fn tags_are_read_as_the_standard_writes_them() {
        for (told, as_read) in [("*", "*"), (" \"a\" , W/\"b\",,\"c,d\",", "\"a\", W/\"b\", \"c_d\""), ("\"\"", "\"\"")]
        {
            assert_eq!(of_match(told), as_read);
        }
        assert_eq!(of_none_match("W/\"b\"").as_deref(), Some("\"b\""));
    }

    #[test]
    fn a_value_that_is_no_tag_matches_nothing() {
        let others = ["", ",", "a", "\"", "W/\"", "w/\"a\"", "\"a\" \"b\"", "\"a\"b\"", "W/ \"a\"", "-1", "\u{fffd}"];
        for other in others {
            assert_eq!(of_match(other), NO_FILE, "{other}");
            assert_eq!(of_none_match(other), None, "{other}");
        }
        assert_eq!(of_match("\"e\"*"), NO_FILE);
        assert_eq!(of_none_match("\"e\"*"), None);
        assert_eq!(of_match("nope, \"a\", x"), "\"a\"");
        assert_eq!(of_none_match("nope, \"a\", x").as_deref(), Some("\"a\""));
        // Never replaced where it says `*`, never taken for whatever stands there.
        assert_eq!(of_match("*, \"a\""), "\"a\"");
        assert_eq!(of_none_match("*, \"a\"").as_deref(), Some("*"));
    }
}
