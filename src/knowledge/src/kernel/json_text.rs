//! The JSON of an answer, which may be larger than memory should hold.
//!
//! Invariant: the first piece is written before the response starts. An error therefore still has
//! its own status, and a short answer has a length; only longer ones are written while sent.

use serde::Serialize;
use svcfs_base::Fault;

/// Approximate size of a piece: large enough that the overhead per piece does not matter.
pub const PIECE_BYTES: usize = if cfg!(test) { 50 } else { 256 << 10 };

/// JSON that is written in pieces, whenever the connection can take one.
pub trait JsonPieces: Send + Sync {
    /// Appends the next piece, of [`PIECE_BYTES`] or a little more; false if it is the last one.
    ///
    /// # Errors
    /// An error that truncates the response.
    fn write_next(&mut self, text: &mut Vec<u8>) -> Result<bool, Fault>;

    /// Memory that is used until the last piece, in bytes.
    fn memory_bytes(&self) -> usize;
}

/// The JSON of an answer.
pub struct JsonText {
    /// The first piece, or all of it.
    pub first: Vec<u8>,
    /// Writes the remaining pieces; none if there are none.
    pub rest: Option<Box<dyn JsonPieces>>,
}

impl JsonText {
    /// Serializes an output completely.
    pub fn from_value(output: &impl Serialize) -> Result<Self, Fault> {
        let first = serde_json::to_vec(output).map_err(Fault::internal)?;
        Ok(Self { first, rest: None })
    }

    /// Writes the first piece; the others are written later.
    pub fn from_pieces(mut pieces: impl JsonPieces + 'static) -> Result<Self, Fault> {
        let mut first = Vec::new();
        let has_more = pieces.write_next(&mut first)?;
        Ok(Self { first, rest: has_more.then(|| Box::new(pieces) as Box<dyn JsonPieces>) })
    }

    /// Writes all remaining pieces.
    pub fn collect(self) -> Result<Vec<u8>, Fault> {
        let Self { first: mut text, rest } = self;
        if let Some(mut rest) = rest {
            while rest.write_next(&mut text)? {}
        }
        Ok(text)
    }
}

/// Writes commas between the entries of a list.
#[derive(Default)]
pub(crate) struct ListSeparator {
    has_entry: bool,
}

impl ListSeparator {
    pub(crate) fn write(&mut self, text: &mut Vec<u8>) {
        if std::mem::replace(&mut self.has_entry, true) {
            text.push(b',');
        }
    }
}

/// Appends a value as JSON.
pub(crate) fn write_json(text: &mut Vec<u8>, value: impl Serialize) -> Result<(), Fault> {
    serde_json::to_writer(text, &value).map_err(Fault::internal)
}
