//! Parser for queries: `NOT` binds closest, then `AND` (also between two adjacent words), then
//! `OR`.

use super::tokens::QueryToken;
use super::{QueryWord, WordQuery};
use crate::field_words;
use crate::words::{Dictionary, TextWords};

/// Nesting limit of parentheses.
const DEEPEST: usize = 32;

/// Default distance of `NEAR`, in words.
const NEAR: u32 = 10;

/// Maximum distance of `NEAR`: positions end there, and FTS5 reads the number as 32 bits.
const FARTHEST: u32 = 65_535;

/// Description of a syntax error, for the note.
type SyntaxMistake = &'static str;

/// An FTS5 expression; `None` for a part without any word, such as `—`.
type FtsExpression = Option<String>;

/// Parses a full query.
pub(super) fn parse(tokens: &[QueryToken]) -> Result<WordQuery, SyntaxMistake> {
    let mut parser =
        QueryParser { tokens, words: Vec::new(), is_plain: true, is_positive: true, is_wanted: true, depth: 0 };
    let expression = parser.either()?;
    if !parser.tokens.is_empty() {
        return Err("a bracket is closed that was not opened");
    }
    Ok(WordQuery {
        expression: expression.unwrap_or_default(),
        words: parser.words,
        is_plain: parser.is_plain,
        is_positive: parser.is_positive,
        note: None,
    })
}

struct QueryParser<'t> {
    tokens: &'t [QueryToken],
    words: Vec<QueryWord>,
    is_plain: bool,
    is_positive: bool,
    /// False after `NOT`.
    is_wanted: bool,
    depth: usize,
}

impl<'t> QueryParser<'t> {
    fn next_if(&mut self, wanted: &QueryToken) -> bool {
        let is_next = self.tokens.first() == Some(wanted);
        if is_next {
            self.tokens = &self.tokens[1..];
            self.is_plain = false;
        }
        is_next
    }

    /// `a OR b`
    fn either(&mut self) -> Result<FtsExpression, SyntaxMistake> {
        let mut all: Vec<String> = self.all()?.into_iter().collect();
        while self.next_if(&QueryToken::Or) {
            all.extend(self.all()?);
        }
        Ok(joined(all, " OR "))
    }

    /// `a AND b`, `a b`
    fn all(&mut self) -> Result<FtsExpression, SyntaxMistake> {
        let mut all: Vec<String> = self.without()?.into_iter().collect();
        loop {
            if self.next_if(&QueryToken::And) {
                if self.next_if(&QueryToken::Not) {
                    // Users write `a AND NOT b` for `a NOT b`.
                    let wanted = joined(std::mem::take(&mut all), " AND ");
                    all.extend(self.but(wanted)?);
                } else {
                    all.extend(self.without()?);
                }
            } else if matches!(self.tokens.first(), None | Some(QueryToken::Close | QueryToken::Or)) {
                return Ok(joined(all, " AND "));
            } else {
                all.extend(self.without()?);
            }
        }
    }

    /// `a NOT b`
    fn without(&mut self) -> Result<FtsExpression, SyntaxMistake> {
        let mut wanted = self.one()?;
        while self.next_if(&QueryToken::Not) {
            wanted = self.but(wanted)?;
        }
        Ok(wanted)
    }

    fn but(&mut self, wanted: FtsExpression) -> Result<FtsExpression, SyntaxMistake> {
        self.is_positive = false;
        let before = std::mem::replace(&mut self.is_wanted, false);
        let unwanted = self.one()?;
        self.is_wanted = before;
        Ok(match (wanted, unwanted) {
            (Some(wanted), Some(unwanted)) => Some(format!("({wanted} NOT {unwanted})")),
            (Some(wanted), None) => Some(wanted),
            (None, _) => return Err("before `NOT` stands no word"),
        })
    }

    fn one(&mut self) -> Result<FtsExpression, SyntaxMistake> {
        let Some((token, rest)) = self.tokens.split_first() else { return Err("it ends where a word should follow") };
        self.tokens = rest;
        match token {
            QueryToken::Word(word) => {
                let is_prefix = word.ends_with('*') && word.len() > 1;
                Ok(self.add(QueryWord::read(word, is_prefix)))
            }
            QueryToken::Read(word) => Ok(self.add(Some(word.clone()))),
            QueryToken::Phrase(phrase) => {
                self.is_plain = false;
                Ok(self.add(QueryWord::read(phrase, phrase.ends_with('*'))))
            }
            QueryToken::Field { field, value, .. } => {
                (self.is_plain, self.is_positive) = (false, false);
                Ok(field_expression(field, value))
            }
            QueryToken::Column(column) => {
                (self.is_plain, self.is_positive) = (false, false);
                Ok(self.one()?.map(|inside| format!("({{{column}}} : {inside})")))
            }
            QueryToken::Open => {
                self.is_plain = false;
                self.deeper()?;
                let inside = self.either()?;
                self.close()?;
                Ok(inside)
            }
            QueryToken::Near => {
                self.is_plain = false;
                self.near()
            }
            QueryToken::Close => Err("a bracket is closed before anything is in it"),
            QueryToken::And => Err("before `AND` stands no word"),
            QueryToken::Or => Err("before or behind `OR` stands no word"),
            QueryToken::Not => Err("before `NOT` stands no word"),
            QueryToken::Unclosed => Err("a quote does not end"),
        }
    }

    fn deeper(&mut self) -> Result<(), SyntaxMistake> {
        self.depth += 1;
        if self.depth > DEEPEST { Err("its brackets are too deep") } else { Ok(()) }
    }

    fn close(&mut self) -> Result<(), SyntaxMistake> {
        self.depth -= 1;
        if self.next_if(&QueryToken::Close) { Ok(()) } else { Err("a bracket is not closed") }
    }

    /// `NEAR(a b, 5)`: the number after the last comma is the maximum distance.
    fn near(&mut self) -> Result<FtsExpression, SyntaxMistake> {
        let mut parts = Vec::new();
        let mut apart = NEAR;
        loop {
            let Some((token, rest)) = self.tokens.split_first() else { return Err("a bracket is not closed") };
            self.tokens = rest;
            match token {
                QueryToken::Close => break,
                QueryToken::Word(word) => {
                    let is_distance = word.bytes().all(|byte| byte.is_ascii_digit())
                        && !parts.is_empty()
                        && self.tokens.first() == Some(&QueryToken::Close);
                    match word.parse() {
                        Ok(number) if is_distance && number <= FARTHEST => apart = number,
                        Ok(_) | Err(_) if is_distance => return Err("`NEAR` takes a distance of 65535 words at most"),
                        Ok(_) | Err(_) => parts.push(word),
                    }
                }
                QueryToken::Phrase(phrase) => parts.push(phrase),
                _ => return Err("`NEAR` takes words and phrases only"),
            }
        }
        let phrases: Vec<String> = parts
            .into_iter()
            .filter_map(|part| {
                let word = QueryWord::read(part, false)?;
                let phrase = format!("\"{}\"", word.spellings[0].join(" "));
                self.add(Some(word));
                Some(phrase)
            })
            .collect();
        Ok((!phrases.is_empty()).then(|| format!("NEAR({}, {apart})", phrases.join(" "))))
    }

    fn add(&mut self, word: Option<QueryWord>) -> FtsExpression {
        let word = word?;
        let expression = word.expression();
        if self.is_wanted && !self.words.contains(&word) {
            self.words.push(word);
        }
        Some(expression)
    }
}

fn joined(parts: Vec<String>, sign: &str) -> FtsExpression {
    match &parts[..] {
        [] => None,
        [only] => Some(only.clone()),
        all => Some(format!("({})", all.join(sign))),
    }
}

/// A field value: its words in order; a path or tag also as a unit.
fn field_expression(field: &str, value: &str) -> FtsExpression {
    let star = if value.ends_with('*') { "*" } else { "" };
    let read = TextWords::of(value, &mut Dictionary::default());
    let words: Vec<String> = read.terms().map(|word| field_words::token(field, word)).collect();
    let mut ways = Vec::new();
    if field_words::WHOLE.contains(&field) {
        ways.push(format!("\"{}\"{star}", field_words::token(field, &field_words::whole(value.trim_end_matches('*')))));
    }
    let is_place = field == field_words::PATH && value.contains('/');
    if !words.is_empty() && !is_place {
        ways.push(format!("\"{}\"{star}", words.join(" ")));
    }
    joined(ways, " OR ")
}
