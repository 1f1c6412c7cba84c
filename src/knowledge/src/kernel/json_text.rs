//! The JSON text of an answer, which may be longer than memory should hold.
//!
//! Invariant: the first piece is written before the answer begins. A refusal therefore has a status of its own, and a short answer is
//! whole and has a length; only what is longer is written while it is sent.

use serde::Serialize;
use svcfs_base::Fault;

/// Bytes of a piece, about: long enough that writing one costs more than asking for it.
pub const PIECE_BYTES: usize = if cfg!(test) { 50 } else { 256 << 10 };

/// A JSON text that is written piece by piece, each when the connection can take it.
pub trait JsonPieces: Send + Sync {
    /// Appends the next part of the text, of [`PIECE_BYTES`] or a little more; false once the text is complete.
    ///
    /// # Errors
    /// The failure that cuts the text off.
    fn write_next(&mut self, text: &mut Vec<u8>) -> Result<bool, Fault>;

    /// Bytes of memory that it holds until the text is complete.
    fn memory_bytes(&self) -> usize;
}

/// The JSON text of an answer.
pub struct JsonText {
    /// Its first piece, or all of it.
    pub first: Vec<u8>,
    /// What writes the rest; none where there is none.
    pub rest: Option<Box<dyn JsonPieces>>,
}

impl JsonText {
    /// An output, written out whole.
    ///
    /// # Errors
    /// `Internal` when it cannot be.
    pub fn from_value(output: &impl Serialize) -> Result<Self, Fault> {
        let first = serde_json::to_vec(output).map_err(Fault::internal)?;
        Ok(Self { first, rest: None })
    }

    /// A text of which the first piece is written now.
    ///
    /// # Errors
    /// Those of the first piece.
    pub fn from_pieces(mut pieces: impl JsonPieces + 'static) -> Result<Self, Fault> {
        let mut first = Vec::new();
        let has_more = pieces.write_next(&mut first)?;
        Ok(Self { first, rest: has_more.then(|| Box::new(pieces) as Box<dyn JsonPieces>) })
    }

    /// The whole text.
    ///
    /// # Errors
    /// Those of its pieces.
    pub fn collect(self) -> Result<Vec<u8>, Fault> {
        let Self { first: mut text, rest } = self;
        if let Some(mut rest) = rest {
            while rest.write_next(&mut text)? {}
        }
        Ok(text)
    }
}

/// What stands between the entries of a list: nothing before its first.
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
///
/// # Errors
/// `Internal` when it cannot be written so.
pub(crate) fn write_json(text: &mut Vec<u8>, value: impl Serialize) -> Result<(), Fault> {
    serde_json::to_writer(text, &value).map_err(Fault::internal)
}
