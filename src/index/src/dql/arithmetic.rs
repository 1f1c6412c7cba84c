//! Arithmetic on numbers, dates, time spans and texts.

use super::ast::Arithmetic;
use super::calls::bounded;
use crate::IndexError;
use crate::moments::WrittenDate;
use crate::value::{DateLength, Value};

/// Applies an operator; null when it is undefined for the values, such as a division by zero.
pub(crate) fn combine(operator: Arithmetic, one: Value, two: Value) -> Result<Value, IndexError> {
    if one.is_null() || two.is_null() {
        return Ok(Value::Null);
    }
    if let (Some(first), Some(second)) = (one.number(), two.number()) {
        return Ok(numbers(operator, (&one, first), (&two, second)));
    }
    if let Some(value) = times(operator, &one, &two) {
        return Ok(value);
    }
    // A date plus a number is an error (`+ 1d` was meant), not a concatenation of texts.
    let is_date_with_number = |date: &Value, other: &Value| date.moment().is_some() && other.number().is_some();
    if is_date_with_number(&one, &two) || is_date_with_number(&two, &one) {
        return Ok(Value::Null);
    }
    if operator == Arithmetic::Add && (is_text(&one) || is_text(&two)) {
        return bounded(one.text() + &two.text());
    }
    Ok(Value::Null)
}

const fn is_text(value: &Value) -> bool {
    matches!(value, Value::Text(_))
}

fn numbers(operator: Arithmetic, one: (&Value, f64), two: (&Value, f64)) -> Value {
    if let ((Value::Integer(first), _), (Value::Integer(second), _)) = (one, two) {
        let (first, second) = (*first, *second);
        let exact = match operator {
            Arithmetic::Add => first.checked_add(second),
            Arithmetic::Subtract => first.checked_sub(second),
            Arithmetic::Multiply => first.checked_mul(second),
            Arithmetic::Remainder => first.checked_rem(second),
            Arithmetic::Divide => first.checked_div(second).filter(|quotient| quotient * second == first),
        };
        if let Some(exact) = exact {
            return Value::Integer(exact);
        }
    }
    let (first, second) = (one.1, two.1);
    let real = match operator {
        Arithmetic::Add => first + second,
        Arithmetic::Subtract => first - second,
        Arithmetic::Multiply => first * second,
        Arithmetic::Divide => first / second,
        Arithmetic::Remainder => first % second,
    };
    if real.is_finite() { Value::Real(real) } else { Value::Null }
}

/// Dates and spans; `None` when neither value is one.
fn times(operator: Arithmetic, one: &Value, two: &Value) -> Option<Value> {
    let moment = |moment: Option<WrittenDate>| match moment {
        Some(WrittenDate::Day(day)) => Value::Day(day),
        Some(WrittenDate::Instant(instant)) => Value::Instant(instant),
        None => Value::Null,
    };
    let length = |length: Option<DateLength>| length.map_or(Value::Null, Value::Length);
    match (operator, one, two) {
        (Arithmetic::Add, Value::Length(first), Value::Length(second)) => Some(length(first.plus(*second))),
        (Arithmetic::Subtract, Value::Length(first), Value::Length(second)) => {
            Some(length(second.times(-1).and_then(|second| first.plus(second))))
        }
        (Arithmetic::Multiply, Value::Length(one), Value::Integer(count))
        | (Arithmetic::Multiply, Value::Integer(count), Value::Length(one)) => Some(length(one.times(*count))),
        (Arithmetic::Add, date, Value::Length(later)) | (Arithmetic::Add, Value::Length(later), date) => {
            Some(moment(later.after(date.moment()?)))
        }
        (Arithmetic::Subtract, date, Value::Length(earlier)) => {
            let date = date.moment()?;
            Some(moment(earlier.times(-1).and_then(|earlier| earlier.after(date))))
        }
        (Arithmetic::Subtract, one, two) => Some(length(DateLength::between(two.moment()?, one.moment()?))),
        _ => None,
    }
}
