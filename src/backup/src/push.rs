//! Backups to a git remote.
//!
//! Invariant: branches and tags are pushed without force. Only refs that svcfs itself rewrites
//! (branches of drafts, `refs/svcfs/`) may move back, and only while the remote has them as this
//! root pushed them.

use std::collections::BTreeMap;

use svcfs_base::Timestamp;

use crate::error::BackupError;
use crate::git::{Git, failure};
use crate::local_refs::{LocalRefs, RefMap, SCRATCH_REFS, STATE_REF, parse};
use crate::merge::{Adoption, adopt};
use crate::record::BackupRecord;
use crate::run::BackupOutcome;
use crate::target::GitRemote;

/// Refs of one `git push`: its command line has a limit.
const MAX_REFS_PER_PUSH: usize = 200;
/// How often the push is tried when others push or write meanwhile.
const ATTEMPTS: usize = 5;
/// Refs that a note names.
const MAX_NOTED: usize = 5;
/// Reasons of a rejection when the remote is not as it was listed.
const RACES: [&str; 4] = ["fetch first", "non-fast-forward", "stale info", "cannot lock ref"];

/// Settings of a push.
pub(crate) struct PushOptions<'a> {
    pub remote: &'a GitRemote,
    /// Branch at the remote; none for the name of the current branch.
    pub branch: Option<&'a str>,
    pub merges_others: bool,
    /// When the remote had a backup; an empty one is refused then.
    pub last_verified: Option<Timestamp>,
}

/// Pushes everything and checks that the remote has it.
///
/// # Errors
/// `refused` also for a remote that had a backup and has no refs now.
pub(crate) fn push(
    git: Git<'_>,
    options: &PushOptions<'_>,
    record: &mut BackupRecord,
) -> Result<BackupOutcome, BackupError> {
    let mut outcome = BackupOutcome::default();
    for _ in 0..ATTEMPTS {
        let Some(local) = LocalRefs::read(git)? else { return Ok(outcome) };
        let branch = remote_branch(&local, options.branch);
        let wanted = wanted_refs(&local, &branch);
        git.context().enter("asking the remote");
        let remote = list(git, options.remote)?;
        if let (true, Some(verified)) = (remote.is_empty(), options.last_verified) {
            return Err(BackupError::lost(verified, "branch"));
        }
        if let Some(external) = remote.get(&branch)
            && !git.is_ancestor(external, local.tip())?
        {
            match take_over(git, options, (&local, &branch, external), record.refs.get(&branch))? {
                Adoption::Done(commits) => outcome.merged_commits += commits,
                Adoption::BranchMoved => {}
            }
            continue;
        }
        git.context().enter("pushing");
        let pushed = push_changes((git, options.remote), &branch, (&wanted, &remote, record))?;
        outcome.sent_refs += pushed.sent;
        if pushed.is_outdated {
            continue;
        }
        git.context().enter("checking the remote");
        let after = if pushed.sent == 0 { remote } else { list(git, options.remote)? };
        let missing =
            |(name, id): &(&String, &String)| after.get(*name) != Some(*id) && !pushed.declined.contains_key(*name);
        if let Some((name, id)) = wanted.iter().find(missing) {
            return Err(BackupError::failed(format!("the remote does not have `{name}` at {id} after the push")));
        }
        outcome.head = Some(local.tip().to_owned());
        outcome.note = pushed.note();
        record.refs = wanted.into_iter().filter(|(name, _)| !pushed.declined.contains_key(name)).collect();
        return Ok(outcome);
    }
    Err(BackupError::failed("the branch moved all the time, here or at the remote; the next backup tries again"))
}

/// The name of the current branch at the remote.
pub(crate) fn remote_branch(local: &LocalRefs, branch: Option<&str>) -> String {
    branch.map_or_else(|| local.head.clone(), |branch| format!("refs/heads/{branch}"))
}

/// What the remote is to have.
pub(crate) fn wanted_refs(local: &LocalRefs, branch: &str) -> RefMap {
    let mut wanted = local.refs.clone();
    wanted.remove(&local.head);
    wanted.insert(branch.to_owned(), local.tip().to_owned());
    wanted
}

/// The refs of a remote.
pub(crate) fn list(git: Git<'_>, remote: &GitRemote) -> Result<RefMap, BackupError> {
    let listed = git.command(["ls-remote", "--", &remote.url]).credentials(remote.credentials.as_ref()).read()?;
    Ok(parse(&listed))
}

/// Merges the commits of others, or refuses.
fn take_over(
    git: Git<'_>,
    options: &PushOptions<'_>,
    (local, branch, external): (&LocalRefs, &str, &str),
    last_pushed: Option<&String>,
) -> Result<Adoption, BackupError> {
    git.context().enter("fetching commits of others");
    let refspec = format!("+{branch}:{SCRATCH_REFS}remote");
    let arguments =
        ["-c", "fetch.fsckObjects=true", "fetch", "-q", "--no-tags", "--no-write-fetch-head", "--refmap=", "--"];
    let arguments = arguments.iter().copied().chain([options.remote.url.as_str(), &refspec]);
    git.command(arguments).credentials(options.remote.credentials.as_ref()).long().read()?;
    // It may have moved on since it was listed.
    let external = git.read(&["rev-parse", &format!("{SCRATCH_REFS}remote")]).unwrap_or_else(|_| external.to_owned());
    if git.is_ancestor(&external, local.tip())? {
        return Ok(Adoption::BranchMoved);
    }
    let name = branch.trim_start_matches("refs/heads/");
    // A merge would bring back what was removed there on purpose.
    if let Some(last) = last_pushed
        && !git.is_ancestor(last, &external)?
    {
        return Err(BackupError::refused(format!(
            "the branch `{name}` of the remote was rewritten: it does not have commit {last} any more, which was pushed \
             before; nothing was pushed; compare the two, then merge by hand in the root, or push with `git push --force`"
        )));
    }
    if !options.merges_others {
        let count = git.read(&["rev-list", "--count", &format!("{}..{external}", local.tip())])?;
        return Err(BackupError::refused(format!(
            "the branch `{name}` of the remote has {count} commits that are not here; nothing was pushed; merge them in the \
             root (`git pull --no-rebase URL {name}`), or set `backup.rebase_before_push = true`"
        )));
    }
    adopt(git, local.tip(), &external)
}

/// How a push ended.
#[derive(Default)]
struct PushedRefs {
    /// Number of refs that were sent.
    sent: usize,
    /// Refs that the remote does not accept, except the branch, and why.
    declined: BTreeMap<String, String>,
    /// Whether the branch of the remote moved meanwhile.
    is_outdated: bool,
}

impl PushedRefs {
    /// What is not in the backup.
    fn note(&self) -> Option<String> {
        let parts = self.declined.iter().map(|(name, reason)| match name.as_str() {
            STATE_REF => format!("open drafts are not in the backup: the remote does not accept `{name}` ({reason})"),
            _ => format!("`{name}` is not in the backup: {reason}"),
        });
        let parts: Vec<String> = parts.take(MAX_NOTED).collect();
        let more = self.declined.len() - parts.len();
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        (!parts.is_empty()).then(|| format!("{}{more}", parts.join("; ")))
    }
}

/// Pushes the refs that differ, and removes the branches of drafts that ended.
fn push_changes(
    (git, to): (Git<'_>, &GitRemote),
    branch: &str,
    (wanted, remote, record): (&RefMap, &RefMap, &BackupRecord),
) -> Result<PushedRefs, BackupError> {
    let mut arguments: Vec<(String, String)> = Vec::new();
    for (name, id) in wanted.iter().filter(|(name, id)| remote.get(*name) != Some(*id)) {
        arguments.push((lease(name, remote, record), format!("{id}:{name}")));
    }
    // A draft that was merged or discarded here, and is unchanged at the remote.
    let ended = record
        .refs
        .iter()
        .filter(|(name, id)| is_own(name) && !wanted.contains_key(*name) && remote.get(*name) == Some(*id));
    arguments.extend(ended.map(|(name, _)| (lease(name, remote, record), format!(":{name}"))));
    // The branch first: another ref that is refused must not keep it from the backup.
    let end = format!(":{branch}");
    arguments.sort_by_key(|(_, refspec)| !refspec.ends_with(&end));
    let mut refused = None;
    let mut pushed = PushedRefs::default();
    for part in arguments.chunks(MAX_REFS_PER_PUSH) {
        let leases = part.iter().map(|(lease, _)| lease.as_str()).filter(|lease| !lease.is_empty());
        let refspecs = part.iter().map(|(_, refspec)| refspec.as_str());
        let fixed = ["push", "--porcelain", "--no-verify", "--no-signed"].into_iter();
        let command = git.command(fixed.chain(leases).chain(["--", &to.url]).chain(refspecs));
        let output = command.credentials(to.credentials.as_ref()).long().run()?;
        let rejected = rejections(&output.text());
        if !output.is_success() && rejected.is_empty() {
            return Err(failure("push", &output.error));
        }
        pushed.sent += part.len() - rejected.len();
        for (name, reason) in rejected {
            let is_race = RACES.iter().any(|text| reason.contains(text));
            if is_race && name == branch {
                pushed.is_outdated = true;
                continue;
            }
            let advice = match is_race {
                true => "rename or remove it there, or here",
                false => "check the rules of the remote; a repository for backups is bare (`git init --bare`)",
            };
            let message = format!("the remote refuses it: {reason}; nothing was overwritten; {advice}");
            if name == branch {
                refused = Some(BackupError::refused(format!("`{name}` is not in the backup: {message}")));
            } else {
                // One ref must not keep the others from the backup.
                pushed.declined.insert(name, message);
            }
        }
    }
    match refused {
        Some(error) if !pushed.is_outdated => Err(error),
        _ => Ok(pushed),
    }
}

/// Whether svcfs rewrites a ref.
pub(crate) fn is_own(name: &str) -> bool {
    ["refs/heads/draft/", "refs/heads/lost-draft/", "refs/svcfs/"].iter().any(|prefix| name.starts_with(prefix))
}

/// The condition under which a ref of svcfs may be overwritten; empty for other refs.
fn lease(name: &str, remote: &RefMap, record: &BackupRecord) -> String {
    if !is_own(name) {
        return String::new();
    }
    // No other program writes the state: it may be replaced, also when a backup ended between its
    // push and its record, or the record was lost.
    let expected = if name == STATE_REF { remote.get(name) } else { record.refs.get(name) };
    match (expected, remote.get(name)) {
        (Some(expected), Some(_)) => format!("--force-with-lease={name}:{expected}"),
        // New, or removed there: it is pushed unless it appears meanwhile.
        (_, None) => format!("--force-with-lease={name}:"),
        // Unknown: without force.
        (None, Some(_)) => String::new(),
    }
}

/// The refs that the remote refused, with its reasons: lines `!<tab>FROM:TO<tab>[STATE] (REASON)`.
fn rejections(output: &str) -> Vec<(String, String)> {
    let line = |line: &str| {
        let (from_to, reason) = line.strip_prefix("!\t")?.split_once('\t')?;
        let (_, name) = from_to.rsplit_once(':')?;
        Some((name.to_owned(), reason.to_owned()))
    };
    output.lines().filter_map(line).collect()
}
