//! What a record stands for, and what its entries are the difference from.

/// Sets (`s`) that the change feed tells of, as a condition of SQL: [`Role::Deferred`] comes to nothing by itself, [`Against::is_told`].
macro_rules! told {
    () => {
        "s.role <> 2 AND s.against <> 3"
    };
}
pub(super) use told;

/// Sets (`s`) that the present branch has been through, as a condition of SQL: not [`Role::Deferred`], [`Against::is_history`].
macro_rules! in_history {
    () => {
        "s.role <> 2 AND s.against NOT IN (2, 4)"
    };
}
pub(super) use in_history;

/// What a [`Record`](super::Record) stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// An accepted set with a commit of its own.
    Change,
    /// A commit that somebody else made: replay cannot build it again.
    ExternalCommit,
    /// An accepted set without a commit: it is in one of those that the next [`Role::Gathered`] records tell.
    Uncommitted,
    /// A commit of deferred sets. Every set that was deferred before it is in this commit or in one beside it, or came to nothing;
    /// their records hold the contents of its entries.
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

    pub(super) fn of_number(number: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.number() == number)
    }
}

/// What the entries of a [`Record`](super::Record) are the difference from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffBase {
    /// The one parent of its commit: they are what the commit itself changed.
    Parent,
    /// The first of several parents: a merge, and much of it was changed by others.
    FirstParent,
    /// The head before, which is no ancestor of the commit: a rebase, a checkout of another branch. The change feed tells of it, history does
    /// not: what the new branch has and the old one had not comes behind it, as [`Against::Again`].
    PreviousHead,
    /// The first parent; whoever follows the feed was told by the difference of the branches.
    AfterSwitch,
    /// What it was the difference from is of no interest any more: the branch was left. The feed has told of it, history does not.
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

    /// Whether it is a part of what the present branch has been through.
    pub(super) const fn is_history(self) -> bool {
        matches!(self, Self::Parent | Self::FirstParent | Self::AfterSwitch)
    }

    /// Whether the change feed tells of it.
    pub const fn is_in_feed(self) -> bool {
        !matches!(self, Self::AfterSwitch)
    }

    const ALL: [Self; 5] = [Self::Parent, Self::FirstParent, Self::PreviousHead, Self::AfterSwitch, Self::Dropped];

    pub(super) fn of_number(number: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|against| against.number() == number)
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::{Connection, params};

    use super::*;

    #[test]
    fn conditions_of_questions_say_what_kinds_of_records_say() {
        let database = Connection::open_in_memory().unwrap();
        let holds = |condition: &str, role: RecordKind, against: DiffBase| -> bool {
            let question = format!("SELECT {condition} FROM (SELECT ?1 AS role, ?2 AS against) s");
            database.query_row(&question, params![role.number(), against.number()], |row| row.get(0)).unwrap()
        };
        for role in RecordKind::ALL {
            for against in DiffBase::ALL {
                let counts = role != RecordKind::Uncommitted;
                assert_eq!(holds(told!(), role, against), counts && against.is_in_feed(), "{role:?} {against:?}");
                assert_eq!(holds(in_history!(), role, against), counts && against.is_history(), "{role:?} {against:?}");
            }
        }
    }
}
