//! The write path broken off at each of its named points (habit H15), in every way that makes sense there.
//!
//! The list is `svcfs_store::FailPoint`. Who adds a point to it needs no test: these walk the whole list. But a story must come
//! by it, else they fail.

mod beside;
mod doubted;
mod gathered;
mod killed;
mod paused;
mod refused;
mod story;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use svcfs_store::{FailPoint, FailPoints};

use super::*;
use crate::opening::tests::{copied, crashed, reopened};
use story::{DEEDS, Deed, assert_whole};
