//! Paths of the knowledge tree.

mod hidden;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

pub use hidden::HiddenFiles;

use crate::{Fault, Kind};

const MAX_NAME_BYTES: usize = 255;
const MAX_PATH_BYTES: usize = 4096;
const PAGE_SUFFIX: &str = ".md";

/// A path in the tree: relative to the root, `/`-separated, normalised, without `.`, `..`, NUL or
/// control characters. A component has at most 255 bytes, the path at most 4,096. The root is the
/// empty path.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreePath(Arc<str>);

/// One component of a [`TreePath`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathComponent(Arc<str>);

impl PathComponent {
    /// Parses one component, as a filesystem protocol receives it.
    ///
    /// # Errors
    /// `NameTooLong` over 255 bytes; `Invalid` when empty, `.`, `..`, or containing `/`, NUL or a
    /// control character.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        check_name(text)?;
        Ok(Self(text.into()))
    }
    /// The text of the component.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TreePath {
    /// Normalises and checks an untrusted path: a leading `/` is dropped, `//` and `.` are
    /// collapsed.
    ///
    /// # Errors
    /// `Invalid` for `..` (also percent-encoded, once or more), NUL and control characters;
    /// `NameTooLong` for a component over 255 bytes or a path over 4,096.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        if text.len() > MAX_PATH_BYTES {
            return Err(Fault::new(
                Kind::NameTooLong,
                format!("path is {} bytes long; the limit is {MAX_PATH_BYTES}", text.len()),
            ));
        }
        let parts: Vec<&str> = text.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        for part in &parts {
            check_name(part)?;
        }
        Ok(Self(parts.join("/").into()))
    }
    /// The knowledge root.
    pub fn root() -> Self {
        Self("".into())
    }
    /// True for the knowledge root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }
    /// The path as text, without a leading `/`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
    /// The parent directory; none for the root.
    pub fn parent(&self) -> Option<Self> {
        if self.is_root() {
            return None;
        }
        Some(self.0.rfind('/').map_or_else(Self::root, |slash| Self(self.0[..slash].into())))
    }
    /// The last component; empty for the root.
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }
    /// The last component without its extension.
    pub fn stem(&self) -> &str {
        let name = self.name();
        match name.rfind('.') {
            Some(dot) if dot > 0 => &name[..dot],
            _ => name,
        }
    }
    /// The extension of the last component in lower case, if it has one.
    pub fn extension(&self) -> Option<String> {
        let name = self.name();
        name.rfind('.').filter(|dot| *dot > 0).map(|dot| name[dot + 1..].to_ascii_lowercase())
    }
    /// This path with one more component.
    #[must_use]
    pub fn join(&self, name: &PathComponent) -> Self {
        if self.is_root() { Self(name.0.clone()) } else { Self(format!("{}/{}", self.0, name.0).into()) }
    }
    /// The components from the root downwards.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('/').filter(|part| !part.is_empty())
    }
    /// The parent directories, nearest first, the root last; empty for the root.
    pub fn ancestors(&self) -> impl Iterator<Item = Self> {
        std::iter::successors(self.parent(), Self::parent)
    }
    /// Whether this path is `directory` or below it.
    pub fn is_under(&self, directory: &Self) -> bool {
        directory.is_root()
            || self.0.strip_prefix(&*directory.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
    /// Replaces the prefix `from` by `to`; none when the path is not below `from`.
    pub fn rebase(&self, from: &Self, to: &Self) -> Option<Self> {
        if !self.is_under(from) {
            return None;
        }
        let rest = self.0[from.0.len()..].trim_start_matches('/');
        Some(match (rest.is_empty(), to.is_root()) {
            (true, _) => to.clone(),
            (false, true) => Self(rest.into()),
            (false, false) => Self(format!("{}/{rest}", to.0).into()),
        })
    }
    /// Whether this is a markdown page: the name ends in `.md`, in any case.
    pub fn is_page(&self) -> bool {
        self.extension().is_some_and(|extension| extension == "md")
    }
    /// Whether a component is a hidden name: such files are stored and versioned, but not in
    /// search, graph and export.
    pub fn is_hidden(&self) -> bool {
        self.components().any(is_hidden_name)
    }
}

/// Whether a name begins with a dot, which file systems hide by convention.
///
/// A page whose title is dots alone, such as `..md` (about the command `.`), is an ordinary page.
/// Every list, count and search uses this rule, so that their numbers agree.
pub fn is_hidden_name(name: &str) -> bool {
    let stem = name.len().checked_sub(PAGE_SUFFIX.len()).and_then(|end| Some((name.get(..end)?, name.get(end..)?)));
    let is_page_of_dots = stem.is_some_and(|(stem, suffix)| {
        !stem.is_empty() && suffix.eq_ignore_ascii_case(PAGE_SUFFIX) && stem.bytes().all(|byte| byte == b'.')
    });
    name.starts_with('.') && !is_page_of_dots
}

fn check_name(name: &str) -> Result<(), Fault> {
    let denied = |why: &str| {
        Err(Fault::new(Kind::Invalid, format!("path denied: {why} in `{}`", crate::escape_unprintable(name))))
    };
    if name.is_empty() || name == "." {
        return denied("an empty name");
    }
    if name.contains('\0') {
        return denied("a NUL byte");
    }
    if name.chars().any(char::is_control) {
        return denied("a control character");
    }
    if name.contains('/') {
        return denied("a slash");
    }
    if name.len() > MAX_NAME_BYTES {
        return Err(Fault::new(
            Kind::NameTooLong,
            format!("path denied: a name of {} bytes; the limit is {MAX_NAME_BYTES}", name.len()),
        ));
    }
    if climbs(name) {
        return denied("`..`");
    }
    Ok(())
}

/// Whether a name is `..`, or contains `..` or NUL after another program percent-decodes it.
fn climbs(name: &str) -> bool {
    let mut text = Cow::Borrowed(name);
    for _ in 0..4 {
        if text.contains('\0') || text.split(['/', '\\']).any(|part| part == "..") {
            return true;
        }
        match decode(&text) {
            Some(decoded) => text = Cow::Owned(decoded),
            None => return false,
        }
    }
    false
}

fn decode(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut changed = false;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let byte = rest.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(u8::is_ascii);
        if let Some(byte) = byte {
            out.push(char::from(byte));
            rest = &rest[at + 3..];
            changed = true;
        } else {
            out.push('%');
            rest = &rest[at + 1..];
        }
    }
    out.push_str(rest);
    changed.then_some(out)
}

macro_rules! text_type {
    ($type:ty, $name:literal, $format:literal, $description:literal) => {
        impl fmt::Display for $type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }
        impl fmt::Debug for $type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "{:?}", &*self.0)
            }
        }
        impl Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = Cow::<'de, str>::deserialize(deserializer)?;
                Self::parse(&text).map_err(|fault| de::Error::custom(fault.message()))
            }
        }
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }
            fn inline_schema() -> bool {
                true
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "format": $format, "description": $description })
            }
        }
    };
}

text_type!(TreePath, "TreePath", "tree-path", "Path relative to the knowledge root, such as `notes/today.md`");
text_type!(PathComponent, "Name", "name", "One path component");

#[cfg(test)]
mod tests;
