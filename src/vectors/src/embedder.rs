//! What computes the vectors of texts.

use std::num::NonZeroUsize;
use std::sync::LazyLock;

use svcfs_base::Fault;

use crate::StaticModel;

/// Texts for which one thread is enough.
const MAX_STATIC_BATCH: NonZeroUsize = NonZeroUsize::new(256).unwrap();

/// The vector of a text. Length 1 for the embedded model; remote models may return any length, and
/// callers normalize.
pub type Vector = Vec<f32>;

/// What a text is used for. Some models compute different vectors for questions and for pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextKind {
    /// A part of a page.
    Page,
    /// The question of a search.
    Question,
}

/// Why texts have no vectors.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EmbedError {
    /// The service did not answer, or asked to wait: a later call may succeed.
    #[error("{message}")]
    Unavailable {
        /// The service, what failed, and what to do.
        message: String,
        /// The HTTP status; none without a response.
        status: Option<u16>,
        /// How long the service asked to wait.
        retry_after: Option<std::time::Duration>,
    },
    /// The service refused the request: the same call fails again until settings or texts change.
    #[error("{message}")]
    Refused {
        /// The service, what failed, and what to do.
        message: String,
        /// The HTTP status; none if the response itself is unusable.
        status: Option<u16>,
    },
}

impl EmbedError {
    /// A response that cannot be used.
    pub(crate) const fn unusable(message: String) -> Self {
        Self::Refused { message, status: None }
    }

    /// Whether one of the texts may be the reason. Otherwise it is the address or the key, or the
    /// service does not answer.
    #[must_use]
    pub const fn may_concern_text(&self) -> bool {
        match self {
            // Ollama answers 500 to a text whose vector is not a number.
            Self::Unavailable { status, .. } => matches!(status, Some(500)),
            Self::Refused { status, .. } => !matches!(status, Some(300..=399 | 401 | 403..=405)),
        }
    }
}

/// Computes vectors of texts. Calls block and may come from several threads.
pub trait Embedder: Send + Sync {
    /// Identifies the model: vectors of other names cannot be compared with these.
    fn model(&self) -> &str;

    /// Length of the vectors; none while a remote service has not answered and no setting says it.
    fn dimensions(&self) -> Option<NonZeroUsize>;

    /// Largest number of texts in one call of [`Self::embed`].
    fn max_batch(&self) -> NonZeroUsize;

    /// The vectors of texts, in their order; none for a text that has no meaning to the model (an
    /// empty text, no known word).
    ///
    /// # Errors
    /// [`EmbedError`], after the retries of the implementation; then no text has a vector.
    fn embed(&self, texts: &[&str], kind: TextKind) -> Result<Vec<Option<Vector>>, EmbedError>;
}

impl Embedder for StaticModel {
    fn model(&self) -> &str {
        self.name()
    }

    fn dimensions(&self) -> Option<NonZeroUsize> {
        NonZeroUsize::new(StaticModel::dimensions(self))
    }

    fn max_batch(&self) -> NonZeroUsize {
        MAX_STATIC_BATCH
    }

    fn embed(&self, texts: &[&str], _: TextKind) -> Result<Vec<Option<Vector>>, EmbedError> {
        Ok(texts.iter().map(|text| StaticModel::embed(self, text)).collect())
    }
}

/// The model that the program contains, loaded when the first text is embedded and shared by all
/// spaces.
pub struct EmbeddedModel;

static EMBEDDED: LazyLock<StaticModel> = LazyLock::new(StaticModel::embedded);

impl EmbeddedModel {
    /// As [`StaticModel::known_words`].
    #[must_use]
    pub fn known_words(text: &str) -> (usize, usize) {
        EMBEDDED.known_words(text)
    }
}

impl Embedder for EmbeddedModel {
    fn model(&self) -> &str {
        StaticModel::embedded_name()
    }

    fn dimensions(&self) -> Option<NonZeroUsize> {
        Some(StaticModel::EMBEDDED_DIMENSIONS)
    }

    fn max_batch(&self) -> NonZeroUsize {
        MAX_STATIC_BATCH
    }

    fn embed(&self, texts: &[&str], kind: TextKind) -> Result<Vec<Option<Vector>>, EmbedError> {
        Embedder::embed(&*EMBEDDED, texts, kind)
    }
}

impl From<EmbedError> for Fault {
    fn from(error: EmbedError) -> Self {
        Self::new(svcfs_base::Kind::Unavailable, error.to_string())
    }
}
