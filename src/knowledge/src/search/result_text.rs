use super::operations::SearchResult;
use super::semantic::SemanticResult;

/// A numbered list: path, score and title, then the snippet.
pub fn render_results(results: &[SearchResult]) -> String {
    let mut text = match results.first() {
        None => "No pages found; try fewer or other words".to_owned(),
        Some(SearchResult { did_you_mean: Some(corrected), .. }) => {
            format!("No pages match; these pages match `{corrected}`:\n\n")
        }
        Some(SearchResult { note: Some(note), .. }) => format!("Note: {note}.\n\n"),
        Some(_) => String::new(),
    };
    if let Some(commit) = results.first().and_then(|first| first.as_of) {
        text.push_str(&format!("As of {commit}.\n\n"));
    }
    for (index, SearchResult { path, title, score, snippet, .. }) in results.iter().enumerate() {
        text.push_str(&format!("{}. {path} (score: {score})\n   {title}\n   {snippet}\n", index + 1));
    }
    text
}

/// The same for results by meaning, with their similarity.
pub fn render_semantic(results: &[SemanticResult]) -> String {
    let mut text = match results.first() {
        None => "No pages found; try another wording, or `search` with single words".to_owned(),
        Some(SemanticResult { note: Some(note), .. }) => format!("Note: {note}.\n\n"),
        Some(_) => String::new(),
    };
    for (index, SemanticResult { path, title, similarity, snippet, sources, .. }) in results.iter().enumerate() {
        let sources: Vec<&str> = sources.iter().map(|source| source.name()).collect();
        let sources = sources.join(", ");
        text.push_str(&format!(
            "{}. {path} (similarity: {similarity}; found by: {sources})\n   {title}\n   {snippet}\n",
            index + 1
        ));
    }
    text
}

/// A number with as many digits as matter to agents: structure and text have the same.
pub fn round(number: f64) -> f64 {
    (number * 1e4).round() / 1e4
}

/// A snippet as plain text, without HTML.
pub fn to_plain_text(snippet: &str) -> String {
    let unmarked = snippet.replace("<mark>", "").replace("</mark>", "");
    unmarked.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_snippet_is_what_the_page_says() {
        assert_eq!(to_plain_text("a &lt;mark&gt; &amp;lt; <mark>b &amp; c</mark>"), "a <mark> &lt; b & c");
    }
}
