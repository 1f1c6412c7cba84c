//! The functions of the query language.
//!
//! A function has one implementation for single values. Where `vectors` names a parameter, a list
//! in its place gives a list of results.

mod construct;
mod contain;
mod date;
mod list;
mod number;
mod regexes;
mod string;

use crate::error::{Evaluation, Failure};
use crate::run::evaluate::Evaluator;
use crate::value::Value;

type Implementation = fn(&Evaluator<'_>, &[Value]) -> Evaluation<Value>;

/// A function and its parameters.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) min_arguments: usize,
    pub(crate) max_arguments: usize,
    /// The parameters for which a list is applied item by item.
    vectors: &'static [usize],
    /// Whether null as the first argument gives null.
    passes_null: bool,
    run: Implementation,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name)
    }
}

const ANY: usize = usize::MAX;

/// A function that takes lists as they are.
const fn plain(name: &'static str, (min, max): (usize, usize), run: Implementation) -> Function {
    Function { name, min_arguments: min, max_arguments: max, vectors: &[], passes_null: false, run }
}

/// A function of single values; null gives null.
const fn vector(
    name: &'static str,
    (min, max): (usize, usize),
    vectors: &'static [usize],
    run: Implementation,
) -> Function {
    Function { name, min_arguments: min, max_arguments: max, vectors, passes_null: true, run }
}

static TABLE: [Function; 66] = [
    plain("object", (0, ANY), construct::object),
    plain("list", (0, ANY), construct::list),
    plain("array", (0, ANY), construct::list),
    vector("date", (1, 2), &[0], date::date),
    vector("dur", (1, 1), &[0], date::dur),
    vector("number", (1, 1), &[0], number::number),
    plain("string", (1, 1), string::string),
    vector("link", (1, 2), &[0, 1], construct::link),
    vector("embed", (1, 2), &[0], construct::embed),
    vector("elink", (1, 2), &[0, 1], construct::elink),
    plain("typeof", (1, 1), construct::type_of),
    vector("round", (1, 2), &[0], number::round),
    vector("trunc", (1, 1), &[0], number::trunc),
    vector("floor", (1, 1), &[0], number::floor),
    vector("ceil", (1, 1), &[0], number::ceil),
    plain("min", (0, ANY), list::min),
    plain("max", (0, ANY), list::max),
    plain("sum", (1, 1), number::sum),
    plain("product", (1, 1), number::product),
    plain("average", (1, 1), number::average),
    plain("reduce", (2, 2), list::reduce),
    plain("minby", (2, 2), list::min_by),
    plain("maxby", (2, 2), list::max_by),
    plain("contains", (2, 2), contain::contains),
    plain("icontains", (2, 2), contain::icontains),
    plain("econtains", (2, 2), contain::econtains),
    vector("containsword", (2, 2), &[0, 1], contain::contains_word),
    plain("extract", (1, ANY), construct::extract),
    plain("sort", (1, 2), list::sort),
    plain("reverse", (1, 1), list::reverse),
    plain("length", (1, 1), list::length),
    plain("nonnull", (0, ANY), list::nonnull),
    plain("firstvalue", (1, 1), list::first_value),
    plain("all", (0, ANY), list::all),
    plain("any", (0, ANY), list::any),
    plain("none", (0, ANY), list::none),
    plain("join", (1, 2), list::join),
    plain("filter", (2, 2), list::filter),
    plain("map", (2, 2), list::map),
    plain("unique", (1, 1), list::unique),
    plain("flat", (1, 2), list::flat),
    plain("slice", (1, 3), list::slice),
    plain("regextest", (2, 2), regexes::test),
    plain("regexmatch", (2, 2), regexes::matches),
    vector("regexreplace", (3, 3), &[0, 1, 2], regexes::replace),
    vector("replace", (3, 3), &[0, 1, 2], string::replace),
    vector("lower", (1, 1), &[0], string::lower),
    vector("upper", (1, 1), &[0], string::upper),
    vector("split", (2, 3), &[0], regexes::split),
    vector("startswith", (2, 2), &[0, 1], string::starts_with),
    vector("endswith", (2, 2), &[0, 1], string::ends_with),
    vector("padleft", (2, 3), &[0, 1, 2], string::pad_left),
    vector("padright", (2, 3), &[0, 1, 2], string::pad_right),
    vector("substring", (2, 3), &[0, 1, 2], string::substring),
    vector("truncate", (2, 3), &[0, 1, 2], string::truncate),
    Function {
        name: "default",
        min_arguments: 2,
        max_arguments: 2,
        vectors: &[0, 1],
        passes_null: false,
        run: construct::default,
    },
    plain("ldefault", (2, 2), construct::default),
    plain("display", (1, 1), string::display),
    Function {
        name: "choice",
        min_arguments: 3,
        max_arguments: 3,
        vectors: &[0],
        passes_null: false,
        run: construct::choice,
    },
    plain("hash", (1, 3), construct::hash),
    vector("striptime", (1, 1), &[0], date::strip),
    vector("dateformat", (2, 2), &[0], date::format),
    vector("durationformat", (2, 2), &[0], date::format_dur),
    vector("currencyformat", (1, 2), &[0], number::currency),
    vector("localtime", (1, 1), &[0], date::local_time),
    vector("meta", (1, 1), &[0], construct::meta),
];

/// Finds a function; the case of its name does not matter.
pub(crate) fn named(name: &str) -> Option<&'static Function> {
    TABLE.iter().find(|function| function.name.eq_ignore_ascii_case(name))
}

pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|function| function.name)
}

impl Function {
    pub(crate) fn call(&self, evaluator: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
        evaluator.check_deadline()?;
        let lists = self.vectors.iter().filter_map(|index| arguments.get(*index)?.as_list()).map(<[Value]>::len);
        let Some(length) = lists.min() else {
            if self.passes_null && arguments.first().is_some_and(Value::is_null) {
                return Ok(Value::Null);
            }
            return (self.run)(evaluator, arguments);
        };
        let call_item = |item: usize| {
            let argument = |(index, argument): (usize, &Value)| match argument.as_list() {
                Some(items) if self.vectors.contains(&index) => items.get(item).cloned().unwrap_or(Value::Null),
                _ => argument.clone(),
            };
            let arguments: Vec<Value> = arguments.iter().enumerate().map(argument).collect();
            self.call(evaluator, &arguments)
        };
        Ok(Value::list((0..length).map(call_item).collect::<Evaluation<_>>()?))
    }
}

/// Fails for an argument of a wrong type.
fn wrong<T>(name: &str, wanted: &str, given: &Value) -> Evaluation<T> {
    Err(Failure::row(format!("`{name}` requires {wanted}, not {}", given.type_name())))
}

fn text_argument<'a>(name: &str, value: &'a Value) -> Evaluation<&'a str> {
    value.as_text().map_or_else(|| wrong(name, "a text", value), Ok)
}

fn number_argument(name: &str, value: &Value) -> Evaluation<f64> {
    value.as_number().map_or_else(|| wrong(name, "a number", value), Ok)
}

/// A number as a count; negative ones are 0.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative; the cast saturates")]
fn count_argument(name: &str, value: &Value) -> Evaluation<usize> {
    Ok(number_argument(name, value)?.max(0.0) as usize)
}

/// The position in a sequence: negative numbers count from the end.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "limited to the length")]
fn position_argument(name: &str, value: &Value, length: usize) -> Evaluation<usize> {
    let number = number_argument(name, value)?;
    let position = if number < 0.0 { length as f64 + number } else { number };
    Ok(position.clamp(0.0, length as f64) as usize)
}
