//! The types of unquoted YAML scalars: YAML 1.2 core, without numbers that would not come back as
//! they were written.
//!
//! `007`, `0x1F`, `1e5`, `+49151`, `1_000` and numbers with too many digits are text: they are part
//! numbers, hashes and telephone numbers more often than numbers.

use serde_json::{Number, Value};

/// The largest integer up to which a 64-bit float, and so every reader of JSON, has all integers.
const MAX_INTEGER: u64 = 1 << 53;

/// Which decimal fractions are numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NumberForm {
    /// All, so that prices compare: `1.50` is a number.
    Any,
    /// Those that come back as written: `1.10` is text.
    AsWritten,
}

/// The value of an unquoted scalar.
pub(super) fn resolve(text: &str, form: NumberForm) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => number(text, form).map_or_else(|| Value::String(text.to_owned()), Value::Number),
    }
}

fn number(text: &str, form: NumberForm) -> Option<Number> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = match digits.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (digits, None),
    };
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || (whole.len() > 1 && whole.starts_with('0')) {
        return None;
    }
    match fraction {
        None => integer(text, whole),
        Some(fraction) if fraction.is_empty() || !is_digits(fraction) => None,
        Some(fraction) => decimal(text, fraction, form),
    }
}

fn integer(text: &str, digits: &str) -> Option<Number> {
    let is_exact = digits.parse::<u64>().is_ok_and(|number| number <= MAX_INTEGER) && text != "-0";
    is_exact.then(|| text.parse::<i64>().ok().map(Number::from)).flatten()
}

fn decimal(text: &str, fraction: &str, form: NumberForm) -> Option<Number> {
    let number = text.parse::<f64>().ok()?;
    if form == NumberForm::AsWritten {
        return Number::from_f64(number).filter(|number| number.to_string() == text);
    }
    // Rust shows a float with the fewest digits that identify it, and without exponent
    let significant = if fraction.bytes().all(|digit| digit == b'0') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text.trim_end_matches('0')
    };
    let shown = number.to_string();
    let written = match significant.strip_prefix("-.") {
        Some(fraction) => format!("-0.{fraction}"),
        None if significant.starts_with('.') => format!("0{significant}"),
        None => significant.to_owned(),
    };
    (shown == written || number == 0.0).then(|| Number::from_f64(number)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_that_would_not_come_back_are_text() {
        let texts = "007 00 -01 0x1F 0xff 0o17 0b1 1e5 1E5 1.5e3 +5 +1.5 1_000 1,5 5. -5. . - -. .inf -.inf .nan 12:30 \
                     9007199254740993 18446744073709551615 -9007199254740993 123456789012345678901234567890 00.5 01.5 \
                     0.12345678901234567890 9007199254740993.5 1.2.3 2026-01-31 -0 --1 1- ٣ １ 0.1.0 1d 1.5x";
        for text in texts.split_whitespace() {
            assert_eq!(resolve(text, NumberForm::Any), json!(text), "{text}");
        }
    }

    #[test]
    fn numbers_that_come_back_are_numbers() {
        for (text, value) in [
            ("0", json!(0)),
            ("7", json!(7)),
            ("-7", json!(-7)),
            ("9007199254740992", json!(9_007_199_254_740_992_i64)),
            ("1.50", json!(1.5)),
            ("1.5", json!(1.5)),
            ("7.0", json!(7.0)),
            ("0.5", json!(0.5)),
            (".5", json!(0.5)),
            ("-.5", json!(-0.5)),
            ("-0.25", json!(-0.25)),
            ("0.0", json!(0.0)),
            ("10.00", json!(10.0)),
            ("100.0", json!(100.0)),
            ("0.1", json!(0.1)),
            ("2.414213562373095", json!(2.414213562373095)),
            ("0.00001", json!(0.00001)),
        ] {
            assert_eq!(resolve(text, NumberForm::Any), value, "{text}");
        }
    }

    #[test]
    fn names_are_numbers_only_if_they_are_shown_alike() {
        for text in ["1.10", "2.0.0", "1.50", ".5", "007"] {
            assert_eq!(resolve(text, NumberForm::AsWritten), json!(text), "{text}");
        }
        assert_eq!(resolve("2024", NumberForm::AsWritten), json!(2024));
        assert_eq!(resolve("1.5", NumberForm::AsWritten), json!(1.5));
    }

    #[test]
    fn words_are_those_of_yaml_1_2() {
        for text in ["", "~", "null", "NULL"] {
            assert_eq!(resolve(text, NumberForm::Any), Value::Null);
        }
        assert_eq!(resolve("True", NumberForm::Any), json!(true));
        assert_eq!(resolve("FALSE", NumberForm::Any), json!(false));
        for text in ["yes", "no", "on", "off", "y", "n", "tRUE", "nULL"] {
            assert_eq!(resolve(text, NumberForm::Any), json!(text));
        }
    }
}
