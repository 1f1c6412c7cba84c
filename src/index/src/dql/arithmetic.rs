//! Arithmetic on numbers, dates, time spans and texts.

use super::ast::Arithmetic;
use super::calls::bounded;
use crate::IndexError;
use crate::dates::WrittenDate;
use crate::value::{DateLength, Value};

/// Applies an operator; null when it is undefined for the values, such as a division by zero.
pub(crate) fn combine(operator: Arithmetic, a: Value, b: Value) -> Result<Value, IndexError> {
    if a.is_null() || b.is_null() {
        return Ok(Value::Null);
    }
    if let (Some(x), Some(y)) = (a.number(), b.number()) {
        return Ok(numbers(operator, (&a, x), (&b, y)));
    }
    if let Some(value) = combine_dates(operator, &a, &b) {
        return Ok(value);
    }
    // A date plus a number is an error (`+ 1d` was meant), not a concatenation of texts.
    let is_date_with_number = |date: &Value, other: &Value| date.date().is_some() && other.number().is_some();
    if is_date_with_number(&a, &b) || is_date_with_number(&b, &a) {
        return Ok(Value::Null);
    }
    if operator == Arithmetic::Add && (is_text(&a) || is_text(&b)) {
        return bounded(a.text() + &b.text());
    }
    Ok(Value::Null)
}

const fn is_text(value: &Value) -> bool {
    matches!(value, Value::Text(_))
}

fn numbers(operator: Arithmetic, a: (&Value, f64), b: (&Value, f64)) -> Value {
    if let ((Value::Integer(x), _), (Value::Integer(y), _)) = (a, b) {
        let (x, y) = (*x, *y);
        let exact = match operator {
            Arithmetic::Add => x.checked_add(y),
            Arithmetic::Subtract => x.checked_sub(y),
            Arithmetic::Multiply => x.checked_mul(y),
            Arithmetic::Remainder => x.checked_rem(y),
            Arithmetic::Divide => x.checked_div(y).filter(|quotient| quotient * y == x),
        };
        if let Some(exact) = exact {
            return Value::Integer(exact);
        }
    }
    let (x, y) = (a.1, b.1);
    let real = match operator {
        Arithmetic::Add => x + y,
        Arithmetic::Subtract => x - y,
        Arithmetic::Multiply => x * y,
        Arithmetic::Divide => x / y,
        Arithmetic::Remainder => x % y,
    };
    if real.is_finite() { Value::Real(real) } else { Value::Null }
}

/// Dates and spans; `None` when neither value is one.
fn combine_dates(operator: Arithmetic, a: &Value, b: &Value) -> Option<Value> {
    let date_value = |date: Option<WrittenDate>| match date {
        Some(WrittenDate::Day(day)) => Value::Day(day),
        Some(WrittenDate::Instant(instant)) => Value::Instant(instant),
        None => Value::Null,
    };
    let length = |length: Option<DateLength>| length.map_or(Value::Null, Value::Length);
    match (operator, a, b) {
        (Arithmetic::Add, Value::Length(x), Value::Length(y)) => Some(length(x.plus(*y))),
        (Arithmetic::Subtract, Value::Length(x), Value::Length(y)) => Some(length(y.times(-1).and_then(|y| x.plus(y)))),
        (Arithmetic::Multiply, Value::Length(a), Value::Integer(count))
        | (Arithmetic::Multiply, Value::Integer(count), Value::Length(a)) => Some(length(a.times(*count))),
        (Arithmetic::Add, date, Value::Length(later)) | (Arithmetic::Add, Value::Length(later), date) => {
            Some(date_value(later.add_to(date.date()?)))
        }
        (Arithmetic::Subtract, date, Value::Length(earlier)) => {
            let date = date.date()?;
            Some(date_value(earlier.times(-1).and_then(|earlier| earlier.add_to(date))))
        }
        (Arithmetic::Subtract, a, b) => Some(length(DateLength::between(b.date()?, a.date()?))),
        _ => None,
    }
}
