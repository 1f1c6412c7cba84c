use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use svcfs_base::{Fault, Kind, Timestamp, TreePath, escape_unprintable};
use svcfs_store::Share;
use svcfs_work::Lane;

use super::{ShareRegistry, password};
use crate::claims::parse_duration;
use crate::kernel::{
    API_PREFIX, FolderScope, Operation, OperationArea, OperationContext, OperationEntry, Route, random_bytes,
    random_hex, require_path,
};

/// The operations of this area.
pub const AREA: OperationArea = OperationArea {
    title: "Shares",
    operations: &[
        OperationEntry::new::<SharePage>(),
        OperationEntry::new::<ListShares>(),
        OperationEntry::new::<RevokeShare>(),
    ],
};

const ID_BYTES: usize = 8;
const TOKEN_BYTES: usize = 32;
const MAX_PASSWORD_BYTES: usize = 256;
const MAX_LIFETIME: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

/// A link that shows one page to people without credentials.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShareLink {
    /// Identifies it, to revoke it
    pub id: String,
    /// Path of the page; it follows renames
    pub path: TreePath,
    /// The secret part of the link. Only in the answer that creates it: the server stores a hash
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Address of the page, with the token; only in the answer that creates it. Without
    /// `server.public_url` it has no host
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Whether it asks for a password
    pub has_password: bool,
    /// When it ends; absent if it never does
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Who created it
    pub created_by: String,
    /// When it was created
    pub created_at: Timestamp,
    /// How often the page was shown through it
    pub view_count: u64,
}

impl From<Share> for ShareLink {
    fn from(share: Share) -> Self {
        Self {
            id: share.id,
            path: share.path,
            token: None,
            url: None,
            has_password: share.password_hash.is_some(),
            expires_at: share.expires_at,
            created_by: share.created_by.as_str().to_owned(),
            created_at: share.created_at,
            view_count: share.views,
        }
    }
}

/// Create a link that shows one page without credentials
///
/// A person with the link reads this page in its present version, and nothing else. It follows
/// renames of the page, and ends with its removal, when it expires, or when it is revoked. The
/// answer has `token` and `url`; they are shown only once.
#[derive(Deserialize, JsonSchema)]
#[schemars(example = json!({ "path": "index.md", "expiresIn": "168h" }))]
pub struct SharePage {
    /// Path of the page
    #[schemars(example = "index.md")]
    pub path: TreePath,
    /// How long the link works, such as `168h` or `30m`, at most 10 years; default: until it is
    /// revoked
    #[serde(default, rename = "expiresIn")]
    pub expires_in: Option<String>,
    /// A password that readers must give, at most 256 bytes
    #[serde(default)]
    pub password: Option<String>,
}

impl Operation for SharePage {
    const NAME: &'static str = "share";
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::post("/share")];
    // Hashing a password takes tens of milliseconds and 19 MiB.
    const LANE: Lane = Lane::Slow;
    type Output = ShareLink;
    fn run(self, cx: &OperationContext<'_>) -> Result<ShareLink, Fault> {
        require_path("path", &self.path)?;
        let now = cx.now();
        let expires_at = self.expires_in.as_deref().map(|text| expiry(text, now)).transpose()?;
        let password_hash = self.password.as_deref().map(hash_password).transpose()?;
        super::read_page(cx, &self.path)?;
        let token = URL_SAFE_NO_PAD.encode(random_bytes::<TOKEN_BYTES>()?);
        let share = Share {
            id: random_hex::<ID_BYTES>()?,
            path: self.path,
            token_hash: ShareRegistry::token_hash(&token),
            password_hash,
            created_by: cx.caller.actor(),
            created_at: now,
            expires_at,
            views: 0,
        };
        cx.space.shares.add(share.clone())?;
        let site = cx.public_url().map_or("", |site| site.as_str().trim_end_matches('/'));
        let url = Some(format!("{site}{API_PREFIX}/public/{token}"));
        Ok(ShareLink { token: Some(token), url, ..share.into() })
    }
}

fn expiry(text: &str, now: Timestamp) -> Result<Timestamp, Fault> {
    let invalid = |message| Fault::invalid("expiresIn", message);
    let length = parse_duration(text, "must be a time such as `168h` or `30m`").map_err(invalid)?;
    if length > MAX_LIFETIME {
        return Err(invalid("must be 10 years (`87840h`) at most; leave it out for a link that never expires"));
    }
    now.checked_add(length).map_err(|_| invalid("is too long"))
}

fn hash_password(text: &str) -> Result<String, Fault> {
    if text.is_empty() || text.len() > MAX_PASSWORD_BYTES {
        let message = format!("must have 1 to {MAX_PASSWORD_BYTES} bytes; leave it out for a link without password");
        return Err(Fault::invalid("password", message));
    }
    password::hash(text)
}

/// List the active links to a page, the oldest first
///
/// Without their tokens, which are shown only when a link is created.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListShares {
    /// Path of the page
    #[schemars(example = "index.md")]
    pub path: TreePath,
}

impl Operation for ListShares {
    const NAME: &'static str = "shares_list";
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::get("/share")];
    type Output = Vec<ShareLink>;
    fn run(self, cx: &OperationContext<'_>) -> Result<Vec<ShareLink>, Fault> {
        require_path("path", &self.path)?;
        super::check_is_listed(cx, &self.path)?;
        let shares = cx.space.shares.of_page(&self.path, cx.now());
        Ok(shares.into_iter().map(ShareLink::from).collect())
    }
}

/// Revoke a link to a page
///
/// It shows nothing from then on.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RevokeShare {
    /// Id of the link, not its token
    pub id: String,
}

/// A revoked link.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RevokedShare {
    /// Its id
    pub revoked: String,
}

impl Operation for RevokeShare {
    const NAME: &'static str = "share_revoke";
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    const HTTP: &'static [Route] = &[Route::delete("/share/{id}")];
    type Output = RevokedShare;
    fn run(self, cx: &OperationContext<'_>) -> Result<RevokedShare, Fault> {
        let share = cx.space.shares.get(&self.id, cx.now());
        if share.is_none_or(|share| !cx.caller.permissions.covers(&share.path)) {
            let displayed: String = escape_unprintable(&self.id.chars().take(40).collect::<String>());
            return Err(Fault::new(Kind::NotFound, format!("share not found: {displayed}")));
        }
        cx.space.shares.remove(&self.id)?;
        Ok(RevokedShare { revoked: self.id })
    }
}
