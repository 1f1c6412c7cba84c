//! Formulas and comments that CommonMark does not know: `$$…$$`, `$…$` over several lines,
//! `\[…\]`, `\begin{…}…\end{…}`, `%%…%%`, `<!--…-->`.
//!
//! CommonMark sees text, lists and tables in them, other renderers do not. One that is never closed
//! extends to the end of the page: it is ambiguous, and stays as it is.

use std::ops::Range;

use crate::blocks::BodyBlocks;

/// Opening and closing marks. Marks of the second kind begin a line.
const SPANS: [(&str, &str); 3] = [("$$", "$$"), ("%%", "%%"), ("<!--", "-->")];
const LINE_SPANS: [(&str, &str); 2] = [("\\[", "\\]"), ("\\begin{", "\\end{")];

/// The formulas and comments of a body, in order.
pub(super) fn find(body: &str, blocks: &BodyBlocks) -> Vec<Range<usize>> {
    if !body.contains(['$', '%', '\\']) && !body.contains("<!--") {
        return Vec::new();
    }
    let mut scanner = Scanner { body, found: Vec::new(), at: 0, unpaired_until: 0, paragraph_end: 0 };
    let mut verbatim = blocks.verbatim.iter().peekable();
    while scanner.at < body.len() {
        while verbatim.next_if(|block| block.end <= scanner.at).is_some() {}
        match verbatim.peek() {
            Some(block) if block.start <= scanner.at => scanner.at = block.end,
            _ => scanner.step(),
        }
    }
    scanner.found
}

struct Scanner<'a> {
    body: &'a str,
    found: Vec<Range<usize>>,
    at: usize,
    /// No `$` before this offset closes a formula that opens after [`Self::at`].
    unpaired_until: usize,
    /// The end of the paragraph that was last searched.
    paragraph_end: usize,
}

impl Scanner<'_> {
    /// Passes over one mark, one span or the text up to the next mark.
    fn step(&mut self) {
        let rest = &self.body[self.at..];
        if let Some((open, close)) = self.opening(rest) {
            let end = rest[open.len()..].find(close).map_or(rest.len(), |length| open.len() + length + close.len());
            self.found.push(self.at..self.at + end);
            self.at += end;
            return;
        }
        self.at += match rest.as_bytes()[0] {
            b'\\' => 1 + rest[1..].chars().next().filter(|next| next.is_ascii()).map_or(0, char::len_utf8),
            b'`' => code_span(rest),
            b'$' => self.formula(rest),
            _ => {
                let first = rest.chars().next().map_or(1, char::len_utf8);
                rest[first..].find(MARKS).map_or(rest.len(), |length| first + length)
            }
        };
    }

    fn opening(&self, rest: &str) -> Option<(&'static str, &'static str)> {
        let is_line_start = || {
            let before = self.body[..self.at].trim_end_matches([' ', '\t']);
            before.is_empty() || before.ends_with('\n')
        };
        let span = SPANS.iter().find(|(open, _)| rest.starts_with(open));
        let line_span = || LINE_SPANS.iter().find(|(open, _)| rest.starts_with(open) && is_line_start());
        span.or_else(line_span).copied()
    }

    /// Length of a formula `$…$`, or of the `$` that opens none. As in pandoc, no white space
    /// follows the opening mark or precedes the closing one, and no digit follows that.
    fn formula(&mut self, rest: &str) -> usize {
        let bytes = rest.as_bytes();
        if self.at < self.unpaired_until || bytes.get(1).is_none_or(u8::is_ascii_whitespace) {
            return 1;
        }
        if self.paragraph_end <= self.at {
            self.paragraph_end = self.at + rest.find("\n\n").unwrap_or(rest.len());
        }
        let paragraph = self.paragraph_end - self.at;
        let is_closing = |end: usize| {
            !bytes[end - 1].is_ascii_whitespace()
                && bytes[end - 1] != b'\\'
                && !bytes.get(end + 1).is_some_and(u8::is_ascii_digit)
        };
        let end = rest[1..paragraph].match_indices('$').map(|(at, _)| at + 1).find(|end| is_closing(*end));
        let Some(end) = end else {
            self.unpaired_until = self.at + paragraph;
            return 1;
        };
        if rest[..end].contains('\n') {
            self.found.push(self.at..self.at + end + 1);
        }
        end + 1
    }
}

const MARKS: [char; 5] = ['$', '%', '\\', '<', '`'];

/// Length of a code span on this line, or of the backticks that open none.
fn code_span(rest: &str) -> usize {
    let run = rest.bytes().take_while(|byte| *byte == b'`').count();
    let line = rest.find('\n').unwrap_or(rest.len()).max(run);
    let mut from = run;
    while let Some(start) = rest[from..line].find('`').map(|length| from + length) {
        let length = rest[start..].bytes().take_while(|byte| *byte == b'`').count();
        if length == run {
            return start + length;
        }
        from = start + length;
    }
    run
}
