//! The pages that recent writes changed, so that caches of other layers re-read only these.

use std::collections::VecDeque;

use parking_lot::Mutex;
use svcfs_base::TreePath;

/// Limit of remembered changes; a cache that is further behind reads everything.
const MAX_CHANGES: usize = 4_096;

#[derive(Debug, Default)]
pub(crate) struct ChangeLog(Mutex<ChangeLogState>);

#[derive(Debug, Default)]
struct ChangeLogState {
    /// Number of changes since the index was opened.
    generation: u64,
    /// The last of them.
    paths: VecDeque<TreePath>,
}

impl ChangeLog {
    /// Records the changes of a committed transaction. A reader may see them before: then it reads
    /// them again.
    pub(crate) fn record<'p>(&self, paths: impl Iterator<Item = &'p TreePath>) {
        let mut state = self.0.lock();
        for path in paths {
            if state.paths.len() == MAX_CHANGES {
                state.paths.pop_front();
            }
            state.paths.push_back(path.clone());
            state.generation += 1;
        }
    }

    /// Records that anything may have changed.
    pub(crate) fn record_full_change(&self) {
        let mut state = self.0.lock();
        state.generation += 1;
        state.paths.clear();
    }

    /// The present generation, and what changed since an earlier one; none if that is not known.
    pub(crate) fn since(&self, generation: Option<u64>) -> (u64, Option<Vec<TreePath>>) {
        let state = self.0.lock();
        let count = generation.and_then(|earlier| usize::try_from(state.generation.checked_sub(earlier)?).ok());
        let known = count.filter(|count| *count <= state.paths.len());
        let paths = known.map(|count| state.paths.range(state.paths.len() - count..).cloned().collect());
        (state.generation, paths)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_since_a_generation_are_known_until_they_are_too_many() {
        let log = ChangeLog::default();
        let path = |number: usize| TreePath::parse(&format!("{number}.md")).unwrap();
        assert_eq!(log.since(None), (0, None));
        assert_eq!(log.since(Some(0)), (0, Some(vec![])));
        log.record([path(1), path(2)].iter());
        assert_eq!(log.since(Some(1)), (2, Some(vec![path(2)])));
        assert_eq!(log.since(Some(3)).1, None, "of another process");
        log.record_full_change();
        assert_eq!(log.since(Some(2)), (3, None));
        assert_eq!(log.since(Some(3)).1, Some(vec![]));
        let many: Vec<TreePath> = (0..MAX_CHANGES + 1).map(path).collect();
        log.record(many.iter());
        assert_eq!(log.since(Some(3)).1, None);
        assert_eq!(log.since(Some(4)).1.unwrap().len(), MAX_CHANGES);
    }
}
