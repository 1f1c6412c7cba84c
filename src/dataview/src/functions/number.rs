//! Functions of numbers.

use super::{number_argument, text_argument, wrong};
use crate::error::{Evaluation, Failure};
use crate::run::evaluate::Evaluator;
use crate::run::operators::apply;
use crate::syntax::Operator;
use crate::value::Value;

/// The first number in a text.
pub(super) fn number(_: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    let Some(text) = arguments[0].as_text() else {
        return Ok(if arguments[0].as_number().is_some() { arguments[0].clone() } else { Value::Null });
    };
    let Some(start) = text.find(|c: char| c.is_ascii_digit()) else { return Ok(Value::Null) };
    let digits = |from: usize| text[from..].find(|c: char| !c.is_ascii_digit()).map_or(text.len(), |end| from + end);
    let mut end = digits(start);
    if text[end..].starts_with('.') && digits(end + 1) > end + 1 {
        end = digits(end + 1);
    }
    let start = if text[..start].ends_with('-') { start - 1 } else { start };
    Ok(text[start..end].parse().map_or(Value::Null, Value::Number))
}

/// Rounds half up, as JavaScript does.
pub(super) fn round(_: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    let number = number_argument("round", &arguments[0])?;
    let digits = match arguments.get(1) {
        None | Some(Value::Null) => 0.0,
        Some(digits) => number_argument("round", digits)?.trunc(),
    };
    if digits <= 0.0 {
        return Ok(Value::Number((number + 0.5).floor()));
    }
    // The decimal digits of the number decide: 1.005 is less than 1.005 in binary.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "limited")]
    let digits = digits.min(15.0) as usize;
    let scaled = number * 10_f64.powi(i32::try_from(digits).unwrap_or(0));
    if scaled.fract().abs() == 0.5 {
        // An exact half, which the formatter rounds to even.
        return Ok(Value::Number((scaled + 0.5).floor() / 10_f64.powi(i32::try_from(digits).unwrap_or(0))));
    }
    Ok(Value::Number(format!("{number:.digits$}").parse().unwrap_or(number)))
}

pub(super) fn trunc(_: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    Ok(Value::Number(number_argument("trunc", &arguments[0])?.trunc()))
}

pub(super) fn floor(_: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    Ok(Value::Number(number_argument("floor", &arguments[0])?.floor()))
}

pub(super) fn ceil(_: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    Ok(Value::Number(number_argument("ceil", &arguments[0])?.ceil()))
}

pub(super) fn sum(evaluator: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    fold(evaluator, "sum", &arguments[0], Operator::Add)
}

pub(super) fn product(evaluator: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    fold(evaluator, "product", &arguments[0], Operator::Multiply)
}

pub(super) fn average(evaluator: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    let total = fold(evaluator, "average", &arguments[0], Operator::Add)?;
    let count = arguments[0].as_list().map_or(1, <[Value]>::len);
    if count == 0 || total.is_null() {
        return Ok(Value::Null);
    }
    apply(evaluator, Operator::Divide, &total, &Value::Number(count as f64))
}

/// Combines the items. Without items, null.
fn fold(evaluator: &Evaluator<'_>, name: &str, list: &Value, operator: Operator) -> Evaluation<Value> {
    let items = match list {
        Value::List(items) => items,
        Value::Null => return Ok(Value::Null),
        number @ (Value::Number(_) | Value::Duration(_)) => return Ok(number.clone()),
        other => return wrong(name, "a list", other),
    };
    let Some((first, rest)) = items.split_first() else { return Ok(Value::Null) };
    rest.iter().try_fold(first.clone(), |total, item| apply(evaluator, operator, &total, item))
}

/// An amount in the English notation of a currency.
pub(super) fn currency(_: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    let number = number_argument("currencyformat", &arguments[0])?;
    let code = match arguments.get(1) {
        None | Some(Value::Null) => "USD",
        Some(code) => text_argument("currencyformat", code)?,
    };
    if code.len() != 3 || !code.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return Err(Failure::row(format!("`{code}` is no currency; use a code of ISO 4217 such as EUR")));
    }
    let code = code.to_ascii_uppercase();
    let sign = match code.as_str() {
        "USD" => "$",
        "EUR" => "€",
        "GBP" => "£",
        "JPY" => "¥",
        "INR" => "₹",
        "KRW" => "₩",
        "CNY" => "CN¥",
        "CAD" => "CA$",
        "AUD" => "A$",
        "BRL" => "R$",
        "MXN" => "MX$",
        "NZD" => "NZ$",
        "HKD" => "HK$",
        "ILS" => "₪",
        "VND" => "₫",
        "TWD" => "NT$",
        "PHP" => "₱",
        other => &format!("{other}\u{a0}"),
    };
    let decimals = if matches!(code.as_str(), "JPY" | "KRW" | "VND" | "CLP" | "ISK") { 0 } else { 2 };
    let text = format!("{:.decimals$}", number.abs());
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let minus = if number < 0.0 { "-" } else { "" };
    Ok(Value::text(format!("{minus}{sign}{grouped}{fraction}")))
}
