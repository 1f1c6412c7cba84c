//! Trust: how `status`, `source-of-truth` and `confidence` change the rank of a page.

use serde_json::{Map, Value};

/// How much the trust fields of the frontmatter change the rank. No page is excluded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum TrustBoost {
    /// Not at all.
    Off,
    /// A little: default of `/search`.
    #[default]
    Soft,
    /// A lot: default of `/search/verified`.
    Hard,
}

/// Factors for `verified`, `deprecated`, `outdated`, `source-of-truth`, and the bonus for
/// `confidence: 1`.
const SOFT: [f64; 5] = [1.2, 0.5, 0.7, 1.4, 0.3];
const HARD: [f64; 5] = [2.0, 0.1, 0.3, 3.0, 1.0];

/// FTS5 query for trusted pages (`field_words`), which are candidates of every query.
pub(super) const TRUSTED: &str = "(\"status:verifi\" OR \"source-of-truth:true\")";

/// The score factors for soft and hard boost; `None` for a page without trust fields.
pub(crate) fn factors(frontmatter: &Map<String, Value>) -> Option<[f64; 2]> {
    let factors = [SOFT, HARD].map(|signals| factor(signals, frontmatter));
    (factors != [1.0, 1.0]).then_some(factors)
}

/// The factors multiply.
fn factor(signals: [f64; 5], frontmatter: &Map<String, Value>) -> f64 {
    let [verified, deprecated, outdated, source_of_truth, confidence] = signals;
    let status = match frontmatter.get("status").and_then(Value::as_str) {
        Some("verified") => verified,
        Some("deprecated") => deprecated,
        Some("outdated") => outdated,
        Some(_) | None => 1.0,
    };
    let truth = if is_source_of_truth(frontmatter) { source_of_truth } else { 1.0 };
    let confident = frontmatter.get("confidence").and_then(Value::as_f64).filter(|c| *c > 0.0 && *c <= 1.0);
    status * truth * confident.map_or(1.0, |c| 1.0 + confidence * c)
}

/// Whether the frontmatter has `source-of-truth: true`.
pub(super) fn is_source_of_truth(frontmatter: &Map<String, Value>) -> bool {
    frontmatter.get("source-of-truth") == Some(&Value::Bool(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn signals_stack_and_nonsense_counts_for_nothing() {
        for (frontmatter, soft, hard) in [
            (json!({}), 1.0, 1.0),
            (json!({"status": "verified"}), 1.2, 2.0),
            (json!({"status": "deprecated"}), 0.5, 0.1),
            (json!({"status": "outdated"}), 0.7, 0.3),
            (json!({"source-of-truth": true}), 1.4, 3.0),
            (json!({"source-of-truth": "true", "status": 7, "confidence": 7}), 1.0, 1.0),
            (json!({"status": "verified", "source-of-truth": true, "confidence": 0.5}), 1.2 * 1.4 * 1.15, 9.0),
        ] {
            let found = factors(frontmatter.as_object().unwrap());
            assert_eq!(found.is_none(), (soft, hard) == (1.0, 1.0), "{frontmatter}");
            let [softly, hardly] = found.unwrap_or([1.0, 1.0]);
            assert!((softly - soft).abs() < 1e-9 && (hardly - hard).abs() < 1e-9, "{frontmatter}");
        }
    }
}
