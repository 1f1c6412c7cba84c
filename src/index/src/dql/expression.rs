//! Grammar of expressions, lowest precedence first: OR, AND, NOT, comparisons, `+ -`, `* / %`, `-`,
//! values.
//!
//! Nesting is counted on the way down, so that no query can exhaust the stack; chains of one
//! operator are lists and do not nest.

use winnow::Parser;
use winnow::combinator::{alt, opt, peek};

use super::ast::{Arithmetic, Comparison, Expression, ExpressionNode, NegationSense};
use super::functions::{self, Function};
use super::lexemes::{
    LexerInput, expect_sign, field, is_reserved, measure, next_word, offset, sign, take_word, takes_sign, takes_word,
    text,
};
use super::problem::{Outcome, excerpt, expected, hint, refuse};
use crate::value::Value;

pub(crate) const MAX_DEPTH: usize = 64;

pub(crate) fn expression(input: &mut LexerInput<'_>, depth: usize) -> Outcome<ExpressionNode> {
    if depth > MAX_DEPTH {
        return refuse(input, format!("nests deeper than {MAX_DEPTH}"));
    }
    let start = offset(input);
    let mut nodes = vec![conjunction(input, depth)?];
    while takes_word(input, "OR")? || takes_sign(input, "||")? {
        nodes.push(conjunction(input, depth)?);
    }
    Ok(join_nodes(nodes, Expression::Any, start))
}

fn conjunction(input: &mut LexerInput<'_>, depth: usize) -> Outcome<ExpressionNode> {
    let start = offset(input);
    let mut nodes = vec![negation(input, depth)?];
    while takes_word(input, "AND")? || takes_sign(input, "&&")? {
        nodes.push(negation(input, depth)?);
    }
    Ok(join_nodes(nodes, Expression::All, start))
}

/// A single node is returned unchanged.
fn join_nodes(
    mut nodes: Vec<ExpressionNode>,
    join: fn(Vec<ExpressionNode>) -> Expression,
    start: usize,
) -> ExpressionNode {
    let end = nodes.last().map_or(start, |node| node.span.end);
    match nodes.pop() {
        Some(only) if nodes.is_empty() => only,
        last => {
            nodes.extend(last);
            ExpressionNode { kind: join(nodes), span: start..end }
        }
    }
}

fn negation(input: &mut LexerInput<'_>, depth: usize) -> Outcome<ExpressionNode> {
    let start = offset(input);
    let mut count = 0;
    while takes_word(input, "NOT")? || (!peek_sign(input, "!=")? && takes_sign(input, "!")?) {
        count += 1;
    }
    let node = comparison(input, depth)?;
    let span = start..node.span.end;
    // Two negations cancel out, but convert the value to a boolean.
    Ok(match count {
        0 => node,
        count => {
            let negated = ExpressionNode { kind: Expression::Not(Box::new(node)), span: span.clone() };
            if count % 2 == 1 { negated } else { ExpressionNode { kind: Expression::Not(Box::new(negated)), span } }
        }
    })
}

fn peek_sign(input: &mut LexerInput<'_>, text: &'static str) -> Outcome<bool> {
    Ok(opt(peek(sign(text))).parse_next(input)?.is_some())
}

fn comparison(input: &mut LexerInput<'_>, depth: usize) -> Outcome<ExpressionNode> {
    let left = sum(input, depth)?;
    let start = left.span.start;
    let end = |node: &ExpressionNode| node.span.end;
    if let Some(comparison) = opt(comparison_sign).parse_next(input)? {
        let right = sum(input, depth)?;
        if opt(peek(comparison_sign)).parse_next(input)?.is_some() {
            return refuse(input, "comparisons cannot be chained; join two of them with AND");
        }
        let span = start..end(&right);
        return Ok(ExpressionNode { kind: Expression::Compare(comparison, Box::new(left), Box::new(right)), span });
    }
    if takes_word(input, "IS")? {
        let sense = sense(input)?;
        if !(takes_word(input, "NULL")? || takes_word(input, "NIL")?) {
            return expected(input, "NULL after IS");
        }
        let span = start..offset(input);
        return Ok(ExpressionNode { kind: Expression::IsNull(Box::new(left), sense), span });
    }
    let sense = sense(input)?;
    if takes_word(input, "LIKE")? {
        let right = sum(input, depth)?;
        let span = start..end(&right);
        return Ok(ExpressionNode { kind: Expression::Like(Box::new(left), Box::new(right), sense), span });
    }
    if takes_word(input, "IN")? {
        expect_sign(input, "(", "`(` and a list of values after IN")?;
        if takes_sign(input, ")")? {
            return refuse(input, "the list after IN is empty");
        }
        let nodes = arguments(input, depth)?;
        let span = start..offset(input);
        return Ok(ExpressionNode { kind: Expression::In(Box::new(left), nodes, sense), span });
    }
    if takes_word(input, "BETWEEN")? {
        let low = sum(input, depth)?;
        if !takes_word(input, "AND")? {
            return expected(input, "AND and the upper end of BETWEEN");
        }
        let high = sum(input, depth)?;
        let span = start..end(&high);
        return Ok(ExpressionNode { kind: Expression::Between(Box::new(left), Box::new((low, high)), sense), span });
    }
    match sense {
        NegationSense::Plain => Ok(left),
        NegationSense::Negated => expected(input, "LIKE, IN or BETWEEN after NOT"),
    }
}

fn sense(input: &mut LexerInput<'_>) -> Outcome<NegationSense> {
    Ok(if takes_word(input, "NOT")? { NegationSense::Negated } else { NegationSense::Plain })
}

fn comparison_sign(input: &mut LexerInput<'_>) -> Outcome<Comparison> {
    alt((
        alt((sign("!="), sign("<>"))).value(Comparison::NotEqual),
        sign("<=").value(Comparison::LessOrEqual),
        sign(">=").value(Comparison::GreaterOrEqual),
        alt((sign("=="), sign("="))).value(Comparison::Equal),
        sign("<").value(Comparison::Less),
        sign(">").value(Comparison::Greater),
    ))
    .parse_next(input)
}

fn sum(input: &mut LexerInput<'_>, depth: usize) -> Outcome<ExpressionNode> {
    let signs = |input: &mut LexerInput<'_>| {
        alt((sign("+").value(Arithmetic::Add), sign("-").value(Arithmetic::Subtract))).parse_next(input)
    };
    chain(input, depth, signs, product)
}

fn product(input: &mut LexerInput<'_>, depth: usize) -> Outcome<ExpressionNode> {
    let signs = |input: &mut LexerInput<'_>| {
        alt((
            sign("*").value(Arithmetic::Multiply),
            sign("/").value(Arithmetic::Divide),
            sign("%").value(Arithmetic::Remainder),
        ))
        .parse_next(input)
    };
    chain(input, depth, signs, unary)
}

fn chain(
    input: &mut LexerInput<'_>,
    depth: usize,
    mut signs: impl FnMut(&mut LexerInput<'_>) -> Outcome<Arithmetic>,
    part: fn(&mut LexerInput<'_>, usize) -> Outcome<ExpressionNode>,
) -> Outcome<ExpressionNode> {
    let first = part(input, depth)?;
    let mut rest = Vec::new();
    while let Some(operator) = opt(&mut signs).parse_next(input)? {
        rest.push((operator, part(input, depth)?));
    }
    let Some(end) = rest.last().map(|(_, node)| node.span.end) else {
        return Ok(first);
    };
    let span = first.span.start..end;
    Ok(ExpressionNode { kind: Expression::Chain(Box::new(first), rest), span })
}

fn unary(input: &mut LexerInput<'_>, depth: usize) -> Outcome<ExpressionNode> {
    let start = offset(input);
    let mut is_negative = false;
    while takes_sign(input, "-")? {
        is_negative = !is_negative;
    }
    let node = value(input, depth)?;
    if !is_negative {
        return Ok(node);
    }
    let span = start..node.span.end;
    Ok(match node.kind {
        Expression::Literal(Value::Integer(integer)) => {
            ExpressionNode { kind: Expression::Literal(Value::Integer(-integer)), span }
        }
        Expression::Literal(Value::Real(real)) => {
            ExpressionNode { kind: Expression::Literal(Value::Real(-real)), span }
        }
        _ => ExpressionNode { kind: Expression::Negative(Box::new(node)), span },
    })
}

fn value(input: &mut LexerInput<'_>, depth: usize) -> Outcome<ExpressionNode> {
    let start = offset(input);
    let kind = if takes_sign(input, "(")? {
        let inner = expression(input, depth + 1)?;
        expect_sign(input, ")", "`)`")?;
        inner.kind
    } else if let Some(text) = opt(text).parse_next(input)? {
        Expression::Literal(Value::Text(text))
    } else if let Some(measure) = opt(measure).parse_next(input)? {
        Expression::Literal(measure)
    } else {
        primary(input, depth)?
    };
    Ok(ExpressionNode { kind, span: start..offset(input) })
}

/// A literal keyword, a call, or a field.
fn primary(input: &mut LexerInput<'_>, depth: usize) -> Outcome<Expression> {
    if let Some(word) = next_word(input) {
        for (keyword, value) in [
            ("TRUE", Value::Boolean(true)),
            ("FALSE", Value::Boolean(false)),
            ("NULL", Value::Null),
            ("NIL", Value::Null),
        ] {
            if takes_word(input, keyword)? {
                return Ok(Expression::Literal(value));
            }
        }
        if is_reserved(word) {
            return refuse(
                input,
                format!(
                    "expected a value, found the keyword `{}`; put a field of that name in back-ticks",
                    excerpt(word)
                ),
            );
        }
        let origin = *input;
        take_word(input)?;
        if takes_sign(input, "(")? {
            return call(&origin, word, input, depth);
        }
        *input = origin;
    }
    match opt(field).parse_next(input)? {
        Some(steps) => Ok(Expression::Field(steps)),
        None => expected(input, "a field, a value or a function"),
    }
}

fn call(origin: &LexerInput<'_>, word: &str, input: &mut LexerInput<'_>, depth: usize) -> Outcome<Expression> {
    let Some(function) = Function::named(word) else {
        let names = functions::TABLE.iter().map(|row| row.name);
        return refuse(origin, format!("there is no function `{}`{}", excerpt(word), hint(word, names)));
    };
    let nodes = if takes_sign(input, ")")? { Vec::new() } else { arguments(input, depth)? };
    let row = function.row();
    if !(row.min_args..=row.max_args).contains(&nodes.len()) {
        return refuse(
            origin,
            format!("`{}` is written `{}`; {} given", row.name, row.usage, describe_count(nodes.len())),
        );
    }
    Ok(Expression::Call(function, nodes))
}

fn describe_count(count: usize) -> String {
    match count {
        0 => "no argument is".to_owned(),
        1 => "1 argument is".to_owned(),
        many => format!("{many} arguments are"),
    }
}

fn arguments(input: &mut LexerInput<'_>, depth: usize) -> Outcome<Vec<ExpressionNode>> {
    let mut nodes = vec![expression(input, depth + 1)?];
    while takes_sign(input, ",")? {
        nodes.push(expression(input, depth + 1)?);
    }
    expect_sign(input, ")", "`,` or `)`")?;
    Ok(nodes)
}
