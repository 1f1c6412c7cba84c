//! How far a page can be trusted, by its frontmatter and its age.

use jiff::{Span, ToSpan};
use serde_json::{Map, Value};
use svcfs_base::Timestamp;

/// Trust of a page that says nothing of itself.
const NEUTRAL: f64 = 0.5;

/// After this time without a change a page may be out of date.
const OLD_DAYS: i64 = 365;

/// What the frontmatter says about the validity of a page.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PageValidity {
    /// Why the page no longer holds: `superseded`, `expired`, `deprecated` or `outdated`.
    pub outdated: Option<&'static str>,
    /// Whether its content comes from elsewhere: data, not instructions.
    pub is_external: bool,
    base: f64,
}

impl PageValidity {
    /// Reads the frontmatter of a page.
    pub fn of(frontmatter: &Map<String, Value>, now: Timestamp) -> Self {
        let text = |key: &str| frontmatter.get(key).and_then(Value::as_str).map(str::trim);
        let is_set = |key: &str| frontmatter.get(key).is_some_and(|value| !value.is_null());
        let has_passed = |key: &str| text(key).and_then(end_of).is_some_and(|end| end <= now);
        let status = text("status");
        let outdated =
            if text("memory_status") == Some("superseded") || status == Some("superseded") || is_set("superseded_by") {
                Some("superseded")
            } else if has_passed("valid_until") || has_passed("expires") {
                Some("expired")
            } else {
                ["deprecated", "outdated"].into_iter().find(|outdated| status == Some(outdated))
            };
        let is_external = is_external(frontmatter);
        let mut base = NEUTRAL;
        if status == Some("verified") {
            base += 0.2;
        }
        if frontmatter.get("source-of-truth") == Some(&Value::Bool(true)) {
            base += 0.2;
        }
        if let Some(confidence) =
            frontmatter.get("confidence").and_then(Value::as_f64).filter(|c| (0.0..=1.0).contains(c))
        {
            base = f64::midpoint(base, confidence);
        }
        if outdated.is_some() {
            base *= 0.4;
        }
        if is_external {
            base *= 0.5;
        }
        Self { outdated, is_external, base }
    }

    /// Trust, 0 to 1, of a page that was last changed then.
    pub fn trust(&self, changed: Timestamp, now: Timestamp) -> f64 {
        let is_old = now.duration_since(changed).as_hours() > OLD_DAYS * 24;
        let trust = self.base - if is_old { 0.1 } else { 0.0 };
        (trust.clamp(0.0, 1.0) * 100.0).round() / 100.0
    }
}

/// Whether the content of a page comes from elsewhere (`trust: external`).
pub fn is_external(frontmatter: &Map<String, Value>) -> bool {
    let trust = frontmatter.get("trust").and_then(Value::as_str);
    trust.is_some_and(|trust| trust.trim().eq_ignore_ascii_case("external"))
}

/// The end of a day, or an instant.
pub fn end_of(text: &str) -> Option<Timestamp> {
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Some(instant);
    }
    let day: jiff::civil::Date = text.get(..10)?.parse().ok()?;
    let one_day: Span = 1.day();
    Some(day.checked_add(one_day).ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn validity_and_trust_follow_the_frontmatter() {
        let now: Timestamp = "2026-06-01T12:00:00Z".parse().unwrap();
        let old: Timestamp = "2025-05-01T12:00:00Z".parse().unwrap();
        for (frontmatter, outdated, trust) in [
            (json!({}), None, 0.5),
            (json!({ "status": "verified", "source-of-truth": true }), None, 0.9),
            (json!({ "confidence": 1 }), None, 0.75),
            (json!({ "confidence": 7, "status": 7, "expires": "soon" }), None, 0.5),
            (json!({ "status": "deprecated" }), Some("deprecated"), 0.2),
            (json!({ "memory_status": "superseded" }), Some("superseded"), 0.2),
            (json!({ "superseded_by": "b.md" }), Some("superseded"), 0.2),
            (json!({ "valid_until": "2026-05-31" }), Some("expired"), 0.2),
            (json!({ "valid_until": "2026-06-01" }), None, 0.5),
            (json!({ "expires": "2026-06-01T11:00:00Z" }), Some("expired"), 0.2),
            (json!({ "trust": "external" }), None, 0.25),
        ] {
            let validity = PageValidity::of(frontmatter.as_object().unwrap(), now);
            assert_eq!((validity.outdated, validity.trust(now, now)), (outdated, trust), "{frontmatter}");
            assert_eq!(validity.is_external, frontmatter["trust"] == "external");
            assert!(validity.trust(old, now) < trust, "{frontmatter}");
        }
    }
}
