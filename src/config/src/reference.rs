//! The reference of the configuration, made from what the file is read by: the schema, the list of what is not built, and the flags.

use std::fmt::Write as _;

use serde_json::Value;

use crate::UNSUPPORTED_KEYS;
use crate::reading::wanted;

/// A flag of `svcfs serve` that beats a key of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServeFlag {
    /// The key.
    pub key: &'static str,
    /// The flag, without dashes.
    pub name: &'static str,
    /// The environment variable that does the same.
    pub env_var: Option<&'static str>,
}

const fn flag(key: &'static str, name: &'static str, variable: Option<&'static str>) -> ServeFlag {
    ServeFlag { key, name, env_var: variable }
}

/// Every flag that beats a key; the program's own list is held against it by a test.
pub const SERVE_FLAGS: &[ServeFlag] = &[
    flag("server.host", "host", None),
    flag("server.port", "port", Some("SVC_PORT")),
    flag("server.public_url", "public-url", Some("SVC_PUBLIC_URL")),
    flag("auth.type", "auth", Some("SVC_AUTH_TYPE")),
    flag("auth.api_key", "api-key", None),
    flag("auth.oidc.issuer", "oidc-issuer", None),
    flag("auth.oidc.client_id", "oidc-client-id", None),
    flag("s3.enabled", "s3", None),
    flag("s3.port", "s3-port", None),
    flag("webdav.enabled", "webdav", None),
    flag("webdav.port", "webdav-port", None),
    flag("nfs.enabled", "nfs", None),
    flag("nfs.port", "nfs-port", None),
    flag("nfs.allow", "nfs-allow", None),
    flag("spaces", "space", None),
];

const HEAD: &str = "\
# The configuration

Made by `cargo run -p xtask -- generate` from the types that read it. Every key of `.svc/config.toml` is here; `svcfs init` writes a file in which each stands as a comment.

- Every key is optional. One that is unknown, of another type, out of its bounds or without effect refuses the whole file, with its line and the nearest known name;
  `svcfs check-config` tells all of it without starting anything.
- `${NAME}` in a text is replaced by that environment variable, and by nothing when there is none.
- A flag of `svcfs serve` beats the file, and so does the variable beside it; the flag beats the variable.
- SIGHUP (`systemctl reload svcfs`) takes up `[auth]` alone; everything else holds from the next start. A space beside the first has a file of its own, in which `[server]`,
  `[auth]`, `[tracing]`, `[s3]`, `[webdav]`, `[nfs]` and `[[spaces]]` are refused: they are the server's.
";

/// The text of `docs/configuration.md`; ends with a newline.
#[must_use]
pub fn render_reference() -> String {
    let schema = crate::config::schema_of_config().to_value();
    let mut text = HEAD.to_owned();
    for (name, section) in members(&schema) {
        table(&mut text, name, section);
    }
    text.push_str("\n## Not available yet\n\nPart of the configuration contract, without effect in this version; a file with one of them is refused by its name.\n\n");
    for key in UNSUPPORTED_KEYS {
        text.push_str(&format!("- `{}`\n", key.replace('=', " = ")));
    }
    text
}

fn members(table: &Value) -> impl Iterator<Item = (&str, &Value)> {
    table["properties"].as_object().into_iter().flatten().map(|(name, schema)| (name.as_str(), schema))
}

/// The tables of a list, when its elements are tables.
fn elements(schema: &Value) -> Option<&Value> {
    Some(&schema["items"]).filter(|items| items["properties"].is_object())
}

/// A section with its keys, then the sections below it.
fn table(text: &mut String, path: &str, schema: &Value) {
    let (of, head) = match elements(schema) {
        Some(items) => (items, format!("[[{path}]]")),
        None => (schema, format!("[{path}]")),
    };
    // Writing into a text does not fail.
    let _written = write!(text, "\n## `{head}`\n\n{}", sentence(schema));
    if let Some(flag) = SERVE_FLAGS.iter().find(|flag| flag.key == path) {
        let _written = write!(text, " `--{} NAME=DIR` of `svcfs serve` adds one.", flag.name);
    }
    text.push_str("\n\n| key | type | default | meaning | flag, variable |\n| --- | --- | --- | --- | --- |\n");
    let is_table = |schema: &Value| schema["properties"].is_object() || elements(schema).is_some();
    for (name, key) in members(of).filter(|(_, key)| !is_table(key)) {
        let _written = writeln!(
            text,
            "| `{name}` | {} | {} | {} | {} |",
            cell(&wanted(key)),
            cell(&default(key)),
            cell(&meaning(key)),
            flags(&format!("{path}.{name}"))
        );
    }
    for (name, below) in members(of).filter(|(_, key)| is_table(key)) {
        table(text, &format!("{path}.{name}"), below);
    }
}

/// What a key is for, and what its choices mean.
fn meaning(schema: &Value) -> String {
    let documented = |schema: &Value| {
        let choices = schema["oneOf"].as_array().into_iter().flatten();
        let told = choices.filter_map(|choice| Some(format!("`{}`: {}", choice["const"].as_str()?, sentence(choice))));
        told.collect::<Vec<_>>().join(" ")
    };
    let told = [sentence(schema), documented(schema), documented(&schema["items"])];
    told.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// The first paragraph of a description on one line, with an end.
fn sentence(schema: &Value) -> String {
    let told = schema["description"].as_str().unwrap_or_default();
    let told = told.split("\n\n").next().unwrap_or_default();
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    let has_end = told.is_empty() || told.ends_with(['.', ':', ';']);
    if has_end { told } else { format!("{told}.") }
}

/// The default as it would be written.
fn default(schema: &Value) -> String {
    match &schema["default"] {
        Value::Null => "none".to_owned(),
        Value::Object(table) if table.is_empty() => "none".to_owned(),
        Value::String(text) if text.is_empty() => "none".to_owned(),
        value => format!("`{value}`"),
    }
}

fn flags(key: &str) -> String {
    let Some(ServeFlag { name, env_var: variable, .. }) = SERVE_FLAGS.iter().find(|flag| flag.key == key) else {
        return String::new();
    };
    let variable = variable.map(|variable| format!(", `{variable}`")).unwrap_or_default();
    format!("`--{name}`{variable}")
}

/// A text that does not end the cell it stands in.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys of the page, below the section each stands in.
    fn shown() -> Vec<String> {
        let (mut section, mut keys) = (String::new(), Vec::new());
        let page = render_reference();
        for line in page.lines() {
            if let Some(head) = line.strip_prefix("## `") {
                section = head.trim_matches(['`', '[', ']']).to_owned();
            } else if let Some((key, _)) = line.strip_prefix("| `").and_then(|rest| rest.split_once('`')) {
                keys.push(format!("{section}.{key}"));
            } else if let Some(key) = line.strip_prefix("- `").and_then(|rest| rest.strip_suffix('`')) {
                keys.push(key.replace(" = ", "="));
            }
        }
        keys
    }

    #[test]
    fn the_reference_lists_every_effective_and_every_planned_key() {
        fn collect(schema: &Value, path: &str, keys: &mut Vec<String>) {
            let of = elements(schema).unwrap_or(schema);
            match of["properties"].as_object() {
                Some(below) => below.iter().for_each(|(name, below)| {
                    collect(below, format!("{path}.{name}").trim_start_matches('.'), keys);
                }),
                None => keys.push(path.to_owned()),
            }
        }
        let mut expected = Vec::new();
        collect(&crate::config::schema_of_config().to_value(), "", &mut expected);
        expected.extend(UNSUPPORTED_KEYS.iter().map(|key| (*key).to_owned()));
        let mut shown = shown();
        expected.sort();
        shown.sort();
        assert_eq!(shown, expected);
    }

    #[test]
    fn every_flag_is_that_of_a_key_and_shown_beside_it() {
        let (page, shown) = (render_reference(), shown());
        for ServeFlag { key, name, env_var: variable } in SERVE_FLAGS {
            assert!(shown.iter().any(|shown| shown == key || shown.starts_with(&format!("{key}."))), "{key}");
            assert!(page.contains(&format!("`--{name}")), "{name}");
            assert!(variable.is_none_or(|variable| page.contains(variable)), "{variable:?}");
        }
    }
}
