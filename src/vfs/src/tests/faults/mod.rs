//! The write path broken off at each of its named points (habit H15), in every way that makes sense there.
//!
//! The list is `svcfs_store::FailPoint`. Who adds a point to it needs no test: these walk the whole list. But a story must come
//! by it, else they fail.

mod beside;
mod doubted;
mod gathered;
mod killed;
mod large;
mod paused;
mod refused;
mod story;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use svcfs_store::{FailPoint, FailPoints};

use super::*;
use crate::recovery::tests::{copied, crashed, reopened};
use story::{DEEDS, Deed, assert_whole};

/// Every way of remembering has points of its own; of snapshots only the newest is kept, so that one is dropped now and then.
const STRATEGIES: [VersionStrategy; 3] = [
    VersionStrategy::Git,
    VersionStrategy::Snapshots { max_snapshots: NonZeroUsize::new(1) },
    VersionStrategy::LogOnly,
];

/// A space with a strategy, over what is there.
pub(super) fn opened(directory: TempDir, strategy: VersionStrategy) -> TestSpace {
    let vfs = Vfs::open(VfsOptions { strategy, ..options(directory.path(), false) }).unwrap();
    TestSpace { directory, vfs }
}

/// An empty one.
pub(super) fn new_space(strategy: VersionStrategy) -> TestSpace {
    opened(tempfile::tempdir().unwrap(), strategy)
}

/// Whether a point is come by where a person commits. Their git in the story would be killed with it, in the middle of its own work: in
/// `opening::tests::branches` it is done.
fn is_of_others(point: &FailPoint) -> bool {
    *point == FailPoint::AdoptFlush
}

/// What is worked out once for each strategy.
struct Once<T>([OnceLock<T>; 3]);

impl<T> Once<T> {
    const fn new() -> Self {
        Self([const { OnceLock::new() }; 3])
    }
    fn get(&'static self, strategy: VersionStrategy, make: impl FnOnce() -> T) -> &'static T {
        let at = STRATEGIES.iter().position(|known| known.name() == strategy.name()).unwrap();
        self.0[at].get_or_init(make)
    }
}
