//! Parser for a condition on frontmatter, such as `$.priority>3`.

use crate::IndexError;
use crate::dates::WrittenDate;

const MAX_BYTES: usize = 4096;

/// Limit of the parts of a field; `$.a.b[*]` has three.
const MAX_PARTS: usize = 16;

/// The field of a condition or sort key: JSON paths, split at `[*]`. `$.a[*].b` is `$."a"` and
/// `$."b"`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JsonField {
    pub(super) paths: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MetaOperator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Like,
    NotLike,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum MetaLiteral {
    Null,
    Boolean(bool),
    Integer(i64),
    Real(f64),
    /// A text that is a time, in microseconds since 1970 UTC.
    Instant(i64),
    /// A text that is a day, as days since 1970.
    Day(i64),
    Text,
}

/// One condition on the frontmatter of a page.
///
/// `<field><operator><value>`: the field starts with `$.` and may have `.key`, `[0]` and `[*]` (any
/// element; a single value counts as a list of one). Operators are `=`, `!=`, `<>`, `<`, `<=`, `>`,
/// `>=`, `like`, `not like` (`%` any text, `_` any character, ASCII letters in any case). Quotes
/// around the value are dropped.
///
/// Values compare by type: numbers with numbers, dates with dates (a day by day, a time by time;
/// UTC without zone), `true` and `false` with booleans, text with text, byte by byte. A quoted
/// value is text or a date; an unquoted one also equals a text that is spelled the same. Different
/// types are neither equal nor ordered. `=null` is true where the field is missing or null; every
/// other operator is false there.
#[derive(Debug, Clone, PartialEq)]
pub struct MetaCondition {
    pub(super) field: JsonField,
    pub(super) operator: MetaOperator,
    pub(super) literal: MetaLiteral,
    pub(super) text: String,
    pub(super) quoted: bool,
}

impl MetaCondition {
    /// Parses a condition.
    ///
    /// # Errors
    /// [`IndexError::Invalid`] on `where`, with the condition and what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, IndexError> {
        if text.len() > MAX_BYTES {
            return Err(invalid_condition(
                "…",
                &format!("is {} bytes long; the limit is {MAX_BYTES} bytes", text.len()),
            ));
        }
        let condition = text.trim();
        let (field, rest) = JsonField::read(condition).map_err(|why| invalid_condition(condition, &why))?;
        let (operator, value) = operator(rest).ok_or_else(|| {
            invalid_condition(
                condition,
                "has no operator after the field; use `=`, `!=`, `<`, `<=`, `>`, `>=`, `like` or `not like`",
            )
        })?;
        let (value, quoted) = unquote(value.trim());
        let literal = literal(value, quoted);
        let is_equality = matches!(operator, MetaOperator::Equal | MetaOperator::NotEqual);
        let is_like = matches!(operator, MetaOperator::Like | MetaOperator::NotLike);
        if matches!(literal, MetaLiteral::Null | MetaLiteral::Boolean(_)) && !is_equality && !is_like {
            return Err(invalid_condition(
                condition,
                &format!("compares the order of `{value}`, which has none; use `=` or `!=`"),
            ));
        }
        Ok(Self { field, operator, literal, text: value.to_owned(), quoted })
    }
}

impl JsonField {
    /// Parses a text that is a field only.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (field, rest) = Self::read(text.trim())?;
        if rest.is_empty() { Ok(field) } else { Err(format!("has `{}` after the field", excerpt(rest))) }
    }

    /// Parses a field at the start of a text; also returns the rest.
    fn read(text: &str) -> Result<(Self, &str), String> {
        let mut rest = text.strip_prefix("$.").ok_or("must begin with a field such as `$.status`")?;
        let mut paths = vec!["$".to_owned()];
        let mut parts = 0;
        loop {
            let end = rest.find(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '-')).unwrap_or(rest.len());
            let (key, after) = rest.split_at(end);
            if key.is_empty() {
                return Err("has an empty key in its field; write `$.key` or `$.key.key`".to_owned());
            }
            // A key has neither quotes nor backslashes, so it needs no escaping.
            last_path(&mut paths).push_str(&format!(".\"{key}\""));
            parts += 1;
            rest = after;
            while let Some(inner) = rest.strip_prefix('[') {
                let (index, after) = inner.split_once(']').ok_or("has a `[` without `]` in its field")?;
                if index == "*" {
                    paths.push("$".to_owned());
                } else if !index.is_empty() && index.len() < 10 && index.bytes().all(|byte| byte.is_ascii_digit()) {
                    last_path(&mut paths).push_str(&format!("[{index}]"));
                } else {
                    return Err(format!("has `[{}]` in its field; use `[*]` or `[0]`", excerpt(index)));
                }
                parts += 1;
                rest = after;
            }
            if parts > MAX_PARTS {
                return Err(format!("has more than {MAX_PARTS} parts in its field"));
            }
            match rest.strip_prefix('.') {
                Some(next) => rest = next,
                None => return Ok((Self { paths }, rest)),
            }
        }
    }
}

fn last_path(paths: &mut Vec<String>) -> &mut String {
    if paths.is_empty() {
        paths.push("$".to_owned());
    }
    let end = paths.len() - 1;
    &mut paths[end]
}

fn operator(text: &str) -> Option<(MetaOperator, &str)> {
    const SIGNS: [(&str, MetaOperator); 8] = [
        ("!=", MetaOperator::NotEqual),
        ("<>", MetaOperator::NotEqual),
        ("<=", MetaOperator::LessOrEqual),
        (">=", MetaOperator::GreaterOrEqual),
        ("==", MetaOperator::Equal),
        ("=", MetaOperator::Equal),
        ("<", MetaOperator::Less),
        (">", MetaOperator::Greater),
    ];
    let trimmed = text.trim_start();
    if let Some(matched) = SIGNS.iter().find_map(|(sign, operator)| Some((*operator, trimmed.strip_prefix(sign)?))) {
        return Some(matched);
    }
    // A word operator needs a space before it, else it would be part of the key.
    let words = trimmed.split_once(char::is_whitespace).filter(|_| trimmed.len() < text.len())?;
    match words {
        (not, rest) if not.eq_ignore_ascii_case("not") => {
            let (like, value) = rest.trim_start().split_once(char::is_whitespace)?;
            like.eq_ignore_ascii_case("like").then_some((MetaOperator::NotLike, value))
        }
        (like, value) => like.eq_ignore_ascii_case("like").then_some((MetaOperator::Like, value)),
    }
}

fn unquote(value: &str) -> (&str, bool) {
    for quote in ['"', '\''] {
        if let Some(inner) = value.strip_prefix(quote).and_then(|value| value.strip_suffix(quote)) {
            return (inner, true);
        }
    }
    (value, false)
}

fn literal(value: &str, quoted: bool) -> MetaLiteral {
    if !quoted {
        match value {
            "null" => return MetaLiteral::Null,
            "true" => return MetaLiteral::Boolean(true),
            "false" => return MetaLiteral::Boolean(false),
            _ => {}
        }
        if let Some(number) = number(value) {
            return number;
        }
    }
    match WrittenDate::parse(value) {
        Some(day @ WrittenDate::Day(_)) => day.day().map(MetaLiteral::Day),
        Some(instant @ WrittenDate::Instant(_)) => instant.microsecond().map(MetaLiteral::Instant),
        None => None,
    }
    .unwrap_or(MetaLiteral::Text)
}

/// Numbers as in JSON; `inf` and `nan` are text.
fn number(value: &str) -> Option<MetaLiteral> {
    if !value.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.')) {
        return None;
    }
    if let Ok(integer) = value.parse() {
        return Some(MetaLiteral::Integer(integer));
    }
    value.parse().ok().filter(|real: &f64| real.is_finite()).map(MetaLiteral::Real)
}

/// An excerpt of a condition for error messages.
fn excerpt(text: &str) -> String {
    svcfs_base::escape_unprintable(&text.chars().take(40).collect::<String>())
}

fn invalid_condition(condition: &str, why: &str) -> IndexError {
    IndexError::invalid("where", format!("condition `{}` {why}", excerpt(condition)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_condition_is_read_into_its_parts() {
        for (text, paths, operator, literal, value) in [
            ("$.priority>3", vec!["$.\"priority\""], MetaOperator::Greater, MetaLiteral::Integer(3), "3"),
            ("$.a.b[0] != 1.5", vec!["$.\"a\".\"b\"[0]"], MetaOperator::NotEqual, MetaLiteral::Real(1.5), "1.5"),
            ("$.tags[*]=x", vec!["$.\"tags\"", "$"], MetaOperator::Equal, MetaLiteral::Text, "x"),
            (
                "$.derived-from[*].id=run-249",
                vec!["$.\"derived-from\"", "$.\"id\""],
                MetaOperator::Equal,
                MetaLiteral::Text,
                "run-249",
            ),
            ("$.t NOT  LIKE  %a b%", vec!["$.\"t\""], MetaOperator::NotLike, MetaLiteral::Text, "%a b%"),
            ("$.t like '3'", vec!["$.\"t\""], MetaOperator::Like, MetaLiteral::Text, "3"),
            ("$.due<=2026-01-02", vec!["$.\"due\""], MetaOperator::LessOrEqual, MetaLiteral::Day(20_455), "2026-01-02"),
            ("$.f=true", vec!["$.\"f\""], MetaOperator::Equal, MetaLiteral::Boolean(true), "true"),
            ("$.f=\"true\"", vec!["$.\"f\""], MetaOperator::Equal, MetaLiteral::Text, "true"),
            ("$.f<>null", vec!["$.\"f\""], MetaOperator::NotEqual, MetaLiteral::Null, "null"),
            ("$.f=", vec!["$.\"f\""], MetaOperator::Equal, MetaLiteral::Text, ""),
            ("$.f=a=b", vec!["$.\"f\""], MetaOperator::Equal, MetaLiteral::Text, "a=b"),
            ("$.été=inf", vec!["$.\"été\""], MetaOperator::Equal, MetaLiteral::Text, "inf"),
        ] {
            let condition = MetaCondition::parse(text).unwrap();
            assert_eq!(condition.field.paths, paths, "{text}");
            assert_eq!((condition.operator, condition.literal), (operator, literal), "{text}");
            assert_eq!(condition.text, value, "{text}");
        }
    }

    #[test]
    fn a_condition_that_cannot_be_read_is_named_with_the_reason() {
        for (text, message) in [
            ("status=x", "`where`: condition `status=x` must begin with a field such as `$.status`"),
            ("$.=x", "`where`: condition `$.=x` has an empty key in its field; write `$.key` or `$.key.key`"),
            ("$.a[x]=1", "`where`: condition `$.a[x]=1` has `[x]` in its field; use `[*]` or `[0]`"),
            ("$.a[0=1", "`where`: condition `$.a[0=1` has a `[` without `]` in its field"),
            ("$.a>true", "`where`: condition `$.a>true` compares the order of `true`, which has none; use `=` or `!=`"),
        ] {
            assert_eq!(MetaCondition::parse(text).unwrap_err().to_string(), message);
        }
        for text in ["", "$.a", "$.a'=1", "$.a\") OR 1=1 --", "$.alike x", "$.a;DROP TABLE pages"] {
            assert!(MetaCondition::parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "\\$?\\.?.{0,60}") {
            let read = MetaCondition::parse(&text);
            if let Ok(condition) = read {
                prop_assert!(condition.field.paths.iter().all(|path| !path.contains('\\')));
            }
        }
    }
}
