//! Conditions, read as the standards write them and written anew as dav-server reads them. It takes one that it cannot read for none: a write that was to
//! be done under a condition would be done without.

use winnow::Parser;
use winnow::Result;
use winnow::ascii::{Caseless, space0};
use winnow::combinator::{alt, delimited, opt, repeat, separated};
use winnow::token::take_till;

/// A resource that is none of ours, whatever its address is.
const ELSEWHERE: &str = "urn:elsewhere";

/// The header `If` (RFC 4918 10.4.2) without blanks in what stands in brackets, its resources as whole addresses, of which dav-server heeds the path;
/// none for one that is none.
///
/// Why is a resource said before each of its lists? Because dav-server takes only the first one for its.
pub(crate) fn of_dav(header: &str) -> Option<String> {
    let of_resources = repeat::<_, _, Vec<String>, _, _>(
        1..,
        (resource, lists).map(|(resource, lists)| {
            lists.iter().map(|list| format!("<{resource}> {list}")).collect::<Vec<_>>().join(" ")
        }),
    );
    let mut whole = delimited(space0, alt((of_resources, lists)), space0);
    whole.parse(header).ok().map(|lists| lists.join(" "))
}

/// `If-Match` and `If-None-Match` (RFC 9110 13.1): the tags, weak ones as if they were not, where that `is_weak_enough`; none for what is none.
pub(crate) fn of_tags(header: &str, is_weak_enough: bool) -> Option<String> {
    let any = "*".map(|any: &str| vec![Some(any.to_owned())]);
    // Nothing between two commas is nothing (RFC 9110 5.6.1).
    let tags = separated(1.., delimited(space0, opt(tag), space0), ",");
    let tags: Vec<Option<String>> = delimited(space0, alt((any, tags)), space0).parse(header).ok()?;
    let strong = |tag: String| tag.strip_prefix("W/").filter(|_| is_weak_enough).map(str::to_owned).unwrap_or(tag);
    let tags: Vec<_> = tags.into_iter().flatten().map(strong).collect();
    (!tags.is_empty()).then(|| tags.join(", "))
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
fn resource(input: &mut &str) -> Result<String> {
    let placed = |url: &str| match url.split_once("://") {
        _ if url.starts_with("//") => None,
        _ if url.starts_with('/') => Some(here(url)),
        _ if !is_absolute(url) => None,
        Some((_, rest)) => Some(here(rest.find('/').map_or("/", |slash| &rest[slash..]))),
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
    use super::{of_dav, of_tags};

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
            assert_eq!(of_dav(told).as_deref(), Some(as_read));
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
            assert_eq!(of_dav(other), None, "{other}");
        }
    }

    #[test]
    fn tags_are_read_as_the_standard_writes_them() {
        for (told, as_read) in [("*", "*"), (" \"a\" , W/\"b\",,\"c,d\",", "\"a\", W/\"b\", \"c_d\""), ("\"\"", "\"\"")]
        {
            assert_eq!(of_tags(told, false).as_deref(), Some(as_read));
        }
        assert_eq!(of_tags("W/\"b\"", true).as_deref(), Some("\"b\""));
        for other in ["", ",", "a", "\"", "W/\"", "w/\"a\"", "*, \"a\"", "\"a\" \"b\"", "\"a\"b\"", "W/ \"a\""] {
            assert_eq!(of_tags(other, false), None, "{other}");
        }
    }
}
