//! Remembering and forgetting episodes.
//!
//! Invariant: an episode is created once. It and the marks on what it supersedes are one commit.

use serde_json::{Value, json};
use svcfs_base::{
    Change, ChangeSet, CommitId, ETag, Fault, Kind, MAX_PAGE_BYTES, Precondition, Scope, Timestamp, TreePath,
};
use svcfs_index::MAX_QUERY_BYTES;
use svcfs_text::frontmatter;
use svcfs_vfs::EntryKind;
use uuid::Uuid;

use super::pages::{self, MemoryPage};
use crate::files;
use crate::kernel::OperationContext;
use crate::recall;
use crate::search::hybrid::{self, HybridQuery};
use crate::search::vector_leg;

/// Pages of this similarity probably say the same.
const MIN_SIMILARITY: f64 = 0.85;
const MAX_SIMILAR: usize = 5;

const MAX_ID_CHARS: usize = 200;
const MAX_TAGS: usize = 50;
const MAX_SUPERSEDED: usize = 100;
const MAX_REASON_CHARS: usize = 500;

/// Attempts of a change that loses against concurrent writers.
const ATTEMPTS: usize = 64;

/// What is to be remembered.
#[derive(Debug)]
pub(super) struct NewEpisode {
    pub content: String,
    pub scope: Option<String>,
    pub episode_id: Option<String>,
    pub tags: Vec<String>,
    pub supersedes: Vec<TreePath>,
    pub valid_from: Option<String>,
    pub valid_until: Option<String>,
    pub confidence: Option<f64>,
}

/// A remembered episode.
pub(super) struct StoredEpisode {
    pub path: TreePath,
    pub etag: ETag,
    pub commit: Option<CommitId>,
    pub episode_id: String,
    /// Whether it was remembered before.
    pub is_known: bool,
    /// The pages that were marked as superseded.
    pub superseded: Vec<TreePath>,
    /// Pages that probably say the same, with their similarity.
    pub similar: Vec<(TreePath, f64)>,
}

/// Stores an episode; one with a known id is answered with its page.
///
/// # Errors
/// `Invalid` for a bad argument; `NotFound` for a page to supersede; `Conflict` for a known id with
/// another content; those of [`svcfs_vfs::Vfs::apply`].
pub(super) fn remember(cx: &OperationContext<'_>, episode: &NewEpisode) -> Result<StoredEpisode, Fault> {
    check(episode)?;
    // Two calls with one id must not both find none.
    let _creating = episode.episode_id.is_some().then(|| cx.space.creation_lock.lock());
    if let Some(id) = &episode.episode_id
        && let Some(path) = pages::pages_with(cx, "episode_id", id)?.into_iter().next()
    {
        return known_episode(cx, episode, (id, path));
    }
    let similar = similar_pages(cx, episode);
    let uuid = Uuid::now_v7().to_string();
    let now = cx.now();
    let day = now.to_zoned(jiff::tz::TimeZone::UTC).date();
    let folder = pages::folder_for(cx, &cx.settings().memory.episodes_path_prefix)?;
    let path = pages::child(&pages::child(&folder, &day.to_string())?, &format!("{uuid}.md"))?;
    let id = episode.episode_id.clone().unwrap_or(uuid);
    let mut attempt = 1;
    loop {
        let mut changes = vec![episode_page(cx, episode, (&path, &id, now))?];
        let (mut superseded, mut read) = (Vec::new(), Vec::new());
        for page in &episode.supersedes {
            let page = MemoryPage::read(cx, "supersedes", page)?;
            read.push((page.path.clone(), page.file.etag));
            if let Some(marked) = page.superseded(now, None, Some(&path))? {
                let precondition = Precondition::OneOf(vec![page.file.etag]);
                changes.push(Change::put(page.path.clone(), marked).with_precondition(precondition));
                superseded.push(page.path);
            }
        }
        let message = format!("{}: remember {path}", cx.caller.actor());
        let fault = match cx.apply(ChangeSet::new(changes).with_message(message)) {
            Ok(applied) => {
                let etag = applied.files.first().and_then(|file| file.etag);
                let etag = etag.ok_or_else(|| Fault::file_not_found(&path))?;
                let commit = applied.commit;
                return Ok(StoredEpisode { path, etag, commit, episode_id: id, is_known: false, superseded, similar });
            }
            Err(fault) => fault,
        };
        if !has_lost_race(cx, &fault, &read) || attempt == ATTEMPTS {
            return Err(fault);
        }
        attempt += 1;
    }
}

/// Whether a change was refused because one of these pages was changed since it was read.
fn has_lost_race(cx: &OperationContext<'_>, fault: &Fault, read: &[(TreePath, ETag)]) -> bool {
    let has_changed = |(path, etag): &(TreePath, ETag)| files::read_file(cx, path).is_ok_and(|file| file.etag != *etag);
    fault.kind() == Kind::Conflict && read.iter().any(has_changed)
}

fn check(episode: &NewEpisode) -> Result<(), Fault> {
    if episode.content.trim().is_empty() {
        return Err(Fault::new(Kind::Invalid, "content is required"));
    }
    if episode.content.len() > MAX_PAGE_BYTES {
        return Err(Fault::too_large("content", MAX_PAGE_BYTES));
    }
    let lines = [("episode_id", &episode.episode_id), ("scope", &episode.scope)];
    for (field, text) in lines.into_iter().filter_map(|(field, text)| Some((field, text.as_ref()?))) {
        pages::require_line(field, text, MAX_ID_CHARS)?;
    }
    for (field, count, max) in
        [("tags", episode.tags.len(), MAX_TAGS), ("supersedes", episode.supersedes.len(), MAX_SUPERSEDED)]
    {
        if count > max {
            return Err(Fault::invalid(field, format_args!("has {count} entries; the limit is {max}")));
        }
    }
    episode.tags.iter().try_for_each(|tag| pages::require_line("tags", tag, MAX_ID_CHARS))?;
    let mut supersedes: Vec<&TreePath> = episode.supersedes.iter().collect();
    supersedes.sort_unstable();
    if let Some(twice) = supersedes.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Fault::invalid("supersedes", format_args!("`{}` is listed twice", twice[0])));
    }
    if episode.confidence.is_some_and(|confidence| !(confidence > 0.0 && confidence <= 1.0)) {
        return Err(Fault::invalid("confidence", "must be more than 0 and at most 1"));
    }
    let (from, until) = (instant("valid_from", &episode.valid_from)?, instant("valid_until", &episode.valid_until)?);
    // A day counts to its end.
    let until = until.and(episode.valid_until.as_deref().and_then(recall::end_of));
    match (from, until) {
        (Some(from), Some(until)) if until <= from => {
            Err(Fault::invalid("valid_until", "must be later than `valid_from`"))
        }
        _ => Ok(()),
    }
}

/// The instant of a time or a day.
fn instant(field: &str, text: &Option<String>) -> Result<Option<Timestamp>, Fault> {
    let Some(text) = text else { return Ok(None) };
    let day = || text.parse::<jiff::civil::Date>().ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok();
    let instant = text.parse().ok().or_else(|| Some(day()?.timestamp()));
    let message = "must be a time such as `2026-01-31T08:00:00Z`, or a day such as `2026-01-31`";
    instant.map(Some).ok_or_else(|| Fault::invalid(field, message))
}

/// The page of an episode, as a change that creates it.
fn episode_page(
    cx: &OperationContext<'_>,
    episode: &NewEpisode,
    (path, id, now): (&TreePath, &str, Timestamp),
) -> Result<Change, Fault> {
    let text = match frontmatter::split(&episode.content).content() {
        Some(_) => episode.content.clone(),
        None => files::with_frontmatter(&episode.content),
    };
    let mut fields =
        vec![("memory_kind", json!("episodic")), ("episode_id", json!(id)), ("created", json!(format!("{now:.0}")))];
    fn list<T: serde::Serialize>(items: &[T]) -> Option<Value> {
        (!items.is_empty()).then(|| json!(items))
    }
    let optional = [
        ("scope", episode.scope.as_ref().map(|scope| json!(scope))),
        ("tags", list(&episode.tags)),
        ("valid_from", episode.valid_from.as_ref().map(|time| json!(time))),
        ("valid_until", episode.valid_until.as_ref().map(|time| json!(time))),
        ("confidence", episode.confidence.map(|confidence| json!(confidence))),
        ("supersedes", list(&episode.supersedes)),
    ];
    fields.extend(optional.into_iter().filter_map(|(key, value)| Some((key, value?))));
    let text = files::set_fields(&text, &fields)
        .map_err(|fault| Fault::invalid("content", format_args!("its frontmatter: {}", fault.message())))?;
    let content = files::format_new_page(cx, path, text)?;
    Ok(Change::put(path.clone(), content).with_precondition(Precondition::Absent))
}

/// The answer to an id that is known: its page, if that has the same content.
fn known_episode(
    cx: &OperationContext<'_>,
    episode: &NewEpisode,
    (id, path): (&str, TreePath),
) -> Result<StoredEpisode, Fault> {
    let file = files::read_file(cx, &path)?;
    // Formatted as the stored one.
    let Change::Put { content, .. } = episode_page(cx, episode, (&path, id, cx.now()))? else {
        return Err(Fault::internal("an episode is written"));
    };
    let body = |content: &[u8]| frontmatter::split(&String::from_utf8_lossy(content)).body.trim().to_owned();
    if body(&file.content) != body(&content) {
        let message = format!(
            "`episode_id`: `{id}` is the id of `{path}`, which has another content; read it, and use another id or \
             `edit` that page"
        );
        return Err(Fault::new(Kind::Conflict, message)
            .with_detail("path", path.as_str())
            .with_detail("current_etag", file.etag.to_string()));
    }
    let still_holds =
        |page: &&TreePath| MemoryPage::read(cx, "supersedes", page).is_ok_and(|memory| !memory.is_superseded());
    for page in episode.supersedes.iter().filter(still_holds) {
        cx.add_note(format!("nothing was written: `{page}` is not marked as superseded; use `forget` for it"));
    }
    let (etag, episode_id) = (file.etag, id.to_owned());
    let (superseded, similar) = Default::default();
    Ok(StoredEpisode { path, etag, commit: None, episode_id, is_known: true, superseded, similar })
}

/// Pages that probably say the same, as advice: nothing if search by meaning is not enabled or
/// cannot answer.
fn similar_pages(cx: &OperationContext<'_>, episode: &NewEpisode) -> Vec<(TreePath, f64)> {
    let body = frontmatter::split(&episode.content).body.trim();
    let question = &body[..body.floor_char_boundary(MAX_QUERY_BYTES)];
    if !vector_leg::is_enabled(cx.space) || question.is_empty() {
        return Vec::new();
    }
    let query = HybridQuery {
        question,
        uses_words: false,
        uses_vectors: true,
        folder: cx.caller.permissions.folder.as_ref(),
        scope: None,
        min_similarity: MIN_SIMILARITY,
        limit: MAX_SIMILAR + episode.supersedes.len(),
    };
    // The notes of a search are of no use here.
    let ranking = hybrid::rank(&cx.in_space(cx.space), &cx.space.index, &query).unwrap_or_default();
    let mut similar: Vec<(TreePath, f64)> = ranking
        .pages
        .into_iter()
        .filter(|page| !episode.supersedes.contains(&page.path))
        .map(|page| (page.path, (page.similarity.min(1.0) * 100.0).round() / 100.0))
        .collect();
    similar.sort_by(|(a, a_similarity), (b, b_similarity)| b_similarity.total_cmp(a_similarity).then_with(|| a.cmp(b)));
    similar.truncate(MAX_SIMILAR);
    similar
}

/// What happened to a forgotten memory.
pub(super) enum ForgottenPage {
    /// It is marked as superseded; it already was if there is no commit and `is_noop`.
    Marked { etag: ETag, commit: Option<CommitId>, is_noop: bool },
    /// Its page is deleted.
    Erased { commit: Option<CommitId> },
}

/// Marks a memory as superseded.
///
/// # Errors
/// `NotFound`; `Invalid` for a page that is no memory; those of [`svcfs_vfs::Vfs::apply`].
pub(super) fn forget(
    cx: &OperationContext<'_>,
    path: &TreePath,
    (reason, superseded_by): (Option<&str>, Option<&TreePath>),
) -> Result<ForgottenPage, Fault> {
    check_reason(reason)?;
    if let Some(by) = superseded_by {
        let present = cx.tree().stat(cx.caller.protocol, by);
        let present = present.map_err(|fault| pages::missing_page(fault, "superseded_by", by))?;
        if present.kind == EntryKind::Directory {
            return Err(Fault::invalid("superseded_by", format_args!("`{by}` is a directory; name a page")));
        }
        if by == path {
            return Err(Fault::invalid("superseded_by", "is the page itself; name the page that replaces it"));
        }
    }
    let mut attempt = 1;
    loop {
        let page = MemoryPage::read(cx, "path", path)?;
        check_etag(cx, path, page.file.etag)?;
        let Some(marked) = page.superseded(cx.now(), reason, superseded_by)? else {
            return Ok(ForgottenPage::Marked { etag: page.file.etag, commit: None, is_noop: true });
        };
        let change = Change::put(path.clone(), marked).with_precondition(Precondition::OneOf(vec![page.file.etag]));
        let message = format!("{}: forget {path}", cx.caller.actor());
        let fault = match cx.apply(ChangeSet::from(change).with_message(message)) {
            Ok(applied) => {
                let commit = applied.commit;
                let etag = applied.single()?.etag.unwrap_or(page.file.etag);
                return Ok(ForgottenPage::Marked { etag, commit, is_noop: false });
            }
            Err(fault) => fault,
        };
        if !has_lost_race(cx, &fault, &[(page.path, page.file.etag)]) || attempt == ATTEMPTS {
            return Err(fault);
        }
        attempt += 1;
    }
}

/// Deletes a memory.
///
/// # Errors
/// `Forbidden` without the scope `admin`; those of [`forget`].
pub(super) fn erase(cx: &OperationContext<'_>, path: &TreePath, reason: Option<&str>) -> Result<ForgottenPage, Fault> {
    cx.caller.permissions.check_scope(Scope::Admin, "forget with erase")?;
    check_reason(reason)?;
    let page = MemoryPage::read(cx, "path", path)?;
    check_etag(cx, path, page.file.etag)?;
    let change = Change::remove(path.clone()).with_precondition(Precondition::OneOf(vec![page.file.etag]));
    let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
    let message = format!("{}: erase {path}{reason}", cx.caller.actor());
    let applied = cx.apply(ChangeSet::from(change).with_message(message))?;
    Ok(ForgottenPage::Erased { commit: applied.commit })
}

fn check_reason(reason: Option<&str>) -> Result<(), Fault> {
    reason.map_or(Ok(()), |reason| pages::require_line("reason", reason, MAX_REASON_CHARS))
}

/// Checks the caller's precondition before anything else is said about the page.
fn check_etag(cx: &OperationContext<'_>, path: &TreePath, etag: ETag) -> Result<(), Fault> {
    match &cx.caller.precondition {
        Precondition::Any | Precondition::Present => Ok(()),
        Precondition::OneOf(etags) if etags.contains(&etag) => Ok(()),
        Precondition::OneOf(_) | Precondition::Absent | Precondition::Large(_) => {
            Err(Fault::edit_conflict(path, Some(etag)))
        }
    }
}
