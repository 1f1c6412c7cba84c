//! Right arguments in place of wrong ones, by the published schema: for the call that a failure
//! suggests. Nothing here changes a call that is run.

use serde_json::{Map, Value};

use super::names;
use super::tools::ToolEntry;

/// The arguments with the mistakes repaired; none if nothing is wrong, or if it is not clear what
/// was meant. For a tool that writes, no argument is left out: it may be the one that makes it
/// safe.
pub(super) fn repair(tool: &ToolEntry, arguments: &Map<String, Value>) -> Option<Map<String, Value>> {
    let schema = tool.input_schema();
    let properties = schema.get("properties")?.as_object()?;
    let is_known = |name: &str| properties.contains_key(name) || tool.inputs.get(name).is_some();
    let mut repaired: Map<String, Value> = arguments
        .iter()
        .filter(|(name, _)| is_known(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let mut is_changed = false;
    let mut unclear = Vec::new();
    for (name, value) in arguments.iter().filter(|(name, _)| !is_known(name)) {
        let free: Vec<&str> =
            properties.keys().map(String::as_str).filter(|name| !repaired.contains_key(*name)).collect();
        match names::meant_argument(name, &free) {
            Some(meant) => drop(repaired.insert(meant.to_owned(), value.clone())),
            None => unclear.push(value),
        }
        is_changed = true;
    }
    let missing = |repaired: &Map<String, Value>| tool.missing_argument(repaired).map(str::to_owned);
    match (&unclear[..], missing(&repaired)) {
        ([], _) => {}
        // The only unknown argument is the one that is missing. What a tool writes is not guessed.
        ([value], Some(name)) if tool.entry.is_read_only() => drop(repaired.insert(name, (*value).clone())),
        (_, _) if !tool.entry.is_read_only() => return None,
        (_, _) => {}
    }
    for (name, schema) in properties {
        let Some(value) = repaired.get_mut(name) else { continue };
        super::coerce::coerce(value, schema);
        if is_valid_value(value, schema) {
            continue;
        }
        is_changed = true;
        match nearest_value(value, schema) {
            Some(nearest) => *value = nearest,
            None if tool.entry.is_read_only() => drop(repaired.remove(name)),
            None => return None,
        }
    }
    (is_changed && missing(&repaired).is_none()).then_some(repaired)
}

/// Whether arguments fit the published schema of a tool.
pub(super) fn is_valid(tool: &ToolEntry, arguments: &Map<String, Value>) -> bool {
    let properties = tool.input_schema().get("properties").and_then(Value::as_object);
    let is_known = |(name, value): (&String, &Value)| {
        let schema = properties.and_then(|properties| properties.get(name));
        schema.is_some_and(|schema| is_valid_value(value, schema))
    };
    arguments.iter().all(is_known) && tool.missing_argument(arguments).is_none()
}

/// Whether a value has the type, the range and one of the choices of a schema.
fn is_valid_value(value: &Value, schema: &Value) -> bool {
    let is_type = match schema.get("type").and_then(Value::as_str) {
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => true,
    };
    let is_choice = schema.get("enum").and_then(Value::as_array).is_none_or(|choices| choices.contains(value));
    is_type && is_choice && is_in_range(value, schema)
}

/// Whether a number is in the range of a schema; true for other values.
fn is_in_range(value: &Value, schema: &Value) -> bool {
    let Some(number) = value.as_f64() else { return true };
    let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
    bound("minimum").is_none_or(|least| number >= least) && bound("maximum").is_none_or(|greatest| number <= greatest)
}

/// The valid value that is nearest to an invalid one.
fn nearest_value(value: &Value, schema: &Value) -> Option<Value> {
    if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
        let wrong = value.as_str()?;
        let texts = choices.iter().filter_map(Value::as_str);
        return names::nearest(wrong, texts).map(Value::from);
    }
    let number = value.as_f64()?;
    match schema.get("type").and_then(Value::as_str)? {
        "integer" | "number" => {}
        _ => return None,
    }
    let bound = |name: &str| schema.get(name).filter(|bound| bound.is_number());
    let least = bound("minimum").filter(|least| least.as_f64().is_some_and(|least| number < least));
    let greatest = bound("maximum").filter(|greatest| greatest.as_f64().is_some_and(|greatest| number > greatest));
    least.or(greatest).cloned()
}
