use std::cmp::Ordering::{self, Equal, Greater, Less};

use proptest::prelude::*;
use serde_json::json;

use super::{DateLength, Value};

fn compared(one: &serde_json::Value, two: &serde_json::Value) -> Option<Ordering> {
    let order = Value::of(one).compare(&Value::of(two));
    let other_way = Value::of(two).compare(&Value::of(one));
    assert_eq!(order.map(Ordering::reverse), other_way, "{one} and {two}");
    order
}

#[test]
fn values_compare_as_what_they_are_and_the_same_way_round_about() {
    for (one, two, order) in [
        (json!(2), json!(10), Some(Less)),
        (json!(2), json!(2.0), Some(Equal)),
        (json!(2.5), json!(2), Some(Greater)),
        (json!(3), json!("3"), None),
        (json!(true), json!(1), None),
        (json!(null), json!(null), Some(Equal)),
        (json!(null), json!(0), None),
        (json!("a"), json!("b"), Some(Less)),
        (json!("B"), json!("a"), Some(Less)),
        (json!("2026-01-31"), json!("2026-02-01T08:00:00+02:00"), Some(Less)),
        (json!("2026-01-31"), json!("2026-01-31T23:59:00Z"), Some(Equal)),
        (json!("2026-01-31T10:00:00Z"), json!("2026-01-31T12:00:00+02:00"), Some(Equal)),
        (json!("2026-01-31"), json!("soon"), None),
        (json!([1, "a"]), json!([1.0, "a"]), Some(Equal)),
        (json!([1]), json!([1, 2]), None),
        (json!({"a": 1}), json!({"a": 1}), Some(Equal)),
    ] {
        assert_eq!(compared(&one, &two), order, "{one} and {two}");
    }
}

#[test]
fn a_sorted_list_goes_kind_by_kind_with_nothing_last_both_ways() {
    let sorted = |is_descending| {
        let all = [
            json!("b"),
            json!(null),
            json!("2026-02-01"),
            json!(2),
            json!("2026-02-01T00:00:01Z"),
            json!(1.5),
            json!(true),
            json!("a"),
        ];
        let mut all: Vec<Value> = all.iter().map(Value::of).collect();
        all.sort_by(|one, two| one.order(two, is_descending));
        serde_json::Value::Array(all.into_iter().map(Value::into_json).collect()).to_string()
    };
    assert_eq!(sorted(false), r#"[true,1.5,2,"2026-02-01","2026-02-01T00:00:01Z","a","b",null]"#);
    assert_eq!(sorted(true), r#"["b","a","2026-02-01T00:00:01Z","2026-02-01",2,1.5,true,null]"#);
}

#[test]
fn lengths_are_added_to_days_and_moments_by_the_calendar() {
    let after = |date: &str, count, unit| {
        let moment = Value::Text(date.to_owned()).date().unwrap();
        match DateLength::of(count, unit).unwrap().add_to(moment).unwrap() {
            crate::dates::WrittenDate::Day(day) => day.to_string(),
            crate::dates::WrittenDate::Instant(instant) => instant.to_string(),
        }
    };
    assert_eq!(after("2026-01-31", 1, "mo"), "2026-02-28");
    assert_eq!(after("2026-01-31", -1, "d"), "2026-01-30");
    assert_eq!(after("2026-01-31", 6, "h"), "2026-01-31T06:00:00Z");
    assert_eq!(after("2024-02-29T12:00:00Z", 1, "y"), "2025-02-28T12:00:00Z");
    assert_eq!(DateLength::of(1, "m"), None, "a minute or a month?");
    assert_eq!(DateLength::of(i64::MAX, "y"), None);
    assert!(DateLength::of(4, "w").unwrap() < DateLength::of(1, "mo").unwrap());
}

#[test]
fn a_length_is_shown_as_it_could_be_written() {
    let shown = |count, unit| DateLength::of(count, unit).unwrap().to_string();
    assert_eq!(shown(36, "h"), "1d 12h");
    assert_eq!(shown(-15, "mo"), "-1y -3mo");
    assert_eq!(shown(0, "d"), "0s");
}

proptest! {
    #[test]
    fn numbers_have_one_order_even_beyond_float_precision(
        integers in prop::collection::vec(prop_oneof![any::<i64>(), 9_007_199_254_740_990_i64..9_007_199_254_741_000], 1..6),
        reals in prop::collection::vec(prop_oneof![
            any::<f64>(), Just(f64::NAN), Just(-0.0), (9_007_199_254_740_990_i64..9_007_199_254_741_000).prop_map(|n| n as f64),
        ], 1..6),
    ) {
        let values: Vec<Value> = integers.into_iter().map(Value::Integer).chain(reals.into_iter().map(Value::Real)).collect();
        for one in &values {
            for two in &values {
                prop_assert_eq!(one.order(two, false), two.order(one, false).reverse());
                for three in &values {
                    if one.order(two, false).is_le() && two.order(three, false).is_le() {
                        prop_assert!(one.order(three, false).is_le(), "{:?} {:?} {:?}", one, two, three);
                    }
                }
            }
        }
    }
}
