//! Globs of scratch names (`files.scratch`).

/// Whether a glob matches names in any case. A glob with a character class does not.
pub fn is_case_insensitive(glob: &str) -> bool {
    !glob.contains('[')
}

/// The same glob for case-sensitive programs: each letter becomes a class of both cases.
pub fn expand_case(glob: &str) -> String {
    if !is_case_insensitive(glob) {
        return glob.to_owned();
    }
    let both = |letter: char| match letter.is_ascii_alphabetic() {
        true => format!("[{}{}]", letter.to_ascii_uppercase(), letter.to_ascii_lowercase()),
        false => letter.to_string(),
    };
    glob.chars().map(both).collect()
}
