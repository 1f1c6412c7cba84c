//! Comparison of values, as `=`, `<` and SORT do it.

use std::cmp::Ordering;

use super::collation::collate;
use super::{Link, Object, Value};

/// Gives the path of the page that a link means.
pub(crate) type LinkNormalizer<'n> = &'n dyn Fn(&Link) -> String;

/// Null comes first. Values of different types are ordered by the names of their types.
pub(crate) fn compare(left: &Value, right: &Value, normalize: LinkNormalizer<'_>) -> Ordering {
    match (left, right) {
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Null, _) => Ordering::Less,
        (_, Value::Null) => Ordering::Greater,
        (Value::Boolean(a), Value::Boolean(b)) => a.cmp(b),
        (Value::Number(a), Value::Number(b)) => a.partial_cmp(b).unwrap_or_else(|| a.total_cmp(b)),
        (Value::Text(a), Value::Text(b)) => collate(a, b),
        (Value::Date(a), Value::Date(b)) => a.timestamp().cmp(&b.timestamp()),
        (Value::Duration(a), Value::Duration(b)) => a.total_milliseconds().total_cmp(&b.total_milliseconds()),
        (Value::Link(a), Value::Link(b)) => collate(&normalize(a), &normalize(b))
            .then_with(|| a.target_name().cmp(b.target_name()))
            .then_with(|| a.subpath().cmp(&b.subpath())),
        (Value::List(a), Value::List(b)) => {
            let pairs = a.iter().zip(b.iter());
            first_difference(pairs.map(|(a, b)| compare(a, b, normalize))).then(a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => compare_objects(a, b, normalize),
        (Value::File(a), Value::File(b)) => collate(&a.path, &b.path),
        (Value::Item(a, x), Value::Item(b, y)) => collate(&a.path, &b.path).then(x.cmp(y)),
        (Value::Row(a), Value::Row(b)) => compare(&a.id(), &b.id(), normalize),
        (Value::Function(_), Value::Function(_)) => Ordering::Equal,
        _ => left.type_name().cmp(right.type_name()).then_with(|| rank(left).cmp(&rank(right))),
    }
}

/// Orders the kinds of objects.
const fn rank(value: &Value) -> u8 {
    match value {
        Value::Object(_) => 0,
        Value::Row(_) => 1,
        Value::File(_) => 2,
        _ => 3,
    }
}

fn first_difference(mut orders: impl Iterator<Item = Ordering>) -> Ordering {
    orders.find(|order| *order != Ordering::Equal).unwrap_or(Ordering::Equal)
}

fn compare_objects(left: &Object, right: &Object, normalize: LinkNormalizer<'_>) -> Ordering {
    let sorted = |members: &Object| {
        let mut members: Vec<(String, Value)> = members.clone();
        members.sort_by(|(a, _), (b, _)| a.cmp(b));
        members
    };
    let (left, right) = (sorted(left), sorted(right));
    let keys = left.iter().map(|(key, _)| key).cmp(right.iter().map(|(key, _)| key));
    keys.then_with(|| first_difference(left.iter().zip(&right).map(|((_, a), (_, b))| compare(a, b, normalize))))
}
