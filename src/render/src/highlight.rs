//! Code as spans with classes: comments, strings, numbers and keywords.
//!
//! Why not syntect? Its grammars are run by a backtracking engine: 70 ms for 12 KB of Rust, 1 MB of
//! program, and no bound for hostile text. This lexer reads each byte once, and knows what most
//! languages share.

mod languages;

use crate::escape::escape_html;
use languages::{Language, Strings};

/// The code as HTML; `None` for an unknown language.
pub(crate) fn code(language: &str, code: &str) -> Option<String> {
    let mut lexer =
        Lexer { language: languages::find(language)?, html: String::with_capacity(code.len() * 2), rest: code };
    lexer.run();
    Some(lexer.html)
}

struct Lexer<'c> {
    language: Language,
    html: String,
    rest: &'c str,
}

impl Lexer<'_> {
    fn run(&mut self) {
        let mut previous = None;
        while let Some(character) = self.rest.chars().next() {
            let is_inside_word = previous.is_some_and(is_word);
            let (class, length) = match self.token(character, is_inside_word) {
                Some((class, length)) => (Some(class), length),
                None => (None, self.plain_length(character)),
            };
            let (token, rest) = self.rest.split_at(length);
            match class {
                Some(class) => {
                    self.html.push_str("<span class=\"hl-");
                    self.html.push_str(class);
                    self.html.push_str("\">");
                    self.html.push_str(&escape_html(token));
                    self.html.push_str("</span>");
                }
                None => self.html.push_str(&escape_html(token)),
            }
            previous = token.chars().next_back();
            self.rest = rest;
        }
    }

    /// The class and length of what is highlighted here.
    fn token(&self, first: char, is_inside_word: bool) -> Option<(&'static str, usize)> {
        if let Some(length) = self.comment() {
            return Some(("comment", length));
        }
        if self.language.strings != Strings::None && matches!(first, '"' | '\'' | '`') {
            return self.string(first).map(|length| ("string", length));
        }
        if is_inside_word {
            return None;
        }
        if first.is_ascii_digit() {
            let is_part = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '.');
            return Some(("number", self.length_while(is_part)));
        }
        let word = &self.rest[..self.length_while(is_word)];
        self.language.is_keyword(word).then_some(("keyword", word.len()))
    }

    fn comment(&self) -> Option<usize> {
        let to_line_end = || self.rest.find('\n').unwrap_or(self.rest.len());
        if self.language.line_comments.iter().any(|start| self.rest.starts_with(start)) {
            return Some(to_line_end());
        }
        let (start, end) = self.language.block_comment?;
        let inside = self.rest.strip_prefix(start)?;
        Some(inside.find(end).map_or(self.rest.len(), |at| start.len() + at + end.len()))
    }

    /// A text in quotes, which ends with its line except where the language has longer ones.
    fn string(&self, quote: char) -> Option<usize> {
        let triple = match quote {
            '"' => "\"\"\"",
            _ => "'''",
        };
        if self.language.strings == Strings::Triple && self.rest.starts_with(triple) {
            let end = self.rest[3..].find(triple).map_or(self.rest.len(), |at| at + 6);
            return Some(end);
        }
        if quote == '\'' && self.language.strings == Strings::Character {
            return self.character();
        }
        let is_long = quote == '`' || self.language.strings == Strings::Long;
        let mut is_escaped = false;
        for (at, character) in self.rest.char_indices().skip(1) {
            match character {
                _ if is_escaped => is_escaped = false,
                '\\' => is_escaped = true,
                '\n' if !is_long => return Some(at),
                _ if character == quote => return Some(at + character.len_utf8()),
                _ => {}
            }
        }
        Some(self.rest.len())
    }

    /// A single character in quotes; elsewhere a quote is a lifetime or a label.
    fn character(&self) -> Option<usize> {
        let mut inside = self.rest[1..].chars();
        let first = inside.next()?;
        let literal = if first == '\\' { self.rest[2..].find('\'')? + 3 } else { 1 + first.len_utf8() + 1 };
        let is_closed = self.rest.get(..literal).is_some_and(|text| text.ends_with('\'') && !text.contains('\n'));
        (is_closed && literal <= 16).then_some(literal)
    }

    /// The length of text that cannot be the start of a token.
    fn plain_length(&self, first: char) -> usize {
        if is_word(first) { self.length_while(is_word) } else { first.len_utf8() }
    }

    fn length_while(&self, is_part: impl Fn(char) -> bool) -> usize {
        self.rest.find(|character| !is_part(character)).unwrap_or(self.rest.len())
    }
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '$')
}

#[cfg(test)]
mod tests {
    use super::code;

    #[test]
    fn tokens_have_classes() {
        for (language, source, expected) in [
            (
                "rust",
                "fn a<'b>() { 'x' }",
                "<span class=\"hl-keyword\">fn</span> a&lt;&#39;b&gt;() { <span class=\"hl-string\">&#39;x&#39;</span> }",
            ),
            (
                "py",
                "x = \"\"\"a\nb\"\"\" # c",
                "x = <span class=\"hl-string\">&quot;&quot;&quot;a\nb&quot;&quot;&quot;</span> <span class=\"hl-comment\"># c</span>",
            ),
            (
                "js",
                "a12 + 0x1f /* <b> */",
                "a12 + <span class=\"hl-number\">0x1f</span> <span class=\"hl-comment\">/* &lt;b&gt; */</span>",
            ),
            (
                "sql",
                "select 'a'",
                "<span class=\"hl-keyword\">select</span> <span class=\"hl-string\">&#39;a&#39;</span>",
            ),
            (
                "toml",
                "a = true # x",
                "a = <span class=\"hl-keyword\">true</span> <span class=\"hl-comment\"># x</span>",
            ),
            (
                "html",
                "<p title=\"x\"><!-- y -->",
                "&lt;p title=<span class=\"hl-string\">&quot;x&quot;</span>&gt;<span class=\"hl-comment\">&lt;!-- y --&gt;</span>",
            ),
            (
                "json",
                "{\"a\": null}",
                "{<span class=\"hl-string\">&quot;a&quot;</span>: <span class=\"hl-keyword\">null</span>}",
            ),
        ] {
            assert_eq!(code(language, source).as_deref(), Some(expected), "{language}");
        }
        assert_eq!(code("mermaid", "graph"), None);
    }

    #[test]
    fn any_text_is_read_in_time_and_remains_the_same() {
        for language in ["rust", "python", "js", "sql", "html", "bash", "c"] {
            for unit in ["\"", "'", "'''", "`", "/*", "<!--", "\\", "é'\\", "1e", "#", "\u{0}"] {
                let source = unit.repeat(20_000);
                let html = code(language, &source).unwrap();
                let text = html.replace("<span class=\"hl-", "\u{1}").replace("</span>", "");
                let text: String = text
                    .split('\u{1}')
                    .enumerate()
                    .map(|(at, part)| if at == 0 { part } else { part.split_once("\">").unwrap().1 })
                    .collect();
                assert_eq!(text, crate::escape_html(&source), "{language} {unit:?}");
            }
        }
    }
}
