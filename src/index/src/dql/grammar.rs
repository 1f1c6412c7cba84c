//! Grammar of a query: a mode with its columns, then clauses in any order.

use winnow::Parser;
use winnow::combinator::opt;
use winnow::error::ErrMode;
use winnow::stream::{LocatingSlice, Stream};

use super::MAX_BYTES;
use super::ast::{Expression, ExpressionNode, NamedColumn, PageSource, ParsedQuery, QueryMode};
use super::expression::{MAX_DEPTH, expression};
use super::lexemes::{
    LexerInput, alias, bare_path, blanks, count, expect_sign, is_reserved, next_word, offset, tag, takes_sign,
    takes_word, text,
};
use super::problem::{Outcome, QueryProblem, excerpt, expected, hint, next_token, refuse};

/// Limit of columns, of sort keys, and of FLATTEN clauses.
const MAX_COLUMNS: usize = 64;

const CLAUSES: [&str; 7] = ["FROM", "WHERE", "SORT", "GROUP BY", "FLATTEN", "LIMIT", "OFFSET"];

/// Suggestions for a word that is out of place.
const SUGGESTED_KEYWORDS: [&str; 10] =
    ["FROM", "WHERE", "SORT", "GROUP", "FLATTEN", "LIMIT", "OFFSET", "AND", "OR", "AS"];

pub(crate) fn query(text: &str) -> Result<ParsedQuery, String> {
    parse_all(text, |input| {
        let mut parsed = mode(input)?;
        text.clone_into(&mut parsed.text);
        clauses(input, &mut parsed)?;
        Ok(parsed)
    })
}

/// Parses a single expression, such as the filter of a view.
pub(crate) fn single_expression(text: &str) -> Result<ExpressionNode, String> {
    if text.len() > MAX_BYTES {
        return Err(format!("the expression is {} bytes long; the limit is {MAX_BYTES} bytes", text.len()));
    }
    parse_all(text, |input| expression(input, 0))
}

fn parse_all<T>(text: &str, mut rule: impl FnMut(&mut LexerInput<'_>) -> Outcome<T>) -> Result<T, String> {
    let mut input = LocatingSlice::new(text);
    let read = blanks(&mut input)
        .and_then(|()| rule(&mut input))
        .and_then(|read| if input.eof_offset() == 0 { Ok(read) } else { expected(&input, "an operator or the end") });
    read.map_err(|error| match error {
        ErrMode::Cut(problem) | ErrMode::Backtrack(problem) => problem.to_message(text),
        // Only possible for streamed input.
        ErrMode::Incomplete(_) => QueryProblem::at(text.len(), "the query is cut off").to_message(text),
    })
}

fn mode(input: &mut LexerInput<'_>) -> Outcome<ParsedQuery> {
    let names = || QueryMode::ALL.iter().map(|(name, _)| *name);
    let Some(word) = next_word(input) else {
        let all = names().collect::<Vec<_>>().join(", ");
        return expected(input, &all);
    };
    let Some((_, mode)) = QueryMode::ALL.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)) else {
        let all = names().collect::<Vec<_>>().join(", ");
        let hint = hint(word, names());
        return refuse(input, format!("a query starts with {all}, not with `{}`{hint}", excerpt(word)));
    };
    takes_word(input, word)?;
    let mut parsed = ParsedQuery {
        text: String::new(),
        mode: *mode,
        without_id: false,
        columns: Vec::new(),
        source: None,
        conditions: Vec::new(),
        sort: Vec::new(),
        group: None,
        flatten: Vec::new(),
        limit: None,
        offset: None,
        is_unpaginated: false,
        summaries: Vec::new(),
    };
    match mode {
        QueryMode::Table | QueryMode::List | QueryMode::Json => {
            if takes_word(input, "WITHOUT")? {
                if !takes_word(input, "ID")? {
                    return expected(input, "ID after WITHOUT");
                }
                parsed.without_id = true;
                if at_clause(input) {
                    return expected(input, "a column after WITHOUT ID, because the path is omitted");
                }
            }
            if !at_clause(input) {
                parsed.columns = columns(input)?;
            }
        }
        QueryMode::Distinct | QueryMode::Calendar => parsed.columns.push(column(input)?),
        QueryMode::Count | QueryMode::Task => {}
    }
    Ok(parsed)
}

/// Whether the columns end here: at a keyword or the end.
fn at_clause(input: &mut LexerInput<'_>) -> bool {
    input.eof_offset() == 0 || next_word(input).is_some_and(|word| is_reserved(word) && !is_value(word))
}

fn is_value(word: &str) -> bool {
    ["TRUE", "FALSE", "NULL", "NIL", "NOT"].iter().any(|value| value.eq_ignore_ascii_case(word))
}

fn columns(input: &mut LexerInput<'_>) -> Outcome<Vec<NamedColumn>> {
    let mut columns = vec![column(input)?];
    while takes_sign(input, ",")? {
        if columns.len() == MAX_COLUMNS {
            return refuse(input, format!("a query has {MAX_COLUMNS} columns at most"));
        }
        columns.push(column(input)?);
    }
    Ok(columns)
}

/// An expression, with an alias or named by its text.
fn column(input: &mut LexerInput<'_>) -> Outcome<NamedColumn> {
    let origin = *input;
    let node = expression(input, 0)?;
    let start = offset(&origin);
    if takes_word(input, "AS")? {
        return Ok(NamedColumn { name: alias(input)?, node });
    }
    let mut rest = origin;
    let written = rest.next_slice(node.span.end.saturating_sub(start).min(origin.eof_offset()));
    Ok(NamedColumn { name: written.trim().trim_matches('`').to_owned(), node })
}

fn clauses(input: &mut LexerInput<'_>, parsed: &mut ParsedQuery) -> Outcome<()> {
    while input.eof_offset() > 0 {
        let origin = *input;
        if takes_word(input, "FROM")? {
            let source = source(input, 0)?;
            check_once(&origin, "FROM", parsed.source.replace(source).is_none())?;
        } else if takes_word(input, "WHERE")? {
            parsed.conditions.push(expression(input, 0)?);
        } else if takes_word(input, "SORT")? {
            sort(input, &mut parsed.sort)?;
        } else if takes_word(input, "GROUP")? {
            if !takes_word(input, "BY")? {
                return expected(input, "BY after GROUP");
            }
            let column = column(input)?;
            check_once(&origin, "GROUP BY", parsed.group.replace(column).is_none())?;
        } else if takes_word(input, "FLATTEN")? {
            parsed.flatten.push(column(input)?);
        } else if takes_word(input, "LIMIT")? {
            let count = count(input, "LIMIT")?;
            if count == 0 {
                return refuse(&origin, "LIMIT must be at least 1");
            }
            check_once(&origin, "LIMIT", parsed.limit.replace(count).is_none())?;
        } else if takes_word(input, "OFFSET")? {
            let count = count(input, "OFFSET")?;
            check_once(&origin, "OFFSET", parsed.offset.replace(count).is_none())?;
        } else {
            return unexpected(input, parsed.columns.last());
        }
        if parsed.sort.len() > MAX_COLUMNS || parsed.flatten.len() > MAX_COLUMNS {
            return refuse(&origin, format!("a query has {MAX_COLUMNS} of a clause at most"));
        }
    }
    Ok(())
}

fn check_once(origin: &LexerInput<'_>, clause: &str, is_first: bool) -> Outcome<()> {
    if is_first { Ok(()) } else { refuse(origin, format!("{clause} is given twice")) }
}

fn unexpected<T>(input: &mut LexerInput<'_>, last: Option<&NamedColumn>) -> Outcome<T> {
    let clauses = CLAUSES.join(", ");
    if let Some(NamedColumn { name, node: ExpressionNode { kind: Expression::Field(_), span } }) = last
        && let hint = hint(name, SUGGESTED_KEYWORDS)
        && !hint.is_empty()
    {
        // What was read as a column is probably a keyword: `LIST WERE x`.
        let message = format!("unexpected keyword \"{}\": expected {clauses} or the end{hint}", excerpt(name));
        return Err(ErrMode::Cut(QueryProblem::at(span.start, message)));
    }
    match next_word(input) {
        Some(word) => {
            let hint = hint(word, SUGGESTED_KEYWORDS);
            let word = excerpt(word);
            refuse(input, format!("unexpected keyword \"{word}\": expected {clauses} or the end{hint}"))
        }
        None => {
            let next_token = next_token(input);
            refuse(input, format!("unexpected {next_token}: expected an operator, {clauses} or the end"))
        }
    }
}

fn sort(input: &mut LexerInput<'_>, keys: &mut Vec<(ExpressionNode, bool)>) -> Outcome<()> {
    takes_word(input, "BY")?;
    loop {
        let node = expression(input, 0)?;
        let is_descending = takes_word(input, "DESC")? || takes_word(input, "DESCENDING")?;
        if !is_descending && !takes_word(input, "ASC")? {
            takes_word(input, "ASCENDING")?;
        }
        keys.push((node, is_descending));
        if !takes_sign(input, ",")? {
            return Ok(());
        }
    }
}

fn source(input: &mut LexerInput<'_>, depth: usize) -> Outcome<PageSource> {
    if depth > MAX_DEPTH {
        return refuse(input, format!("nests deeper than {MAX_DEPTH}"));
    }
    let mut any = vec![sources(input, depth)?];
    while takes_word(input, "OR")? || takes_sign(input, "||")? {
        any.push(sources(input, depth)?);
    }
    Ok(if any.len() == 1 { any.remove(0) } else { PageSource::Any(any) })
}

fn sources(input: &mut LexerInput<'_>, depth: usize) -> Outcome<PageSource> {
    let mut all = vec![single_source(input, depth)?];
    while takes_word(input, "AND")? || takes_sign(input, "&&")? {
        all.push(single_source(input, depth)?);
    }
    Ok(if all.len() == 1 { all.remove(0) } else { PageSource::All(all) })
}

fn single_source(input: &mut LexerInput<'_>, depth: usize) -> Outcome<PageSource> {
    let mut is_negated = false;
    while takes_sign(input, "-")? || takes_sign(input, "!")? || takes_word(input, "NOT")? {
        is_negated = !is_negated;
    }
    let source = if takes_sign(input, "(")? {
        let inner = source(input, depth + 1)?;
        expect_sign(input, ")", "`)`")?;
        inner
    } else if let Some(prefix) = opt(text).parse_next(input)? {
        PageSource::Prefix(prefix)
    } else if let Some(tag) = opt(tag).parse_next(input)? {
        PageSource::Tag(tag.to_owned())
    } else if next_word(input).is_some_and(is_reserved) && !looks_like_path(input) {
        return expected(input, "a path, a text in quotes or a #tag after FROM");
    } else if let Some(path) = opt(bare_path).parse_next(input)? {
        PageSource::Prefix(path.to_owned())
    } else {
        return expected(input, "a path, a text in quotes or a #tag after FROM");
    };
    Ok(if is_negated { PageSource::Not(Box::new(source)) } else { source })
}

/// `sort/` is a path, `sort` is a keyword.
fn looks_like_path(input: &LexerInput<'_>) -> bool {
    let mut rest = *input;
    bare_path(&mut rest).is_ok_and(|path| path.contains(['/', '.']))
}
