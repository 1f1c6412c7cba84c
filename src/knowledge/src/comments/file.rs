//! The file with the comments of one page.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use svcfs_base::{
    Caller, Change, ChangeSet, ETag, EventAnnouncement, Fault, Kind, Permissions, Precondition, Protocol, Scope,
    Timestamp, TreePath,
};
use svcfs_vfs::comment_file;

use super::anchor::CommentAnchor;
use crate::kernel::{OperationContext, Space};

/// Larger files are refused: the limits of a page allow less.
const MAX_FILE_BYTES: usize = 64 << 20;
/// Attempts of a write that loses against edits by others.
const ATTEMPTS: usize = 16;

/// A comment as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct StoredComment {
    pub id: String,
    #[serde(default)]
    pub anchor: CommentAnchor,
    /// The line when the file was last written.
    #[serde(default)]
    pub line: usize,
    #[serde(default)]
    pub author: String,
    pub body: String,
    #[serde(default)]
    pub resolved: bool,
    #[serde(alias = "createdAt")]
    pub created: Timestamp,
    /// Fields of other programs.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// The comments of a page, and where they are stored.
pub(super) struct CommentFile {
    pub comments: Vec<StoredComment>,
    /// None for a new file.
    etag: Option<ETag>,
    /// The file of a former name of the page, after an external rename.
    former: Option<(TreePath, ETag)>,
}

/// What a write changed.
pub(super) struct CommentEvent {
    pub announcement: EventAnnouncement,
    pub message: String,
}

impl CommentFile {
    /// Reads the comments of a page; empty without a file.
    ///
    /// # Errors
    /// `Rejected` for a file that has no valid comments, naming it.
    pub fn read(space: &Space, page: &TreePath) -> Result<Self, Fault> {
        let file = comment_file(page)?;
        if let Some((comments, etag)) = read_file(space, &file)? {
            return Ok(Self { comments, etag: Some(etag), former: None });
        }
        for name in former_names(space, page) {
            let former = comment_file(&name)?;
            if let Some((comments, etag)) = read_file(space, &former)? {
                return Ok(Self { comments, etag: None, former: Some((former, etag)) });
            }
        }
        Ok(Self { comments: Vec::new(), etag: None, former: None })
    }

    /// Writes the comments; no file remains without comments.
    fn write(self, cx: &OperationContext<'_>, page: &TreePath, event: &CommentEvent) -> Result<(), Fault> {
        let file = comment_file(page)?;
        let precondition = self.etag.map_or(Precondition::Absent, |etag| Precondition::OneOf(vec![etag]));
        let mut changes = Vec::new();
        if !self.comments.is_empty() {
            let mut text = serde_json::to_vec_pretty(&self.comments).map_err(Fault::internal)?;
            text.push(b'\n');
            changes.push(Change::put(file, Bytes::from(text)).with_precondition(precondition));
        } else if self.etag.is_some() {
            changes.push(Change::remove(file).with_precondition(precondition));
        }
        if let Some((former, etag)) = self.former {
            changes.push(Change::remove(former).with_precondition(Precondition::OneOf(vec![etag])));
        }
        // The page was checked; its folder does not contain the file.
        let permissions = Permissions { scope: Scope::Write, folder: None };
        let actor = Some(cx.caller.actor());
        let caller = Caller {
            permissions,
            actor,
            precondition: Precondition::Any,
            claim_fence: None,
            protocol: Protocol::Internal,
            ..cx.caller.clone()
        };
        let set = ChangeSet::new(changes).with_message(event.message.as_str()).with_announcement(event.announcement);
        cx.space.vfs.apply(&caller, set).map(drop)
    }
}

/// The names of a page before its last renames, whose files are gone: the newest first.
fn former_names(space: &Space, page: &TreePath) -> Vec<TreePath> {
    // Without any comments in the space there is nothing to find.
    let has_any = TreePath::parse(svcfs_vfs::COMMENTS_DIRECTORY)
        .is_ok_and(|directory| space.vfs.stat(Protocol::Internal, &directory).is_ok());
    let names = if has_any { space.vfs.names_of_page(page, |_| true).unwrap_or_default() } else { Vec::new() };
    let is_free = |name: &TreePath| name != page && space.vfs.stat(Protocol::Internal, name).is_err();
    names.into_iter().map(|name| name.path).filter(is_free).collect()
}

/// The comments in a file; `None` if there is none.
///
/// # Errors
/// `Rejected` for a file that has no valid comments, naming it.
pub(super) fn read_file(space: &Space, file: &TreePath) -> Result<Option<(Vec<StoredComment>, ETag)>, Fault> {
    let invalid = |why: &dyn std::fmt::Display| {
        let message = format!("`{file}` is not a list of comments: {why}; repair or remove this file");
        Fault::rejected(message).with_detail("path", file.as_str())
    };
    let view = match space.vfs.read(Protocol::Internal, file) {
        Ok(view) => view,
        Err(fault) => {
            return match fault.kind() {
                Kind::NotFound | Kind::NotDirectory => Ok(None),
                Kind::TooLarge | Kind::IsDirectory => Err(invalid(&fault.message())),
                _ => Err(fault),
            };
        }
    };
    if view.content.len() > MAX_FILE_BYTES {
        return Err(invalid(&format_args!("it is larger than {} MB", MAX_FILE_BYTES >> 20)));
    }
    let comments = serde_json::from_slice(&view.content).map_err(|error| invalid(&error))?;
    Ok(Some((comments, view.etag)))
}

/// Changes the comments of a page in one commit. `change` returns what happened and a result.
///
/// # Errors
/// Those of reading, of `change` and of [`svcfs_vfs::Vfs::apply`].
pub(super) fn edit<T>(
    cx: &OperationContext<'_>,
    page: &TreePath,
    change: impl Fn(&mut Vec<StoredComment>) -> Result<(CommentEvent, T), Fault>,
) -> Result<T, Fault> {
    let _serialized = cx.space.comments.edit_lock();
    for attempt in 1.. {
        let mut file = CommentFile::read(cx.space, page)?;
        let (event, result) = change(&mut file.comments)?;
        match file.write(cx, page, &event) {
            // Edited through another protocol meanwhile.
            Err(fault) if matches!(fault.kind(), Kind::Conflict | Kind::PreconditionFailed) && attempt < ATTEMPTS => {}
            Err(fault) => return Err(fault),
            Ok(()) => return Ok(result),
        }
    }
    Err(Fault::new(Kind::Conflict, "the comments change too fast; try again"))
}

/// The number of open comments of a page, without those of a former name.
///
/// # Errors
/// `Rejected` for an invalid file, naming it.
pub fn count_open(space: &Space, page: &TreePath) -> Result<usize, Fault> {
    let comments = read_file(space, &comment_file(page)?)?.map(|(comments, _)| comments).unwrap_or_default();
    Ok(comments.iter().filter(|comment| !comment.resolved).count())
}
