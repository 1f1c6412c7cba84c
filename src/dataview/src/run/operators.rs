//! Operators on values.

use std::cmp::Ordering;
use std::sync::Arc;

use super::evaluate::{Evaluator, MAX_LIST_ITEMS, MAX_TEXT_BYTES};
use crate::error::{Evaluation, Failure};
use crate::syntax::Operator;
use crate::time::difference;
use crate::value::Value;

pub(crate) fn apply(evaluator: &Evaluator<'_>, operator: Operator, left: &Value, right: &Value) -> Evaluation<Value> {
    let order = || evaluator.compare(left, right);
    Ok(match operator {
        Operator::And => Value::Boolean(left.is_truthy() && right.is_truthy()),
        Operator::Or => Value::Boolean(left.is_truthy() || right.is_truthy()),
        Operator::Equal => Value::Boolean(order() == Ordering::Equal),
        Operator::NotEqual => Value::Boolean(order() != Ordering::Equal),
        Operator::Less => Value::Boolean(order() == Ordering::Less),
        Operator::LessOrEqual => Value::Boolean(order() != Ordering::Greater),
        Operator::Greater => Value::Boolean(order() == Ordering::Greater),
        Operator::GreaterOrEqual => Value::Boolean(order() != Ordering::Less),
        Operator::Add | Operator::Subtract | Operator::Multiply | Operator::Divide | Operator::Remainder => {
            calculate(operator, left, right)?
        }
    })
}

/// Null gives null with dates and durations only. A list with a number is calculated item by item.
fn calculate(operator: Operator, left: &Value, right: &Value) -> Evaluation<Value> {
    use Operator::{Add, Divide, Multiply, Remainder, Subtract};
    use Value::{Date, Duration, List, Null, Number, Object, Text};
    let dated = |date: Option<jiff::Zoned>| {
        date.map(Value::date).ok_or_else(|| Failure::row("a date is outside of the years -9999 to 9999"))
    };
    Ok(match (operator, left, right) {
        (Add, Number(a), Number(b)) => Number(a + b),
        (Subtract, Number(a), Number(b)) => Number(a - b),
        (Multiply, Number(a), Number(b)) => Number(a * b),
        (Divide | Remainder, Number(_), Number(0.0)) => return Err(Failure::row("a number is divided by zero")),
        (Divide, Number(a), Number(b)) => Number(a / b),
        (Remainder, Number(a), Number(b)) => Number(a % b),
        (Add, Text(a), b) => Value::text(limited(format!("{a}{}", b.to_text()))?),
        (Add, a, Text(b)) => Value::text(limited(format!("{}{b}", a.to_text()))?),
        (Multiply, Text(text), Number(count)) | (Multiply, Number(count), Text(text)) => repeat(text, *count)?,
        (Add | Subtract, Null, Date(_) | Duration(_)) | (Add | Subtract, Date(_) | Duration(_), Null) => Null,
        (Add, Date(date), Duration(duration)) | (Add, Duration(duration), Date(date)) => dated(duration.add_to(date))?,
        (Subtract, Date(date), Duration(duration)) => dated(duration.times(-1.0).add_to(date))?,
        (Subtract, Date(a), Date(b)) => difference(a, b).map_or(Null, Value::duration),
        (Add, Duration(a), Duration(b)) => Value::duration(a.plus(**b)),
        (Subtract, Duration(a), Duration(b)) => Value::duration(a.plus(b.times(-1.0))),
        (Multiply, Duration(a), Number(b)) | (Multiply, Number(b), Duration(a)) => Value::duration(a.times(*b)),
        (Divide, Duration(a), Number(b)) => Value::duration(a.times(1.0 / b)),
        (Divide, Duration(a), Duration(b)) => Number(a.total_milliseconds() / b.total_milliseconds()),
        (Add, List(a), List(b)) => {
            if a.len() + b.len() > MAX_LIST_ITEMS {
                return Err(Failure::query(format!("a list has more than {MAX_LIST_ITEMS} items")));
            }
            Value::list(a.iter().chain(b.iter()).cloned().collect())
        }
        (Add, Object(a), Object(b)) => {
            let mut members = a.to_vec();
            members.retain(|(key, _)| !b.iter().any(|(other, _)| other == key));
            members.extend(b.iter().cloned());
            Object(Arc::new(members))
        }
        (_, List(items), Number(_) | Duration(_)) => {
            let items = items.iter().map(|item| calculate(operator, item, right));
            Value::list(items.collect::<Evaluation<_>>()?)
        }
        (_, Number(_) | Duration(_), List(items)) => {
            let items = items.iter().map(|item| calculate(operator, left, item));
            Value::list(items.collect::<Evaluation<_>>()?)
        }
        _ => {
            let sign = operator.sign();
            return Err(Failure::row(format!(
                "`{sign}` does not apply to {} and {}",
                left.type_name(),
                right.type_name()
            )));
        }
    })
}

fn repeat(text: &str, count: f64) -> Evaluation<Value> {
    if count.is_nan() || count < 0.0 {
        return Err(Failure::row(format!("a text cannot be repeated {count} times")));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative; the cast saturates")]
    let count = count as usize;
    if text.len().saturating_mul(count) > MAX_TEXT_BYTES {
        return Err(Failure::query(format!("a text is longer than {MAX_TEXT_BYTES} bytes")));
    }
    Ok(Value::text(text.repeat(count)))
}

/// Refuses a text that became too long.
pub(crate) fn limited(text: String) -> Evaluation<String> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(Failure::query(format!("a text is longer than {MAX_TEXT_BYTES} bytes")));
    }
    Ok(text)
}
