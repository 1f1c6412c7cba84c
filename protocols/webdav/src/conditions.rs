//! Whether the header `If` (RFC 4918 10.4.2) can be read. dav-server, which heeds it, takes one that it cannot read for none: a write that was to be
//! done under a condition would be done without.

use winnow::Parser;
use winnow::Result;
use winnow::ascii::space0;
use winnow::combinator::{alt, delimited, opt, preceded, repeat};
use winnow::token::take_till;

/// Whether it is what the standard says it is.
pub(crate) fn is_readable(header: &str) -> bool {
    let one_by_one = repeat::<_, _, (), _, _>(1.., list);
    let by_resource = repeat::<_, _, (), _, _>(1.., (url, repeat::<_, _, (), _, _>(1.., list)));
    let mut whole = (space0, alt((by_resource, one_by_one)), space0);
    whole.parse(header).is_ok()
}

fn list(input: &mut &str) -> Result<()> {
    let conditions = repeat::<_, _, (), _, _>(1.., condition);
    delimited(padded("("), conditions, padded(")")).parse_next(input)
}

fn condition(input: &mut &str) -> Result<()> {
    preceded(opt(padded("Not")), alt((url, delimited(padded("["), tag, padded("]"))))).parse_next(input)
}

/// A coded URL: the token of a lock, or a resource.
fn url(input: &mut &str) -> Result<()> {
    delimited(padded("<"), take_till(1.., ['<', '>', ' ']), padded(">")).void().parse_next(input)
}

fn tag(input: &mut &str) -> Result<()> {
    (opt("W/"), "\"", take_till(0.., '"'), "\"").void().parse_next(input)
}

/// A word with blanks around it.
fn padded<'a>(word: &'static str) -> impl Parser<&'a str, &'a str, winnow::error::ContextError> {
    delimited(space0, word, space0)
}

#[cfg(test)]
mod tests {
    use super::is_readable;

    #[test]
    fn a_condition_is_read_as_the_standard_writes_it() {
        for readable in [
            "(<urn:uuid:181d4fae-7d8c-11d0-a765-00a0c91e6bf2> [\"I am an ETag\"]) ([\"I am another ETag\"])",
            "(Not <urn:uuid:181d4fae> <urn:uuid:58f202ac>)",
            "(<urn:uuid:181d4fae>) (Not <DAV:no-lock>)",
            "</resource1> (<urn:uuid:181d4fae> [W/\"A weak ETag\"]) ([\"strong ETag\"])",
            "<http://www.example.com/specs/> (<urn:uuid:181d4fae>)</a>([\"4217\"])",
        ] {
            assert!(is_readable(readable), "{readable}");
        }
        for other in
            ["", "(", "()", "((", "(<a>", "([nope])", "([\"nope\"]) junk", "<a>", "(<a>) <b>", "urn:x", "(Not)"]
        {
            assert!(!is_readable(other), "{other}");
        }
    }
}
