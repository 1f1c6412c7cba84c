//! The operations over spaces (contract 4.20, and `/space/…` of 4.17).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svcfs_base::{Caller, Fault, Kind, Scope, Timestamp};
use svcfs_config::templates::{TEMPLATES, Template};
use svcfs_config::{SpaceVisibility, edit};
use svcfs_vfs::EntryKind;

use super::{SpaceStatus, write_template};
use crate::files::to_timestamp;
use crate::kernel::{Operation, OperationArea, OperationContext, OperationEntry, Route, Space};

/// What callers may do with spaces.
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

/// A space, as it is told.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpaceRecord {
    /// Its name
    pub name: String,
    /// Its directory on the server
    pub root: String,
    /// How many files are in it; what is below a name with a dot is not counted
    pub file_count: usize,
    /// Their lengths together, in bytes
    pub size_bytes: u64,
    /// When one of them was changed last; absent without files
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<Timestamp>,
    /// Why it does not answer; absent when it does
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl SpaceRecord {
    fn of(known: &SpaceStatus, cx: &OperationContext<'_>) -> Result<Self, Fault> {
        match known {
            SpaceStatus::Open(space) => Self::of_open(space, cx.caller),
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

    fn of_open(space: &Space, caller: &Caller) -> Result<Self, Fault> {
        let files = space.vfs.walk(caller.protocol, &svcfs_base::TreePath::root())?;
        let counted = files.iter().filter(|file| !file.path.is_hidden() && file.attributes.kind == EntryKind::File);
        let (mut file_count, mut size_bytes, mut newest) = (0, 0, None);
        for file in counted {
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
/// The first one answers when a request names none.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListSpaces {}

/// Every space.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SpaceList {
    /// In the order they were registered
    pub spaces: Vec<SpaceRecord>,
}

impl Operation for ListSpaces {
    const NAME: &'static str = "spaces";
    const HTTP: &'static [Route] = &[Route::get("/api/spaces").at_root()];
    const LANE: svcfs_work::Lane = svcfs_work::Lane::Slow;
    const ADMIN: bool = true;
    type Output = SpaceList;
    fn run(self, cx: &OperationContext<'_>) -> Result<SpaceList, Fault> {
        let spaces = cx.spaces().list_all().iter().map(|known| SpaceRecord::of(known, cx)).collect::<Result<_, _>>()?;
        Ok(SpaceList { spaces })
    }
}

/// Read about one space
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GetSpace {
    /// Which space
    pub name: String,
}

impl Operation for GetSpace {
    const NAME: &'static str = "get_space";
    const HTTP: &'static [Route] = &[Route::get("/api/spaces/{name}").at_root()];
    const LANE: svcfs_work::Lane = svcfs_work::Lane::Slow;
    const ADMIN: bool = true;
    type Output = SpaceRecord;
    fn run(self, cx: &OperationContext<'_>) -> Result<SpaceRecord, Fault> {
        SpaceRecord::of(&cx.spaces().status(&self.name)?, cx)
    }
}

/// List what a new space can begin with
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListInitTemplates {}

/// A way to begin.
#[derive(Debug, Serialize, JsonSchema)]
pub struct InitTemplate {
    /// What `POST /api/spaces` calls it
    pub id: &'static str,
    /// What people call it
    pub name: &'static str,
    /// What it is for
    pub description: &'static str,
}

impl Operation for ListInitTemplates {
    const NAME: &'static str = "init_templates";
    const HTTP: &'static [Route] = &[Route::get("/api/init-templates").at_root()];
    type Output = Vec<InitTemplate>;
    fn run(self, _: &OperationContext<'_>) -> Result<Self::Output, Fault> {
        let told = |&Template { id, name, description, .. }: &Template| InitTemplate { id, name, description };
        Ok(TEMPLATES.iter().map(told).collect())
    }
}

/// Make a space
///
/// Its directory is made when it is not there; pages that are there are adopted. It is there again after a restart.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct CreateSpace {
    /// Its name: letters, digits, `-` and `_`, and no endpoint's name
    #[schemars(regex(pattern = "^[A-Za-z0-9_-]{1,64}$"))]
    pub name: String,
    /// Its directory on the server, which must lie below one of `server.space_parents`; the name below the first of these when absent
    #[serde(default)]
    #[schemars(regex(
        pattern = r"^/*([^/.\u0000-\u001f\u007f-\u009f][^/\u0000-\u001f\u007f-\u009f]*|\.[^/.\u0000-\u001f\u007f-\u009f][^/\u0000-\u001f\u007f-\u009f]*|\.\.[^/\u0000-\u001f\u007f-\u009f]+)(/+([^/.\u0000-\u001f\u007f-\u009f][^/\u0000-\u001f\u007f-\u009f]*|\.[^/.\u0000-\u001f\u007f-\u009f][^/\u0000-\u001f\u007f-\u009f]*|\.\.[^/\u0000-\u001f\u007f-\u009f]+))*/*$"
    ))]
    pub root: Option<String>,
    /// What it begins with; `/api/init-templates` lists them. Nothing but settings when absent
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
                let known = || TEMPLATES.iter().map(|template| template.id).collect::<Vec<_>>().join(", ");
                let missing =
                    || Fault::invalid("template", format_args!("there is none of this name; known: {}", known()));
                Some(Template::find(id).ok_or_else(missing)?)
            }
        };
        let space = cx.spaces().create(&self.name, self.root.as_deref())?;
        if let Some(template) = template {
            // Settings are the server's own affair, not the caller's.
            let caller = Caller {
                protocol: svcfs_base::Protocol::Internal,
                permissions: svcfs_base::Permissions::FULL,
                ..cx.caller.clone()
            };
            write_template(&space, template, &caller)?;
        }
        SpaceRecord::of_open(&space, cx.caller)
    }
}

/// Take a space away from the server
///
/// Its files, history and settings stay where they are.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct DeleteSpace {
    /// Which space
    pub name: String,
}

/// A space that is gone.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DeletedSpace {
    /// Its name
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

/// Read who sees this space, and where it is
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GetSpaceInfo {}

/// Who sees a space, and where it is.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SpaceDetails {
    /// Who may read it without credentials
    pub visibility: SpaceVisibility,
    /// Its directory on the server; absent for who may not change the server
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
}

impl Operation for GetSpaceInfo {
    const NAME: &'static str = "space_info";
    const HTTP: &'static [Route] = &[Route::get("/space/info")];
    type Output = SpaceDetails;
    fn run(self, cx: &OperationContext<'_>) -> Result<SpaceDetails, Fault> {
        let root = || cx.space.vfs.root().display().to_string();
        let may_know = cx.caller.permissions.scope >= Scope::Admin;
        Ok(SpaceDetails { visibility: cx.space.visibility(), root: may_know.then(root) })
    }
}

/// Say who may read this space without credentials
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SetSpaceVisibility {
    /// `private`: nobody. `unlisted`: whoever knows the path of a page. `public`: everybody
    pub visibility: SpaceVisibility,
}

/// Who sees a space now.
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
            let told = format!(
                "the server's settings say who sees `{}` (`[[spaces]]`, `visibility`); change it there",
                cx.space.name
            );
            return Err(Fault::new(Kind::Conflict, told));
        }
        super::change_settings(cx, |text| edit::set_visibility(text, visibility))?;
        cx.space.set_visibility(visibility);
        Ok(VisibilityResponse { visibility })
    }
}
