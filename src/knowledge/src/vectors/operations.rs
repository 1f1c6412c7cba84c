use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svcfs_base::{Fault, Kind, Limit, TreePath};

use super::indexer::REFUSED_RETRY_INTERVAL;
use super::similar::{current_chunks, similar_pages, snippet};
use super::{PageVectors, SimilarPage};
use crate::kernel::{FolderScope, Operation, OperationArea, OperationContext, OperationEntry, Route, require_path};

/// The operations of this area.
pub const AREA: OperationArea = OperationArea {
    title: "Search by meaning",
    operations: &[OperationEntry::new::<SuggestLinks>(), OperationEntry::new::<GetEmbeddings>()],
};

/// Suggest pages to link to: similar meaning, not linked yet
///
/// Use it after you wrote a page, to connect it with others. The page and the others are compared
/// part by part; the best pair of parts counts. Pages that are linked in either direction are left
/// out. Needs `search.vector.enabled`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SuggestLinks {
    /// Path of the page
    #[schemars(example = "index.md")]
    pub path: TreePath,
    /// Maximum number of pages
    #[serde(default)]
    pub limit: Limit<5, 100>,
}

/// Pages to link to.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LinkSuggestions {
    /// The pages, the most similar first
    pub suggestions: Vec<LinkSuggestion>,
}

/// A page to link to.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LinkSuggestion {
    /// Path of the page
    pub target: TreePath,
    /// Similarity of meaning, at most 1
    pub similarity: f64,
    /// Its most similar part, without markup
    pub snippet: String,
}

impl Operation for SuggestLinks {
    const NAME: &'static str = "suggestions";
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    const HTTP: &'static [Route] = &[Route::get("/suggestions")];
    const TOOL: bool = true;
    const AGENT_DEFAULTS: &'static [(&'static str, u32)] = &[("limit", 10)];
    type Output = LinkSuggestions;
    fn run(self, cx: &OperationContext<'_>) -> Result<LinkSuggestions, Fault> {
        require_path("path", &self.path)?;
        let vectors = PageVectors::of(cx)?;
        let (index, folder) = (cx.index(), cx.caller.permissions.visible_root());
        let similar = similar_pages(cx.space, index, &self.path, (&folder, self.limit.get()))?;
        let Some(similar) = similar else { return Err(without_vectors(cx, vectors, &self.path)?) };
        let suggest = |page: SimilarPage| {
            let snippet = snippet(cx.space, &vectors.index, &page.chunk)?;
            Ok(LinkSuggestion { target: page.path, similarity: rounded(page.similarity), snippet })
        };
        Ok(LinkSuggestions { suggestions: similar.into_iter().map(suggest).collect::<Result<_, Fault>>()? })
    }
}

/// Get the vectors of a page
///
/// Each part of a page (for the embedded model a paragraph or the items of a list; title and
/// headings are a part) has a vector. Use it to compare pages outside of svcfs. Needs
/// `search.vector.enabled`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GetEmbeddings {
    /// Path of the page
    #[schemars(example = "index.md")]
    pub path: TreePath,
}

/// The vectors of a page.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PageEmbeddings {
    /// Path of the page
    pub path: TreePath,
    /// Name of the model
    pub model: String,
    /// Length of the vectors
    pub dimensions: usize,
    /// The parts of the page
    pub chunks: Vec<ChunkEmbedding>,
}

/// A part of a page with its vector.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ChunkEmbedding {
    /// Position among the parts of the page, from 0
    pub chunk_idx: u32,
    /// The text that was embedded, without markup
    pub text: String,
    /// Anchor of the heading above it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heading: Option<String>,
    /// First line in the page
    pub line_start: u32,
    /// Last line in the page
    pub line_end: u32,
    /// The vector, of length 1
    pub vector: Vec<f64>,
}

impl Operation for GetEmbeddings {
    const NAME: &'static str = "embeddings";
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::get("/embeddings")];
    const TOOL: bool = true;
    type Output = PageEmbeddings;
    fn run(self, cx: &OperationContext<'_>) -> Result<PageEmbeddings, Fault> {
        require_path("path", &self.path)?;
        let vectors = PageVectors::of(cx)?;
        let embedded = vectors.index.page_chunks(&self.path)?;
        let Some(embedded) = embedded else { return Err(without_vectors(cx, vectors, &self.path)?) };
        let Some((etag, mut texts)) = current_chunks(cx.space, &vectors.index, &self.path)? else {
            return Err(without_vectors(cx, vectors, &self.path)?);
        };
        if etag != embedded.etag {
            return Err(pending(&self.path, vectors));
        }
        let to_chunk = |chunk: svcfs_vectors::EmbeddedChunk| {
            let text = texts.get_mut(chunk.ord as usize).map(|chunk| std::mem::take(&mut chunk.text));
            let (text, (line_start, line_end)) = (text.unwrap_or_default(), chunk.lines);
            let vector = chunk.vector.into_iter().map(rounded).collect();
            ChunkEmbedding { chunk_idx: chunk.ord, text, heading: chunk.heading, line_start, line_end, vector }
        };
        let chunks: Vec<ChunkEmbedding> = embedded.chunks.into_iter().map(to_chunk).collect();
        let dimensions = chunks.first().map_or(0, |chunk| chunk.vector.len());
        Ok(PageEmbeddings { path: self.path, model: vectors.index.answering_model(), dimensions, chunks })
    }
}

/// A number as JSON shows it: without the digits that 32 bits do not have.
fn rounded(value: f32) -> f64 {
    (f64::from(value) * 1e6).round() / 1e6
}

/// Why a page has no vectors: it does not exist, or it is not embedded yet.
fn without_vectors(cx: &OperationContext<'_>, vectors: &PageVectors, path: &TreePath) -> Result<Fault, Fault> {
    Ok(match cx.index().page(path)? {
        Some(_) => pending(path, vectors),
        None => Fault::new(Kind::NotFound, format!("no embeddings found for path: {path}")).with_missing_path(path),
    })
}

fn pending(path: &TreePath, vectors: &PageVectors) -> Fault {
    if vectors.refused.lock().contains_key(path) {
        let message = format!("the embedder refuses the text of `{path}`; `svcfs status` shows the reason");
        return Fault::unavailable(message).with_detail("retry_after", REFUSED_RETRY_INTERVAL.as_secs());
    }
    let reason = vectors.index.problem().map(|problem| format!(": {}", problem.summary)).unwrap_or_default();
    Fault::unavailable(format!("`{path}` is not embedded yet{reason}; try again later")).with_detail("retry_after", 2)
}
