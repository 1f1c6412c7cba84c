//! `${NAME}` in the strings of the file.

/// Looks up an environment variable; none when it is not set.
///
/// The daemon passes it in: this crate never reads the process environment, and tests use their
/// own.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Replaces each `${NAME}` in `text`, where NAME is `[A-Za-z_][A-Za-z0-9_]*`, by the value of the
/// variable; not recursive.
///
/// An unset variable becomes the empty string. Similar texts (`$NAME`, `${}`, `${1}`, an unclosed
/// `${`) stay as written.
pub(crate) fn expand(text: &str, environment: Environment<'_>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let (before, reference) = rest.split_at(start);
        expanded.push_str(before);
        match variable_name(reference) {
            Some(name) => {
                expanded.push_str(&environment(name).unwrap_or_default());
                rest = &reference[name.len() + "${}".len()..];
            }
            None => {
                expanded.push_str("${");
                rest = &reference["${".len()..];
            }
        }
    }
    expanded.push_str(rest);
    expanded
}

fn variable_name(text: &str) -> Option<&str> {
    let (name, _) = text.strip_prefix("${")?.split_once('}')?;
    let has_valid_start = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    (has_valid_start && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')).then_some(name)
}
