//! Values as JSON: plain for results, tagged for tests that compare types.

use serde_json::{Map, Value as Json, json};

use super::Value;
use crate::time::{iso_date, local_iso};

impl Value {
    /// The value in a result: dates as ISO 8601, durations and links as text.
    #[must_use]
    pub fn to_json(&self) -> Json {
        match self {
            Self::Date(date) => Json::String(iso_date(date)),
            Self::Duration(duration) => Json::String(duration.to_text()),
            Self::Link(link) => Json::String(link.to_markdown()),
            Self::List(items) => items.iter().map(Self::to_json).collect(),
            Self::Object(members) => members.iter().map(|(key, value)| (key.clone(), value.to_json())).collect(),
            Self::Number(number) => number_json(*number),
            Self::Null => Json::Null,
            Self::Boolean(value) => Json::Bool(*value),
            Self::Text(_) => Json::String(self.to_text()),
            Self::Function(_) => Json::Null,
            Self::Row(row) => row.id().to_json(),
            Self::File(page) => Json::String(page.link().to_markdown()),
            Self::Item(page, index) => page.items.get(*index).map_or(Json::Null, |item| json!(item.text)),
        }
    }

    /// The value with its type: `{"date": …}`, `{"duration": {…}}`, `{"link": …}`, `{"object": …}`.
    ///
    /// `resolve` gives the path that the path of a link means.
    #[must_use]
    pub fn to_tagged_json(&self, resolve: &dyn Fn(&str) -> Option<String>) -> Json {
        match self {
            Self::Date(date) => json!({ "date": local_iso(date) }),
            Self::Duration(duration) => {
                let units: Map<String, Json> = duration
                    .units(false)
                    .into_iter()
                    .map(|(name, amount)| (name.to_owned(), number_json(amount)))
                    .collect();
                json!({ "duration": units })
            }
            Self::Link(link) => {
                let path = resolve(&link.path).unwrap_or_else(|| link.path.clone());
                let path = format!("{path}{}", link.target_text());
                json!({ "link": path, "display": link.display, "embed": link.is_embed })
            }
            Self::List(items) => items.iter().map(|item| item.to_tagged_json(resolve)).collect(),
            Self::Object(members) => {
                let members: Map<String, Json> =
                    members.iter().map(|(key, value)| (key.clone(), value.to_tagged_json(resolve))).collect();
                json!({ "object": members })
            }
            Self::Row(row) => row.id().to_tagged_json(resolve),
            Self::File(page) => json!({ "link": page.path, "display": null, "embed": false }),
            Self::Null | Self::Boolean(_) | Self::Number(_) | Self::Text(_) | Self::Function(_) | Self::Item(..) => {
                self.to_json()
            }
        }
    }
}

/// Whole numbers without a fraction; what JSON cannot express as text.
fn number_json(number: f64) -> Json {
    const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "whole, and within the range of i64")]
    if number.fract() == 0.0 && number.abs() < MAX_SAFE_INTEGER {
        return json!(number as i64);
    }
    if number.is_finite() { json!(number) } else { Json::String(super::text::number_text(number)) }
}
