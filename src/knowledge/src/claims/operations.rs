use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svcfs_base::{Actor, Claim, Fault, Kind, TreePath, deserialize_selected_actor};
use svcfs_vfs::EntryKind;

use super::LeaseDuration;
use crate::kernel::{FolderScope, Operation, OperationArea, OperationContext, OperationEntry, Route, require_path};

/// The operations of this area.
pub const AREA: OperationArea = OperationArea {
    title: "Claims",
    operations: &[
        OperationEntry::new::<ClaimPage>(),
        OperationEntry::new::<ReleaseClaim>(),
        OperationEntry::new::<ListClaims>(),
    ],
};

/// Claim a page for some time, or renew your claim
///
/// Use it before you work on a page for longer than one write. The answer has `fence`: send it with
/// your writes (`X-Claim-Fence`, or `fence` of a tool), and they are refused once your lease has
/// ended. Others are refused on pages with `type: task`, and elsewhere get a note, or are refused
/// too when `claims.enforce` is on. Needs your name (`X-Actor`, or `actor` of a tool). 409 with
/// `active_claim` when another actor has claimed the page.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ClaimPage {
    /// Path of the page
    #[schemars(example = "tasks/a.md")]
    pub path: TreePath,
    /// Length of the lease, such as `30m` or `1h30m`: at least 1m (less is raised), at most 24h
    #[serde(default)]
    pub lease_duration: LeaseDuration,
}

impl Operation for ClaimPage {
    const NAME: &'static str = "claim";
    const REQUIRES_ACTOR: bool = true;
    const PROPOSABLE: bool = true;
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::post("/claim")];
    const TOOL: bool = true;
    type Output = Claim;
    fn run(self, cx: &OperationContext<'_>) -> Result<Claim, Fault> {
        require_path("path", &self.path)?;
        let actor = super::require_actor(cx)?;
        cx.space.vfs.check_claims_enabled()?;
        check_file(cx, &self.path)?;
        match cx.caller.claim_fence {
            Some(fence) => cx.space.vfs.renew_claim(cx.caller, &self.path, fence, self.lease_duration.get()),
            None => super::claim(cx.space, &actor, &self.path, self.lease_duration.get()),
        }
    }
}

/// Checks that a claim can be about a path: a file that exists.
fn check_file(cx: &OperationContext<'_>, path: &TreePath) -> Result<(), Fault> {
    let protocol = cx.caller.protocol;
    match cx.tree().stat(protocol, path)?.kind {
        EntryKind::File => Ok(()),
        EntryKind::Directory => Err(Fault::is_directory(path)),
        EntryKind::Symlink => {
            let target = cx.tree().read_link(protocol, path)?;
            let message = format!("`{path}` is a symbolic link to `{target}`; claim its target");
            Err(Fault::new(Kind::Invalid, message))
        }
        EntryKind::Special(_) => Err(Fault::file_not_found(path)),
    }
}

/// Release your claim on a page
///
/// Use it when you have finished, so that others need not wait for the end of your lease. Needs
/// your name (`X-Actor`, or `actor` of a tool). 403 when you have no active claim on the page.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReleaseClaim {
    /// Path of the page
    #[schemars(example = "tasks/a.md")]
    pub path: TreePath,
}

/// The end of a claim.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReleasedClaim {
    /// `released`
    pub status: &'static str,
}

impl Operation for ReleaseClaim {
    const NAME: &'static str = "release";
    const DESTRUCTIVE: bool = false;
    const REQUIRES_ACTOR: bool = true;
    const PROPOSABLE: bool = true;
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::delete("/claim").json_or_query(&["path"])];
    const TOOL: bool = true;
    type Output = ReleasedClaim;
    fn run(self, cx: &OperationContext<'_>) -> Result<ReleasedClaim, Fault> {
        require_path("path", &self.path)?;
        let actor = super::require_actor(cx)?;
        if cx.space.vfs.release_claim(&actor, &self.path, cx.caller.claim_fence)? {
            return Ok(ReleasedClaim { status: "released" });
        }
        let path = &self.path;
        let message = match cx.space.vfs.claim_at(path) {
            Some(claim) if claim.claimed_by == actor => {
                format!("`{path}` is claimed by you with fence {}, which is not the one you sent", claim.fence)
            }
            Some(claim) => format!("`{path}` is claimed by `{}`, not by `{actor}`", claim.claimed_by),
            None => format!("`{path}` is not claimed; there is nothing to release"),
        };
        Err(Fault::new(Kind::Forbidden, message))
    }
}

/// List the active claims, the oldest first
///
/// Use it to see who works on which page, and until when.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListClaims {
    /// Only pages at or below this path
    #[serde(default)]
    #[schemars(example = &"tasks")]
    pub path_prefix: Option<TreePath>,
    /// Only claims of this actor
    #[serde(default, deserialize_with = "deserialize_selected_actor")]
    #[schemars(with = "Option<String>", example = "agent:x")]
    pub actor: Option<Actor>,
}

/// Active claims.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ClaimList {
    /// The claims, the oldest first
    pub claims: Vec<Claim>,
}

impl Operation for ListClaims {
    const NAME: &'static str = "claims_list";
    const FOLDER_SCOPE: FolderScope = FolderScope::Folder("path_prefix");
    const HTTP: &'static [Route] = &[Route::get("/claims")];
    const TOOL: bool = true;
    type Output = ClaimList;
    fn run(self, cx: &OperationContext<'_>) -> Result<ClaimList, Fault> {
        let mut claims = cx.space.vfs.claims_below(&self.path_prefix.unwrap_or_else(TreePath::root))?;
        claims.retain(|claim| self.actor.as_ref().is_none_or(|actor| claim.claimed_by == *actor));
        Ok(ClaimList { claims })
    }
}
