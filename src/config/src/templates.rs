//! Templates of `svcfs init`.
