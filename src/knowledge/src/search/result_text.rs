//! What was found, in words (gaps.md 4.21).

use super::operations::SearchResult;

/// A numbered list: path, title and score, and the snippet below.
pub fn words(found: &[SearchResult]) -> String {
    let mut text = match found.first() {
        None => "No pages found; try fewer or other words".to_owned(),
        Some(SearchResult { did_you_mean: Some(instead), .. }) => {
            format!("Nothing fits; these pages fit `{instead}`:\n\n")
        }
        Some(SearchResult { note: Some(note), .. }) => format!("Note: {note}.\n\n"),
        Some(_) => String::new(),
    };
    for (index, SearchResult { path, title, score, snippet, .. }) in found.iter().enumerate() {
        text.push_str(&format!("{}. {path} (score: {score:.2})\n   {title}\n   {snippet}\n", index + 1));
    }
    text
}

/// A snippet as it stands in the page, without what is in it for browsers.
pub fn plain(snippet: &str) -> String {
    let unmarked = snippet.replace("<mark>", "").replace("</mark>", "");
    unmarked.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_snippet_is_what_the_page_says() {
        assert_eq!(plain("a &lt;mark&gt; &amp;lt; <mark>b &amp; c</mark>"), "a <mark> &lt; b & c");
    }
}
