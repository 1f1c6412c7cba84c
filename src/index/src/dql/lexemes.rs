//! Lexer: names, numbers, texts, dates, keywords. Each rule also consumes trailing blanks.

use winnow::Parser;
use winnow::combinator::{delimited, opt, peek, preceded, repeat};
use winnow::error::ErrMode;
use winnow::stream::{LocatingSlice, Location};
use winnow::token::{any, one_of, take_till, take_while};

use super::problem::{Outcome, QueryProblem, excerpt, expected, refuse};
use crate::dates::WrittenDate;
use crate::value::{DateLength, Value};

pub(crate) type LexerInput<'i> = LocatingSlice<&'i str>;

/// Words that are not field names, unless in back-ticks.
pub(crate) const RESERVED: [&str; 22] = [
    "AND", "AS", "ASC", "BETWEEN", "BY", "DESC", "FALSE", "FLATTEN", "FROM", "GROUP", "IN", "IS", "LIKE", "LIMIT",
    "NIL", "NOT", "NULL", "OFFSET", "OR", "SORT", "TRUE", "WHERE",
];

pub(crate) fn blanks(input: &mut LexerInput<'_>) -> Outcome<()> {
    take_while(0.., char::is_whitespace).void().parse_next(input)
}

pub(crate) fn sign<'i>(sign: &'static str) -> impl Parser<LexerInput<'i>, &'i str, ErrMode<QueryProblem>> {
    (sign, blanks).map(|(sign, ())| sign)
}

pub(crate) fn takes_sign(input: &mut LexerInput<'_>, text: &'static str) -> Outcome<bool> {
    Ok(opt(sign(text)).parse_next(input)?.is_some())
}

pub(crate) fn expect_sign(input: &mut LexerInput<'_>, text: &'static str, why: &str) -> Outcome<()> {
    if takes_sign(input, text)? { Ok(()) } else { expected(input, why) }
}

const fn is_name_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || !c.is_ascii()
}

fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// One key of a field: letters, digits, `_`, and `-` between them.
fn key<'i>(input: &mut LexerInput<'i>) -> Outcome<&'i str> {
    let dashed = (take_while(1.., '-'), take_while(1.., is_name_char));
    (
        any.verify(|c: &char| is_name_start(*c) && (is_name_char(*c))),
        take_while(0.., is_name_char),
        repeat::<_, _, (), _, _>(0.., dashed),
    )
        .take()
        .parse_next(input)
}

/// The next word, not consumed: a possible keyword.
pub(crate) fn next_word<'i>(input: &mut LexerInput<'i>) -> Option<&'i str> {
    peek(key).parse_next(input).ok()
}

pub(crate) fn take_word(input: &mut LexerInput<'_>) -> Outcome<()> {
    (key, blanks).void().parse_next(input)
}

pub(crate) fn takes_word(input: &mut LexerInput<'_>, keyword: &str) -> Outcome<bool> {
    if next_word(input).is_some_and(|word| word.eq_ignore_ascii_case(keyword)) {
        take_word(input)?;
        return Ok(true);
    }
    Ok(false)
}

pub(crate) fn is_reserved(word: &str) -> bool {
    RESERVED.iter().any(|reserved| reserved.eq_ignore_ascii_case(word))
}

/// One step of a path into a value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum ValueStep {
    Key(String),
    /// An item of a list, from 0.
    Index(usize),
    /// Any item of a list; a single value counts as a list of one.
    Any,
}

const MAX_STEPS: usize = 16;

/// A field: `status`, `author.name`, `tags[0]`, `sources[*].id`, `` `odd name` ``.
pub(crate) fn field(input: &mut LexerInput<'_>) -> Outcome<Vec<ValueStep>> {
    let mut steps = vec![ValueStep::Key(name(input)?)];
    loop {
        if steps.len() > MAX_STEPS {
            return refuse(input, format!("a field has at most {MAX_STEPS} steps"));
        }
        if let Some(step) = opt(index).parse_next(input)? {
            steps.push(step);
        } else if let Some(next) = opt(preceded('.', name)).parse_next(input)? {
            steps.push(ValueStep::Key(next));
        } else {
            blanks(input)?;
            return Ok(steps);
        }
    }
}

fn name(input: &mut LexerInput<'_>) -> Outcome<String> {
    match opt(quoted_name).parse_next(input)? {
        Some(name) => Ok(name),
        None => key.map(str::to_owned).parse_next(input),
    }
}

fn quoted_name(input: &mut LexerInput<'_>) -> Outcome<String> {
    let origin = *input;
    '`'.parse_next(input)?;
    match (take_till(1.., '`'), '`').parse_next(input) {
        Ok((name, _)) => Ok(name.to_owned()),
        Err(ErrMode::Backtrack(_) | ErrMode::Incomplete(_)) => refuse(&origin, "the back-tick is not closed, or empty"),
        Err(error) => Err(error),
    }
}

fn index(input: &mut LexerInput<'_>) -> Outcome<ValueStep> {
    let origin = *input;
    '['.parse_next(input)?;
    let inside = (take_till(0..12, [']', '\n']), opt(']')).parse_next(input)?;
    match inside {
        ("*", Some(_)) => Ok(ValueStep::Any),
        (number, Some(_)) if number.bytes().all(|byte| byte.is_ascii_digit()) && !number.is_empty() => {
            number.parse().map(ValueStep::Index).or_else(|_| refuse(&origin, "the index is too large"))
        }
        _ => refuse(&origin, "after a field, `[` takes an index such as `[0]`, or `[*]` for any item"),
    }
}

/// A column name: a word, or a text in quotes or back-ticks.
pub(crate) fn alias(input: &mut LexerInput<'_>) -> Outcome<String> {
    if let Some(text) = opt(text).parse_next(input)? {
        return Ok(text);
    }
    let origin = *input;
    match (name, blanks).parse_next(input) {
        Ok((name, ())) => Ok(name),
        Err(ErrMode::Backtrack(_)) => expected(&origin, "a name after AS"),
        Err(error) => Err(error),
    }
}

/// A quoted text with the escapes `\"`, `\'`, `\\`, `\n` and `\t`. Every other backslash is
/// literal, so that regular expressions need no double backslashes.
pub(crate) fn text(input: &mut LexerInput<'_>) -> Outcome<String> {
    let origin = *input;
    let quote = one_of(['"', '\'']).parse_next(input)?;
    let mut text = String::new();
    loop {
        text.push_str(take_till(0.., [quote, '\\']).parse_next(input)?);
        match opt(any).parse_next(input)? {
            None => return refuse(&origin, format!("the text that starts here has no closing {quote}")),
            Some('\\') => match opt(any).parse_next(input)? {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some(escaped @ ('"' | '\'' | '\\')) => text.push(escaped),
                Some(other) => text.extend(['\\', other]),
                None => return refuse(&origin, format!("the text that starts here has no closing {quote}")),
            },
            Some(_) => {
                blanks(input)?;
                return Ok(text);
            }
        }
    }
}

/// A number (`3`, `1.5`), a date (`2026-01-31`, `2026-01-31T12:00:00Z`) or a time span (`7d`,
/// `1h30min`).
pub(crate) fn measure(input: &mut LexerInput<'_>) -> Outcome<Value> {
    let origin = *input;
    let written = peek(take_while(1.., |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '-' | '+')))
        .verify(|text: &str| text.starts_with(|c: char| c.is_ascii_digit()))
        .parse_next(input)?;
    if written.as_bytes().get(4) == Some(&b'-') && written[..4].bytes().all(|byte| byte.is_ascii_digit()) {
        let Some(date) = WrittenDate::parse(written) else {
            return refuse(&origin, format!("`{}` is not a date; write it like 2026-01-31", excerpt(written)));
        };
        (winnow::token::take(written.len()), blanks).parse_next(input)?;
        return Ok(match date {
            WrittenDate::Day(day) => Value::Day(day),
            WrittenDate::Instant(instant) => Value::Instant(instant),
        });
    }
    let digits = take_while(1.., |c: char| c.is_ascii_digit());
    let fraction = opt(('.', take_while(1.., |c: char| c.is_ascii_digit())));
    let exponent = opt((one_of(['e', 'E']), opt(one_of(['+', '-'])), take_while(1.., |c: char| c.is_ascii_digit())));
    let number = (digits, fraction, exponent).take().parse_next(input)?;
    let unit = take_while(0.., char::is_alphabetic).parse_next(input)?;
    if unit.is_empty() {
        blanks(input)?;
        return match (number.parse(), number.parse::<f64>()) {
            (Ok(integer), _) => Ok(Value::Integer(integer)),
            (Err(_), Ok(real)) if real.is_finite() => Ok(Value::Real(real)),
            _ => refuse(&origin, format!("the number `{}` is too large", excerpt(number))),
        };
    }
    let mut length = parse_length(&origin, number, unit)?;
    while let Some((number, unit)) =
        opt((take_while(1.., |c: char| c.is_ascii_digit()), take_while(1.., char::is_alphabetic))).parse_next(input)?
    {
        let Some(sum) = length.plus(parse_length(&origin, number, unit)?) else {
            return refuse(&origin, "the time span is too long");
        };
        length = sum;
    }
    blanks(input)?;
    Ok(Value::Length(length))
}

fn parse_length(origin: &LexerInput<'_>, number: &str, unit: &str) -> Outcome<DateLength> {
    if unit == "m" {
        return refuse(origin, format!("`{number}m` may be minutes or months; write `{number}min` or `{number}mo`"));
    }
    let length = number.parse().ok().and_then(|count| DateLength::of(count, unit));
    length.map_or_else(
        || {
            let text = format!("{number}{unit}");
            let message =
                format!("`{}` is not a time span; write whole s, min, h, d, w, mo or y, such as `7d`", excerpt(&text));
            refuse(origin, message)
        },
        Ok,
    )
}

/// A non-negative integer, for LIMIT and OFFSET.
pub(crate) fn count(input: &mut LexerInput<'_>, clause: &str) -> Outcome<u64> {
    let origin = *input;
    match opt(measure).parse_next(input)? {
        Some(Value::Integer(count)) => count.try_into().or_else(|_| expected(&origin, "a number")),
        _ => expected(&origin, &format!("a whole number after {clause}")),
    }
}

pub(crate) fn offset(input: &LexerInput<'_>) -> usize {
    input.current_token_start()
}

/// An unquoted path after FROM, up to the next blank or parenthesis.
pub(crate) fn bare_path<'i>(input: &mut LexerInput<'i>) -> Outcome<&'i str> {
    let path = take_while(1.., |c: char| !c.is_whitespace() && !matches!(c, '(' | ')' | ',' | '"' | '\'' | '#' | '`'));
    delimited(winnow::combinator::empty, path, blanks).parse_next(input)
}

pub(crate) fn tag<'i>(input: &mut LexerInput<'i>) -> Outcome<&'i str> {
    let word = take_while(1.., |c: char| !c.is_whitespace() && !matches!(c, '(' | ')' | ',' | '"' | '\'' | '#' | '`'));
    delimited('#', word, blanks).parse_next(input)
}
