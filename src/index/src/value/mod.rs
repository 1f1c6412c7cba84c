//! Values as questions see them, and how they compare (gaps.md D16).
//!
//! One rule: a value is compared as what it is, and there is one place that says how. Numbers compare with numbers, texts with
//! texts, byte by byte; a text that is a date is a date. Two dates of which one is a whole day compare by their days, all others by their
//! moments. Different kinds are neither equal nor in any order.

mod length;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;

use jiff::Timestamp;
use jiff::civil::Date;
use serde_json::{Map, Number, Value as Json};

pub(crate) use length::{DAY, DateLength};

use crate::moments::WrittenDate;

/// A value of a page, or one made of such values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// Nothing: an absent field and one that says `null` are the same.
    Null,
    Boolean(bool),
    Integer(i64),
    Real(f64),
    Text(String),
    /// A whole day, made by a function; in a page it is a text.
    Day(Date),
    /// A moment, made by a function; in a page it is a text.
    Instant(Timestamp),
    /// Time between two moments.
    Length(DateLength),
    List(Vec<Value>),
    Object(Map<String, Json>),
}

/// The ranks of kinds in a sorted list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum KindRank {
    Boolean,
    Number,
    Date,
    Length,
    Text,
    List,
    Object,
    Nothing,
}

impl Value {
    /// A JSON value of a page.
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

    /// What a cell of an answer holds; dates as texts, numbers that are none (infinite) as null.
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

    /// The value as text, as a person would write it; a list with commas.
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

    /// Whether a condition that is only this value holds: not for nothing, `false`, 0, an empty text or list.
    pub(crate) fn is_true(&self) -> bool {
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

    /// The number it is.
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

    /// The date it is, or that it says.
    pub(crate) fn moment(&self) -> Option<WrittenDate> {
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

    /// How two values of one kind stand to each other; none for different kinds, and for what has no order unless equal.
    pub(crate) fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Null, Self::Null) => Some(Ordering::Equal),
            (Self::Boolean(one), Self::Boolean(two)) => Some(one.cmp(two)),
            (Self::Integer(one), Self::Integer(two)) => Some(one.cmp(two)),
            (Self::Length(one), Self::Length(two)) => Some(one.cmp(two)),
            (Self::List(one), Self::List(two)) => (one.len() == two.len()
                && one.iter().zip(two).all(|(one, two)| one.equals(two)))
            .then_some(Ordering::Equal),
            (Self::Object(one), Self::Object(two)) => (one == two).then_some(Ordering::Equal),
            _ => self.compare_numbers(other).unwrap_or_else(|| self.compare_texts(other)),
        }
    }

    /// How two numbers stand to each other, exactly: also an integer beyond 2^53 and a real beside it. None when one of them is none.
    fn compare_numbers(&self, other: &Self) -> Option<Option<Ordering>> {
        Some(match (self, other) {
            (Self::Integer(one), Self::Integer(two)) => Some(one.cmp(two)),
            (Self::Integer(one), Self::Real(two)) => exactly(*one, *two),
            (Self::Real(one), Self::Integer(two)) => exactly(*two, *one).map(Ordering::reverse),
            (Self::Real(one), Self::Real(two)) => one.partial_cmp(two),
            _ => return None,
        })
    }

    fn compare_texts(&self, other: &Self) -> Option<Ordering> {
        match (self.moment(), other.moment()) {
            (Some(one), Some(two)) => one.compare(two),
            (None, None) => match (self, other) {
                (Self::Text(one), Self::Text(two)) => Some(one.cmp(two)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether they are the same, as [`Value::compare`] sees it.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        self.compare(other) == Some(Ordering::Equal)
    }

    /// The order of a sorted list: kind by kind, nothing last; whichever way the list runs.
    pub(crate) fn order(&self, other: &Self, is_descending: bool) -> Ordering {
        let (one, two) = (self.rank(), other.rank());
        if one == KindRank::Nothing || two == KindRank::Nothing {
            return one.cmp(&two);
        }
        let order = one.cmp(&two).then_with(|| match one {
            KindRank::Date => self.microsecond().cmp(&other.microsecond()),
            // What is no number comes last.
            KindRank::Number => {
                self.compare_numbers(other).flatten().unwrap_or_else(|| self.is_nan().cmp(&other.is_nan()))
            }
            KindRank::Boolean | KindRank::Length => self.compare(other).unwrap_or(Ordering::Equal),
            KindRank::Text | KindRank::List | KindRank::Object | KindRank::Nothing => self.text().cmp(&other.text()),
        });
        if is_descending { order.reverse() } else { order }
    }

    fn is_nan(&self) -> bool {
        matches!(self, Self::Real(real) if real.is_nan())
    }

    fn microsecond(&self) -> Option<i64> {
        self.moment().and_then(WrittenDate::microsecond)
    }

    fn rank(&self) -> KindRank {
        match self {
            Self::Null => KindRank::Nothing,
            Self::Boolean(_) => KindRank::Boolean,
            Self::Integer(_) | Self::Real(_) => KindRank::Number,
            Self::Day(_) | Self::Instant(_) => KindRank::Date,
            Self::Text(_) if self.moment().is_some() => KindRank::Date,
            Self::Length(_) => KindRank::Length,
            Self::Text(_) => KindRank::Text,
            Self::List(_) => KindRank::List,
            Self::Object(_) => KindRank::Object,
        }
    }
}

/// An integer and a real, without making the one the other; none beside what is no number.
fn exactly(integer: i64, real: f64) -> Option<Ordering> {
    /// 2^63, the first that no integer reaches.
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    if real.is_nan() {
        return None;
    }
    if real >= BEYOND {
        return Some(Ordering::Less);
    }
    if real < -BEYOND {
        return Some(Ordering::Greater);
    }
    #[expect(clippy::cast_possible_truncation, reason = "a whole number between -2^63 and 2^63")]
    let whole = real.trunc() as i64;
    Some(integer.cmp(&whole).then_with(|| 0.0.partial_cmp(&real.fract()).unwrap_or(Ordering::Equal)))
}
