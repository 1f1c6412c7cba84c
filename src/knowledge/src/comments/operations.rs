use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};
use svcfs_base::{EventAnnouncement, Fault, Kind, Timestamp, TreePath};

use super::anchor::CommentAnchor;
use super::file::{CommentEvent, CommentFile, StoredComment, edit};
use super::{MAX_BODY_BYTES, MAX_COMMENTS, comment_not_found, is_readable, page_text};
use crate::kernel::{
    FolderScope, Operation, OperationArea, OperationContext, OperationEntry, Route, random_hex, require_path,
};

/// The operations of this area.
pub const AREA: OperationArea = OperationArea {
    title: "Comments",
    operations: &[
        OperationEntry::new::<ListComments>(),
        OperationEntry::new::<AddComment>(),
        OperationEntry::new::<ResolveComment>(),
        OperationEntry::new::<DeleteComment>(),
    ],
};

const ID_BYTES: usize = 12;

/// A comment on a page.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Comment {
    /// Identifies it in its space
    pub id: String,
    /// Path of the page
    pub path: TreePath,
    /// Line in the page as it is now, from 1; with `outdated`, where it was last
    pub line: usize,
    /// Who wrote it
    pub author: String,
    /// Its text: markdown source, not HTML
    pub body: String,
    /// Whether it is done
    pub resolved: bool,
    /// When it was written
    pub created: Timestamp,
    /// The text that it is about, by which it is found after edits
    pub anchor: CommentAnchor,
    /// Whether that text is no longer in the page
    pub outdated: bool,
}

impl Comment {
    fn of(stored: StoredComment, path: &TreePath, text: &str) -> Self {
        let line = stored.anchor.line(text, stored.line);
        Self {
            line: line.unwrap_or_else(|| stored.line.clamp(1, text.lines().count().max(1))),
            outdated: line.is_none(),
            id: stored.id,
            path: path.clone(),
            author: stored.author,
            body: stored.body,
            resolved: stored.resolved,
            created: stored.created,
            anchor: stored.anchor,
        }
    }
}

/// List the comments on a page, the oldest first
///
/// `line` follows edits of the page. A comment whose text is gone is `outdated`. `body` is markdown
/// source. A key that may read the page may read its comments.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListComments {
    /// Path of the page
    #[schemars(example = "index.md")]
    pub path: TreePath,
}

impl Operation for ListComments {
    const NAME: &'static str = "comments_list";
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::get("/comments")];
    type Output = Vec<Comment>;
    fn run(self, cx: &OperationContext<'_>) -> Result<Vec<Comment>, Fault> {
        require_path("path", &self.path)?;
        let text = page_text(cx, &self.path)?;
        let comments = CommentFile::read(cx.space, &self.path)?.comments;
        let mut comments: Vec<Comment> =
            comments.into_iter().map(|stored| Comment::of(stored, &self.path, &text)).collect();
        comments.sort_by_key(|comment| comment.created);
        Ok(comments)
    }
}

/// Comment on a line or a quote of a page
///
/// Give either `line` or `anchor`. The comment remembers the text there and follows it through
/// edits and renames; it is removed with its page. It is a version of its own in the history of the
/// tree, with you as its author (`X-Actor`).
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(example = json!({ "path": "index.md", "line": 3, "body": "Is this still true?" }))]
pub struct AddComment {
    /// Path of the page
    #[schemars(example = "index.md")]
    pub path: TreePath,
    /// Line that it is about, from 1
    #[serde(default)]
    pub line: Option<usize>,
    /// Text that it is about
    #[serde(default)]
    pub anchor: Option<QuotedText>,
    /// The comment as markdown, at most 64 KiB
    pub body: String,
}

/// A quote, which must be in the page; white space may differ.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct QuotedText {
    /// The text, at most 4 KiB
    pub quote: String,
    /// Some text before it, to find the right one of several
    #[serde(default)]
    pub prefix: String,
    /// Some text after it
    #[serde(default)]
    pub suffix: String,
    /// Its place in the page, in bytes: the nearest of several equal ones is taken
    #[serde(default)]
    pub offset: Option<usize>,
}

impl Operation for AddComment {
    const NAME: &'static str = "comments_add";
    const LIMITED: bool = false;
    const PROPOSABLE: bool = true;
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::post("/comments").query(&["path"]).required_one_of(&["line", "anchor"])];
    type Output = Comment;
    fn run(self, cx: &OperationContext<'_>) -> Result<Comment, Fault> {
        require_path("path", &self.path)?;
        if self.body.trim().is_empty() {
            return Err(Fault::new(Kind::Invalid, "body is required: a comment has a text"));
        }
        if self.body.len() > MAX_BODY_BYTES {
            let message = format!("body has {} bytes; the limit is {MAX_BODY_BYTES}", self.body.len());
            return Err(Fault::new(Kind::TooLarge, message));
        }
        let text = page_text(cx, &self.path)?;
        let (anchor, line) = place(&text, self.line, self.anchor)?;
        let stored = StoredComment {
            id: random_hex::<ID_BYTES>()?,
            anchor,
            line,
            author: cx.caller.actor().as_str().to_owned(),
            body: self.body,
            resolved: false,
            created: cx.now(),
            other: Map::new(),
        };
        edit(cx, &self.path, |comments| {
            if comments.len() >= MAX_COMMENTS {
                let message = format!("`{}` has {MAX_COMMENTS} comments already; delete some of them", self.path);
                return Err(Fault::new(Kind::TooLarge, message));
            }
            comments.push(stored.clone());
            Ok((event(EventAnnouncement::CommentAdd, "comment", &self.path, &stored.id), ()))
        })?;
        cx.space.comments.insert(stored.id.clone(), self.path.clone());
        Ok(Comment::of(stored, &self.path, &text))
    }
}

/// The anchor of a new comment, and its line.
fn place(text: &str, line: Option<usize>, quoted: Option<QuotedText>) -> Result<(CommentAnchor, usize), Fault> {
    match (line, quoted) {
        (None, None) => Err(Fault::new(Kind::Invalid, "line or anchor is required")),
        (Some(_), Some(_)) => Err(Fault::new(Kind::Invalid, "use either `line` or `anchor`, not both")),
        (Some(line), None) => CommentAnchor::of_line(text, line).ok_or_else(|| {
            let count = text.lines().count().max(1);
            Fault::invalid("line", format_args!("{line} is not a line of the page, which has {count}"))
        }),
        (None, Some(QuotedText { quote, prefix, suffix, offset })) => {
            if quote.trim().is_empty() {
                return Err(Fault::new(Kind::Invalid, "anchor.quote is required"));
            }
            if quote.len() > 4096 || prefix.len() > 4096 || suffix.len() > 4096 {
                return Err(Fault::invalid("anchor", "quote, prefix and suffix have 4096 bytes at most"));
            }
            let before = text.as_bytes().get(..offset.unwrap_or(0)).unwrap_or(text.as_bytes());
            let near = 1 + before.iter().filter(|byte| **byte == b'\n').count();
            let anchor = CommentAnchor { quote, prefix, suffix };
            anchor.resolve(text, near).ok_or_else(|| {
                Fault::invalid("anchor.quote", "this text is not in the page; read the page and quote it again")
            })
        }
    }
}

fn event(announcement: EventAnnouncement, verb: &str, page: &TreePath, id: &str) -> CommentEvent {
    let short: String = id.chars().take(8).collect();
    CommentEvent { announcement, message: format!("{verb}: {page} — {}", svcfs_base::escape_unprintable(&short)) }
}

/// The page of a comment that the caller may read.
fn find_page(cx: &OperationContext<'_>, id: &str, given: Option<TreePath>) -> Result<TreePath, Fault> {
    let page = match given {
        Some(page) => Some(page),
        None => cx.space.comments.find(cx.space, id)?,
    };
    page.filter(|page| is_readable(cx, page)).ok_or_else(|| comment_not_found(id))
}

/// Resolve a comment, or open it again
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ResolveComment {
    /// Id of the comment
    pub id: String,
    /// Whether it is done
    pub resolved: bool,
    /// Path of the page, if you know it
    #[serde(default)]
    pub path: Option<TreePath>,
}

impl Operation for ResolveComment {
    const NAME: &'static str = "comments_resolve";
    const LIMITED: bool = false;
    const PROPOSABLE: bool = true;
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    const HTTP: &'static [Route] = &[Route::patch("/comments/{id}").query(&["path"])];
    type Output = Comment;
    fn run(self, cx: &OperationContext<'_>) -> Result<Comment, Fault> {
        let page = find_page(cx, &self.id, self.path)?;
        let text = page_text(cx, &page)?;
        let verb = if self.resolved { "comment-resolve" } else { "comment-unresolve" };
        let stored = edit(cx, &page, |comments| {
            let comment = comments.iter_mut().find(|comment| comment.id == self.id);
            let comment = comment.ok_or_else(|| comment_not_found(&self.id))?;
            comment.resolved = self.resolved;
            let stored = comment.clone();
            Ok((event(EventAnnouncement::CommentResolve, verb, &page, &self.id), stored))
        })?;
        Ok(Comment::of(stored, &page, &text))
    }
}

/// Delete a comment
#[derive(Debug, Deserialize, JsonSchema)]
pub struct DeleteComment {
    /// Id of the comment
    pub id: String,
    /// Path of the page, if you know it
    #[serde(default)]
    pub path: Option<TreePath>,
}

/// A deleted comment.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DeletedComment {
    /// Its id
    pub deleted: String,
    /// Path of its page
    pub path: TreePath,
}

impl Operation for DeleteComment {
    const NAME: &'static str = "comments_delete";
    const LIMITED: bool = false;
    const PROPOSABLE: bool = true;
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    const HTTP: &'static [Route] = &[Route::delete("/comments/{id}")];
    type Output = DeletedComment;
    fn run(self, cx: &OperationContext<'_>) -> Result<DeletedComment, Fault> {
        let page = find_page(cx, &self.id, self.path)?;
        edit(cx, &page, |comments| {
            let count = comments.len();
            comments.retain(|comment| comment.id != self.id);
            if comments.len() == count {
                return Err(comment_not_found(&self.id));
            }
            Ok((event(EventAnnouncement::CommentDelete, "comment-delete", &page, &self.id), ()))
        })?;
        cx.space.comments.remove(&self.id);
        Ok(DeletedComment { deleted: self.id, path: page })
    }
}
