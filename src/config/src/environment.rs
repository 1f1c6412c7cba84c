//! `${NAME}` in the strings of the file.

/// Looks up an environment variable; `None` when it is not set.
///
/// Handed in by the daemon, so that this crate never reads the process environment itself and tests bring their own.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Replace each `${NAME}` in `text`, where NAME is `[A-Za-z_][A-Za-z0-9_]*`, by the variable's value.
///
/// A variable that is not set becomes the empty string (contract 2.17). Anything else that looks similar (`$NAME`, `${}`,
/// `${1}`, an unclosed `${`) stays as written. What a variable holds is not looked at again.
pub(crate) fn expand(text: &str, environment: Environment<'_>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let (before, from) = rest.split_at(start);
        expanded.push_str(before);
        match variable(from) {
            Some(name) => {
                expanded.push_str(&environment(name).unwrap_or_default());
                rest = &from[name.len() + "${}".len()..];
            }
            None => {
                expanded.push_str("${");
                rest = &from["${".len()..];
            }
        }
    }
    expanded.push_str(rest);
    expanded
}

/// The name in a leading `${NAME}`.
fn variable(text: &str) -> Option<&str> {
    let (name, _) = text.strip_prefix("${")?.split_once('}')?;
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    (starts_well && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')).then_some(name)
}
