use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svcfs_base::{Caller, Change, ChangeSet, ETag, Fault, Kind, Limit, Protocol, TreePath};
use svcfs_work::Lane;

use super::compiled::CompiledSchema;
use super::report::{violating_pages, violations_of_text};
use super::{SchemaViolation, schema_path};
use crate::files;
use crate::kernel::{FolderScope, Operation, OperationArea, OperationContext, OperationEntry, Route};

/// The operations of this area.
pub const AREA: OperationArea = OperationArea {
    title: "Schemas",
    operations: &[
        OperationEntry::new::<ListSchemas>(),
        OperationEntry::new::<GetSchema>(),
        OperationEntry::new::<SaveSchema>(),
        OperationEntry::new::<DeleteSchema>(),
    ],
};

const TYPE_NAME: &str = "^[A-Za-z0-9_-]+$";

/// List the types of pages that have a schema
///
/// Returns their names, sorted. The schema of a type is the file `.svc/schemas/<type>.json`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListSchemas {}

impl Operation for ListSchemas {
    const NAME: &'static str = "schemas_list";
    const HTTP: &'static [Route] = &[Route::get("/schemas")];
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    type Output = Vec<String>;
    fn run(self, cx: &OperationContext<'_>) -> Result<Vec<String>, Fault> {
        cx.space.schemas.names()
    }
}

/// Read the schema of a type, or list the pages that violate it
///
/// Returns the JSON Schema that the frontmatter of each page with this `type` must fit. With
/// `violations`, returns the pages that do not fit it, and why.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GetSchema {
    /// Type of the pages, such as `task`
    #[serde(rename = "type")]
    #[schemars(regex(pattern = TYPE_NAME))]
    pub name: String,
    /// List the pages that violate the schema
    #[serde(default)]
    pub violations: bool,
    /// Maximum number of pages, with `violations`
    #[serde(default)]
    pub limit: Limit<100, 1000>,
    /// Number of pages to skip, with `violations`
    #[serde(default)]
    pub offset: u32,
}

/// A schema, or the pages that violate it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SchemaResponse {
    /// The schema as stored
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// The pages that violate it, in path order
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages: Option<Vec<ViolatingPage>>,
    /// Number of all pages that violate it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<usize>,
}

/// A page that violates the schema of its type.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ViolatingPage {
    /// Path of the page
    pub path: TreePath,
    /// What is wrong, by line
    pub violations: Vec<SchemaViolation>,
}

impl Operation for GetSchema {
    const NAME: &'static str = "schemas_get";
    const HTTP: &'static [Route] =
        &[Route::get("/schemas/{type}").text("schema", "application/schema+json").json_fallback("pages")];
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    const LANE: Lane = Lane::Slow;
    type Output = SchemaResponse;
    fn run(self, cx: &OperationContext<'_>) -> Result<SchemaResponse, Fault> {
        let path = schema_path(&self.name)?;
        let missing = || Fault::not_found(format!("schema not found: {}", self.name));
        if !self.violations {
            let file = match cx.space.vfs.read(Protocol::Internal, &path) {
                Err(fault) if matches!(fault.kind(), Kind::NotFound | Kind::NotDirectory) => return Err(missing()),
                file => file?,
            };
            if let Some(Err(fault)) = cx.space.schemas.schema(&self.name)?.map(|schema| schema.check()) {
                cx.add_note(format!("{}; pages of the type are not checked", fault.message()));
            }
            let schema = String::from_utf8_lossy(&file.content).into_owned();
            return Ok(SchemaResponse { schema: Some(schema), pages: None, total: None });
        }
        let schema = cx.space.schemas.schema(&self.name)?.ok_or_else(missing)?;
        schema.check()?;
        let paths = all_violating(cx, &schema)?;
        let listed = paths.iter().skip(self.offset as usize).take(self.limit.get());
        let page = |path: &TreePath| {
            // It may have been removed or corrected since.
            let file = files::read_file(cx, path).ok()?;
            let violations = violations_of_text(&schema, &String::from_utf8_lossy(&file.content)).ok()?;
            (!violations.is_empty()).then(|| ViolatingPage { path: path.clone(), violations })
        };
        let pages: Vec<ViolatingPage> = listed.filter_map(page).collect();
        cx.set_total(paths.len(), pages.len());
        Ok(SchemaResponse { schema: None, pages: Some(pages), total: Some(paths.len()) })
    }
}

/// The pages that violate a schema and that the caller may read.
fn all_violating(cx: &OperationContext<'_>, schema: &CompiledSchema) -> Result<Vec<TreePath>, Fault> {
    cx.index();
    violating_pages(cx.space, schema, |path| cx.caller.permissions.covers(path))
}

/// Save the schema of a type, replacing the one it has
///
/// The schema is JSON Schema 2020-12, or draft-07 if its `$schema` says so. It applies from the
/// next write on. References may lead to parts of the schema (`#/…`) and to other schemas
/// (`<type>.json`) only; one that others refer to must stay usable for them unless `force` is set.
/// Returns the number of pages that violate it.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SaveSchema {
    /// Type of the pages: letters, digits, `_` and `-`
    #[serde(rename = "type")]
    #[schemars(regex(pattern = TYPE_NAME))]
    pub name: String,
    /// JSON Schema of the frontmatter, at most 256 KiB
    pub schema: String,
    /// Also if schemas that refer to it cannot be used any more
    #[serde(default)]
    pub force: bool,
}

/// The result of saving a schema.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SavedSchema {
    /// Always `ok`
    pub status: &'static str,
    /// Type of the pages
    #[serde(rename = "type")]
    pub name: String,
    /// Number of pages that violate the schema
    pub violations: usize,
    /// Entity tag of the new version
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<ETag>,
}

impl Operation for SaveSchema {
    const NAME: &'static str = "schemas_save";
    const HTTP: &'static [Route] = &[Route::put("/schemas/{type}").raw("schema").query(&["force"]).etag()];
    const CONDITIONAL: bool = true;
    const LANE: Lane = Lane::Slow;
    type Output = SavedSchema;
    fn run(self, cx: &OperationContext<'_>) -> Result<SavedSchema, Fault> {
        let path = schema_path(&self.name)?;
        let change = Change::put(path, self.schema).with_precondition(cx.caller.precondition.clone());
        // The gate checks the schema, as through every protocol.
        let caller = Caller { is_forced: self.force, ..cx.caller.clone() };
        let set = ChangeSet::from(change).with_message(format!("schema: {}", self.name));
        let applied = cx.apply_as(&caller, set)?;
        let etag = applied.files.first().and_then(|file| file.etag);
        let schema = cx.space.schemas.schema(&self.name)?;
        let violations = schema.map_or(Ok(0), |schema| all_violating(cx, &schema).map(|pages| pages.len()))?;
        Ok(SavedSchema { status: "ok", name: self.name, violations, etag })
    }
}

/// Delete the schema of a type
///
/// Pages of the type are no longer checked. One that other schemas refer to stays unless `force` is
/// set. Older versions stay in the history.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct DeleteSchema {
    /// Type of the pages
    #[serde(rename = "type")]
    #[schemars(regex(pattern = TYPE_NAME))]
    pub name: String,
    /// Also if schemas that refer to it cannot be used any more
    #[serde(default)]
    pub force: bool,
}

/// The result of deleting a schema.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DeletedSchema {
    /// Always `deleted`
    pub status: &'static str,
}

impl Operation for DeleteSchema {
    const NAME: &'static str = "schemas_delete";
    const HTTP: &'static [Route] = &[Route::delete("/schemas/{type}")];
    type Output = DeletedSchema;
    fn run(self, cx: &OperationContext<'_>) -> Result<DeletedSchema, Fault> {
        let change = Change::remove(schema_path(&self.name)?);
        let caller = Caller { is_forced: self.force, ..cx.caller.clone() };
        match cx.apply_as(&caller, ChangeSet::from(change).with_message(format!("schema: delete {}", self.name))) {
            Err(fault) if fault.kind() == Kind::NotFound => {
                Err(Fault::not_found(format!("schema not found: {}", self.name)))
            }
            outcome => outcome.map(|_| DeletedSchema { status: "deleted" }),
        }
    }
}
