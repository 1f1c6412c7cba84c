use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use granit_parser::{Event, Options, Parser};

use super::split;

/// The line of each value in a frontmatter block, by its JSON pointer.
///
/// Paths are stored as hashes: the texts of all pointers together could be much longer than the
/// block.
#[derive(Debug, Clone, Default)]
pub struct ValueLines(HashMap<u64, usize>);

const ROOT: u64 = 0;

impl ValueLines {
    /// Reads the lines of a page's frontmatter; as far as it can be parsed.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let split = split(text);
        let mut lines = Self::default();
        match (split.yaml, split.toml) {
            (Some(yaml), _) => lines.read_yaml(yaml),
            (None, Some(toml)) => lines.read_toml(toml),
            (None, None) => {}
        }
        lines
    }

    /// The line of the value at a JSON pointer, from 1: that of its key or list item. A value
    /// without a line of its own has that of the nearest value around it; the whole frontmatter is
    /// on line 1.
    #[must_use]
    pub fn line(&self, pointer: &str) -> usize {
        let mut line = 1;
        let mut at = ROOT;
        for token in pointer.split('/').skip(1) {
            at = child(at, &token.replace("~1", "/").replace("~0", "~"));
            match self.0.get(&at) {
                Some(found) => line = *found,
                None => break,
            }
        }
        line
    }

    fn add(&mut self, path: u64, line: usize) {
        self.0.entry(path).or_insert(line);
    }

    fn read_yaml(&mut self, yaml: &str) {
        let mut options = Options::default();
        options.set_emit_comments(false);
        let mut parser = Parser::new_from_str_with_options(yaml, options);
        let mut open: Vec<OpenCollection> = Vec::new();
        while let Some(Ok((event, span))) = parser.next_event() {
            // The opening `---` is line 1.
            let line = span.start.line().saturating_add(1);
            if let (Some(OpenCollection::Mapping { path, value: value @ None }), Event::Scalar(name, ..)) =
                (open.last_mut(), &event)
            {
                let key = child(*path, name);
                *value = Some(key);
                self.add(key, line);
                continue;
            }
            match event {
                Event::SequenceStart(..) => {
                    let path = self.place(&mut open, line);
                    open.push(OpenCollection::Sequence { path, count: 0 });
                }
                Event::MappingStart(..) => {
                    let path = self.place(&mut open, line);
                    open.push(OpenCollection::Mapping { path, value: None });
                }
                Event::Scalar(..) | Event::Alias(..) => drop(self.place(&mut open, line)),
                Event::SequenceEnd | Event::MappingEnd => drop(open.pop()),
                _ => {}
            }
        }
    }

    /// The path of a value that begins now.
    fn place(&mut self, open: &mut [OpenCollection], line: usize) -> u64 {
        match open.last_mut() {
            None => ROOT,
            Some(OpenCollection::Mapping { path, value }) => value.take().unwrap_or(*path),
            Some(OpenCollection::Sequence { path, count }) => {
                let item = child(*path, &count.to_string());
                *count += 1;
                self.add(item, line);
                item
            }
        }
    }

    /// Reads keys and table headers; list items have the line of their key.
    fn read_toml(&mut self, toml: &str) {
        let mut table = ROOT;
        for (index, line) in toml.lines().enumerate() {
            let (line, number) = (line.trim(), index + 2);
            let (start, names) = match line.strip_prefix('[') {
                Some(header) => (ROOT, header.trim_start_matches('[').split(']').next()),
                None => (table, line.split_once('=').map(|(names, _)| names)),
            };
            let Some(names) = names else { continue };
            let mut at = start;
            for name in names.split('.') {
                at = child(at, name.trim().trim_matches(['"', '\'']));
                self.add(at, number);
            }
            if line.starts_with('[') {
                table = at;
            }
        }
    }
}

enum OpenCollection {
    Sequence {
        path: u64,
        count: usize,
    },
    Mapping {
        path: u64,
        /// Path of the value that comes next; none before a key.
        value: Option<u64>,
    },
}

fn child(parent: u64, name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (parent, name).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_has_the_line_of_its_key_or_item() {
        let yaml = "---\ntitle: A\n# note\nlist:\n  - one\n  - {a: 1,\n     b: 2}\nmap:\n  deep:\n    key: >\n      x\n\
                    a/b: 1\nsame: &x [1]\nalias: *x\n---\n\ntext\n";
        let toml = "+++\ntitle = \"A\"\n\n[map.deep]\nkey = [\n  1,\n]\n+++\n";
        for (text, pointer, line) in [
            (yaml, "", 1),
            (yaml, "/title", 2),
            (yaml, "/list", 4),
            (yaml, "/list/0", 5),
            (yaml, "/list/1", 6),
            (yaml, "/list/1/b", 7),
            (yaml, "/list/7", 4),
            (yaml, "/map/deep/key", 10),
            (yaml, "/map/deep/absent", 9),
            (yaml, "/a~1b", 12),
            (yaml, "/alias/0", 14),
            (yaml, "/absent", 1),
            (toml, "/title", 2),
            (toml, "/map/deep/key", 5),
            (toml, "/map/deep/key/0", 5),
            ("no frontmatter", "/title", 1),
            ("---\ntitle: [\n---\n", "/title", 2),
        ] {
            assert_eq!(ValueLines::of(text).line(pointer), line, "{pointer} in {text}");
        }
    }
}
