//! Parses preconditions as the standards define them, and rewrites them for dav-server. dav-server
//! ignores a condition that it cannot parse, which would turn a conditional write into an
//! unconditional one.
//!
//! In a list of ETags (`If-Match`, `If-None-Match`) a value that is not an ETag matches nothing:
//! some clients send invented ones.

use winnow::Parser;
use winnow::Result;
use winnow::ascii::{Caseless, space0};
use winnow::combinator::{alt, delimited, eof, opt, repeat};
use winnow::token::take_till;

/// A resource on another server, whatever its URL is.
const FOREIGN_RESOURCE: &str = "urn:elsewhere";

/// Normalizes the header `If` (RFC 4918 10.4.2): no blanks inside brackets, and resources as
/// absolute URLs, of which dav-server reads the path. `None` if it is invalid.
///
/// The resource is repeated before each of its lists, because dav-server applies it to the first
/// one only.
pub(crate) fn normalize_if(header: &str, path_of: &dyn Fn(&str) -> String) -> Option<String> {
    let tagged_lists = repeat::<_, _, Vec<String>, _, _>(
        1..,
        (|input: &mut &str| resource(input, path_of), lists).map(|(resource, lists)| {
            lists.iter().map(|list| format!("<{resource}> {list}")).collect::<Vec<_>>().join(" ")
        }),
    );
    let mut parser = delimited(space0, alt((tagged_lists, lists)), space0);
    parser.parse(header).ok().map(|lists| lists.join(" "))
}

/// An ETag that no file has.
const UNMATCHED_ETAG: &str = "\"-\"";

/// Normalizes `If-Match` (RFC 9110 13.1.1): `*`, or the valid ETags; without any, one that matches
/// nothing.
pub(crate) fn normalize_if_match(header: &str) -> String {
    let values = values(header);
    if values.len() == 1 && values.first().is_some_and(ConditionValue::is_any) {
        return "*".to_owned();
    }
    let tags: Vec<_> = values.into_iter().filter_map(ConditionValue::into_tag).collect();
    if tags.is_empty() { UNMATCHED_ETAG.to_owned() } else { tags.join(", ") }
}

/// Normalizes `If-None-Match` (RFC 9110 13.1.2): `*`, or the valid ETags, weak ones as strong ones;
/// `None` without any, because the condition holds then.
///
/// `*` wins over other values: a client that means "create only" must never replace a file.
pub(crate) fn normalize_if_none_match(header: &str) -> Option<String> {
    let values = values(header);
    if values.iter().any(ConditionValue::is_any) {
        return Some("*".to_owned());
    }
    let strong = |tag: String| tag.strip_prefix("W/").map(str::to_owned).unwrap_or(tag);
    let tags: Vec<_> = values.into_iter().filter_map(ConditionValue::into_tag).map(strong).collect();
    (!tags.is_empty()).then(|| tags.join(", "))
}

/// A value of a list.
#[derive(Debug, PartialEq, Eq)]
enum ConditionValue {
    Tag(String),
    /// Not an ETag.
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

/// The values of a list, without empty ones (RFC 9110 5.6.1). A comma inside an ETag does not end
/// it.
fn values(mut header: &str) -> Vec<ConditionValue> {
    let mut values = Vec::new();
    loop {
        let end = alt((",", eof));
        // An invalid value must not be consumed partially: its rest could be a valid ETag.
        let mut rest = header;
        let tag: Result<String> = delimited(space0, tag, (space0, end)).parse_next(&mut rest);
        match tag {
            Ok(tag) => values.push(ConditionValue::Tag(tag)),
            Err(_) => {
                let (value, tail) = header.split_once(',').unwrap_or((header, ""));
                rest = tail;
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

/// Whether a text is one ETag.
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
    (not, alt((token, tag))).map(|(not, value)| format!("{not}{value}")).parse_next(input)
}

/// A resource: a URL, or the path of one.
fn resource(input: &mut &str, path_of: &dyn Fn(&str) -> String) -> Result<String> {
    let to_local_url = |url: &str| match url.split_once("://") {
        _ if url.starts_with("//") => None,
        _ if url.starts_with('/') => Some(local_url(&path_of(url))),
        _ if !is_absolute(url) => None,
        Some((_, rest)) => Some(local_url(&path_of(rest.find('/').map_or("/", |slash| &rest[slash..])))),
        None => Some(FOREIGN_RESOURCE.to_owned()),
    };
    url.verify_map(to_local_url).parse_next(input)
}

/// The local URL of a path. A backslash would be read as a slash.
fn local_url(path: &str) -> String {
    format!("http://localhost{}", path.replace('\\', "%5C"))
}

/// A coded URL.
fn url<'a>(input: &mut &'a str) -> Result<&'a str> {
    let end = |character: char| matches!(character, '<' | '>' | '"') || !character.is_ascii_graphic();
    delimited(padded("<"), take_till(1.., end), padded(">")).parse_next(input)
}

/// Whether it starts with a scheme (RFC 3986 3.1).
fn is_absolute(url: &str) -> bool {
    let is_of_scheme = |character: char| character.is_ascii_alphanumeric() || matches!(character, '+' | '-' | '.');
    url.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic()) && scheme.chars().all(is_of_scheme)
    })
}

/// An ETag. dav-server ends it at blanks and commas; none of this server's ETags contains these, so
/// replacing them keeps it different.
fn tag(input: &mut &str) -> Result<String> {
    let tag = (opt("W/"), delimited("\"", take_till(0.., '"'), "\""));
    let to_text = |(weak, tag): (Option<&str>, &str)| {
        format!("{}\"{}\"", weak.unwrap_or_default(), tag.replace([' ', '\t', ','], "_"))
    };
    tag.map(to_text).parse_next(input)
}

/// A token with optional blanks around it.
fn padded<'a>(word: &'static str) -> impl Parser<&'a str, &'a str, winnow::error::ContextError> {
    delimited(space0, Caseless(word), space0)
}

#[cfg(test)]
mod tests {
    use super::{UNMATCHED_ETAG, normalize_if, normalize_if_match, normalize_if_none_match};

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
            assert_eq!(normalize_if(told, &str::to_owned).as_deref(), Some(as_read));
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
            assert_eq!(normalize_if(other, &str::to_owned), None, "{other}");
        }
    }

    #[test]
    fn tags_are_read_as_the_standard_writes_them() {
        for (told, as_read) in [("*", "*"), (" \"a\" , W/\"b\",,\"c,d\",", "\"a\", W/\"b\", \"c_d\""), ("\"\"", "\"\"")]
        {
            assert_eq!(normalize_if_match(told), as_read);
        }
        assert_eq!(normalize_if_none_match("W/\"b\"").as_deref(), Some("\"b\""));
    }

    #[test]
    fn a_value_that_is_no_tag_matches_nothing() {
        let others = ["", ",", "a", "\"", "W/\"", "w/\"a\"", "\"a\" \"b\"", "\"a\"b\"", "W/ \"a\"", "-1", "\u{fffd}"];
        for other in others {
            assert_eq!(normalize_if_match(other), UNMATCHED_ETAG, "{other}");
            assert_eq!(normalize_if_none_match(other), None, "{other}");
        }
        assert_eq!(normalize_if_match("\"e\"*"), UNMATCHED_ETAG);
        assert_eq!(normalize_if_none_match("\"e\"*"), None);
        assert_eq!(normalize_if_match("nope, \"a\", x"), "\"a\"");
        assert_eq!(normalize_if_none_match("nope, \"a\", x").as_deref(), Some("\"a\""));
        // Never replaced where it says `*`, never taken for whatever stands there.
        assert_eq!(normalize_if_match("*, \"a\""), "\"a\"");
        assert_eq!(normalize_if_none_match("*, \"a\"").as_deref(), Some("*"));
    }
}
