//! Expressions: operators and what stands between them.

use winnow::stream::Stream;

use super::MAX_DEPTH;
use super::ast::{Expression, ExpressionKind, NamedExpression, Operator};
use super::atoms;
use super::problem::{Input, Parsed, expected, refuse};
use super::tokens::{blanks, peek_word, position, quoted, takes_keyword, word};

/// Operators by precedence, the weakest first. `and` and `or` are equally strong, as in Dataview.
const LEVELS: [&[(&str, Operator)]; 4] = [
    &[
        ("and", Operator::And),
        ("or", Operator::Or),
        ("&&", Operator::And),
        ("||", Operator::Or),
        ("&", Operator::And),
        ("|", Operator::Or),
    ],
    &[
        ("<=", Operator::LessOrEqual),
        (">=", Operator::GreaterOrEqual),
        ("!=", Operator::NotEqual),
        ("<", Operator::Less),
        (">", Operator::Greater),
        ("=", Operator::Equal),
    ],
    &[("+", Operator::Add), ("-", Operator::Subtract)],
    &[("*", Operator::Multiply), ("/", Operator::Divide), ("%", Operator::Remainder)],
];

/// Parses an expression and the blanks after it.
pub(super) fn expression(input: &mut Input<'_>, depth: usize) -> Parsed<Expression> {
    if depth > MAX_DEPTH {
        return refuse(input, format!("the expression is nested more than {MAX_DEPTH} levels deep; simplify it"));
    }
    level(input, 0, depth)
}

fn level(input: &mut Input<'_>, index: usize, depth: usize) -> Parsed<Expression> {
    let Some(operators) = LEVELS.get(index) else { return postfix(input, depth) };
    let start = position(input);
    let first = level(input, index + 1, depth)?;
    let mut rest = Vec::new();
    while let Some(operator) = takes_operator(input, operators)? {
        rest.push((operator, level(input, index + 1, depth)?));
    }
    Ok(if rest.is_empty() { first } else { Expression { kind: ExpressionKind::Chain(Box::new(first), rest), start } })
}

fn takes_operator(input: &mut Input<'_>, operators: &[(&str, Operator)]) -> Parsed<Option<Operator>> {
    for (sign, operator) in operators {
        let is_word = sign.starts_with(|c: char| c.is_alphabetic());
        let is_next = if is_word { takes_keyword(input, sign)? } else { input.starts_with(sign) };
        if is_next {
            if !is_word {
                input.next_slice(sign.len());
                if *operator == Operator::Equal && input.starts_with('=') {
                    return refuse(input, "write `=` to compare, not `==`");
                }
                blanks(input)?;
            }
            return Ok(Some(*operator));
        }
    }
    Ok(None)
}

/// An operand with its indexes: `a.b["c"][0]`.
fn postfix(input: &mut Input<'_>, depth: usize) -> Parsed<Expression> {
    let start = position(input);
    if input.starts_with('!') && !input.starts_with("![[") {
        input.next_slice(1);
        blanks(input)?;
        let inner = nested_postfix(input, depth)?;
        return Ok(Expression { kind: ExpressionKind::Not(Box::new(inner)), start });
    }
    let next: &str = input.as_ref();
    if next.starts_with('-') && !next[1..].starts_with(|c: char| c.is_ascii_digit()) {
        input.next_slice(1);
        blanks(input)?;
        let inner = nested_postfix(input, depth)?;
        return Ok(Expression { kind: ExpressionKind::Negative(Box::new(inner)), start });
    }
    let mut object = atoms::atom(input, depth)?;
    for level in depth.. {
        if level > 2 * MAX_DEPTH {
            return refuse(input, "too many fields of fields; simplify the expression");
        }
        let key_start = position(input);
        let key = if input.starts_with('.') {
            input.next_slice(1);
            let Some(name) = word(input) else { return expected(input, "the name of a field after `.`") };
            Expression { kind: ExpressionKind::Literal(crate::Value::text(name)), start: key_start + 1 }
        } else if input.starts_with('[') {
            input.next_slice(1);
            blanks(input)?;
            let key = expression(input, depth + 1)?;
            if !input.starts_with(']') {
                return expected(input, "`]`");
            }
            input.next_slice(1);
            key
        } else {
            break;
        };
        object = Expression { kind: ExpressionKind::Index(Box::new(object), Box::new(key)), start };
        atoms::check_file_field(&object)?;
    }
    blanks(input)?;
    Ok(object)
}

fn nested_postfix(input: &mut Input<'_>, depth: usize) -> Parsed<Expression> {
    if depth > MAX_DEPTH {
        return refuse(input, format!("the expression is nested more than {MAX_DEPTH} levels deep; simplify it"));
    }
    postfix(input, depth + 1)
}

/// An expression with `AS name`; without it, its text is the name.
pub(super) fn named(input: &mut Input<'_>) -> Parsed<NamedExpression> {
    let origin = *input;
    let expression = expression(input, 0)?;
    let length = position(input) - position(&origin);
    let text: &str = origin.as_ref();
    let written = text.get(..length).unwrap_or_default().trim_end();
    let name = if takes_keyword(input, "AS")? {
        let name = match quoted(input)? {
            Some(name) => name,
            None => match peek_word(input).is_some().then(|| word(input)).flatten() {
                Some(name) => name.to_owned(),
                None => return expected(input, "a name after AS, such as `AS \"Due date\"`"),
            },
        };
        blanks(input)?;
        name
    } else {
        written.to_owned()
    };
    Ok(NamedExpression { name: name.into(), expression })
}
