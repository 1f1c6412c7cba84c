//! Table of the functions: names, arguments, and which are aggregates.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    Average,
    Choice,
    Contains,
    Count,
    Date,
    DateFormat,
    DaysAgo,
    DaysSince,
    Default,
    EndsWith,
    InLinks,
    Join,
    Length,
    Lower,
    Matches,
    Max,
    Min,
    NonNull,
    Now,
    Number,
    OutLinks,
    RegexReplace,
    RegexTest,
    Replace,
    Round,
    StartsWith,
    String,
    Substring,
    Sum,
    Today,
    TypeOf,
    Upper,
}

pub(crate) struct FunctionRow {
    pub(crate) name: &'static str,
    pub(crate) function: Function,
    pub(crate) min_args: usize,
    pub(crate) max_args: usize,
    pub(crate) usage: &'static str,
}

const fn row(
    name: &'static str,
    function: Function,
    min_args: usize,
    max_args: usize,
    usage: &'static str,
) -> FunctionRow {
    FunctionRow { name, function, min_args, max_args, usage }
}

/// All function names; the first one of a function is its main name.
pub(crate) const TABLE: &[FunctionRow] = &[
    row("average", Function::Average, 1, 1, "average(x)"),
    row("avg", Function::Average, 1, 1, "avg(x)"),
    row("choice", Function::Choice, 3, 3, "choice(condition, then, else)"),
    row("if", Function::Choice, 3, 3, "if(condition, then, else)"),
    row("contains", Function::Contains, 2, 2, "contains(field, value)"),
    row("count", Function::Count, 0, 1, "count() or count(x)"),
    row("date", Function::Date, 1, 1, "date(x)"),
    row("striptime", Function::Date, 1, 1, "striptime(x)"),
    row("dateformat", Function::DateFormat, 2, 2, "dateformat(date, \"%Y-%m\")"),
    row("days_ago", Function::DaysAgo, 1, 1, "days_ago(n)"),
    row("days_since", Function::DaysSince, 1, 1, "days_since(date)"),
    row("default", Function::Default, 2, 2, "default(x, y)"),
    row("endswith", Function::EndsWith, 2, 2, "endswith(text, end)"),
    row("inlinks", Function::InLinks, 0, 0, "inlinks()"),
    row("join", Function::Join, 1, 2, "join(x, separator)"),
    row("length", Function::Length, 1, 1, "length(x)"),
    row("len", Function::Length, 1, 1, "len(x)"),
    row("lower", Function::Lower, 1, 1, "lower(x)"),
    row("matches", Function::Matches, 2, 2, "matches(text, part)"),
    row("max", Function::Max, 1, 16, "max(x) or max(x, y)"),
    row("min", Function::Min, 1, 16, "min(x) or min(x, y)"),
    row("nonnull", Function::NonNull, 1, 1, "nonnull(x)"),
    row("now", Function::Now, 0, 0, "now()"),
    row("number", Function::Number, 1, 1, "number(x)"),
    row("outlinks", Function::OutLinks, 0, 0, "outlinks()"),
    row("regexreplace", Function::RegexReplace, 3, 3, "regexreplace(text, pattern, by)"),
    row("regextest", Function::RegexTest, 2, 2, "regextest(pattern, text)"),
    row("replace", Function::Replace, 3, 3, "replace(text, part, by)"),
    row("round", Function::Round, 1, 2, "round(x, digits)"),
    row("startswith", Function::StartsWith, 2, 2, "startswith(text, beginning)"),
    row("string", Function::String, 1, 1, "string(x)"),
    row("substring", Function::Substring, 2, 3, "substring(text, start, length)"),
    row("sum", Function::Sum, 1, 1, "sum(x)"),
    row("today", Function::Today, 0, 0, "today()"),
    row("typeof", Function::TypeOf, 1, 1, "typeof(x)"),
    row("upper", Function::Upper, 1, 1, "upper(x)"),
];

impl Function {
    pub(crate) fn named(name: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.name.eq_ignore_ascii_case(name)).map(|row| row.function)
    }

    pub(crate) fn row(self) -> &'static FunctionRow {
        // A test checks that every function has a row.
        TABLE.iter().find(|row| row.function == self).unwrap_or(&TABLE[0])
    }

    /// Whether a column with this call aggregates rows: `max(a, b)` compares two values, `max(a)`
    /// all rows.
    pub(crate) fn is_aggregate(self, arguments: usize) -> bool {
        match self {
            Self::Sum | Self::Average | Self::Count | Self::Join => true,
            Self::Min | Self::Max => arguments == 1,
            Self::Choice
            | Self::Contains
            | Self::Date
            | Self::DateFormat
            | Self::DaysAgo
            | Self::DaysSince
            | Self::Default
            | Self::EndsWith
            | Self::InLinks
            | Self::Length
            | Self::Lower
            | Self::Matches
            | Self::NonNull
            | Self::Now
            | Self::Number
            | Self::OutLinks
            | Self::RegexReplace
            | Self::RegexTest
            | Self::Replace
            | Self::Round
            | Self::StartsWith
            | Self::String
            | Self::Substring
            | Self::Today
            | Self::TypeOf
            | Self::Upper => false,
        }
    }
}
