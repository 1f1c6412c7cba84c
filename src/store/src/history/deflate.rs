//! Compression of git objects.

use flate2::{Compress, Compression, FlushCompress, Status};

use super::HistoryResult;

/// From this size on, compression is tested on a sample first, in bytes.
const MIN_SAMPLED_BYTES: usize = 64 << 10;
/// Size of the sample, in bytes: from the middle, because many formats start with text.
const SAMPLE_BYTES: usize = 32 << 10;

/// Reused for all contents: a new state clears a quarter of a megabyte first.
pub(super) struct Deflater {
    fast: Compress,
    /// Stores without compression (RFC 1951, 3.2.4). Compressing media files and archives makes
    /// them larger and takes 20 times as long (measured for 48 MiB: 1.3 s against 60 ms).
    stored: Option<Compress>,
}

impl Default for Deflater {
    fn default() -> Self {
        Self { fast: Compress::new(Compression::fast(), true), stored: None }
    }
}

impl Deflater {
    /// Appends the zlib form of a content (RFC 1950).
    pub(super) fn append(&mut self, content: &[u8], bytes: &mut Vec<u8>) -> HistoryResult<()> {
        if self.is_compressible(content)? {
            return run(&mut self.fast, content, bytes);
        }
        run(self.stored.get_or_insert_with(|| Compress::new(Compression::none(), true)), content, bytes)
    }

    fn is_compressible(&mut self, content: &[u8]) -> HistoryResult<bool> {
        if content.len() < MIN_SAMPLED_BYTES {
            return Ok(true);
        }
        let start = (content.len() - SAMPLE_BYTES) / 2;
        let mut compressed = Vec::new();
        run(&mut self.fast, &content[start..start + SAMPLE_BYTES], &mut compressed)?;
        Ok(compressed.len() < SAMPLE_BYTES - SAMPLE_BYTES / 16)
    }
}

fn run(compress: &mut Compress, content: &[u8], bytes: &mut Vec<u8>) -> HistoryResult<()> {
    compress.reset();
    let mut consumed = 0;
    loop {
        bytes.reserve((content.len() - consumed) / 2 + 64);
        let before = compress.total_in();
        let status = compress.compress_vec(&content[consumed..], bytes, FlushCompress::Finish);
        consumed += usize::try_from(compress.total_in() - before).unwrap_or(usize::MAX);
        if status.map_err(std::io::Error::from)? == Status::StreamEnd {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::ZlibDecoder;

    use super::*;

    fn noise(length: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let next = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        });
        next.flatten().take(length).collect()
    }

    #[test]
    fn texts_are_made_smaller_and_what_cannot_be_does_not_grow() {
        let mut deflater = Deflater::default();
        let text = "words of a page that come again and again\n".repeat(100_000).into_bytes();
        // Words at both ends, as archives have.
        let film = [&text[..4096], &noise(3 << 20), &text[..4096]].concat();
        for (content, most) in [
            (Vec::new(), 16),
            (b"short".to_vec(), 32),
            (noise(1000), 1100),
            (text.clone(), text.len() / 10),
            (film.clone(), film.len() + film.len() / 1000),
            (text.clone(), text.len() / 10),
        ] {
            let mut bytes = b"before".to_vec();
            deflater.append(&content, &mut bytes).unwrap();
            let mut back = Vec::new();
            ZlibDecoder::new(&bytes[6..]).read_to_end(&mut back).unwrap();
            assert_eq!(back, content);
            assert!(bytes.len() - 6 <= most, "{} of {}", bytes.len() - 6, content.len());
        }
    }
}
