use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use svcfs_base::{Actor, ETag, Fault, TreePath, VersionId};
use svcfs_text::canvas::{Canvas, EMPTY_CANVAS, is_canvas_path};
use svcfs_work::Lane;

use super::edits::{self, AppliedEdits, CanvasOperation};
use super::layout::CanvasLayout;
use super::query::{self, CanvasFilter};
use super::{DEFAULT_ACTOR, check_path, edit, generate, parse, read, rearrange, write};
use crate::files::DeletedFile;
use crate::graph;
use crate::kernel::{
    FolderScope, Operation, OperationArea, OperationContext, OperationEntry, Route, default_true, page_head,
    version_for_agents,
};

/// The operations of this area.
pub const AREA: OperationArea = OperationArea {
    title: "Canvases",
    operations: &[
        OperationEntry::new::<ListCanvases>(),
        OperationEntry::new::<ReadCanvas>(),
        OperationEntry::new::<WriteCanvas>(),
        OperationEntry::new::<PatchCanvas>(),
        OperationEntry::new::<DeleteCanvas>(),
        OperationEntry::new::<QueryCanvas>(),
        OperationEntry::new::<ArrangeCanvas>(),
        OperationEntry::new::<GenerateCanvas>(),
    ],
};

/// List the canvases
///
/// A canvas is a drawing of nodes and edges: a JSON Canvas file whose name ends in `.canvas`, as
/// Obsidian writes it, or in `.canvas.json`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListCanvases {}

/// All canvases.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CanvasList {
    /// Their paths, in order
    pub canvases: Vec<TreePath>,
}

impl Operation for ListCanvases {
    const NAME: &'static str = "canvas_list";
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    const HTTP: &'static [Route] = &[Route::get("/canvases")];
    const TOOL: bool = true;
    type Output = CanvasList;
    fn run(self, cx: &OperationContext<'_>) -> Result<CanvasList, Fault> {
        let mut canvases = cx.index().asset_paths()?;
        canvases.retain(|path| is_canvas_path(path.as_str()) && cx.caller.permissions.covers(path));
        Ok(CanvasList { canvases })
    }
}

/// Read a canvas
///
/// Returns the JSON document as stored, and its ETag. Before you change the canvas, read it, and
/// pass the ETag as `if_match` (header `If-Match`) when you write it.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReadCanvas {
    /// Path of the canvas
    #[schemars(example = "plans/roadmap.canvas")]
    pub path: TreePath,
}

/// A canvas.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CanvasDocument {
    /// Normalised path
    pub path: TreePath,
    /// Hash of the stored content
    pub etag: ETag,
    /// The JSON document as stored
    pub content: String,
    #[serde(skip)]
    version: Option<VersionId>,
}

impl Operation for ReadCanvas {
    const NAME: &'static str = "canvas_read";
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::get("/canvas").text("content", "application/json").etag()];
    const TOOL: bool = true;
    const TEXT_ONLY: bool = true;
    type Output = CanvasDocument;
    fn run(self, cx: &OperationContext<'_>) -> Result<CanvasDocument, Fault> {
        let canvas = read(cx, &self.path)?;
        // Obsidian creates canvases without any text.
        let content = if canvas.text.trim().is_empty() { EMPTY_CANVAS.to_owned() } else { canvas.text };
        let version = version_for_agents(cx, &self.path, canvas.etag);
        Ok(CanvasDocument { path: self.path, etag: canvas.etag, content, version })
    }
    fn render_text(canvas: &CanvasDocument) -> Option<String> {
        Some(format!("{}\n\n{}", page_head(canvas.etag, canvas.version.as_ref()), canvas.content))
    }
}

/// Write a canvas, creating it if absent
///
/// Replaces the full document, which is stored as sent, with every unknown field. It must have the
/// arrays `nodes` and `edges`, which may be empty; every element needs an `id`, and an edge
/// `fromNode` and `toNode`. A node of type `file` names its page in `file`, from the root of the
/// tree; such a name counts as a link.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct WriteCanvas {
    /// Path of the canvas, which ends in `.canvas` or `.canvas.json`
    #[schemars(example = "plans/roadmap.canvas")]
    pub path: TreePath,
    /// The JSON document
    #[schemars(
        example = r#"{"nodes":[{"id":"a","type":"file","file":"index.md","x":0,"y":0,"width":250,"height":60}],"edges":[]}"#
    )]
    pub content: String,
    /// Author of the commit, unless the key or the header `X-Actor` names one
    #[serde(default)]
    pub actor: Option<Actor>,
}

/// A written canvas.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WrittenCanvas {
    /// Normalised path
    pub path: TreePath,
    /// Hash of the stored content
    pub etag: ETag,
}

impl Operation for WriteCanvas {
    const NAME: &'static str = "canvas_write";
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::put("/canvas").raw("content").etag()];
    const TOOL: bool = true;
    const CONDITIONAL: bool = true;
    type Output = WrittenCanvas;
    fn run(self, cx: &OperationContext<'_>) -> Result<WrittenCanvas, Fault> {
        check_path(&self.path)?;
        let checked = Canvas::parse(&self.content).and_then(|canvas| canvas.check());
        checked.map_err(|error| Fault::invalid("content", error))?;
        let caller = cx.named_caller(self.actor, DEFAULT_ACTOR);
        let etag = write(&caller, cx, &self.path, self.content)?;
        Ok(WrittenCanvas { path: self.path, etag })
    }
}

/// Change nodes and edges of a canvas
///
/// All operations are applied in order, or none. `update_…` sets the given members and leaves the
/// others; `remove_node` also removes the edges of the node. Bytes outside the changed nodes and
/// edges stay as they are. A missing canvas is created. If an operation cannot be applied, the
/// error (422) names its index: `op 2 (add_edge): …`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(example = json!({ "path": "plans/roadmap.canvas", "operations": [
    { "op": "add_node", "node": { "id": "a", "type": "text", "text": "Start", "x": 0, "y": 0, "width": 250, "height": 60 } },
    { "op": "update_node", "id": "a", "node": { "color": "4" } },
] }))]
pub struct PatchCanvas {
    /// Path of the canvas
    #[schemars(example = "plans/roadmap.canvas")]
    pub path: TreePath,
    /// The changes
    #[schemars(length(min = 1))]
    pub operations: Vec<CanvasOperation>,
}

/// The result of changing a canvas.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PatchedCanvas {
    /// Normalised path
    pub path: TreePath,
    /// Hash of the stored content
    pub etag: ETag,
    /// Number of changed nodes and edges
    pub applied: AppliedEdits,
}

impl Operation for PatchCanvas {
    const NAME: &'static str = "canvas_patch";
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::patch("/canvas").query(&["path"]).etag()];
    const CONDITIONAL: bool = true;
    type Output = PatchedCanvas;
    fn run(self, cx: &OperationContext<'_>) -> Result<PatchedCanvas, Fault> {
        check_path(&self.path)?;
        if self.operations.is_empty() {
            return Err(Fault::invalid("operations", "at least one operation is required"));
        }
        let caller = cx.named_caller(None, DEFAULT_ACTOR);
        let (etag, applied) = edit(cx, &caller, &self.path, |text| {
            let canvas = parse(&self.path, text.unwrap_or(EMPTY_CANVAS))?;
            edits::apply(&canvas, &self.operations)
        })?;
        Ok(PatchedCanvas { path: self.path, etag, applied })
    }
}

/// Delete a canvas
///
/// Older versions stay readable in the history.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct DeleteCanvas {
    /// Path of the canvas
    pub path: TreePath,
}

impl Operation for DeleteCanvas {
    const NAME: &'static str = "canvas_delete";
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::delete("/canvas")];
    const CONDITIONAL: bool = true;
    type Output = DeletedFile;
    fn run(self, cx: &OperationContext<'_>) -> Result<DeletedFile, Fault> {
        read(cx, &self.path)?;
        let caller = cx.named_caller(None, DEFAULT_ACTOR);
        let change = svcfs_base::Change::remove(self.path.clone()).with_precondition(caller.precondition.clone());
        cx.apply_as(&caller, change)?;
        Ok(DeletedFile { deleted: self.path })
    }
}

/// Find nodes and edges of a canvas
///
/// Returns the nodes that match all conditions, and the edges that match `q` or have a matching
/// node at an end. Without conditions everything is returned.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct QueryCanvas {
    /// Path of the canvas
    #[schemars(example = "plans/roadmap.canvas")]
    pub path: TreePath,
    /// Text in a node or in the label of an edge, in any case
    #[serde(default)]
    pub q: Option<String>,
    /// Type of nodes: `text`, `file`, `link` or `group`
    #[serde(default, rename = "type")]
    pub node_type: Option<String>,
    /// Id of a node: only this node and its neighbours, and only its edges
    #[serde(default)]
    pub connected: Option<String>,
    /// Return no edges
    #[serde(default)]
    pub nodes_only: bool,
    /// Return no nodes
    #[serde(default)]
    pub edges_only: bool,
}

/// Nodes and edges of a canvas.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CanvasElements {
    /// The matching nodes, in the order of the canvas
    pub nodes: Vec<Value>,
    /// The matching edges, in the order of the canvas
    pub edges: Vec<Value>,
}

impl Operation for QueryCanvas {
    const NAME: &'static str = "canvas_query";
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::get("/canvas/query")];
    type Output = CanvasElements;
    fn run(self, cx: &OperationContext<'_>) -> Result<CanvasElements, Fault> {
        if self.nodes_only && self.edges_only {
            return Err(Fault::invalid("edges_only", "not with `nodes_only`; use one of them"));
        }
        let document = read(cx, &self.path)?;
        let filter = CanvasFilter { text: self.q, node_type: self.node_type, connected: self.connected };
        let selected = query::select(&parse(&self.path, &document.text)?, &filter)?;
        if let Some(first) = selected.unreadable.first() {
            let count = selected.unreadable.len();
            cx.add_note(format!("{count} elements cannot be read and are left out, such as {first}"));
        }
        Ok(CanvasElements {
            nodes: if self.edges_only { Vec::new() } else { selected.nodes },
            edges: if self.nodes_only { Vec::new() } else { selected.edges },
        })
    }
}

/// Arrange the nodes of a canvas
///
/// Moves the existing nodes so that none overlap, and creates none. A group stays around its
/// content. Equal canvases get equal positions. At most 2,000 nodes and 20,000 edges.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ArrangeCanvas {
    /// Path of the canvas
    #[schemars(example = "plans/roadmap.canvas")]
    pub path: TreePath,
    /// How nodes are placed: `dot` in layers (default), `neato` and `fdp` by forces, `circo` on a
    /// circle; or as for generated canvases
    #[serde(default)]
    pub layout: CanvasLayout,
}

/// The size of an arranged or generated canvas.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ArrangedCanvas {
    /// Normalised path
    pub path: TreePath,
    /// Hash of the stored content
    pub etag: ETag,
    /// Number of nodes
    pub node_count: usize,
    /// Number of edges
    pub edge_count: usize,
}

impl Operation for ArrangeCanvas {
    const NAME: &'static str = "canvas_auto_layout";
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::post("/canvas/auto-layout").json_or_query(&["path", "layout"]).etag()];
    const LANE: Lane = Lane::Slow;
    const CONDITIONAL: bool = true;
    type Output = ArrangedCanvas;
    fn run(self, cx: &OperationContext<'_>) -> Result<ArrangedCanvas, Fault> {
        read(cx, &self.path)?;
        let caller = cx.named_caller(None, DEFAULT_ACTOR);
        let (etag, (node_count, edge_count)) = edit(cx, &caller, &self.path, |text| {
            let canvas = parse(&self.path, text.unwrap_or(EMPTY_CANVAS))?;
            let text = rearrange::rearrange(&canvas, self.layout)?;
            Ok((text, (canvas.nodes().len(), canvas.edges().len())))
        })?;
        Ok(ArrangedCanvas { path: self.path, etag, node_count, edge_count })
    }
}

/// Generate a canvas of the link graph
///
/// Draws the pages with links to each other and these links; pages without links are left out. A
/// canvas at `path` is replaced. Equal graphs give equal canvases. At most 2,000 pages and 20,000
/// links: choose a folder in a larger tree.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GenerateCanvas {
    /// Path of the canvas; `.canvas.json` is added to a path that is not one of a canvas
    #[serde(default = "default_path")]
    #[schemars(default = "default_path")]
    pub path: TreePath,
    /// How pages are placed
    #[serde(default)]
    pub layout: CanvasLayout,
    /// Draw only pages below this folder
    #[serde(default = "TreePath::root")]
    #[schemars(default = "root")]
    pub folder: TreePath,
    /// Give the pages of each community a colour
    #[serde(default = "default_true")]
    pub colorize: bool,
}

fn default_path() -> TreePath {
    TreePath::parse("canvas.canvas.json").unwrap_or_else(|_| TreePath::root())
}

fn root() -> &'static str {
    "/"
}

impl Operation for GenerateCanvas {
    const NAME: &'static str = "canvas_generate";
    const FOLDER_SCOPE: FolderScope = FolderScope::Folder("folder");
    const HTTP: &'static [Route] = &[Route::post("/canvas/generate").etag()];
    const LANE: Lane = Lane::Slow;
    const CONDITIONAL: bool = true;
    type Output = ArrangedCanvas;
    fn run(self, cx: &OperationContext<'_>) -> Result<ArrangedCanvas, Fault> {
        let path = match is_canvas_path(self.path.as_str()) || self.path.is_root() {
            true => self.path,
            false => TreePath::parse(&format!("{}.canvas.json", self.path))?,
        };
        check_path(&path)?;
        let analysis = graph::visible_graph(cx)?;
        let canvas = generate::generate(&analysis, &self.folder, self.layout, self.colorize)?;
        let caller = cx.named_caller(None, DEFAULT_ACTOR);
        let etag = write(&caller, cx, &path, canvas.text)?;
        Ok(ArrangedCanvas { path, etag, node_count: canvas.node_count, edge_count: canvas.edge_count })
    }
}
