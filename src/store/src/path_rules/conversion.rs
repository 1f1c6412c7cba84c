//! How git converts a file between tree and history: line ends here, all else by git itself.
//!
//! The line-end rules are those of git's `convert.c`.

use std::borrow::Cow;

use super::attributes::{AttributeState, PathAttributes};
use super::settings::{AutoCrlf, FilterDriver, GitSettings};

/// The conversion of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Conversion {
    line_ends: LineEnds,
    /// Whether `$Id$` is expanded.
    is_ident: bool,
    encoding: Option<String>,
    filter: Option<(String, FilterDriver)>,
}

/// Which line ends the file has in the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineEnds {
    Unchanged,
    Text {
        is_crlf: bool,
    },
    /// For files that look like text.
    Auto {
        is_crlf: bool,
    },
}

impl Conversion {
    pub(super) fn new(settings: &GitSettings, attributes: &PathAttributes) -> Self {
        let value = |name: &str| match attributes.get(name) {
            Some(AttributeState::Value(value)) => Some(value.clone()),
            Some(_) | None => None,
        };
        if !settings.has_repository {
            return Self { line_ends: LineEnds::Unchanged, is_ident: false, encoding: None, filter: None };
        }
        let filter = value("filter").and_then(|name| {
            let driver = settings.drivers.get(&name)?;
            (driver.is_required || driver.has_command()).then(|| (name, driver.clone()))
        });
        let is_utf8 = |name: &String| ["utf-8", "utf8"].iter().any(|utf8| name.eq_ignore_ascii_case(utf8));
        Self {
            line_ends: LineEnds::new(settings, attributes),
            is_ident: attributes.get("ident") == Some(&AttributeState::Set),
            encoding: value("working-tree-encoding").filter(|name| !name.is_empty() && !is_utf8(name)),
            filter,
        }
    }

    /// Whether contents are equal in tree and history.
    pub(crate) fn is_identity(&self) -> bool {
        *self == Self { line_ends: LineEnds::Unchanged, is_ident: false, encoding: None, filter: None }
    }

    /// Whether git itself must convert a content, with its programs.
    pub(crate) fn needs_git(&self, content: &[u8]) -> bool {
        let has_id = || content.windows(3).any(|window| window == b"$Id");
        self.encoding.is_some() || self.filter.is_some() || self.is_ident && has_id()
    }

    /// Whether the conversion to git depends on the recorded content.
    pub(crate) const fn depends_on_recorded(&self) -> bool {
        matches!(self.line_ends, LineEnds::Auto { .. })
    }

    /// The form that git records. `is_recorded_crlf` tells whether the recorded content has CRLF,
    /// which git then leaves as it is.
    pub(crate) fn clean_line_ends<'c>(
        &self,
        content: &'c [u8],
        is_recorded_crlf: impl FnOnce() -> bool,
    ) -> Cow<'c, [u8]> {
        let is_auto = match self.line_ends {
            LineEnds::Unchanged => return Cow::Borrowed(content),
            LineEnds::Text { .. } => false,
            LineEnds::Auto { .. } => true,
        };
        let statistics = LineStatistics::of(content);
        if statistics.crlf == 0 || is_auto && (statistics.is_binary() || is_recorded_crlf()) {
            return Cow::Borrowed(content);
        }
        let mut clean = Vec::with_capacity(content.len());
        for (at, byte) in content.iter().enumerate() {
            if *byte != b'\r' || !is_auto && content.get(at + 1) != Some(&b'\n') {
                clean.push(*byte);
            }
        }
        Cow::Owned(clean)
    }

    /// The form in the tree of a recorded content.
    pub(crate) fn smudge_line_ends<'c>(&self, content: &'c [u8]) -> Cow<'c, [u8]> {
        let is_auto = match self.line_ends {
            LineEnds::Text { is_crlf: true } => false,
            LineEnds::Auto { is_crlf: true } => true,
            LineEnds::Unchanged | LineEnds::Text { is_crlf: false } | LineEnds::Auto { is_crlf: false } => {
                return Cow::Borrowed(content);
            }
        };
        let statistics = LineStatistics::of(content);
        let is_mixed = statistics.lone_cr > 0 || statistics.crlf > 0;
        if statistics.lone_lf == 0 || is_auto && (is_mixed || statistics.is_binary()) {
            return Cow::Borrowed(content);
        }
        let mut smudged = Vec::with_capacity(content.len() + statistics.lone_lf);
        for byte in content {
            if *byte == b'\n' && smudged.last() != Some(&b'\r') {
                smudged.push(b'\r');
            }
            smudged.push(*byte);
        }
        Cow::Owned(smudged)
    }
}

impl LineEnds {
    fn new(settings: &GitSettings, attributes: &PathAttributes) -> Self {
        let is_default_crlf = match settings.auto_crlf {
            AutoCrlf::True => true,
            AutoCrlf::Input => false,
            AutoCrlf::False => settings.is_eol_crlf,
        };
        let eol = match attributes.get("eol") {
            Some(AttributeState::Value(value)) if value == "crlf" => Some(true),
            Some(AttributeState::Value(value)) if value == "lf" => Some(false),
            Some(_) | None => None,
        };
        // `crlf` is the former name of `text`.
        let rule = ["text", "crlf"].iter().find_map(|name| match attributes.get(*name) {
            Some(AttributeState::Set) => Some(Self::Text { is_crlf: is_default_crlf }),
            Some(AttributeState::Unset) => Some(Self::Unchanged),
            Some(AttributeState::Value(value)) if value == "auto" => Some(Self::Auto { is_crlf: is_default_crlf }),
            Some(AttributeState::Value(value)) if value == "input" => Some(Self::Text { is_crlf: false }),
            Some(AttributeState::Unspecified | AttributeState::Value(_)) | None => None,
        });
        match (rule, eol) {
            (Some(Self::Unchanged), _) => Self::Unchanged,
            (Some(Self::Auto { .. }), Some(is_crlf)) => Self::Auto { is_crlf },
            (_, Some(is_crlf)) => Self::Text { is_crlf },
            (Some(rule), None) => rule,
            (None, None) => match settings.auto_crlf {
                AutoCrlf::False => Self::Unchanged,
                AutoCrlf::True => Self::Auto { is_crlf: true },
                AutoCrlf::Input => Self::Auto { is_crlf: false },
            },
        }
    }
}

/// Counts by which git tells text from other contents.
#[derive(Default)]
struct LineStatistics {
    nul: usize,
    lone_cr: usize,
    lone_lf: usize,
    crlf: usize,
    printable: usize,
    unprintable: usize,
}

impl LineStatistics {
    fn of(content: &[u8]) -> Self {
        let mut counts = Self::default();
        let mut bytes = content.iter().peekable();
        while let Some(byte) = bytes.next() {
            match byte {
                b'\r' if bytes.next_if(|next| **next == b'\n').is_some() => counts.crlf += 1,
                b'\r' => counts.lone_cr += 1,
                b'\n' => counts.lone_lf += 1,
                0 => {
                    counts.nul += 1;
                    counts.unprintable += 1;
                }
                // Backspace, tab, escape and form feed.
                0x08 | b'\t' | 0x1b | 0x0c => counts.printable += 1,
                0x01..=0x1f | 0x7f => counts.unprintable += 1,
                _ => counts.printable += 1,
            }
        }
        if content.last() == Some(&0x1a) {
            // An end mark of DOS.
            counts.unprintable -= 1;
        }
        counts
    }

    const fn is_binary(&self) -> bool {
        self.lone_cr > 0 || self.nul > 0 || (self.printable >> 7) < self.unprintable
    }
}

/// Whether git treats a recorded content as text with CRLF.
pub(crate) fn is_crlf_text(content: &[u8]) -> bool {
    let statistics = LineStatistics::of(content);
    statistics.crlf > 0 && !statistics.is_binary()
}
