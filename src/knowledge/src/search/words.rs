//! What was found, in words (gaps.md 4.21).

use super::operations::Found;

/// A numbered list: path, title and score, and the snippet below.
pub fn words(found: &[Found]) -> String {
    let mut text = match found.first() {
        None => "No pages found; try fewer or other words".to_owned(),
        Some(Found { did_you_mean: Some(instead), .. }) => format!("Nothing fits; these pages fit `{instead}`:\n\n"),
        Some(Found { note: Some(note), .. }) => format!("Note: {note}.\n\n"),
        Some(_) => String::new(),
    };
    for (index, Found { path, title, score, snippet, .. }) in found.iter().enumerate() {
        text.push_str(&format!("{}. {path} (score: {score:.2})\n   {title}\n   {snippet}\n", index + 1));
    }
    text
}
