//! The kinds of records, and the bases of their differences.

/// SQL condition for sets (`s`) in the change feed: not [`RecordKind::Uncommitted`], and
/// [`DiffBase::is_in_feed`].
macro_rules! in_feed {
    () => {
        "s.role <> 2 AND s.against <> 3"
    };
}
pub(super) use in_feed;

/// SQL condition for sets (`s`) in the history of the current branch: not
/// [`RecordKind::Uncommitted`], and [`DiffBase::is_history`].
macro_rules! in_history {
    () => {
        "s.role <> 2 AND s.against NOT IN (2, 4)"
    };
}
pub(super) use in_history;

/// The kind of a [`LogRecord`](super::LogRecord).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// An accepted set with a commit of its own.
    Change,
    /// An external commit: replay cannot build it again.
    ExternalCommit,
    /// An accepted set without its own commit; a later [`RecordKind::Commit`] record contains it.
    Uncommitted,
    /// A commit of earlier uncommitted sets. Every uncommitted set before it is in this commit or
    /// one beside it, or had no effect; their records hold the contents.
    Commit,
}

impl RecordKind {
    pub(super) const fn number(self) -> i64 {
        match self {
            Self::Change => 0,
            Self::ExternalCommit => 1,
            Self::Uncommitted => 2,
            Self::Commit => 3,
        }
    }

    const ALL: [Self; 4] = [Self::Change, Self::ExternalCommit, Self::Uncommitted, Self::Commit];

    pub(super) fn from_number(number: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }
}

/// The base of the entries of a [`LogRecord`](super::LogRecord).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffBase {
    /// The only parent of the commit: the entries are the changes of the commit itself.
    Parent,
    /// The first of several parents: a merge, with changes from other commits.
    FirstParent,
    /// The previous head, which is not an ancestor of the commit: a rebase, or a switch to another
    /// branch. It is in the feed but not in the history; the commits that the new branch adds
    /// follow as [`DiffBase::AfterSwitch`].
    PreviousHead,
    /// The first parent; not in the feed, which has the difference of the branches.
    AfterSwitch,
    /// The commit left the branch. It stays in the feed, but is not in the history.
    Dropped,
}

impl DiffBase {
    pub(super) const fn number(self) -> i64 {
        match self {
            Self::Parent => 0,
            Self::FirstParent => 1,
            Self::PreviousHead => 2,
            Self::AfterSwitch => 3,
            Self::Dropped => 4,
        }
    }

    /// Whether it is in the history of the current branch.
    pub(super) const fn is_history(self) -> bool {
        matches!(self, Self::Parent | Self::FirstParent | Self::AfterSwitch)
    }

    /// Whether it is in the change feed.
    pub const fn is_in_feed(self) -> bool {
        !matches!(self, Self::AfterSwitch)
    }

    const ALL: [Self; 5] = [Self::Parent, Self::FirstParent, Self::PreviousHead, Self::AfterSwitch, Self::Dropped];

    pub(super) fn from_number(number: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|base| base.number() == number)
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::{Connection, params};

    use super::*;

    #[test]
    fn conditions_of_questions_say_what_kinds_of_records_say() {
        let database = Connection::open_in_memory().unwrap();
        let holds = |condition: &str, kind: RecordKind, base: DiffBase| -> bool {
            let question = format!("SELECT {condition} FROM (SELECT ?1 AS role, ?2 AS against) s");
            database.query_row(&question, params![kind.number(), base.number()], |row| row.get(0)).unwrap()
        };
        for kind in RecordKind::ALL {
            for base in DiffBase::ALL {
                let counts = kind != RecordKind::Uncommitted;
                assert_eq!(holds(in_feed!(), kind, base), counts && base.is_in_feed(), "{kind:?} {base:?}");
                assert_eq!(holds(in_history!(), kind, base), counts && base.is_history(), "{kind:?} {base:?}");
            }
        }
    }
}
