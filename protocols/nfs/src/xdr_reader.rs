//! Decodes arguments with size limits.
//!
//! nfs3_types allocates a string's announced length (up to 4 GiB) before it checks that the bytes
//! are there. It only decodes types without strings here.

use nfs3_types::xdr_codec::Unpack;

/// Maximum length of a handle (RFC 1813 2.4), in bytes.
pub(crate) const MAX_HANDLE_BYTES: usize = 64;
/// Maximum length of a name, in bytes. Longer than names may be, so that a long name gets
/// NAMETOOLONG and not a decoding error.
pub(crate) const MAX_NAME_BYTES: usize = 4096;
/// Maximum length of a path, in bytes.
pub(crate) const MAX_PATH_BYTES: usize = 8192;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct GarbageArguments;

#[derive(Debug, Clone, Copy)]
pub(crate) struct XdrReader<'a>(&'a [u8]);

impl<'a> XdrReader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Decodes a number, an enumeration or a structure of fixed size.
    pub(crate) fn value<T: Unpack>(&mut self) -> Result<T, GarbageArguments> {
        T::unpack(&mut self.0).map(|(value, _)| value).map_err(|_| GarbageArguments)
    }

    /// Decodes a byte string: length, bytes, and padding to a multiple of four.
    pub(crate) fn bytes(&mut self, limit: usize) -> Result<&'a [u8], GarbageArguments> {
        let length = self.value::<u32>()? as usize;
        let padded = length.next_multiple_of(4);
        if length > limit || padded > self.0.len() {
            return Err(GarbageArguments);
        }
        let (bytes, rest) = self.0.split_at(padded);
        self.0 = rest;
        Ok(&bytes[..length])
    }

    pub(crate) fn handle(&mut self) -> Result<&'a [u8], GarbageArguments> {
        self.bytes(MAX_HANDLE_BYTES)
    }

    pub(crate) fn entry(&mut self) -> Result<(&'a [u8], &'a [u8]), GarbageArguments> {
        Ok((self.handle()?, self.bytes(MAX_NAME_BYTES)?))
    }

    pub(crate) const fn end(self) -> Result<(), GarbageArguments> {
        if self.0.is_empty() { Ok(()) } else { Err(GarbageArguments) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_that_claims_more_than_there_is_takes_no_room() {
        let mut claimed = XdrReader::new(&[0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4]);
        assert_eq!(claimed.bytes(usize::MAX >> 1), Err(GarbageArguments));
        assert_eq!(XdrReader::new(&[0, 0, 0, 65]).handle(), Err(GarbageArguments));
        let mut whole = XdrReader::new(&[0, 0, 0, 1, 7, 0, 0, 0, 0, 0, 0, 9]);
        assert_eq!((whole.bytes(4), whole.value::<u32>(), whole.end()), (Ok(&[7u8][..]), Ok(9), Ok(())));
    }
}
