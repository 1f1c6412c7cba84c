//! Parser for queries: `NOT` binds closest, then `AND` (also between two adjacent words), then
//! `OR`.

use super::tokens::QueryToken;
use super::{QueryWord, WordQuery};
use crate::field_words;
use crate::words::{Dictionary, TextWords};

const MAX_DEPTH: usize = 32;

/// Default distance of `NEAR`, in words.
const DEFAULT_DISTANCE: u32 = 10;

/// Maximum distance of `NEAR`: positions end there, and FTS5 reads the number as 32 bits.
const MAX_DISTANCE: u32 = 65_535;

/// Description of a syntax error, for the note.
type SyntaxMistake = &'static str;

/// An FTS5 expression; `None` for a part without any word, such as `—`.
type FtsExpression = Option<String>;

pub(super) fn parse(tokens: &[QueryToken]) -> Result<WordQuery, SyntaxMistake> {
    let mut parser = QueryParser {
        tokens,
        query: WordQuery::default(),
        is_plain: true,
        is_positive: true,
        is_included: true,
        depth: 0,
    };
    let expression = parser.or_expression()?;
    if !parser.tokens.is_empty() {
        return Err("a `)` has no matching `(`");
    }
    Ok(WordQuery {
        expression: expression.unwrap_or_default(),
        is_plain: parser.is_plain,
        is_positive: parser.is_positive,
        ..parser.query
    })
}

struct QueryParser<'t> {
    tokens: &'t [QueryToken],
    /// What is parsed so far.
    query: WordQuery,
    is_plain: bool,
    is_positive: bool,
    /// False after `NOT`.
    is_included: bool,
    depth: usize,
}

impl<'t> QueryParser<'t> {
    fn next_if(&mut self, token: &QueryToken) -> bool {
        let is_next = self.tokens.first() == Some(token);
        if is_next {
            self.tokens = &self.tokens[1..];
            self.is_plain = false;
        }
        is_next
    }

    /// `a OR b`
    fn or_expression(&mut self) -> Result<FtsExpression, SyntaxMistake> {
        let mut all: Vec<String> = self.and_expression()?.into_iter().collect();
        while self.next_if(&QueryToken::Or) {
            all.extend(self.and_expression()?);
        }
        Ok(join(all, " OR "))
    }

    /// `a AND b`, `a b`
    fn and_expression(&mut self) -> Result<FtsExpression, SyntaxMistake> {
        let mut all: Vec<String> = self.not_expression()?.into_iter().collect();
        loop {
            if self.next_if(&QueryToken::And) {
                if self.next_if(&QueryToken::Not) {
                    // Users write `a AND NOT b` for `a NOT b`.
                    let included = join(std::mem::take(&mut all), " AND ");
                    all.extend(self.subtract(included)?);
                } else {
                    all.extend(self.not_expression()?);
                }
            } else if matches!(self.tokens.first(), None | Some(QueryToken::Close | QueryToken::Or)) {
                return Ok(join(all, " AND "));
            } else {
                all.extend(self.not_expression()?);
            }
        }
    }

    /// `a NOT b`
    fn not_expression(&mut self) -> Result<FtsExpression, SyntaxMistake> {
        let mut included = self.operand()?;
        while self.next_if(&QueryToken::Not) {
            included = self.subtract(included)?;
        }
        Ok(included)
    }

    fn subtract(&mut self, included: FtsExpression) -> Result<FtsExpression, SyntaxMistake> {
        self.is_positive = false;
        let outer = std::mem::replace(&mut self.is_included, false);
        let excluded = self.operand()?;
        self.is_included = outer;
        Ok(match (included, excluded) {
            (Some(included), Some(excluded)) => Some(format!("({included} NOT {excluded})")),
            (Some(included), None) => Some(included),
            (None, _) => return Err("there is no word before `NOT`"),
        })
    }

    fn operand(&mut self) -> Result<FtsExpression, SyntaxMistake> {
        let Some((token, rest)) = self.tokens.split_first() else { return Err("a word is missing at the end") };
        self.tokens = rest;
        match token {
            QueryToken::Word(word) => {
                let is_prefix = word.ends_with('*') && word.len() > 1;
                Ok(self.add(QueryWord::read(word, is_prefix)))
            }
            QueryToken::Parsed(word) => Ok(self.add(Some(word.clone()))),
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
                Ok(self.operand()?.map(|inside| format!("({{{column}}} : {inside})")))
            }
            QueryToken::Open => {
                self.is_plain = false;
                self.enter_group()?;
                let inside = self.or_expression()?;
                self.close()?;
                Ok(inside)
            }
            QueryToken::Near => {
                self.is_plain = false;
                self.near()
            }
            QueryToken::Close => Err("there is nothing in `()`"),
            QueryToken::And => Err("there is no word before `AND`"),
            QueryToken::Or => Err("there is no word before or after `OR`"),
            QueryToken::Not => Err("there is no word before `NOT`"),
            QueryToken::Unclosed => Err("a quote is not closed"),
        }
    }

    fn enter_group(&mut self) -> Result<(), SyntaxMistake> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err("its parentheses nest too deeply") } else { Ok(()) }
    }

    fn close(&mut self) -> Result<(), SyntaxMistake> {
        self.depth -= 1;
        if self.next_if(&QueryToken::Close) { Ok(()) } else { Err("a `(` is not closed") }
    }

    /// `NEAR(a b, 5)`: the number after the last comma is the maximum distance.
    fn near(&mut self) -> Result<FtsExpression, SyntaxMistake> {
        let mut parts = Vec::new();
        let mut distance = DEFAULT_DISTANCE;
        loop {
            let Some((token, rest)) = self.tokens.split_first() else { return Err("a `(` is not closed") };
            self.tokens = rest;
            match token {
                QueryToken::Close => break,
                QueryToken::Word(word) => {
                    let is_distance = word.bytes().all(|byte| byte.is_ascii_digit())
                        && !parts.is_empty()
                        && self.tokens.first() == Some(&QueryToken::Close);
                    match word.parse() {
                        Ok(number) if is_distance && number <= MAX_DISTANCE => distance = number,
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
        Ok((!phrases.is_empty()).then(|| format!("NEAR({}, {distance})", phrases.join(" "))))
    }

    fn add(&mut self, word: Option<QueryWord>) -> FtsExpression {
        let word = word?;
        let expression = word.expression();
        if self.is_included {
            self.query.add(word);
        }
        Some(expression)
    }
}

fn join(parts: Vec<String>, sign: &str) -> FtsExpression {
    match &parts[..] {
        [] => None,
        [only] => Some(only.clone()),
        all => Some(format!("({})", all.join(sign))),
    }
}

/// A field value: its words in order; a path or tag also as a unit.
fn field_expression(field: &str, value: &str) -> FtsExpression {
    let star = if value.ends_with('*') { "*" } else { "" };
    let value_words = TextWords::of(value, &mut Dictionary::default());
    let words: Vec<String> = value_words.terms().map(|word| field_words::token(field, word)).collect();
    let mut forms = Vec::new();
    if field_words::EXACT_FIELDS.contains(&field) {
        forms.push(format!(
            "\"{}\"{star}",
            field_words::token(field, &field_words::normalize_value(value.trim_end_matches('*')))
        ));
    }
    let is_path = field == field_words::PATH && value.contains('/');
    if !words.is_empty() && !is_path {
        forms.push(format!("\"{}\"{star}", words.join(" ")));
    }
    join(forms, " OR ")
}
