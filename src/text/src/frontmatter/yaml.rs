//! The reader of YAML blocks.
//!
//! It builds on the events of the YAML parser and not on a deserializer, because the type of a
//! scalar depends on how it is written (module `scalars`), and because an error needs the line in
//! the file and a message for the author of the page.

use std::collections::HashMap;

use granit_parser::{Event, Marker, Options, Parser, ScalarStyle, Span, StrInput, Tag};
use serde_json::{Map, Value};

use super::ParseError;
use super::messages::{self, Problem};
use super::scalars::{self, NumberForm};

/// Limit of nested collections. The index stores frontmatter as JSON, which may be 128 levels deep.
const MAX_DEPTH: usize = 64;

/// Limit of aliases in a block: editing one with more is slow.
const MAX_ALIASES: usize = 1_000;

/// Limit of values that all aliases of a block expand to …
const MAX_ALIAS_VALUES: usize = 20_000;

/// … and of their text.
const MAX_ALIAS_BYTES: usize = 1 << 20;

/// Keys of names: `1.10` is a name there and no number.
const NAME_KEYS: [&str; 6] = ["title", "aliases", "alias", "tags", "topics", "labels"];

/// Parses the YAML between two `---` lines, of which the first is line 1 of the page.
pub(super) fn parse(yaml: &str) -> Result<Map<String, Value>, ParseError> {
    let mut reader = Reader::new(yaml);
    match reader.read() {
        Ok(Value::Object(map)) => Ok(map),
        Ok(Value::Null) => Ok(Map::new()),
        Ok(Value::Array(_)) => Err(ParseError::NotAMapping { actual: "a list" }),
        Ok(Value::String(_)) => Err(ParseError::NotAMapping { actual: "text" }),
        Ok(Value::Number(_)) => Err(ParseError::NotAMapping { actual: "a number" }),
        Ok(Value::Bool(_)) => Err(ParseError::NotAMapping { actual: "a boolean" }),
        Err(problem) => {
            // the opening `---` is line 1
            let (line, column) = (problem.line.saturating_add(1), problem.column.saturating_add(1));
            Err(ParseError::Malformed { message: problem.message, line, column })
        }
    }
}

/// The keys of the outermost mapping and the lines (from 1) where they begin; none for invalid
/// YAML, for merge keys (`<<`), and if two keys begin on one line.
pub(super) fn key_lines(yaml: &str) -> Option<Vec<(String, usize)>> {
    let mut keys: Vec<(String, usize)> = Vec::new();
    let (mut depth, mut is_key) = (0_usize, false);
    for event in Parser::new_from_str(yaml) {
        let (event, span) = event.ok()?;
        match event {
            Event::Scalar(name, ..) if depth == 1 && is_key => {
                let line = span.start.line();
                if name == "<<" || keys.last().is_some_and(|(_, last)| *last >= line) {
                    return None;
                }
                keys.push((name.into_owned(), line));
            }
            Event::SequenceStart(..) | Event::MappingStart(..) => depth += 1,
            Event::SequenceEnd | Event::MappingEnd => depth = depth.checked_sub(1)?,
            Event::Scalar(..) | Event::Alias(..) => {}
            _ => continue,
        }
        if depth == 1 {
            is_key = !is_key;
        }
    }
    Some(keys)
}

struct Reader<'y> {
    yaml: &'y str,
    parser: Parser<'y, StrInput<'y>>,
    /// The open collections, the innermost last.
    open: Vec<OpenCollection>,
    anchors: HashMap<usize, Value>,
    alias_count: usize,
    alias_values: usize,
    alias_bytes: usize,
}

enum OpenCollection {
    Sequence { anchor: usize, items: Vec<Value> },
    Mapping(OpenMapping),
}

struct OpenMapping {
    anchor: usize,
    entries: Map<String, Value>,
    /// The key whose value comes next.
    key: Option<MappingKey>,
    /// The mappings of `<<`, in order.
    merged: Vec<Map<String, Value>>,
}

enum MappingKey {
    Name(String),
    Merge,
}

impl<'y> Reader<'y> {
    fn new(yaml: &'y str) -> Self {
        let mut options = Options::default();
        options.set_emit_comments(false);
        Self {
            yaml,
            parser: Parser::new_from_str_with_options(yaml, options),
            open: Vec::new(),
            anchors: HashMap::new(),
            alias_count: 0,
            alias_values: 0,
            alias_bytes: 0,
        }
    }

    /// The only document; null if there is none.
    fn read(&mut self) -> Result<Value, Problem> {
        let mut document = None;
        let mut has_started = false;
        while let Some(event) = self.parser.next_event() {
            let (event, span) = event.map_err(|error| messages::of_parser(&error, self.yaml))?;
            if let Event::DocumentStart(..) = event {
                if std::mem::replace(&mut has_started, true) {
                    return Err(Problem::at(span.start, "a second YAML document begins here; one is possible"));
                }
                continue;
            }
            if let Some(value) = self.handle(event, &span)? {
                document = Some(value);
            }
        }
        Ok(document.unwrap_or(Value::Null))
    }

    /// Handles one event; returns the document when it is complete.
    fn handle(&mut self, event: Event<'y>, span: &Span) -> Result<Option<Value>, Problem> {
        let (value, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                if self.is_key_expected() {
                    return self.start_entry(text.into_owned(), style, span.start).map(|()| None);
                }
                (self.scalar(&text, style, tag.as_deref()), anchor)
            }
            Event::Alias(anchor) => {
                self.refuse_as_key(span.start, "an alias")?;
                (self.expand_alias(anchor, span.start)?, 0)
            }
            Event::SequenceStart(_, anchor, _) => {
                self.refuse_as_key(span.start, "a list")?;
                self.open(OpenCollection::Sequence { anchor, items: Vec::new() }, span.start)?;
                return Ok(None);
            }
            Event::MappingStart(_, anchor, _) => {
                self.refuse_as_key(span.start, "a mapping")?;
                let mapping = OpenMapping { anchor, entries: Map::new(), key: None, merged: Vec::new() };
                self.open(OpenCollection::Mapping(mapping), span.start)?;
                return Ok(None);
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(OpenCollection::Sequence { anchor, items }) => (Value::Array(items), anchor),
                Some(OpenCollection::Mapping(mapping)) => {
                    let anchor = mapping.anchor;
                    (mapping.into_value(), anchor)
                }
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        if anchor > 0 {
            self.anchors.insert(anchor, value.clone());
        }
        self.add(value, span.start)
    }

    fn is_key_expected(&self) -> bool {
        matches!(self.open.last(), Some(OpenCollection::Mapping(OpenMapping { key: None, .. })))
    }

    fn start_entry(&mut self, name: String, style: ScalarStyle, at: Marker) -> Result<(), Problem> {
        let Some(OpenCollection::Mapping(mapping)) = self.open.last_mut() else { return Ok(()) };
        if name == "<<" && style == ScalarStyle::Plain {
            mapping.key = Some(MappingKey::Merge);
            return Ok(());
        }
        if mapping.entries.contains_key(&name) {
            return Err(Problem::at(at, format!("the key `{}` is there twice; remove one", messages::shorten(&name))));
        }
        // the entry takes its place now: keys remain in the order of the author
        mapping.entries.insert(name.clone(), Value::Null);
        mapping.key = Some(MappingKey::Name(name));
        Ok(())
    }

    fn refuse_as_key(&self, at: Marker, actual: &str) -> Result<(), Problem> {
        if !self.is_key_expected() {
            return Ok(());
        }
        let advice = if self.line(at.line()).contains("{{") {
            "; put quotes around text with `{{ }}`"
        } else {
            "; put quotes around text that begins with `{`, `[` or `*`"
        };
        Err(Problem::at(at, format!("a key must be text, not {actual}{advice}")))
    }

    fn line(&self, number: usize) -> &'y str {
        self.yaml.lines().nth(number.saturating_sub(1)).unwrap_or_default()
    }

    fn scalar(&self, text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Value {
        let is_text = tag.is_some_and(|tag| tag.core_suffix().is_some_and(|kind| matches!(kind, "str" | "binary")));
        let is_bare_tag = tag.is_some_and(|tag| tag.handle().is_empty() && tag.suffix() == "!");
        if style != ScalarStyle::Plain || is_text || is_bare_tag {
            return Value::String(text.to_owned());
        }
        let form = match self.open.first() {
            Some(OpenCollection::Mapping(OpenMapping { key: Some(MappingKey::Name(name)), .. }))
                if NAME_KEYS.contains(&name.as_str()) =>
            {
                NumberForm::AsWritten
            }
            Some(_) | None => NumberForm::Any,
        };
        scalars::resolve(text, form)
    }

    fn open(&mut self, collection: OpenCollection, at: Marker) -> Result<(), Problem> {
        if self.open.len() >= MAX_DEPTH {
            return Err(too_deep(at));
        }
        self.open.push(collection);
        Ok(())
    }

    /// A copy of the anchored value, unless all copies together become too large.
    fn expand_alias(&mut self, anchor: usize, at: Marker) -> Result<Value, Problem> {
        let Some(value) = self.anchors.get(&anchor) else {
            return Err(Problem::at(at, "an alias `*name` inside the value that it names"));
        };
        self.alias_count += 1;
        if self.alias_count > MAX_ALIASES {
            return Err(Problem::at(at, format!("more than {MAX_ALIASES} aliases `*name`")));
        }
        let mut size = ValueSize { values: self.alias_values, bytes: self.alias_bytes };
        match size.add(value, self.open.len()) {
            Ok(()) => {
                (self.alias_values, self.alias_bytes) = (size.values, size.bytes);
                Ok(value.clone())
            }
            Err(Excess::Depth) => Err(too_deep(at)),
            Err(Excess::Size) => Err(Problem::at(at, "the aliases `*name` repeat too much text")),
        }
    }

    /// Adds a value to the innermost open collection; returns it if there is none.
    fn add(&mut self, value: Value, at: Marker) -> Result<Option<Value>, Problem> {
        match self.open.last_mut() {
            None => return Ok(Some(value)),
            Some(OpenCollection::Sequence { items, .. }) => items.push(value),
            Some(OpenCollection::Mapping(mapping)) => match mapping.key.take() {
                Some(MappingKey::Name(name)) => drop(mapping.entries.insert(name, value)),
                Some(MappingKey::Merge) => mapping.merge(value, at)?,
                None => {}
            },
        }
        Ok(None)
    }
}

fn too_deep(at: Marker) -> Problem {
    Problem::at(at, format!("lists and mappings are nested more than {MAX_DEPTH} levels deep"))
}

impl OpenMapping {
    fn merge(&mut self, value: Value, at: Marker) -> Result<(), Problem> {
        let values = match value {
            Value::Array(values) => values,
            single => vec![single],
        };
        for value in values {
            let Value::Object(map) = value else {
                return Err(Problem::at(at, "the value of `<<` must be a mapping; put quotes around the key"));
            };
            self.merged.push(map);
        }
        Ok(())
    }

    /// The own entries, then those of the merged mappings whose keys are new.
    fn into_value(mut self) -> Value {
        for (key, value) in self.merged.into_iter().flatten() {
            self.entries.entry(key).or_insert(value);
        }
        Value::Object(self.entries)
    }
}

/// What aliases expanded to so far.
struct ValueSize {
    values: usize,
    bytes: usize,
}

enum Excess {
    Depth,
    Size,
}

impl ValueSize {
    fn add(&mut self, value: &Value, depth: usize) -> Result<(), Excess> {
        self.values += 1;
        if depth > MAX_DEPTH {
            return Err(Excess::Depth);
        }
        if self.values > MAX_ALIAS_VALUES || self.bytes > MAX_ALIAS_BYTES {
            return Err(Excess::Size);
        }
        match value {
            Value::String(text) => self.bytes += text.len(),
            Value::Array(items) => items.iter().try_for_each(|item| self.add(item, depth + 1))?,
            Value::Object(entries) => {
                for (key, value) in entries {
                    self.bytes += key.len();
                    self.add(value, depth + 1)?;
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        Ok(())
    }
}
