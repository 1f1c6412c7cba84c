//! Arguments of a wrong type that can be converted without loss: models send numbers as texts,
//! objects as JSON texts, and one item in place of a list.
//!
//! Invariant: the converted value means exactly what was sent. Everything else stays as it is and
//! is refused by its name.

use serde_json::{Map, Number, Value};

/// Converts a value to the type of its published schema, where that loses nothing.
pub(super) fn coerce(value: &mut Value, schema: &Value) {
    let kind = schema.get("type").and_then(Value::as_str).unwrap_or_default();
    let converted = match (kind, &*value) {
        ("integer", Value::String(text)) => integer(text),
        ("integer", Value::Number(number)) => whole(number),
        ("number", Value::String(text)) => text.trim().parse().ok().and_then(Number::from_f64).map(Value::from),
        ("boolean", Value::String(text)) => boolean(text),
        ("string", Value::Number(number)) if number.is_i64() || number.is_u64() => Some(number.to_string().into()),
        ("object", Value::String(text)) => parse(text, '{').filter(Value::is_object),
        ("array", Value::String(text)) => {
            let list = parse(text, '[').filter(Value::is_array);
            list.or_else(|| Some(vec![parse_item(text, schema)].into()))
        }
        ("array", Value::Number(_) | Value::Bool(_) | Value::Object(_)) => Some(vec![value.clone()].into()),
        _ => None,
    };
    if let Some(converted) = converted {
        *value = converted;
    }
    match value {
        Value::Object(members) => coerce_members(members, schema),
        Value::Array(items) => {
            let Some(schema) = schema.get("items") else { return };
            items.iter_mut().for_each(|item| coerce(item, schema));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Converts the members of an object.
pub(super) fn coerce_members(members: &mut Map<String, Value>, schema: &Value) {
    let properties = schema.get("properties").and_then(Value::as_object);
    let others = schema.get("additionalProperties");
    for (name, member) in members.iter_mut() {
        let schema = properties.and_then(|properties| properties.get(name)).or(others);
        schema.into_iter().for_each(|schema| coerce(member, schema));
    }
}

/// A text as the only item of a list.
fn parse_item(text: &str, schema: &Value) -> Value {
    let is_object = schema.pointer("/items/type").is_some_and(|kind| kind == "object");
    let object = if is_object { parse(text, '{') } else { None };
    object.filter(Value::is_object).unwrap_or_else(|| text.into())
}

/// JSON that starts with a bracket.
fn parse(text: &str, bracket: char) -> Option<Value> {
    if text.trim_start().starts_with(bracket) { serde_json::from_str(text).ok() } else { None }
}

fn integer(text: &str) -> Option<Value> {
    let text = text.trim();
    text.parse::<i64>().map(Value::from).or_else(|_| text.parse::<u64>().map(Value::from)).ok()
}

/// A number such as 10.0 as an integer.
fn whole(number: &Number) -> Option<Value> {
    /// Larger floating-point numbers are not exact.
    const MAX_EXACT: f64 = 9_007_199_254_740_992.0;
    let float = number.as_f64().filter(|_| number.is_f64())?;
    let is_exact = float.fract() == 0.0 && float.abs() <= MAX_EXACT;
    is_exact.then(|| integer(&format!("{float:.0}"))).flatten()
}

fn boolean(text: &str) -> Option<Value> {
    match text.trim() {
        text if text.eq_ignore_ascii_case("true") => Some(true.into()),
        text if text.eq_ignore_ascii_case("false") => Some(false.into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_lossless_conversions_are_made() {
        let of = |kind: &str| json!({ "type": kind });
        let (texts, numbers) = (
            json!({ "type": "array", "items": { "type": "string" } }),
            json!({ "type": "array", "items": { "type": "integer" } }),
        );
        let file =
            json!({ "type": "object", "properties": { "path": { "type": "string" }, "size": { "type": "integer" } } });
        let files = json!({ "type": "array", "items": file });
        let sides = json!({ "type": "object", "additionalProperties": { "type": "string" } });
        for (schema, sent, expected) in [
            (of("integer"), json!("10"), json!(10)),
            (of("integer"), json!(" -3 "), json!(-3)),
            (of("integer"), json!("18446744073709551615"), json!(u64::MAX)),
            (of("integer"), json!(10.0), json!(10)),
            (of("integer"), json!("1e3"), json!("1e3")),
            (of("integer"), json!("ten"), json!("ten")),
            (of("integer"), json!("1.5"), json!("1.5")),
            (of("integer"), json!(1.5), json!(1.5)),
            (of("integer"), json!(1e300), json!(1e300)),
            (of("integer"), json!(true), json!(true)),
            (of("number"), json!("0.5"), json!(0.5)),
            (of("number"), json!("NaN"), json!("NaN")),
            (of("number"), json!(1), json!(1)),
            (of("boolean"), json!("True"), json!(true)),
            (of("boolean"), json!("false"), json!(false)),
            (of("boolean"), json!("yes"), json!("yes")),
            (of("boolean"), json!(1), json!(1)),
            (of("string"), json!(2024), json!("2024")),
            (of("string"), json!(1.5), json!(1.5)),
            (of("string"), json!(true), json!(true)),
            (of("string"), json!({ "a": 1 }), json!({ "a": 1 })),
            (of("object"), json!("{\"a\": 1}"), json!({ "a": 1 })),
            (of("object"), json!("a"), json!("a")),
            (of("object"), json!("[1]"), json!("[1]")),
            (of("object"), json!("{"), json!("{")),
            (sides, json!("{\"a.md\": 1}"), json!({ "a.md": "1" })),
            (texts.clone(), json!("a"), json!(["a"])),
            (texts.clone(), json!("a, b"), json!(["a, b"])),
            (texts.clone(), json!("[\"a\", 1]"), json!(["a", "1"])),
            (texts.clone(), json!("[x"), json!(["[x"])),
            (texts.clone(), json!(5), json!(["5"])),
            (texts, json!(null), json!(null)),
            (numbers.clone(), json!("7"), json!([7])),
            (numbers, json!(["1", 2.0, "x"]), json!([1, 2, "x"])),
            (files.clone(), json!({ "path": "a" }), json!([{ "path": "a" }])),
            (files.clone(), json!("{\"path\": \"a\", \"size\": \"1\"}"), json!([{ "path": "a", "size": 1 }])),
            (files, json!("[{\"path\": 1}]"), json!([{ "path": "1" }])),
            (json!({}), json!("1"), json!("1")),
        ] {
            let mut value = sent.clone();
            coerce(&mut value, &schema);
            assert_eq!(value, expected, "{sent} as {schema}");
        }
    }
}
