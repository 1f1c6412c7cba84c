//! Bodies in pieces (`aws-chunked`), followed as they come: s3s has a piece in memory whole before it hands anything of it on.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

/// Bytes of one piece, at most: clients send 64 KiB to 8 MiB.
const MOST: u64 = 16 << 20;
/// Digits of a length that s3s reads.
const DIGITS: usize = 8;

/// Why a body in pieces is not read on.
#[derive(Debug)]
pub(crate) enum Failed<E> {
    /// It broke off.
    Body(E),
    /// A piece is announced with so many bytes.
    TooLong(u64),
}

impl<E: fmt::Display> fmt::Display for Failed<E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Body(error) => error.fmt(formatter),
            Self::TooLong(length) => {
                write!(formatter, "a piece of it (`aws-chunked`) has {length} bytes; send pieces of at most {MOST}")
            }
        }
    }
}

impl<E: std::error::Error> std::error::Error for Failed<E> {}

/// A body in pieces, none of them longer than they may be.
pub(crate) struct Pieces<B> {
    body: B,
    at: At,
}

impl<B> Pieces<B> {
    /// The same body, followed.
    pub(crate) const fn new(body: B) -> Self {
        Self { body, at: At::BEGIN }
    }
}

/// Where in such a body it goes on.
#[derive(Debug, Clone, Copy)]
enum At {
    /// In the length of a piece: what is known of it.
    Length { length: u64, digits: usize },
    /// Behind it, up to the end of the line.
    Line(u64),
    /// In a piece, with so much of it to come, and the end of the line behind it.
    Piece(u64),
    /// Behind the last one, or in what is no such body, as s3s says then.
    End,
}

impl At {
    const BEGIN: Self = Self::Length { length: 0, digits: 0 };

    /// Goes on by what has come; the length of a piece that is too long, as an error.
    fn follow(mut self, mut data: &[u8]) -> Result<Self, u64> {
        while let Some((&byte, rest)) = data.split_first() {
            data = rest;
            self = match self {
                Self::Length { length, .. } | Self::Line(length) if byte == b'\n' => match length {
                    0 => Self::End,
                    1..=MOST => Self::Piece(length + 2),
                    _ => return Err(length),
                },
                Self::Length { length, digits } => match char::from(byte).to_digit(16).filter(|_| digits < DIGITS) {
                    Some(digit) => Self::Length { length: length * 16 + u64::from(digit), digits: digits + 1 },
                    None => Self::Line(length),
                },
                Self::Line(length) => Self::Line(length),
                Self::Piece(left) => {
                    let here = usize::try_from(left - 1).unwrap_or(usize::MAX).min(rest.len());
                    data = rest.get(here..).unwrap_or_default();
                    match left - 1 - here as u64 {
                        0 => Self::BEGIN,
                        left => Self::Piece(left),
                    }
                }
                Self::End => return Ok(Self::End),
            };
        }
        Ok(self)
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Pieces<B> {
    type Data = Bytes;
    type Error = Failed<B::Error>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(context));
        let Some(frame) = frame else { return Poll::Ready(None) };
        let followed = frame.map_err(Failed::Body).and_then(|frame| {
            if let Some(data) = frame.data_ref() {
                self.at = self.at.follow(data).map_err(Failed::TooLong)?;
            }
            Ok(frame)
        });
        Poll::Ready(Some(followed))
    }
    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of a body that comes in frames of this length.
    fn followed(body: &[u8], frame: usize) -> Result<(), u64> {
        body.chunks(frame).try_fold(At::BEGIN, At::follow).map(drop)
    }

    #[test]
    fn a_piece_of_a_signed_body_is_refused_when_it_is_longer_than_fits_in_memory() {
        let signature = "0".repeat(64);
        let body = |second: &str| {
            format!("5;chunk-signature={signature}\r\n1\r\n2\n\r\n{second};chunk-signature={signature}\r\nabc")
        };
        for frame in [1, 2, 3, 7, 1000] {
            assert_eq!(followed(body("1000000").as_bytes(), frame), Ok(()), "{frame}");
            assert_eq!(followed(body("1000001").as_bytes(), frame), Err(MOST + 1), "{frame}");
            assert_eq!(followed(body("FFFFFFFF").as_bytes(), frame), Err(u64::from(u32::MAX)), "{frame}");
            // As s3s reads it: eight digits, and nothing of what comes behind them.
            assert_eq!(followed(body("0000000300").as_bytes(), frame), Ok(()), "{frame}");
            assert_eq!(followed(b"ffffffff\r\n", frame), Err(u64::from(u32::MAX)), "{frame}");
            assert_eq!(followed(b"1\r\na\r\n0\r\nffffffff:\r\n", frame), Ok(()), "{frame}: it ends before");
        }
    }
}
