//! Tokens: blanks, words, signs, strings.

use winnow::Parser;
use winnow::stream::{Location, Stream};
use winnow::token::take_while;

use super::problem::{Input, Parsed, refuse_at};

/// Skips blanks and comments (`//` at the start of a line).
pub(super) fn blanks(input: &mut Input<'_>) -> Parsed<()> {
    loop {
        let is_line_start = input.previous_token_end() == 0 || input.current_token_start() == 0;
        let text: &str = take_while(0.., char::is_whitespace).parse_next(input)?;
        if !(text.contains('\n') || is_line_start) || !input.starts_with("//") {
            return Ok(());
        }
        let _: &str = take_while(0.., |c| c != '\n').parse_next(input)?;
    }
}

pub(super) fn position(input: &Input<'_>) -> usize {
    input.current_token_start()
}

/// Takes a sign and the blanks after it.
pub(super) fn takes(input: &mut Input<'_>, sign: &str) -> Parsed<bool> {
    let is_next = input.starts_with(sign);
    if is_next {
        input.next_slice(sign.len());
        blanks(input)?;
    }
    Ok(is_next)
}

const fn is_symbol(c: char) -> bool {
    // Emoji and other symbols, but no punctuation such as `“` or `…`.
    !c.is_ascii() && !matches!(c, '\u{a0}' | '\u{2000}'..='\u{206f}' | '\u{3000}'..='\u{3003}')
}

pub(super) fn starts_word(c: char) -> bool {
    c.is_alphabetic() || c == '_' || is_symbol(c) && !c.is_whitespace()
}

pub(super) fn continues_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '\u{200d}' | '\u{fe0f}') || is_symbol(c) && !c.is_whitespace()
}

/// The word at the current position, without taking it.
pub(super) fn peek_word<'i>(input: &Input<'i>) -> Option<&'i str> {
    let rest: &'i str = input.as_ref();
    if !rest.starts_with(starts_word) {
        return None;
    }
    Some(&rest[..rest.find(|c| !continues_word(c)).unwrap_or(rest.len())])
}

/// Takes a word and nothing after it.
pub(super) fn word<'i>(input: &mut Input<'i>) -> Option<&'i str> {
    let word = peek_word(input)?;
    Some(input.next_slice(word.len()))
}

/// Takes a keyword in any case, and the blanks after it.
pub(super) fn takes_keyword(input: &mut Input<'_>, keyword: &str) -> Parsed<bool> {
    let is_next = peek_word(input).is_some_and(|word| word.eq_ignore_ascii_case(keyword));
    if is_next {
        input.next_slice(keyword.len());
        blanks(input)?;
    }
    Ok(is_next)
}

/// Takes a text in double quotes. `\"` and `\\` are escapes; other backslashes stay.
pub(super) fn quoted(input: &mut Input<'_>) -> Parsed<Option<String>> {
    if !input.starts_with('"') {
        return Ok(None);
    }
    let start = position(input);
    let rest: &str = input.as_ref();
    let mut text = String::new();
    let mut characters = rest.char_indices().skip(1);
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => {
                input.next_slice(at + 1);
                return Ok(Some(text));
            }
            '\\' => match characters.next() {
                Some((_, escaped @ ('"' | '\\'))) => text.push(escaped),
                Some((_, other)) => text.extend(['\\', other]),
                None => break,
            },
            c => text.push(c),
        }
    }
    refuse_at(start, "this text has no end; add `\"`")
}

/// Takes a tag with its `#`.
pub(super) fn tag(input: &mut Input<'_>) -> Option<String> {
    let rest: &str = input.as_ref();
    let body = rest.strip_prefix('#')?;
    let is_part = |c: char| continues_word(c) || c == '/';
    let end = body.find(|c| !is_part(c)).unwrap_or(body.len());
    let tag = format!("#{}", &body[..end]);
    (end > 0).then(|| {
        input.next_slice(end + 1);
        tag
    })
}
