//! Comments `%% … %%` and formulas `$ … $`, `$$ … $$`: inside, nothing is a link, a tag or a field.

use std::ops::Range;

use crate::frontmatter::SplitPage;

/// What a literal span is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LiteralKind {
    /// `%% … %%`, which readers do not see.
    Comment,
    /// `$ … $` in one line, or `$$ … $$`.
    Formula,
}

/// A comment or a formula, delimiters included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LiteralSpan {
    pub(crate) kind: LiteralKind,
    pub(crate) range: Range<usize>,
}

/// Answers, for ascending positions, whether one of these ranges covers them. The ranges are in
/// the order of their starts and may overlap.
#[derive(Clone)]
pub(crate) struct RangeCursor<'r> {
    ranges: &'r [Range<usize>],
    next: usize,
    end: usize,
}

impl<'r> RangeCursor<'r> {
    pub(crate) fn new(ranges: &'r [Range<usize>]) -> Self {
        Self { ranges, next: 0, end: 0 }
    }

    /// The end of the ranges that cover the byte at `at`.
    pub(crate) fn covered_until(&mut self, at: usize) -> Option<usize> {
        while let Some(range) = self.ranges.get(self.next).filter(|range| range.start <= at) {
            self.end = self.end.max(range.end);
            self.next += 1;
        }
        (at < self.end).then_some(self.end)
    }
}

/// The comments and formulas of a body, in order. Delimiters in the opaque ranges (code, HTML, link
/// targets) do not count; an opening delimiter without a closing one is text. All ranges refer to
/// the page.
pub(crate) fn literal_spans(split: &SplitPage<'_>, opaque: &[Range<usize>]) -> Vec<LiteralSpan> {
    let (body, offset) = (split.body, split.body_offset);
    if !body.contains('$') && !body.contains("%%") {
        return Vec::new();
    }
    let delimiters = scan_delimiters(body, offset, opaque);
    let mut matcher = DelimiterMatcher { text: body, delimiters: &delimiters, unmatched: Unmatched::default() };
    let mut spans = Vec::new();
    let mut index = 0;
    while let Some(open) = delimiters.get(index) {
        index += 1;
        let Some(close) = matcher.closing(index - 1, open) else { continue };
        let end = delimiters[close].at + delimiters[close].form.len();
        spans.push(LiteralSpan { kind: open.form.kind(), range: open.at + offset..end + offset });
        index = close + 1;
    }
    spans
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DelimiterForm {
    Percent,
    Dollars,
    Dollar,
}

impl DelimiterForm {
    const fn len(self) -> usize {
        match self {
            Self::Percent | Self::Dollars => 2,
            Self::Dollar => 1,
        }
    }
    const fn kind(self) -> LiteralKind {
        match self {
            Self::Percent => LiteralKind::Comment,
            Self::Dollars | Self::Dollar => LiteralKind::Formula,
        }
    }
}

struct Delimiter {
    form: DelimiterForm,
    at: usize,
    /// Lines of the body before it.
    line: usize,
}

/// The delimiters of a body that starts at `offset` of its page; their positions refer to the body.
fn scan_delimiters(text: &str, offset: usize, opaque: &[Range<usize>]) -> Vec<Delimiter> {
    let bytes = text.as_bytes();
    let mut covered = RangeCursor::new(opaque);
    let (mut delimiters, mut at, mut line, mut counted_to) = (Vec::new(), 0, 0, 0);
    while let Some(next) = text.get(at..).and_then(|rest| rest.find(['%', '$', '\\'])).map(|found| at + found) {
        if let Some(end) = covered.covered_until(next + offset) {
            at = (end - offset).max(next + 1);
            at = text.ceil_char_boundary(at);
            continue;
        }
        let is_double = bytes.get(next + 1) == Some(&bytes[next]);
        let form = match bytes[next] {
            b'%' if is_double => Some(DelimiterForm::Percent),
            b'$' if is_double => Some(DelimiterForm::Dollars),
            b'$' => Some(DelimiterForm::Dollar),
            _ => None,
        };
        at = next + 1;
        if let Some(form) = form {
            line += bytes[counted_to..next].iter().filter(|byte| **byte == b'\n').count();
            counted_to = next;
            at = next + form.len();
            delimiters.push(Delimiter { form, at: next, line });
        } else if bytes[next] == b'\\' && matches!(bytes.get(at), Some(b'$' | b'%' | b'\\')) {
            at += 1;
        }
    }
    delimiters
}

/// Where a search for a closing delimiter already failed, so that each text is searched once.
#[derive(Default)]
struct Unmatched {
    percent: bool,
    dollars: bool,
    dollar_line: Option<usize>,
}

struct DelimiterMatcher<'t> {
    text: &'t str,
    delimiters: &'t [Delimiter],
    unmatched: Unmatched,
}

impl DelimiterMatcher<'_> {
    /// Index of the delimiter that closes the one at `index`.
    fn closing(&mut self, index: usize, open: &Delimiter) -> Option<usize> {
        match open.form {
            DelimiterForm::Percent if self.unmatched.percent => None,
            DelimiterForm::Percent => {
                let close = self.next_of(index, DelimiterForm::Percent);
                self.unmatched.percent = close.is_none();
                close
            }
            DelimiterForm::Dollars if self.unmatched.dollars => None,
            DelimiterForm::Dollars => {
                let close = self.next_of(index, DelimiterForm::Dollars);
                self.unmatched.dollars = close.is_none();
                // Only a formula on lines of its own may contain blank lines.
                close.filter(|close| {
                    let inside = &self.text[open.at + 2..self.delimiters[*close].at];
                    self.starts_line(open.at) || !has_blank_line(inside)
                })
            }
            DelimiterForm::Dollar => self.closing_dollar(index, open),
        }
    }

    fn next_of(&self, index: usize, form: DelimiterForm) -> Option<usize> {
        self.delimiters[index + 1..].iter().position(|next| next.form == form).map(|offset| index + 1 + offset)
    }

    /// As pandoc: no space after the opening `$` and before the closing one, and no digit after
    /// that, so that prices are text.
    fn closing_dollar(&mut self, index: usize, open: &Delimiter) -> Option<usize> {
        let bytes = self.text.as_bytes();
        let before = self.text[..open.at].chars().next_back();
        let opens = bytes.get(open.at + 1).is_some_and(|next| !next.is_ascii_whitespace())
            && !before.is_some_and(char::is_alphanumeric);
        if !opens || self.unmatched.dollar_line == Some(open.line) {
            return None;
        }
        let closes = |close: &Delimiter| {
            close.form == DelimiterForm::Dollar
                && !bytes[close.at - 1].is_ascii_whitespace()
                && !bytes.get(close.at + 1).is_some_and(u8::is_ascii_digit)
        };
        let rest = self.delimiters[index + 1..].iter();
        let close = rest.take_while(|next| next.line == open.line).position(closes).map(|offset| index + 1 + offset);
        if close.is_none() {
            self.unmatched.dollar_line = Some(open.line);
        }
        close
    }

    fn starts_line(&self, at: usize) -> bool {
        let indent = self.text[..at].trim_end_matches([' ', '\t', '>']);
        indent.is_empty() || indent.ends_with('\n')
    }
}

fn has_blank_line(text: &str) -> bool {
    let mut lines = text.split('\n').skip(1).peekable();
    while let Some(line) = lines.next() {
        if lines.peek().is_some() && line.trim().is_empty() {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(text: &str) -> Vec<&str> {
        let code: Vec<Range<usize>> = text
            .match_indices('`')
            .map(|(at, _)| at)
            .collect::<Vec<_>>()
            .chunks_exact(2)
            .map(|pair| pair[0]..pair[1] + 1)
            .collect();
        literal_spans(&crate::frontmatter::split(text), &code).into_iter().map(|span| &text[span.range]).collect()
    }

    #[test]
    fn comments_and_formulas_end_at_their_delimiter() {
        for (text, expected) in [
            ("a %% b %% c", vec!["%% b %%"]),
            ("%%\nblock\n\nmore\n%%\nx", vec!["%%\nblock\n\nmore\n%%"]),
            ("100%% sure", vec![]),
            ("`%%` a %% b `%%` c %%", vec!["%% b `%%` c %%"]),
            (r"\%% a %%", vec![]),
            ("$x$ and $y_1 + z$.", vec!["$x$", "$y_1 + z$"]),
            ("costs $5 or $6", vec![]),
            ("costs 5$ or 6$ or 7$", vec![]),
            ("$5-$6, $HOME and $PATH", vec![]),
            (r"\$a$ b", vec![]),
            ("$a\nb$", vec![]),
            ("$$[[a]]$$ $$b", vec!["$$[[a]]$$"]),
            ("$$\na\n\nb\n$$\n", vec!["$$\na\n\nb\n$$"]),
            ("for $$ one\n\nand $$ two", vec![]),
            ("> $$\n> - a\n> $$", vec!["$$\n> - a\n> $$"]),
            ("%% $a %% b$", vec!["%% $a %%"]),
            ("$a %% b$ c %%", vec!["$a %% b$"]),
            ("日本$é$本", vec![]),
            ("「$é$」", vec!["$é$"]),
        ] {
            assert_eq!(spans(text), expected, "{text}");
        }
    }
}
