//! The operations as the command line explains them, from the table everything else is made from.

use clap::builder::PossibleValue;
use serde_json::{Map, Value, json};
use svcfs_knowledge::CATALOGUE;
use svcfs_knowledge::kernel::{InputField, InputKind, OperationEntry, OperationInputs};

use crate::failure::{CommandFailure, ExitStatus};

/// The names of all operations, for the command line and its completion.
pub fn names() -> impl Iterator<Item = PossibleValue> {
    entries().map(|entry| PossibleValue::new(entry.name).help(summary(&OperationInputs::from_entry(entry).manual)))
}

/// The operation of a name.
///
/// # Errors
/// `Usage` for one that is not among [`names`].
pub fn find(name: &str) -> Result<&'static OperationEntry, CommandFailure> {
    let unknown = || {
        CommandFailure::saying(ExitStatus::Usage, format!("there is no operation `{name}`; `svcfs call` lists them"))
    };
    entries().find(|entry| entry.name == name).ok_or_else(unknown)
}

fn entries() -> impl Iterator<Item = &'static OperationEntry> {
    CATALOGUE.iter().flat_map(|area| area.operations)
}

/// Every operation with its summary, by subject.
pub fn list() -> String {
    let width = entries().map(|entry| entry.name.len()).max().unwrap_or_default();
    let mut text = String::from("Operations:\n");
    for area in CATALOGUE {
        text.push_str(&format!("\n{}\n", area.title));
        for entry in area.operations {
            text.push_str(&format!(
                "  {:<width$}  {}\n",
                entry.name,
                summary(&OperationInputs::from_entry(entry).manual)
            ));
        }
    }
    text.push_str("\n`svcfs call OPERATION --help` tells what one takes.\n");
    text
}

/// The same for scripts, with the schema of the inputs.
pub fn list_json() -> Value {
    let of = |area: &'static str, entry: &OperationEntry| {
        let inputs = OperationInputs::from_entry(entry);
        let required = inputs.fields.iter().filter(|field| field.is_required).map(|field| field.name.as_str());
        json!({
            "name": entry.name,
            "area": area,
            "summary": summary(&inputs.manual),
            "reads_only": entry.is_read_only(),
            "required": required.collect::<Vec<_>>(),
            "inputs": inputs.fields.into_iter().map(|field| (field.name, field.schema)).collect::<Map<_, _>>(),
        })
    };
    CATALOGUE.iter().flat_map(|area| area.operations.iter().map(|entry| of(area.title, entry))).collect()
}

/// One operation: what it does, what it takes, an example.
pub fn of(entry: &OperationEntry) -> String {
    let inputs = OperationInputs::from_entry(entry);
    let (first, rest) = inputs.manual.split_once("\n\n").unwrap_or((&inputs.manual, ""));
    let mut text = format!("{}\n", flowing(first));
    for paragraph in rest.split("\n\n").filter(|paragraph| !paragraph.is_empty()) {
        text.push_str(&format!("\n{}\n", wrapped(&flowing(paragraph), 0)));
    }
    text.push_str(&format!("\nUsage: svcfs call {}{} [OPTIONS]\n", entry.name, pattern(&inputs)));
    if !inputs.fields.is_empty() {
        text.push_str("\nArguments:\n");
    }
    for field in &inputs.fields {
        text.push_str(&format!("  {}={}\n", field.name, word(field)));
        let mut told = field.schema.get("description").and_then(Value::as_str).map(flowing).unwrap_or_default();
        if let Some(most) = field.type_schema.get("maximum") {
            told.push_str(&format!(", at most {most}"));
        }
        if let Some(default) = field.schema.get("default").filter(|default| !default.is_null()) {
            told.push_str(&format!(" [default: {default}]"));
        }
        if !told.is_empty() {
            text.push_str(&format!("{}\n", wrapped(told.trim(), 10)));
        }
    }
    text.push_str("\nOptions: see `svcfs call --help`\n");
    text
}

fn summary(manual: &str) -> String {
    flowing(manual.split("\n\n").next().unwrap_or_default())
}

/// The line breaks inside a paragraph are the source code's own.
fn flowing(paragraph: &str) -> String {
    paragraph.replace('\n', " ")
}

/// ` path=TEXT [limit=INTEGER]`
fn pattern(inputs: &OperationInputs) -> String {
    let parts = inputs.fields.iter().map(|field| {
        let (name, word) = (&field.name, word(field));
        if field.is_required { format!(" {name}={word}") } else { format!(" [{name}={word}]") }
    });
    parts.collect()
}

/// What a value looks like.
fn word(field: &InputField) -> String {
    if let Some(values) = field.type_schema.get("enum").and_then(Value::as_array) {
        return values.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("|");
    }
    let word = match field.kind {
        InputKind::Text => "TEXT",
        InputKind::Integer => "INTEGER",
        InputKind::Number => "NUMBER",
        InputKind::Boolean => "true|false",
        InputKind::List(_) => "A,B,…",
        InputKind::Json => "JSON",
    };
    word.to_owned()
}

/// Lines of at most 100 characters, each with `indent` spaces before it.
fn wrapped(text: &str, indent: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let length = lines.last().map_or(0, |line| line.chars().count());
        if length > 0 && indent + length + 1 + word.chars().count() > 100 {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    let pad = " ".repeat(indent);
    lines.iter().map(|line| format!("{pad}{line}")).collect::<Vec<_>>().join("\n")
}
