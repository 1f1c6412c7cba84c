//! Log entries as JSON, one object per line: `timestamp`, `level`, `target`, `message`, `fields`.
//!
//! Fields of spans are named `<span>_<field>`, as in the systemd journal: `request_id`.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

/// Metadata of entries that come from the `log` crate; `log.target` replaces the target.
const LOG_PREFIX: &str = "log.";

/// The format; fields of spans must be formatted as JSON.
pub struct JsonLines;

#[derive(Serialize)]
struct LogLine<'a> {
    timestamp: String,
    level: &'a str,
    target: &'a str,
    message: &'a str,
    fields: &'a Map<String, Value>,
}

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    N: for<'writer> FormatFields<'writer> + 'static,
{
    fn format_event(&self, cx: &FmtContext<'_, S, N>, writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut entry = EntryFields::default();
        for span in cx.event_scope().into_iter().flat_map(|scope| scope.from_root()) {
            let extensions = span.extensions();
            let text = extensions.get::<FormattedFields<N>>().map_or("", |fields| fields.fields.as_str());
            let fields: Map<String, Value> = serde_json::from_str(text).unwrap_or_default();
            entry.fields.extend(fields.into_iter().map(|(name, value)| (format!("{}_{name}", span.name()), value)));
        }
        event.record(&mut entry);
        let metadata = event.metadata();
        let target = entry.log_target.as_deref().unwrap_or_else(|| metadata.target());
        write_line(writer, metadata.level(), target, (&entry.message, &entry.fields))
    }
}

/// A line for a message that is not written by the log, such as the reason why a command failed.
pub fn of_message(level: Level, message: &str) -> String {
    let mut line = String::new();
    let written = write_line(Writer::new(&mut line), &level, "svcfs", (message, &Map::new()));
    // Writing to a string does not fail.
    written.map_or_else(|_| message.to_owned(), |()| line.trim_end().to_owned())
}

fn write_line(
    mut writer: Writer<'_>,
    level: &Level,
    target: &str,
    (message, fields): (&str, &Map<String, Value>),
) -> fmt::Result {
    let mut timestamp = String::new();
    SystemTime.format_time(&mut Writer::new(&mut timestamp))?;
    let line = LogLine { timestamp, level: level.as_str(), target, message, fields };
    writeln!(writer, "{}", serde_json::to_string(&line).map_err(|_| fmt::Error)?)
}

#[derive(Default)]
struct EntryFields {
    message: String,
    log_target: Option<String>,
    fields: Map<String, Value>,
}

impl EntryFields {
    fn add(&mut self, field: &Field, value: Value) {
        let text = || value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match field.name() {
            "message" => self.message = text(),
            "log.target" => self.log_target = Some(text()),
            name if name.starts_with(LOG_PREFIX) => {}
            name => drop(self.fields.insert(name.to_owned(), value)),
        }
    }
}

impl Visit for EntryFields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format!("{value:?}").into());
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value.into());
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value.into());
    }
    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.add(field, value.to_string().into());
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use serde_json::json;
    use tracing_subscriber::fmt::format::JsonFields;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[derive(Clone, Default)]
    struct Captured(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Captured {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The lines that `log` writes, without their timestamps.
    fn logged(log: impl FnOnce()) -> Vec<Value> {
        let captured = Captured::default();
        let writer = captured.clone();
        let layer = tracing_subscriber::fmt::layer().event_format(JsonLines).fmt_fields(JsonFields::new());
        let layer = layer.with_ansi(false).with_writer(move || writer.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), log);
        let text = String::from_utf8(captured.0.lock().unwrap().clone()).unwrap();
        let parse = |line: &str| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            let timestamp = line.as_object_mut().unwrap().remove("timestamp").unwrap();
            assert!(timestamp.as_str().unwrap().ends_with('Z'), "{timestamp}");
            line
        };
        text.lines().map(parse).collect()
    }

    #[test]
    fn each_entry_is_one_object_with_typed_fields() {
        let error = io::Error::other("a\n\"quoted\" \u{1b}[31mreason");
        let lines = logged(|| {
            tracing::warn!(target: "svcfs_vfs", path = "a\nb.md", size = 3, is_new = true, ratio = 0.5, %error, "two\nlines");
            let span = tracing::info_span!("request", id = "r-1");
            span.in_scope(|| tracing::error!(target: "svcfs_http", "failed"));
        });
        let error = error.to_string();
        assert_eq!(
            lines,
            [
                json!({ "level": "WARN", "target": "svcfs_vfs", "message": "two\nlines",
                        "fields": { "path": "a\nb.md", "size": 3, "is_new": true, "ratio": 0.5, "error": error } }),
                json!({ "level": "ERROR", "target": "svcfs_http", "message": "failed", "fields": { "request_id": "r-1" } }),
            ]
        );
    }

    #[test]
    fn a_message_outside_the_log_has_the_same_form() {
        let line: Value = serde_json::from_str(&of_message(Level::ERROR, "no\nroot")).unwrap();
        assert_eq!(
            (&line["level"], &line["message"], &line["fields"]),
            (&json!("ERROR"), &json!("no\nroot"), &json!({}))
        );
    }
}
