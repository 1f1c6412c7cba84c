//! Operands: literals, fields, calls, lambdas.

use std::sync::Arc;

use jiff::tz::TimeZone;
use winnow::stream::Stream;

use super::ast::{Expression, ExpressionKind, Lambda};
use super::expression::expression;
use super::problem::{Input, Parsed, excerpt, expected, hint, refuse, refuse_at};
use super::tokens::{blanks, peek_word, position, quoted, tag, takes, word};
use crate::functions::{self, Function};
use crate::time::{DateWord, Duration, parse_date};
use crate::value::{Link, Value};

/// Words that end an expression; fields of these names are written `row.from`.
pub(super) const KEYWORDS: [&str; 6] = ["FROM", "WHERE", "LIMIT", "GROUP", "FLATTEN", "SORT"];

/// The implicit fields of pages.
pub(crate) const FILE_FIELDS: [&str; 20] = [
    "name",
    "path",
    "folder",
    "ext",
    "link",
    "size",
    "ctime",
    "cday",
    "mtime",
    "mday",
    "day",
    "tags",
    "etags",
    "inlinks",
    "outlinks",
    "tasks",
    "lists",
    "aliases",
    "frontmatter",
    "starred",
];

pub(super) fn atom(input: &mut Input<'_>, depth: usize) -> Parsed<Expression> {
    let start = position(input);
    let at = |kind| Expression { kind, start };
    if let Some(link) = link(input) {
        return Ok(at(ExpressionKind::Link(link)));
    }
    if let Some(text) = quoted(input)? {
        return Ok(at(ExpressionKind::Literal(Value::text(text))));
    }
    if let Some(tag) = tag(input) {
        return Ok(at(ExpressionKind::Literal(Value::text(tag))));
    }
    if let Some(number) = number(input) {
        return Ok(at(ExpressionKind::Literal(Value::Number(number))));
    }
    if input.starts_with('[') {
        return Ok(at(ExpressionKind::List(items(input, ("[", "]"), depth)?)));
    }
    if input.starts_with('{') {
        return Ok(at(ExpressionKind::Object(members(input, depth)?)));
    }
    if input.starts_with('(') {
        return parentheses(input, depth);
    }
    let Some(name) = peek_word(input).filter(|name| !is_keyword(input, name)) else {
        return expected(input, "a value, such as a field, a text in quotes, or a function");
    };
    let name = input.next_slice(name.len());
    match name.to_ascii_lowercase().as_str() {
        "true" => return Ok(at(ExpressionKind::Literal(Value::Boolean(true)))),
        "false" => return Ok(at(ExpressionKind::Literal(Value::Boolean(false)))),
        "null" => return Ok(at(ExpressionKind::Literal(Value::Null))),
        _ => {}
    }
    if !input.starts_with('(') {
        return Ok(at(ExpressionKind::Variable(name.into())));
    }
    if let Some(kind) = time_literal(input, name) {
        return Ok(at(kind));
    }
    let Some(function) = functions::named(name) else {
        let hint = hint(name, functions::names());
        return refuse_at(start, format!("there is no function `{}`{hint}", excerpt(name)));
    };
    let arguments = items(input, ("(", ")"), depth)?;
    check_arguments(function, arguments.len(), start)?;
    Ok(at(ExpressionKind::Call(function, arguments)))
}

fn check_arguments(function: &Function, count: usize, start: usize) -> Parsed<()> {
    let (min, max) = (function.min_arguments, function.max_arguments);
    if (min..=max).contains(&count) {
        return Ok(());
    }
    let wanted = match (min, max) {
        (min, usize::MAX) => format!("at least {min}"),
        (min, max) if min == max => min.to_string(),
        (min, max) => format!("{min} to {max}"),
    };
    refuse_at(start, format!("`{}` takes {wanted} arguments, not {count}", function.name))
}

/// Whether a word is a clause and not a field or function.
pub(super) fn is_keyword(input: &Input<'_>, name: &str) -> bool {
    let rest: &str = input.as_ref();
    let is_call = rest.get(name.len()..).is_some_and(|rest| rest.starts_with('('));
    KEYWORDS.iter().any(|keyword| keyword.eq_ignore_ascii_case(name)) && !is_call
}

/// `[[…]]` or `![[…]]`; not a list of lists.
pub(super) fn link(input: &mut Input<'_>) -> Option<Link> {
    let rest: &str = input.as_ref();
    let is_embed = rest.starts_with("![[");
    let inner = rest.strip_prefix("![[").or_else(|| rest.strip_prefix("[["))?;
    let end = inner.find("]]")?;
    let text = &inner[..end];
    if text.contains(['[', ']', '\n']) {
        return None;
    }
    let link = Link { is_embed, ..Link::parse_inner(text) };
    input.next_slice(rest.len() - inner.len() + end + 2);
    Some(link)
}

fn number(input: &mut Input<'_>) -> Option<f64> {
    let rest: &str = input.as_ref();
    let digits = |from: usize| rest[from..].find(|c: char| !c.is_ascii_digit()).map_or(rest.len(), |end| from + end);
    let sign = usize::from(rest.starts_with('-'));
    let mut end = digits(sign);
    if end == sign {
        return None;
    }
    if rest[end..].starts_with('.') && digits(end + 1) > end + 1 {
        end = digits(end + 1);
    }
    input.next_slice(end).parse().ok()
}

/// Expressions with commas between brackets.
fn items(input: &mut Input<'_>, (open, close): (&str, &str), depth: usize) -> Parsed<Vec<Expression>> {
    input.next_slice(open.len());
    blanks(input)?;
    let mut items = Vec::new();
    while !input.starts_with(close) {
        items.push(expression(input, depth + 1)?);
        if !takes(input, ",")? && !input.starts_with(close) {
            return expected(input, &format!("`,` or `{close}`"));
        }
    }
    input.next_slice(close.len());
    Ok(items)
}

fn members(input: &mut Input<'_>, depth: usize) -> Parsed<Vec<(String, Expression)>> {
    takes(input, "{")?;
    let mut members = Vec::new();
    while !input.starts_with('}') {
        let key = match quoted(input)? {
            Some(key) => key,
            None => match word(input) {
                Some(key) => key.to_owned(),
                None => return expected(input, "a key, such as in `{ a: 1 }`"),
            },
        };
        blanks(input)?;
        if !takes(input, ":")? {
            return expected(input, "`:` after the key");
        }
        members.push((key, expression(input, depth + 1)?));
        if !takes(input, ",")? && !input.starts_with('}') {
            return expected(input, "`,` or `}`");
        }
    }
    input.next_slice(1);
    Ok(members)
}

/// `(a, b) => …` or an expression in parentheses.
fn parentheses(input: &mut Input<'_>, depth: usize) -> Parsed<Expression> {
    let start = position(input);
    let origin = *input;
    if let Some(parameters) = lambda_head(input)? {
        let body = expression(input, depth + 1)?;
        return Ok(Expression { kind: ExpressionKind::Lambda(Arc::new(Lambda { parameters, body })), start });
    }
    *input = origin;
    takes(input, "(")?;
    let inner = expression(input, depth + 1)?;
    if !input.starts_with(')') {
        return expected(input, "`)`");
    }
    input.next_slice(1);
    Ok(inner)
}

fn lambda_head(input: &mut Input<'_>) -> Parsed<Option<Vec<Arc<str>>>> {
    takes(input, "(")?;
    let mut parameters = Vec::new();
    while let Some(name) = word(input) {
        parameters.push(name.into());
        blanks(input)?;
        if !takes(input, ",")? {
            break;
        }
    }
    Ok((takes(input, ")")? && takes(input, "=>")?).then_some(parameters))
}

/// `date(today)`, `date(2026-03-01)`, `dur(1 day)`: what is written without quotes.
fn time_literal(input: &mut Input<'_>, name: &str) -> Option<ExpressionKind> {
    let rest: &str = input.as_ref();
    let end = rest.find(')')?;
    let inner = rest[1..end].trim();
    let kind = match name.to_ascii_lowercase().as_str() {
        "date" => match DateWord::named(inner) {
            Some(word) => ExpressionKind::DateWord(word),
            None => parse_date(inner, &TimeZone::UTC).map(|_| ExpressionKind::DateText(inner.to_owned()))?,
        },
        "dur" => ExpressionKind::Literal(Value::duration(Duration::parse(inner)?)),
        _ => return None,
    };
    input.next_slice(end + 1);
    Some(kind)
}

/// Refuses `file.x` when pages have no such implicit field.
pub(super) fn check_file_field(expression: &Expression) -> Parsed<()> {
    let ExpressionKind::Index(object, key) = &expression.kind else { return Ok(()) };
    let ExpressionKind::Literal(Value::Text(name)) = &key.kind else { return Ok(()) };
    let is_file = match &object.kind {
        ExpressionKind::Variable(variable) => &**variable == "file",
        ExpressionKind::Index(owner, key) => {
            let is_key = matches!(&key.kind, ExpressionKind::Literal(Value::Text(key)) if &**key == "file");
            let is_row = match &owner.kind {
                ExpressionKind::Variable(owner) => ["this", "rows", "row"].contains(&&**owner),
                ExpressionKind::Link(_) => true,
                _ => false,
            };
            is_key && is_row
        }
        _ => false,
    };
    if !is_file || FILE_FIELDS.contains(&&**name) {
        return Ok(());
    }
    let hint = hint(name, FILE_FIELDS);
    refuse_at(key.start, format!("there is no field `file.{}`{hint}", excerpt(name)))
}

/// Refuses what follows an expression that ended.
pub(super) fn refuse_rest<T>(input: &Input<'_>) -> Parsed<T> {
    let Some(word) = peek_word(input) else { return expected(input, "an operator, a clause or the end") };
    let clauses = ["FROM", "WHERE", "SORT", "GROUP BY", "FLATTEN", "LIMIT"];
    let meaning = match word.to_ascii_uppercase().as_str() {
        "ORDER" => "; write SORT".to_owned(),
        "BY" => "; write SORT or GROUP BY".to_owned(),
        "SELECT" => "; write TABLE".to_owned(),
        "HAVING" => "; write WHERE after GROUP BY".to_owned(),
        "OFFSET" => "; Dataview has no OFFSET".to_owned(),
        upper => hint(upper, clauses.into_iter().chain(["AND", "OR", "AS"])),
    };
    let word = excerpt(word);
    refuse(input, format!("`{word}` is no clause: expected FROM, WHERE, SORT, GROUP BY, FLATTEN or LIMIT{meaning}"))
}
