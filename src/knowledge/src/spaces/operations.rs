use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svcfs_base::{Caller, Fault, Kind, Scope, Timestamp};
use svcfs_config::templates::{TEMPLATES, Template};
use svcfs_config::{SpaceVisibility, edit};
use svcfs_vfs::EntryKind;

use super::{SpaceStatus, write_template};
use crate::files::to_timestamp;
use crate::kernel::{Operation, OperationArea, OperationContext, OperationEntry, Route, Space};

/// The operations of this area.
pub const AREA: OperationArea = OperationArea {
    title: "Spaces",
    operations: &[
        OperationEntry::new::<ListSpaces>(),
        OperationEntry::new::<GetSpace>(),
        OperationEntry::new::<ListInitTemplates>(),
        OperationEntry::new::<CreateSpace>(),
        OperationEntry::new::<DeleteSpace>(),
        OperationEntry::new::<GetSpaceInfo>(),
        OperationEntry::new::<SetSpaceVisibility>(),
    ],
};

/// A space.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpaceRecord {
    /// Name of the space
    pub name: String,
    /// Its root directory on the server
    pub root: String,
    /// Number of files, without hidden ones (names that begin with a dot)
    pub file_count: usize,
    /// Total size of these files in bytes
    pub size_bytes: u64,
    /// Last modification of any of these files; absent without files
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<Timestamp>,
    /// Why the space is not available; absent if it is
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl SpaceRecord {
    fn from_status(status: &SpaceStatus, cx: &OperationContext<'_>) -> Result<Self, Fault> {
        match status {
            SpaceStatus::Open(space) => Self::from_space(space, cx.caller),
            SpaceStatus::Failed(name, root, why) => Ok(Self {
                name: name.clone(),
                root: root.display().to_string(),
                file_count: 0,
                size_bytes: 0,
                last_modified: None,
                error: Some(why.to_string()),
            }),
        }
    }

    fn from_space(space: &Space, caller: &Caller) -> Result<Self, Fault> {
        let files = space.vfs.walk(caller.protocol, &svcfs_base::TreePath::root())?;
        let lists = |path| space.vfs.hidden_files().lists(path);
        let visible = files.iter().filter(|file| lists(&file.path) && file.attributes.kind == EntryKind::File);
        let (mut file_count, mut size_bytes, mut newest) = (0, 0, None);
        for file in visible {
            file_count += 1;
            size_bytes += file.attributes.size;
            newest = newest.max(Some(file.attributes.modified));
        }
        Ok(Self {
            name: space.name.clone(),
            root: space.vfs.root().display().to_string(),
            file_count,
            size_bytes,
            last_modified: newest.map(to_timestamp),
            error: None,
        })
    }
}

/// List the spaces of this server
///
/// Returns name, root, number and size of files of each space. The first one serves requests that
/// name no space.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListSpaces {}

/// All spaces.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SpaceList {
    /// The spaces; the primary one first
    pub spaces: Vec<SpaceRecord>,
}

impl Operation for ListSpaces {
    const NAME: &'static str = "spaces";
    const HTTP: &'static [Route] = &[Route::get("/api/spaces").at_root()];
    const LANE: svcfs_work::Lane = svcfs_work::Lane::Slow;
    const ADMIN: bool = true;
    type Output = SpaceList;
    fn run(self, cx: &OperationContext<'_>) -> Result<SpaceList, Fault> {
        let spaces = cx
            .spaces()
            .list_all()
            .iter()
            .map(|status| SpaceRecord::from_status(status, cx))
            .collect::<Result<_, _>>()?;
        Ok(SpaceList { spaces })
    }
}

/// Get information about one space
///
/// Returns its root, number and size of files, or the reason why it is not available.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GetSpace {
    /// Name of the space
    pub name: String,
}

impl Operation for GetSpace {
    const NAME: &'static str = "get_space";
    const HTTP: &'static [Route] = &[Route::get("/api/spaces/{name}").at_root()];
    const LANE: svcfs_work::Lane = svcfs_work::Lane::Slow;
    const ADMIN: bool = true;
    type Output = SpaceRecord;
    fn run(self, cx: &OperationContext<'_>) -> Result<SpaceRecord, Fault> {
        SpaceRecord::from_status(&cx.spaces().status(&self.name)?, cx)
    }
}

/// List the templates for new spaces
///
/// Use an `id` of the answer as `template` of `create_space`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListInitTemplates {}

/// A template for new spaces.
#[derive(Debug, Serialize, JsonSchema)]
pub struct InitTemplate {
    /// Id for `POST /api/spaces`
    pub id: &'static str,
    /// Name for display
    pub name: &'static str,
    /// Purpose of the template
    pub description: &'static str,
}

impl Operation for ListInitTemplates {
    const NAME: &'static str = "init_templates";
    const HTTP: &'static [Route] = &[Route::get("/api/init-templates").at_root()];
    type Output = Vec<InitTemplate>;
    fn run(self, _: &OperationContext<'_>) -> Result<Self::Output, Fault> {
        let to_output = |&Template { id, name, description, .. }: &Template| InitTemplate { id, name, description };
        Ok(TEMPLATES.iter().map(to_output).collect())
    }
}

/// Create a space
///
/// A missing directory is created; existing files in it are adopted. The space is saved and opened
/// again after a restart. Returns the new space.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct CreateSpace {
    /// Name of the space: letters, digits, `-` and `_`, and not the name of an endpoint
    #[schemars(regex(pattern = "^[A-Za-z0-9_-]{1,64}$"))]
    pub name: String,
    /// Root directory on the server, below one of `server.space_parents`; default: the name, below
    /// the first of these
    #[serde(default)]
    #[schemars(regex(
        pattern = r"^/*([^/.\u0000-\u001f\u007f-\u009f][^/\u0000-\u001f\u007f-\u009f]*|\.[^/.\u0000-\u001f\u007f-\u009f][^/\u0000-\u001f\u007f-\u009f]*|\.\.[^/\u0000-\u001f\u007f-\u009f]+)(/+([^/.\u0000-\u001f\u007f-\u009f][^/\u0000-\u001f\u007f-\u009f]*|\.[^/.\u0000-\u001f\u007f-\u009f][^/\u0000-\u001f\u007f-\u009f]*|\.\.[^/\u0000-\u001f\u007f-\u009f]+))*/*$"
    ))]
    pub root: Option<String>,
    /// Template to start with, from `/api/init-templates`; default: only a settings file
    #[serde(default)]
    #[schemars(extend("enum" = ["knowledge", "wiki", "runbook", "research", "tasks", "blank", null]))]
    pub template: Option<String>,
}

impl Operation for CreateSpace {
    const NAME: &'static str = "create_space";
    const HTTP: &'static [Route] = &[Route::post("/api/spaces").at_root().created()];
    const LANE: svcfs_work::Lane = svcfs_work::Lane::Slow;
    const ADMIN: bool = true;
    type Output = SpaceRecord;
    fn run(self, cx: &OperationContext<'_>) -> Result<SpaceRecord, Fault> {
        let template = match self.template.as_deref() {
            None => Template::find("blank"),
            Some(id) => {
                let status = || TEMPLATES.iter().map(|template| template.id).collect::<Vec<_>>().join(", ");
                let unknown = || Fault::invalid("template", format_args!("unknown template; use one of: {}", status()));
                Some(Template::find(id).ok_or_else(unknown)?)
            }
        };
        // The server writes the settings, whatever the caller's permissions.
        let caller = cx.caller.as_server();
        let install = |space: &Space| match template {
            Some(template) => write_template(space, template, &caller).map(drop),
            None => Ok(()),
        };
        let space = cx.spaces().create((&self.name, self.root.as_deref()), install)?;
        SpaceRecord::from_space(&space, cx.caller)
    }
}

/// Remove a space from the server
///
/// Its files, history and settings stay on disk.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct DeleteSpace {
    /// Name of the space
    pub name: String,
}

/// The result of removing a space.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DeletedSpace {
    /// Name of the removed space
    pub deleted: String,
}

impl Operation for DeleteSpace {
    const NAME: &'static str = "delete_space";
    const HTTP: &'static [Route] = &[Route::delete("/api/spaces/{name}").at_root()];
    const LANE: svcfs_work::Lane = svcfs_work::Lane::Slow;
    const ADMIN: bool = true;
    type Output = DeletedSpace;
    fn run(self, cx: &OperationContext<'_>) -> Result<DeletedSpace, Fault> {
        cx.spaces().remove(&self.name)?;
        Ok(DeletedSpace { deleted: self.name })
    }
}

/// Get the visibility and the root of this space
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GetSpaceInfo {}

/// Visibility and root of a space.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SpaceDetails {
    /// Who may read it without credentials
    pub visibility: SpaceVisibility,
    /// Root directory on the server; only for administrators
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
}

impl Operation for GetSpaceInfo {
    const NAME: &'static str = "space_info";
    const HTTP: &'static [Route] = &[Route::get("/space/info")];
    type Output = SpaceDetails;
    fn run(self, cx: &OperationContext<'_>) -> Result<SpaceDetails, Fault> {
        let root = || cx.space.vfs.root().display().to_string();
        let is_admin = cx.caller.permissions.scope >= Scope::Admin;
        Ok(SpaceDetails { visibility: cx.space.visibility(), root: is_admin.then(root) })
    }
}

/// Set who may read this space without credentials
///
/// The setting is saved in the settings file of the space. Returns the new visibility.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SetSpaceVisibility {
    /// `private`: no one. `unlisted`: anyone who knows the path of a page. `public`: anyone
    pub visibility: SpaceVisibility,
}

/// The new visibility of a space.
#[derive(Debug, Serialize, JsonSchema)]
pub struct VisibilityResponse {
    /// Who may read it without credentials
    pub visibility: SpaceVisibility,
}

impl Operation for SetSpaceVisibility {
    const NAME: &'static str = "space_visibility";
    const HTTP: &'static [Route] = &[Route::put("/space/visibility")];
    const ADMIN: bool = true;
    type Output = VisibilityResponse;
    fn run(self, cx: &OperationContext<'_>) -> Result<VisibilityResponse, Fault> {
        let Self { visibility } = self;
        if cx.settings().visibility_is_fixed {
            let to_output = format!(
                "the visibility of `{}` is set in the server's settings (`[[spaces]]`, `visibility`); change it there",
                cx.space.name
            );
            return Err(Fault::new(Kind::Conflict, to_output));
        }
        super::change_settings(cx, |text| edit::set_visibility(text, visibility))?;
        cx.space.set_visibility(visibility);
        Ok(VisibilityResponse { visibility })
    }
}
