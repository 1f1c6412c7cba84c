//! What webhooks are notified of.

/// One kind of notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WebhookEvent {
    /// A file is new.
    FileCreated,
    /// A file has other content.
    FileUpdated,
    /// A file is gone.
    FileDeleted,
    /// A file has another name.
    FileRenamed,
    /// A page was published.
    PagePublished,
    /// A page was withdrawn.
    PageUnpublished,
    /// A page has another workflow state.
    PageTransition,
    /// A draft was merged.
    DraftMerged,
    /// A comment is new.
    CommentAdded,
    /// A comment was resolved or opened again.
    CommentResolved,
    /// A comment was deleted.
    CommentDeleted,
    /// A test by a person.
    Test,
}

impl WebhookEvent {
    /// The events that a webhook can choose.
    pub const ALL: &'static [Self] = &[
        Self::FileCreated,
        Self::FileUpdated,
        Self::FileDeleted,
        Self::FileRenamed,
        Self::PagePublished,
        Self::PageUnpublished,
        Self::PageTransition,
        Self::DraftMerged,
        Self::CommentAdded,
        Self::CommentResolved,
        Self::CommentDeleted,
    ];

    /// The name in settings, and `event` of a notification.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FileCreated => "file.created",
            Self::FileUpdated => "file.updated",
            Self::FileDeleted => "file.deleted",
            Self::FileRenamed => "file.renamed",
            Self::PagePublished => "page.published",
            Self::PageUnpublished => "page.unpublished",
            Self::PageTransition => "page.transition",
            Self::DraftMerged => "draft.merged",
            Self::CommentAdded => "comment.added",
            Self::CommentResolved => "comment.resolved",
            Self::CommentDeleted => "comment.deleted",
            Self::Test => "test",
        }
    }

    /// `type` of a notification, as in the event stream.
    pub const fn type_name(self) -> &'static str {
        match self {
            Self::FileCreated | Self::FileUpdated => "write",
            Self::FileDeleted => "delete",
            Self::FileRenamed => "rename",
            Self::PagePublished => "publish",
            Self::PageUnpublished => "unpublish",
            Self::PageTransition => "transition",
            Self::DraftMerged => "merge",
            Self::CommentAdded => "comment.add",
            Self::CommentResolved => "comment.resolve",
            Self::CommentDeleted => "comment.delete",
            Self::Test => "test",
        }
    }

    /// Parses a name, as [`WebhookEvent::name`] gives it.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().chain(&[Self::Test]).copied().find(|event| event.name() == name)
    }

    /// The events that a name or type chooses; none for an unknown one.
    pub fn choose(text: &str) -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(move |event| event.name() == text || event.type_name() == text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_chosen_by_name_or_type() {
        for event in WebhookEvent::ALL {
            assert_eq!(WebhookEvent::parse(event.name()), Some(*event));
            assert_eq!(WebhookEvent::choose(event.name()).collect::<Vec<_>>(), [*event]);
        }
        let written: Vec<_> = WebhookEvent::choose("write").collect();
        assert_eq!(written, [WebhookEvent::FileCreated, WebhookEvent::FileUpdated]);
        assert_eq!(WebhookEvent::choose("bulk").count(), 0);
    }
}
