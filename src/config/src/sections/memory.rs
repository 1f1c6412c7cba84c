//! `[memory]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svcfs_base::TreePath;

/// Memory of agents, and the papers that they cite.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MemoryConfig {
    /// Folder of episodes: pages in it are remembered events unless their `memory_kind` says
    /// otherwise.
    pub episodes_path_prefix: String,
    /// Where `cite` asks for the metadata of a DOI, as CSL-JSON; empty to ask nowhere.
    pub doi_url: String,
    /// Where `cite` asks for the metadata of a paper on arXiv, as Atom; empty to ask nowhere.
    pub arxiv_url: String,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        Self {
            episodes_path_prefix: "episodes/".to_owned(),
            doi_url: "https://doi.org".to_owned(),
            arxiv_url: "https://export.arxiv.org/api/query".to_owned(),
        }
    }
}

impl MemoryConfig {
    /// Validates the section; `report` takes a key and a message.
    pub(crate) fn resolve(self, report: &mut impl FnMut(&str, &str)) -> Option<MemorySettings> {
        let folder = TreePath::parse(&self.episodes_path_prefix).ok().filter(|path| !path.is_root());
        if folder.is_none() {
            report("memory.episodes_path_prefix", "must be a folder of the tree, such as `episodes/`");
        }
        let mut address = |key: &str, url: &str| {
            let url = url.trim().trim_end_matches('/');
            if !url.is_empty() && !url.starts_with("https://") && !url.starts_with("http://") {
                report(key, "must be an address that begins with `https://` or `http://`, or empty");
            }
            (!url.is_empty()).then(|| url.to_owned())
        };
        let (doi_url, arxiv_url) =
            (address("memory.doi_url", &self.doi_url), address("memory.arxiv_url", &self.arxiv_url));
        Some(MemorySettings { episodes_path_prefix: folder?, doi_url, arxiv_url })
    }
}

/// Validated settings of the memory of agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemorySettings {
    /// Folder of episodes; never the root.
    pub episodes_path_prefix: TreePath,
    /// Registry of DOIs; none if it is not asked.
    pub doi_url: Option<String>,
    /// Registry of papers on arXiv; none if it is not asked.
    pub arxiv_url: Option<String>,
}
