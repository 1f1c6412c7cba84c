//! Which changes are undone.

use std::collections::HashSet;

use svcfs_base::{Actor, Fault, Kind, Seq, Timestamp, TreePath};
use svcfs_vfs::{PageStep, SetOrigin};

use crate::history;
use crate::kernel::OperationContext;

const SECONDS_PER_DAY: i64 = 86_400;

/// Selects changes of the history. Each given selector limits the selection.
#[derive(Debug, Clone, Default)]
pub struct UndoSelection {
    /// Only changes by this actor.
    pub actor: Option<Actor>,
    /// Only changes since this time, or within this duration.
    pub since: Option<String>,
    /// Only these commits.
    pub commits: Option<Vec<String>>,
    /// Only pages at or below these paths.
    pub paths: Option<Vec<TreePath>>,
}

/// A selection with its positions in the log.
pub struct ResolvedSelection {
    /// Position of the first set that may be selected; none if nothing is.
    pub first: Option<Seq>,
    actor: Option<Actor>,
    since: Option<Timestamp>,
    sets: Option<HashSet<Seq>>,
    paths: Option<Vec<TreePath>>,
}

impl UndoSelection {
    /// Finds the selected sets.
    ///
    /// # Errors
    /// `Invalid` without a selector, or for one that cannot be parsed; `NotFound` for an unknown
    /// commit.
    pub fn resolve(&self, cx: &OperationContext<'_>) -> Result<ResolvedSelection, Fault> {
        let Self { actor, since, commits, paths } = self.clone();
        if actor.is_none() && since.is_none() && commits.is_none() && paths.is_none() {
            let message = "nothing is selected; give at least one of `actor`, `since`, `commits` and `paths`";
            return Err(Fault::new(Kind::Invalid, message));
        }
        for (name, is_empty) in [
            ("commits", commits.as_ref().is_some_and(Vec::is_empty)),
            ("paths", paths.as_ref().is_some_and(Vec::is_empty)),
        ] {
            if is_empty {
                return Err(Fault::invalid(name, "the list is empty; leave it out to select all"));
            }
        }
        let since = since.map(|text| parse_since(&text, cx.now())).transpose()?;
        let vfs = &cx.space.vfs;
        let sets = commits.map(|commits| commits.iter().map(|commit| find_commit(cx, commit)).collect());
        let sets: Option<HashSet<Seq>> = sets.transpose()?;
        let first = match &sets {
            Some(sets) => sets.iter().min().copied(),
            None => vfs.first_set(actor.as_ref(), since)?,
        };
        Ok(ResolvedSelection { first, actor, since, sets, paths })
    }
}

impl ResolvedSelection {
    /// Whether a set may have selected changes.
    pub fn includes_set(&self, set: &SetOrigin) -> bool {
        self.actor.as_ref().is_none_or(|actor| *actor == set.actor)
            && self.since.is_none_or(|since| set.time >= since)
            && self.sets.as_ref().is_none_or(|sets| sets.contains(&set.seq))
    }

    /// Whether a change of a selected set is selected, and visible to the caller.
    pub fn includes_step(&self, cx: &OperationContext<'_>, step: &PageStep) -> bool {
        let paths = [&step.before.path, &step.after.path];
        let is_at = |prefix: &TreePath| paths.iter().any(|path| path.is_under(prefix));
        let is_selected = self.paths.as_ref().is_none_or(|prefixes| prefixes.iter().any(is_at));
        is_selected && paths.iter().all(|path| history::can_read(cx, path))
    }
}

fn find_commit(cx: &OperationContext<'_>, commit: &str) -> Result<Seq, Fault> {
    cx.space.vfs.find_set(commit)?.ok_or_else(|| {
        let commit = svcfs_base::escape_unprintable(commit);
        Fault::not_found(format!("`commits`: no commit `{commit}`; `timeline` and `versions` list commits"))
    })
}

/// The time that a text names: RFC 3339, or a duration before now, such as `30m`, `1h30m` or `7d`.
fn parse_since(text: &str, now: Timestamp) -> Result<Timestamp, Fault> {
    let invalid = || {
        let text = svcfs_base::escape_unprintable(text);
        let message = format!(
            "`{text}` is no time; use RFC 3339, such as `2026-11-29T08:00:00Z`, or a duration up to now, such as `30m`, `24h` or `7d`"
        );
        Fault::invalid("since", message)
    };
    let text = text.trim();
    if let Ok(time) = text.parse::<Timestamp>() {
        // The log starts later; far times have no nanoseconds.
        return Ok(time.max(Timestamp::UNIX_EPOCH));
    }
    let days = text.strip_suffix('d').and_then(|days| days.parse::<u32>().ok());
    let seconds = match days {
        Some(days) => i64::from(days) * SECONDS_PER_DAY,
        None => {
            let duration: jiff::SignedDuration = text.parse().map_err(|_| invalid())?;
            if duration.is_negative() {
                return Err(invalid());
            }
            duration.as_secs()
        }
    };
    let second = now.as_second().saturating_sub(seconds).max(0);
    Timestamp::from_second(second).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_rfc_3339_or_a_duration_up_to_now() {
        let now: Timestamp = "2026-11-29T12:00:00Z".parse().unwrap();
        for (text, meant) in [
            ("2026-11-29T08:00:00Z", "2026-11-29T08:00:00Z"),
            ("2026-11-29T09:00:00+01:00", "2026-11-29T08:00:00Z"),
            ("0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z"),
            ("30m", "2026-11-29T11:30:00Z"),
            ("1h30m", "2026-11-29T10:30:00Z"),
            ("90s", "2026-11-29T11:58:30Z"),
            ("7d", "2026-11-22T12:00:00Z"),
            ("4000000000d", "1970-01-01T00:00:00Z"),
        ] {
            assert_eq!(parse_since(text, now).map(|time| time.to_string()).ok().as_deref(), Some(meant), "{text}");
        }
        for text in ["", "yesterday", "-1h", "d", "1x", "2026-13-01T00:00:00Z", "99999999999999999999h"] {
            let fault = parse_since(text, now).unwrap_err();
            assert!(fault.message().starts_with("`since`"), "{text}: {}", fault.message());
        }
    }
}
