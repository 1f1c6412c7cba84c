//! Queries: a type with its columns, a source, and commands in order.

use winnow::error::ErrMode;
use winnow::stream::{LocatingSlice, Stream};

use super::MAX_BYTES;
use super::ast::{Command, ParsedQuery, QueryType};
use super::atoms::{is_keyword, refuse_rest};
use super::expression::{expression, named};
use super::problem::{Input, Parsed, excerpt, expected, hint, refuse};
use super::source::source;
use super::tokens::{blanks, peek_word, takes, takes_keyword};

const TYPES: [(&str, QueryType); 4] = [
    ("TABLE", QueryType::Table),
    ("LIST", QueryType::List),
    ("TASK", QueryType::Task),
    ("CALENDAR", QueryType::Calendar),
];

/// Limit of columns, and of commands.
const MAX_PARTS: usize = 100;

pub(crate) fn parse(text: &str) -> Result<ParsedQuery, String> {
    if text.len() > MAX_BYTES {
        return Err(format!("the query is {} bytes long; the limit is {MAX_BYTES} bytes", text.len()));
    }
    let mut input = LocatingSlice::new(text);
    query(&mut input).map_err(|error| match error {
        ErrMode::Cut(problem) | ErrMode::Backtrack(problem) => problem.to_message(text),
        // Only possible for streamed input.
        ErrMode::Incomplete(_) => "the query is cut off".to_owned(),
    })
}

fn query(input: &mut Input<'_>) -> Parsed<ParsedQuery> {
    blanks(input)?;
    let mut parsed = header(input)?;
    if takes_keyword(input, "FROM")? {
        parsed.source = Some(source(input, 0)?);
    }
    while input.eof_offset() > 0 {
        if parsed.commands.len() == MAX_PARTS {
            return refuse(input, format!("a query has {MAX_PARTS} commands at most"));
        }
        let command = command(input, parsed.source.is_some())?;
        parsed.commands.push(command);
    }
    Ok(parsed)
}

fn header(input: &mut Input<'_>) -> Parsed<ParsedQuery> {
    let names = || TYPES.iter().map(|(name, _)| *name);
    let Some(word) = peek_word(input) else { return expected(input, "TABLE, LIST, TASK or CALENDAR") };
    let Some((name, kind)) = TYPES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)) else {
        let message = if word.eq_ignore_ascii_case("dataviewjs") || word == "dv" {
            "`dataviewjs` is JavaScript and is not run; write the query as TABLE, LIST, TASK or CALENDAR".to_owned()
        } else {
            let hint = hint(word, names());
            format!("a query starts with TABLE, LIST, TASK or CALENDAR, not with `{}`{hint}", excerpt(word))
        };
        return refuse(input, message);
    };
    takes_keyword(input, name)?;
    let mut parsed =
        ParsedQuery { kind: *kind, without_id: false, columns: Vec::new(), source: None, commands: Vec::new() };
    if matches!(kind, QueryType::Table | QueryType::List) && takes_keyword(input, "WITHOUT")? {
        if !takes_keyword(input, "ID")? {
            return expected(input, "ID after WITHOUT");
        }
        parsed.without_id = true;
    }
    let is_end = input.eof_offset() == 0 || peek_word(input).is_some_and(|word| is_keyword(input, word));
    match kind {
        QueryType::Table if !is_end => {
            parsed.columns.push(named(input)?);
            while takes(input, ",")? {
                if parsed.columns.len() == MAX_PARTS {
                    return refuse(input, format!("a table has {MAX_PARTS} columns at most"));
                }
                parsed.columns.push(named(input)?);
            }
        }
        QueryType::List if !is_end => {
            parsed.columns.push(named(input)?);
            if input.starts_with(',') {
                return refuse(input, "LIST shows one value; join several with `+`, or write TABLE");
            }
        }
        QueryType::Calendar if is_end => return expected(input, "a field with a date, such as `CALENDAR due`"),
        QueryType::Calendar => parsed.columns.push(named(input)?),
        QueryType::Table | QueryType::List | QueryType::Task => {}
    }
    Ok(parsed)
}

fn command(input: &mut Input<'_>, has_source: bool) -> Parsed<Command> {
    let origin = *input;
    if takes_keyword(input, "WHERE")? {
        Ok(Command::Where(expression(input, 0)?))
    } else if takes_keyword(input, "SORT")? {
        sort(input)
    } else if takes_keyword(input, "GROUP")? {
        if !takes_keyword(input, "BY")? {
            return expected(input, "BY after GROUP");
        }
        Ok(Command::Group(named(input)?))
    } else if takes_keyword(input, "FLATTEN")? {
        Ok(Command::Flatten(named(input)?))
    } else if takes_keyword(input, "LIMIT")? {
        Ok(Command::Limit(expression(input, 0)?))
    } else if takes_keyword(input, "FROM")? {
        let reason = if has_source {
            "a query has one FROM; combine sources with `or` or `and`"
        } else {
            "FROM comes before the other clauses, directly after the columns"
        };
        refuse(&origin, reason)
    } else {
        refuse_rest(input)
    }
}

fn sort(input: &mut Input<'_>) -> Parsed<Command> {
    let mut keys = Vec::new();
    loop {
        let key = expression(input, 0)?;
        let mut is_descending = false;
        if let Some(word) = peek_word(input) {
            let directions = [("ASC", false), ("ASCENDING", false), ("DESC", true), ("DESCENDING", true)];
            if let Some((name, value)) = directions.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)) {
                takes_keyword(input, name)?;
                is_descending = *value;
            }
        }
        keys.push((key, is_descending));
        if !takes(input, ",")? {
            return Ok(Command::Sort(keys));
        }
        if keys.len() == MAX_PARTS {
            return refuse(input, format!("SORT has {MAX_PARTS} keys at most"));
        }
    }
}
