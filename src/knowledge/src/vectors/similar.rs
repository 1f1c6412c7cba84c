//! Pages of similar meaning that are not linked yet.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use svcfs_base::{Fault, Protocol, TreePath};
use svcfs_index::Index;
use svcfs_vectors::{Chunk, EmbeddedChunk, NearChunk, PageChunks, VectorFilter, VectorIndex, VectorIndexError, chunks};

use super::PageVectors;
use crate::kernel::Space;

/// Chunks of a page that are compared: the longest say most.
const MAX_COMPARED_CHUNKS: usize = 8;

/// Chunks that are found for each of them, besides those of the page itself and of linked pages.
const MIN_NEAR_CHUNKS: usize = 20;

/// Bytes of a snippet.
const MAX_SNIPPET_BYTES: usize = 240;

/// A page of similar meaning.
#[derive(Debug, Clone, PartialEq)]
pub struct SimilarPage {
    /// Its path.
    pub path: TreePath,
    /// Cosine of its best chunk and that of the page: at most 1.
    pub similarity: f32,
    /// Its best chunk.
    pub chunk: NearChunk,
}

/// The pages below a folder that are most similar to a page, without those that it links to or that
/// link to it; the most similar first. None if the page is not embedded.
///
/// # Errors
/// Those of the vectors and of the index.
pub fn similar_pages(
    space: &Space,
    index: &Index,
    path: &TreePath,
    (folder, limit): (&TreePath, usize),
) -> Result<Option<Vec<SimilarPage>>, Fault> {
    let vectors = &PageVectors::of_space(space)?.index;
    let Some(page) = vectors.page_chunks(path)? else { return Ok(None) };
    let links = index.links_out(path)?.into_iter().filter_map(|link| link.resolved_path);
    let linked: HashSet<TreePath> = links.chain(index.linking_pages(path)?).chain([path.clone()]).collect();
    let filter = VectorFilter { folder: Some(folder.clone()) };
    let mut best: BTreeMap<TreePath, NearChunk> = BTreeMap::new();
    for chunk in longest_chunks(space, vectors, path, page)? {
        let wanted = (3 * limit).max(MIN_NEAR_CHUNKS) + MAX_COMPARED_CHUNKS * linked.len().min(100);
        for near in vectors.search_vector(&chunk.vector, wanted, &filter).map_err(without_details)? {
            let is_better = best.get(&near.path).is_none_or(|known| known.similarity < near.similarity);
            if is_better && !linked.contains(&near.path) {
                best.insert(near.path.clone(), near);
            }
        }
    }
    // A page that was removed or hidden a moment ago may still have vectors.
    let paths: Vec<TreePath> = best.keys().cloned().collect();
    let indexed = index.titles(&paths)?;
    best.retain(|path, _| indexed.contains_key(path));
    let similar = best.into_iter().map(|(path, chunk)| SimilarPage { path, similarity: chunk.similarity, chunk });
    let mut similar: Vec<SimilarPage> = similar.collect();
    similar.sort_by(|a, b| b.similarity.total_cmp(&a.similarity));
    similar.truncate(limit);
    Ok(Some(similar))
}

/// A failed search as readers see it; the log has what the service answered.
fn without_details(error: VectorIndexError) -> Fault {
    Fault::unavailable(format!("search by meaning is not available now: {}", error.summary()))
        .with_context(error.to_string())
        .with_source(error)
}

/// The longest chunks of a page; the first ones if its text changed meanwhile.
fn longest_chunks(
    space: &Space,
    vectors: &VectorIndex,
    path: &TreePath,
    page: PageChunks,
) -> Result<Vec<EmbeddedChunk>, Fault> {
    let PageChunks { etag, chunks: mut embedded } = page;
    let current = current_chunks(space, vectors, path)?.filter(|(current, _)| *current == etag);
    if let Some((_, texts)) = current {
        let length = |chunk: &EmbeddedChunk| texts.get(chunk.ord as usize).map_or(0, |chunk| chunk.text.len());
        embedded.sort_by_key(|chunk| Reverse(length(chunk)));
    }
    embedded.truncate(MAX_COMPARED_CHUNKS);
    Ok(embedded)
}

/// The hash of the present text of a page, and its chunks; none if it does not exist.
pub(super) fn current_chunks(
    space: &Space,
    vectors: &VectorIndex,
    path: &TreePath,
) -> Result<Option<(svcfs_base::ETag, Vec<Chunk>)>, Fault> {
    let file = match space.vfs.read(Protocol::Internal, path) {
        Ok(file) => file,
        Err(fault) if fault.kind().http() < 500 => return Ok(None),
        Err(fault) => return Err(fault),
    };
    let text = String::from_utf8_lossy(&file.content);
    Ok(Some((file.etag, chunks(path.as_str(), &text, vectors.answering_rules()))))
}

/// The text of a chunk, shortened; empty if the page changed meanwhile.
pub(crate) fn snippet(space: &Space, vectors: &VectorIndex, chunk: &NearChunk) -> Result<String, Fault> {
    let current = current_chunks(space, vectors, &chunk.path)?;
    let text = current.and_then(|(_, mut chunks)| {
        let ord = chunk.ord as usize;
        (ord < chunks.len()).then(|| chunks.swap_remove(ord).text)
    });
    let text = text.unwrap_or_default();
    Ok(match text.len() > MAX_SNIPPET_BYTES {
        true => format!("{}…", text[..text.floor_char_boundary(MAX_SNIPPET_BYTES)].trim_end()),
        false => text,
    })
}
