//! Values in queries, and their comparison.
//!
//! Invariant: this is the only place that compares values. Numbers compare with numbers, texts with
//! texts, byte by byte; a text that is a date is a date. Two dates compare by day if one of them is
//! a full day, else by instant. Different types are neither equal nor ordered.

mod length;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;

use jiff::Timestamp;
use jiff::civil::Date;
use serde_json::{Map, Number, Value as Json};

pub(crate) use length::{DAY, DateLength};

use crate::dates::WrittenDate;

/// A value of a page, or computed from such values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// An absent field or `null`.
    Null,
    Boolean(bool),
    Integer(i64),
    Real(f64),
    Text(String),
    /// A full day computed by a function; in a page it is a text.
    Day(Date),
    /// A time computed by a function; in a page it is a text.
    Instant(Timestamp),
    Length(DateLength),
    List(Vec<Value>),
    Object(Map<String, Json>),
}

/// The order of types in a sorted list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum KindRank {
    Boolean,
    Number,
    Date,
    Length,
    Text,
    List,
    Object,
    Null,
}

impl Value {
    pub(crate) fn of(json: &Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(boolean) => Self::Boolean(*boolean),
            Json::Number(number) => match number.as_i64() {
                Some(integer) => Self::Integer(integer),
                None => number.as_f64().map_or(Self::Null, Self::Real),
            },
            Json::String(text) => Self::Text(text.clone()),
            Json::Array(items) => Self::List(items.iter().map(Self::of).collect()),
            Json::Object(members) => Self::Object(members.clone()),
        }
    }

    /// Converts to the JSON of a result cell; dates become texts, infinite numbers and NaN become
    /// null.
    pub(crate) fn into_json(self) -> Json {
        match self {
            Self::Null => Json::Null,
            Self::Boolean(boolean) => Json::Bool(boolean),
            Self::Integer(integer) => integer.into(),
            Self::Real(real) => Number::from_f64(real).map_or(Json::Null, Json::Number),
            Self::Text(text) => Json::String(text),
            Self::Day(day) => Json::String(day.to_string()),
            Self::Instant(instant) => Json::String(instant.to_string()),
            Self::Length(length) => Json::String(length.to_string()),
            Self::List(items) => Json::Array(items.into_iter().map(Self::into_json).collect()),
            Self::Object(members) => Json::Object(members),
        }
    }

    /// The value as text; list items are separated by commas.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Null => String::new(),
            Self::Text(text) => text.clone(),
            Self::List(items) => items.iter().map(Self::text).collect::<Vec<_>>().join(", "),
            Self::Boolean(_)
            | Self::Integer(_)
            | Self::Real(_)
            | Self::Day(_)
            | Self::Instant(_)
            | Self::Length(_)
            | Self::Object(_) => match self.clone().into_json() {
                Json::String(text) => text,
                other => other.to_string(),
            },
        }
    }

    pub(crate) const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Whether the value counts as true: not null, `false`, 0, an empty text or an empty list.
    pub(crate) fn is_truthy(&self) -> bool {
        match self {
            Self::Null => false,
            Self::Boolean(boolean) => *boolean,
            Self::Integer(integer) => *integer != 0,
            Self::Real(real) => *real != 0.0,
            Self::Text(text) => !text.is_empty(),
            Self::List(items) => !items.is_empty(),
            Self::Object(members) => !members.is_empty(),
            Self::Day(_) | Self::Instant(_) | Self::Length(_) => true,
        }
    }

    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "beyond 2^53 the nearest number will do for arithmetic")]
            Self::Integer(integer) => Some(*integer as f64),
            Self::Real(real) => Some(*real),
            Self::Null
            | Self::Boolean(_)
            | Self::Text(_)
            | Self::Day(_)
            | Self::Instant(_)
            | Self::Length(_)
            | Self::List(_)
            | Self::Object(_) => None,
        }
    }

    /// The value as a date, if it is one or its text is one.
    pub(crate) fn date(&self) -> Option<WrittenDate> {
        match self {
            Self::Day(day) => Some(WrittenDate::Day(*day)),
            Self::Instant(instant) => Some(WrittenDate::Instant(*instant)),
            Self::Text(text) => WrittenDate::parse(text),
            Self::Null
            | Self::Boolean(_)
            | Self::Integer(_)
            | Self::Real(_)
            | Self::Length(_)
            | Self::List(_)
            | Self::Object(_) => None,
        }
    }

    /// Compares two values of one type. `None` for different types and for unordered values that
    /// are not equal.
    pub(crate) fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Null, Self::Null) => Some(Ordering::Equal),
            (Self::Boolean(a), Self::Boolean(b)) => Some(a.cmp(b)),
            (Self::Integer(a), Self::Integer(b)) => Some(a.cmp(b)),
            (Self::Length(a), Self::Length(b)) => Some(a.cmp(b)),
            (Self::List(a), Self::List(b)) => {
                (a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.equals(b))).then_some(Ordering::Equal)
            }
            (Self::Object(a), Self::Object(b)) => (a == b).then_some(Ordering::Equal),
            _ => self.compare_numbers(other).unwrap_or_else(|| self.compare_texts(other)),
        }
    }

    /// Compares two numbers exactly, also an integer beyond 2^53 with a real. `None` when one is
    /// not a number.
    fn compare_numbers(&self, other: &Self) -> Option<Option<Ordering>> {
        Some(match (self, other) {
            (Self::Integer(a), Self::Integer(b)) => Some(a.cmp(b)),
            (Self::Integer(a), Self::Real(b)) => compare_exactly(*a, *b),
            (Self::Real(a), Self::Integer(b)) => compare_exactly(*b, *a).map(Ordering::reverse),
            (Self::Real(a), Self::Real(b)) => a.partial_cmp(b),
            _ => return None,
        })
    }

    fn compare_texts(&self, other: &Self) -> Option<Ordering> {
        match (self.date(), other.date()) {
            (Some(a), Some(b)) => a.compare(b),
            (None, None) => match (self, other) {
                (Self::Text(a), Self::Text(b)) => Some(a.cmp(b)),
                _ => None,
            },
            _ => None,
        }
    }

    pub(crate) fn equals(&self, other: &Self) -> bool {
        self.compare(other) == Some(Ordering::Equal)
    }

    /// The order of a sorted list: type by type, null last in both directions.
    pub(crate) fn order(&self, other: &Self, is_descending: bool) -> Ordering {
        let (a, b) = (self.rank(), other.rank());
        if a == KindRank::Null || b == KindRank::Null {
            return a.cmp(&b);
        }
        let order = a.cmp(&b).then_with(|| match a {
            KindRank::Date => self.microsecond().cmp(&other.microsecond()),
            // NaN comes last.
            KindRank::Number => {
                self.compare_numbers(other).flatten().unwrap_or_else(|| self.is_nan().cmp(&other.is_nan()))
            }
            KindRank::Boolean | KindRank::Length => self.compare(other).unwrap_or(Ordering::Equal),
            KindRank::Text | KindRank::List | KindRank::Object | KindRank::Null => self.text().cmp(&other.text()),
        });
        if is_descending { order.reverse() } else { order }
    }

    fn is_nan(&self) -> bool {
        matches!(self, Self::Real(real) if real.is_nan())
    }

    fn microsecond(&self) -> Option<i64> {
        self.date().and_then(WrittenDate::microsecond)
    }

    fn rank(&self) -> KindRank {
        match self {
            Self::Null => KindRank::Null,
            Self::Boolean(_) => KindRank::Boolean,
            Self::Integer(_) | Self::Real(_) => KindRank::Number,
            Self::Day(_) | Self::Instant(_) => KindRank::Date,
            Self::Text(_) if self.date().is_some() => KindRank::Date,
            Self::Length(_) => KindRank::Length,
            Self::Text(_) => KindRank::Text,
            Self::List(_) => KindRank::List,
            Self::Object(_) => KindRank::Object,
        }
    }
}

/// Compares without converting between the types; `None` for NaN.
fn compare_exactly(integer: i64, real: f64) -> Option<Ordering> {
    /// 2^63, the first value above all integers.
    const I64_LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if real.is_nan() {
        return None;
    }
    if real >= I64_LIMIT {
        return Some(Ordering::Less);
    }
    if real < -I64_LIMIT {
        return Some(Ordering::Greater);
    }
    #[expect(clippy::cast_possible_truncation, reason = "a whole number between -2^63 and 2^63")]
    let truncated = real.trunc() as i64;
    Some(integer.cmp(&truncated).then_with(|| 0.0.partial_cmp(&real.fract()).unwrap_or(Ordering::Equal)))
}
