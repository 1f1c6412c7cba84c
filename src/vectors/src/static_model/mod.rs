//! The file of a static model: one vector for each word piece.
//!
//! Its format is described in `scripts/embedder/format.py`, with the program that makes it.

#[cfg(test)]
mod tests;
mod tokenizer;

use std::num::NonZeroUsize;
use std::sync::LazyLock;

use sha2::{Digest, Sha256};

use tokenizer::Tokenizer;

const MAGIC: &[u8] = b"svcstat1";
const DIGEST_BYTES: usize = 32;
/// Magic, number of tokens, dimensions and bytes of the vocabulary.
const HEAD_BYTES: usize = 8 + 3 * 4;
/// Tokens of a text that count; the rest of a longer text is ignored.
const MAX_TOKENS: usize = 512;
/// Limit of the dimensions of a file.
const MAX_DIMENSIONS: usize = 4096;

/// The model that the program contains.
static EMBEDDED: &[u8] = include_bytes!("../../model/static-256.bin");

/// Why a file is not a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// It does not begin as a model file does.
    #[error("this is not a static model: it must begin with `svcstat1`; make one with scripts/embedder")]
    Format,
    /// Its parts do not fit together.
    #[error("the model file is damaged: {0}; copy it again")]
    Damaged(&'static str),
}

/// A model that gives a text the sum of the vectors of its word pieces.
pub struct StaticModel {
    tokenizer: Tokenizer,
    /// By token.
    scales: Vec<f32>,
    /// `dimensions` numbers for each token.
    rows: std::borrow::Cow<'static, [u8]>,
    dimensions: usize,
    name: String,
}

impl StaticModel {
    /// Length of the vectors of [`StaticModel::embedded`].
    pub const EMBEDDED_DIMENSIONS: NonZeroUsize = NonZeroUsize::new(256).unwrap();

    /// The name of [`StaticModel::embedded`], without loading it.
    #[must_use]
    pub fn embedded_name() -> &'static str {
        static NAME: LazyLock<String> = LazyLock::new(|| {
            let digest = &EMBEDDED[EMBEDDED.len().saturating_sub(DIGEST_BYTES)..];
            name_of(StaticModel::EMBEDDED_DIMENSIONS.get(), digest)
        });
        &NAME
    }

    /// The model that the program contains: all-MiniLM-L6-v2, distilled to 256 dimensions.
    ///
    /// # Panics
    /// Never: a test reads the same bytes.
    #[must_use]
    #[expect(clippy::expect_used, reason = "the bytes are those of the build, and tests read them")]
    pub fn embedded() -> Self {
        Self::parse(std::borrow::Cow::Borrowed(EMBEDDED)).expect("the embedded model is valid")
    }

    /// A model in the bytes of a file.
    ///
    /// # Errors
    /// [`ModelError`].
    pub fn from_file(bytes: Vec<u8>) -> Result<Self, ModelError> {
        Self::parse(std::borrow::Cow::Owned(bytes))
    }

    fn parse(file: std::borrow::Cow<'static, [u8]>) -> Result<Self, ModelError> {
        if !file.starts_with(MAGIC) {
            return Err(ModelError::Format);
        }
        let number = |at: usize| {
            let bytes = file.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            bytes.map(|bytes| u32::from_le_bytes(bytes) as usize).ok_or(ModelError::Damaged("it is too short"))
        };
        let (tokens, dimensions, words) = (number(8)?, number(12)?, number(16)?);
        if dimensions == 0 || dimensions > MAX_DIMENSIONS {
            return Err(ModelError::Damaged("its vectors have no dimensions, or more than 4096"));
        }
        let scales_end = HEAD_BYTES as u64 + tokens as u64 * 4;
        let rows_end = scales_end + tokens as u64 * dimensions as u64;
        if file.len() as u64 != rows_end + words as u64 + DIGEST_BYTES as u64 {
            return Err(ModelError::Damaged("its length is wrong"));
        }
        let (body, digest) = file.split_at(file.len() - DIGEST_BYTES);
        let actual = Sha256::digest(body);
        if actual.as_slice() != digest {
            return Err(ModelError::Damaged("its checksum is wrong"));
        }
        let name = name_of(dimensions, digest);
        // The total length was compared, so both fit into memory.
        let (scales_end, rows_end) = (scales_end as usize, rows_end as usize);
        let vocabulary = std::str::from_utf8(&body[rows_end..]);
        let vocabulary = vocabulary.map_err(|_| ModelError::Damaged("its vocabulary is not UTF-8"))?;
        if vocabulary.lines().count() != tokens {
            return Err(ModelError::Damaged("its vocabulary has another number of tokens"));
        }
        let scales = body[HEAD_BYTES..scales_end].as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        let (tokenizer, scales) = (Tokenizer::new(vocabulary.lines()), scales.collect());
        let rows = match file {
            std::borrow::Cow::Borrowed(file) => std::borrow::Cow::Borrowed(&file[scales_end..rows_end]),
            std::borrow::Cow::Owned(mut file) => {
                file.truncate(rows_end);
                file.drain(..scales_end);
                std::borrow::Cow::Owned(file)
            }
        };
        Ok(Self { tokenizer, scales, rows, dimensions, name })
    }

    /// Identifies the model: texts embedded under another name cannot be compared.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The length of its vectors.
    #[must_use]
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// The ids of the known tokens of a text.
    #[must_use]
    pub fn tokens(&self, text: &str) -> Vec<u32> {
        let mut tokens = Vec::new();
        self.tokenizer.for_each_token(text, |token| tokens.push(token));
        tokens
    }

    /// The vector of a text, of length 1; none for a text without a known token.
    #[must_use]
    pub fn embed(&self, text: &str) -> Option<Vec<f32>> {
        let mut vector = vec![0.0; self.dimensions];
        let mut count = 0;
        self.tokenizer.for_each_token(&text[..text.floor_char_boundary(MAX_TOKENS * 16)], |token| {
            if count < MAX_TOKENS {
                count += 1;
                self.add_token(token as usize, &mut vector);
            }
        });
        let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
        (length > f32::EPSILON).then(|| {
            vector.iter_mut().for_each(|value| *value /= length);
            vector
        })
    }

    /// How many words of four letters and more the model knows as a whole, and how many there are.
    #[must_use]
    pub fn known_words(&self, text: &str) -> (usize, usize) {
        self.tokenizer.known_words(text)
    }

    fn add_token(&self, token: usize, vector: &mut [f32]) {
        let scale = self.scales[token];
        let row = &self.rows[token * self.dimensions..(token + 1) * self.dimensions];
        for (value, number) in vector.iter_mut().zip(row) {
            *value += scale * f32::from(number.cast_signed());
        }
    }
}

/// The name of a model: the digest of its file tells models of one size apart.
fn name_of(dimensions: usize, digest: &[u8]) -> String {
    let digest = svcfs_base::to_hex(digest.get(..4).unwrap_or(digest));
    format!("static-{dimensions}-{digest}")
}
