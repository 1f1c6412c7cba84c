//! What a client sent, read with limits.
//!
//! Why not as nfs3_types reads it? Because that makes room for as many bytes as a string is announced to have, four GiB among others, before it
//! looks whether they are there. What has no strings in it is read by nfs3_types.

use nfs3_types::xdr_codec::Unpack;

/// The longest handle (RFC 1813 2.4), in bytes.
pub(crate) const HANDLE: usize = 64;
/// The longest name that is looked at. Longer than any may be, so that it is refused as too long and not as garbage.
pub(crate) const NAME: usize = 4096;
/// The longest path, in bytes.
pub(crate) const PATH: usize = 8192;

/// What is not as the protocol has it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct GarbageArguments;

/// The rest of a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct XdrReader<'a>(&'a [u8]);

impl<'a> XdrReader<'a> {
    pub(crate) const fn of(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// A number, an enumeration, a structure of fixed size.
    pub(crate) fn value<T: Unpack>(&mut self) -> Result<T, GarbageArguments> {
        T::unpack(&mut self.0).map(|(value, _)| value).map_err(|_| GarbageArguments)
    }

    /// Bytes with their length before them, and zeros behind up to a multiple of four.
    pub(crate) fn bytes(&mut self, at_most: usize) -> Result<&'a [u8], GarbageArguments> {
        let length = self.value::<u32>()? as usize;
        let padded = length.next_multiple_of(4);
        if length > at_most || padded > self.0.len() {
            return Err(GarbageArguments);
        }
        let (bytes, rest) = self.0.split_at(padded);
        self.0 = rest;
        Ok(&bytes[..length])
    }

    pub(crate) fn handle(&mut self) -> Result<&'a [u8], GarbageArguments> {
        self.bytes(HANDLE)
    }

    /// A name in a directory.
    pub(crate) fn entry(&mut self) -> Result<(&'a [u8], &'a [u8]), GarbageArguments> {
        Ok((self.handle()?, self.bytes(NAME)?))
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
        let mut claimed = XdrReader::of(&[0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4]);
        assert_eq!(claimed.bytes(usize::MAX >> 1), Err(GarbageArguments));
        assert_eq!(XdrReader::of(&[0, 0, 0, 65]).handle(), Err(GarbageArguments));
        let mut whole = XdrReader::of(&[0, 0, 0, 1, 7, 0, 0, 0, 0, 0, 0, 9]);
        assert_eq!((whole.bytes(4), whole.value::<u32>(), whole.end()), (Ok(&[7u8][..]), Ok(9), Ok(())));
    }
}
