//! Tables, as markdown for people and as JSON for programs.

use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value, json};

/// One cell.
#[derive(Debug, Clone, PartialEq)]
pub enum TableCell {
    /// Text.
    Text(String),
    /// Number.
    Count(usize),
    /// Operations per second; none if not measured.
    Rate(Option<f64>),
    /// Duration; none if not measured.
    Time(Option<Duration>),
    /// Bytes.
    Bytes(u64),
    /// Ratio; none if a value was not measured.
    Factor(Option<f64>),
    /// Percentage, from 0 to 1.
    Share(Option<f64>),
    /// Yes or no; none if unknown.
    Flag(Option<bool>),
}

/// Header of a column.
#[derive(Debug, Clone)]
pub struct TableColumn {
    /// For people.
    heading: String,
    /// Key in JSON; names the unit.
    key: &'static str,
}

/// A table.
#[derive(Debug, Clone)]
pub struct MarkdownTable {
    /// Key in JSON.
    pub name: &'static str,
    /// Headers.
    pub columns: Vec<TableColumn>,
    /// Rows of as many cells.
    pub rows: Vec<Vec<TableCell>>,
    /// Notes below the table.
    pub notes: Vec<String>,
}

/// A column.
pub fn column(heading: impl Into<String>, key: &'static str) -> TableColumn {
    TableColumn { heading: heading.into(), key }
}

/// A text cell.
pub fn text(text: impl Into<String>) -> TableCell {
    TableCell::Text(text.into())
}

/// A ratio cell.
pub fn factor(a: Option<f64>, b: Option<f64>) -> TableCell {
    TableCell::Factor(quotient(a, b))
}

/// `a / b`, if both were measured.
pub fn quotient(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    Some(a? / b?)
}

impl MarkdownTable {
    /// A table without rows.
    pub const fn new(name: &'static str, columns: Vec<TableColumn>) -> Self {
        Self { name, columns, rows: Vec::new(), notes: Vec::new() }
    }

    /// Adds a row.
    pub fn add_row(&mut self, cells: impl IntoIterator<Item = TableCell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The table in markdown with aligned columns and a final empty line.
    pub fn to_markdown(&self) -> String {
        let shown: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(ToString::to_string).collect()).collect();
        let width = |at: usize| {
            let cells = shown.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
            cells.chain([self.columns[at].heading.chars().count(), 3]).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let is_text = |at: usize| self.rows.iter().all(|row| matches!(row.get(at), None | Some(TableCell::Text(_))));
        let mut text = String::new();
        let mut line = |cells: &mut dyn Iterator<Item = &str>| {
            for (at, cell) in cells.enumerate() {
                let fill = " ".repeat(widths[at].saturating_sub(cell.chars().count()));
                let (left, right) = if is_text(at) { ("", &*fill) } else { (&*fill, "") };
                text.push_str(&format!("| {left}{cell}{right} "));
            }
            text.push_str("|\n");
        };
        line(&mut self.columns.iter().map(|column| &*column.heading));
        let rules: Vec<String> = (0..self.columns.len())
            .map(|at| if is_text(at) { "-".repeat(widths[at]) } else { format!("{}:", "-".repeat(widths[at] - 1)) })
            .collect();
        line(&mut rules.iter().map(String::as_str));
        for row in &shown {
            line(&mut row.iter().map(String::as_str));
        }
        for note in &self.notes {
            text.push_str(&format!("\n{note}\n"));
        }
        text.push('\n');
        text
    }

    /// The table as an object: `rows`, each an object, and `notes`.
    pub fn to_json(&self) -> Value {
        let row = |cells: &Vec<TableCell>| -> Value {
            let members = self.columns.iter().zip(cells).map(|(column, cell)| (column.key.to_owned(), cell.json()));
            Value::Object(members.collect::<Map<_, _>>())
        };
        json!({ "rows": self.rows.iter().map(row).collect::<Vec<_>>(), "notes": self.notes })
    }
}

impl TableCell {
    /// Times in microseconds, with one decimal.
    fn json(&self) -> Value {
        let number = |number: &Option<f64>, digits: i32| {
            let scale = 10_f64.powi(digits);
            number.map_or(Value::Null, |number| json!((number * scale).round() / scale))
        };
        match self {
            Self::Text(text) => json!(text.replace('`', "")),
            Self::Count(count) => json!(count),
            Self::Rate(rate) => number(rate, 1),
            Self::Time(time) => number(&time.map(|time| time.as_secs_f64() * 1e6), 1),
            Self::Bytes(bytes) => json!(bytes),
            Self::Factor(times) | Self::Share(times) => number(times, 4),
            Self::Flag(is_so) => json!(is_so),
        }
    }
}

impl fmt::Display for TableCell {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => formatter.write_str(text),
            Self::Count(count) => write!(formatter, "{count}"),
            Self::Rate(Some(rate)) => write!(formatter, "{rate:.0}"),
            Self::Time(Some(time)) => formatter.write_str(&format_duration(*time)),
            Self::Bytes(bytes) => write!(formatter, "{:.1} MiB", *bytes as f64 / f64::from(1 << 20)),
            Self::Factor(Some(times)) if *times >= 99.5 => write!(formatter, "{times:.0}"),
            Self::Factor(Some(times)) if *times >= 0.1 => write!(formatter, "{times:.2}"),
            Self::Factor(Some(times)) => write!(formatter, "{times:.4}"),
            Self::Share(Some(share)) => write!(formatter, "{:.0} %", share * 100.0),
            Self::Flag(Some(true)) => formatter.write_str("yes"),
            Self::Flag(Some(false)) => formatter.write_str("**no**"),
            Self::Rate(None) | Self::Time(None) | Self::Factor(None) | Self::Share(None) | Self::Flag(None) => {
                formatter.write_str("—")
            }
        }
    }
}

/// A duration with three significant digits.
pub fn format_duration(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    let (value, unit) = match micros {
        ..1e3 => (micros, "µs"),
        1e3..1e6 => (micros / 1e3, "ms"),
        _ => (micros / 1e6, "s"),
    };
    match value {
        ..10.0 => format!("{value:.2} {unit}"),
        10.0..100.0 => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_ratios_keep_the_digits_that_count() {
        for (micros, text) in [(7, "7.00 µs"), (1_234, "1.23 ms"), (45_678, "45.7 ms"), (3_000_000, "3.00 s")] {
            assert_eq!(TableCell::Time(Some(Duration::from_micros(micros))).to_string(), text);
        }
        assert_eq!(TableCell::Time(None).to_string(), "—");
        for (a, text) in [(250.0, "250"), (2.5, "2.50"), (0.004, "0.0040")] {
            assert_eq!(factor(Some(a), Some(1.0)).to_string(), text);
        }
        assert_eq!(factor(Some(1.0), None).to_string(), "—");
        assert_eq!(TableCell::Share(Some(0.874)).to_string(), "87 %");
        assert_eq!(TableCell::Bytes(3 << 19).to_string(), "1.5 MiB");
    }

    #[test]
    fn a_table_says_the_same_to_people_and_to_programs() {
        let mut table = MarkdownTable::new("writing", vec![column("pages", "name"), column("p50", "p50_us")]);
        table.add_row([text("`PUT`"), TableCell::Time(Some(Duration::from_micros(1_234)))]);
        table.add_row([text("bare"), TableCell::Time(None)]);
        table.notes.push("That is all.".to_owned());
        let shown =
            "| pages |     p50 |\n| ----- | ------: |\n| `PUT` | 1.23 ms |\n| bare  |       — |\n\nThat is all.\n\n";
        assert_eq!(table.to_markdown(), shown);
        let rows = json!([{ "name": "PUT", "p50_us": 1234.0 }, { "name": "bare", "p50_us": null }]);
        assert_eq!(table.to_json(), json!({ "rows": rows, "notes": ["That is all."] }));
    }
}
