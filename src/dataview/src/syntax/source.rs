//! Sources: `FROM #tag and "folder" or [[Page]]`.

use winnow::stream::Stream;

use super::MAX_DEPTH;
use super::ast::Source;
use super::atoms;
use super::problem::{Input, Parsed, expected, refuse};
use super::tokens::{blanks, quoted, tag, takes, takes_keyword};

pub(super) fn source(input: &mut Input<'_>, depth: usize) -> Parsed<Source> {
    let first = operand(input, depth)?;
    let mut rest = Vec::new();
    loop {
        let is_and = takes_keyword(input, "and")? || takes(input, "&&")? || takes(input, "&")?;
        if !is_and && !takes_keyword(input, "or")? && !takes(input, "||")? && !takes(input, "|")? {
            break;
        }
        rest.push((is_and, operand(input, depth)?));
    }
    if input.starts_with(',') {
        return refuse(input, "combine sources with `or` or `and`, not with a comma");
    }
    Ok(if rest.is_empty() { first } else { Source::Chain(Box::new(first), rest) })
}

fn operand(input: &mut Input<'_>, depth: usize) -> Parsed<Source> {
    if depth > MAX_DEPTH {
        return refuse(input, format!("the source is nested more than {MAX_DEPTH} levels deep; simplify it"));
    }
    let source = if takes(input, "-")? || takes(input, "!")? {
        return Ok(Source::Not(Box::new(operand(input, depth + 1)?)));
    } else if takes(input, "(")? {
        let inner = source(input, depth + 1)?;
        if !input.starts_with(')') {
            return expected(input, "`)`");
        }
        input.next_slice(1);
        inner
    } else if let Some(tag) = tag(input) {
        Source::Tag(tag)
    } else if let Some(path) = quoted(input)? {
        Source::Path(path)
    } else if let Some(link) = atoms::link(input) {
        Source::LinksTo(link)
    } else if takes_keyword(input, "outgoing")? {
        let is_open = takes(input, "(")?;
        let link = if is_open { atoms::link(input) } else { None };
        let Some(link) = link else { return expected(input, "a link, such as in `outgoing([[Page]])`") };
        blanks(input)?;
        if !input.starts_with(')') {
            return expected(input, "`)`");
        }
        input.next_slice(1);
        Source::LinksFrom(link)
    } else if takes_keyword(input, "csv")? {
        return refuse(input, "`csv` is not supported; put the data into pages");
    } else {
        return expected(input, "a source: `#tag`, `\"folder\"`, `[[Page]]` or `outgoing([[Page]])`");
    };
    blanks(input)?;
    Ok(source)
}
