//! Pages that are not operations: health, metrics, documentation, raw files, event stream, MCP.
//!
//! All are listed in [`SPECIAL_ROUTES`], which the OpenAPI document and the contract tests read.

mod docs;
pub(crate) mod events;
mod health;
mod llms;
mod metrics;
mod public;
mod published;
mod raw;
mod shared;

pub(crate) use health::{VERSION, identify_cached};
pub(crate) use published::{failure_response, has_failure_page};
pub(crate) use shared::{accepts_html, without_secrets};

use std::sync::Arc;

use svcfs_base::{Fault, Permissions, Scope};
use svcfs_config::SpaceVisibility;
use svcfs_knowledge::access::{CallerIdentity, RequestGuard};
use svcfs_knowledge::kernel::Space;
use warp::reply::Response;

use crate::app::AppState;
use crate::request_handler::SpecialRequest;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpecialPage {
    Health,
    Healthz,
    Readyz,
    Metrics,
    OpenApi,
    Docs,
    DocsFolder,
    DocsFile,
    Llms,
    Raw,
    Published,
    PublishedIndex,
    PublishedFolder,
    SiteMap,
    Robots,
    PublicFile,
    PublicTree,
    Shared,
    Events,
    ResourceMetadata,
    Mcp,
}

impl SpecialPage {
    /// The credentials that a request needs.
    pub(crate) const fn guard(self) -> RequestGuard {
        match self {
            Self::Health | Self::Healthz | Self::Readyz | Self::Metrics => RequestGuard::Open,
            // They describe the server, not its content.
            Self::OpenApi | Self::Docs | Self::DocsFolder | Self::DocsFile => RequestGuard::Open,
            // Clients read it to learn where to get credentials.
            Self::ResourceMetadata => RequestGuard::Open,
            // They serve only what was published to everyone.
            Self::Published | Self::PublishedIndex | Self::PublishedFolder | Self::SiteMap | Self::Robots => {
                RequestGuard::Open
            }
            // They serve only pages that are marked as public.
            Self::PublicFile | Self::PublicTree => RequestGuard::Open,
            // The token in the address is the credential.
            Self::Shared => RequestGuard::Open,
            // For MCP, each tool checks its own scope.
            Self::Llms | Self::Raw | Self::Events | Self::Mcp => RequestGuard::RequiresScope(Scope::Read),
        }
    }
    /// Whether it is for monitoring: no credentials, no rate limit, no log lines.
    const fn is_monitoring(self) -> bool {
        matches!(self, Self::Health | Self::Healthz | Self::Readyz | Self::Metrics)
    }
    /// Whether a request without credentials may name a space.
    pub(crate) const fn has_space(self) -> bool {
        matches!(self, Self::Readyz)
    }
    /// The identity of a caller without credentials, if the space allows one.
    pub(crate) fn anonymous(self, space: &Space) -> Option<CallerIdentity> {
        match (self, space.visibility()) {
            // Lists only pages that are marked as public.
            (Self::Llms, SpaceVisibility::Private | SpaceVisibility::Unlisted) => {
                Some(CallerIdentity { permissions: Permissions::READ_ONLY, ..CallerIdentity::UNRESTRICTED })
            }
            (Self::Mcp, _) | (_, SpaceVisibility::Private | SpaceVisibility::Unlisted) => None,
            (_, SpaceVisibility::Public) => {
                Some(CallerIdentity { permissions: Permissions::READ_ONLY, ..CallerIdentity::UNRESTRICTED })
            }
        }
    }
}

/// The prefix of a special page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoutePrefix {
    /// At the root of the server.
    Root,
    /// Below `/api/svc` and `/api/svc/{space}`.
    Space,
    /// At the root, handled before the route table.
    Unrouted,
}

/// A page that is not an operation. The method is `GET`, for MCP `POST`.
#[derive(Debug)]
pub struct SpecialRoute {
    /// The prefix of its path.
    pub prefix: RoutePrefix,
    /// Path, below the prefix for [`RoutePrefix::Space`]; `{name}` and `{*name}` are parameters.
    pub path: &'static str,
    /// Name in the OpenAPI document.
    pub name: &'static str,
    /// Its purpose in one line.
    pub summary: &'static str,
    /// Status and media type of each response (empty: no body).
    pub responses: &'static [(u16, &'static str)],
    pub(crate) page: SpecialPage,
}

impl SpecialRoute {
    const fn root(path: &'static str, name: &'static str, page: SpecialPage) -> Self {
        Self { prefix: RoutePrefix::Root, path, name, summary: "", responses: &[(200, "application/json")], page }
    }
    const fn with_summary(mut self, summary: &'static str) -> Self {
        self.summary = summary;
        self
    }
    const fn with_responses(mut self, answers: &'static [(u16, &'static str)]) -> Self {
        self.responses = answers;
        self
    }
    const fn with_prefix(mut self, place: RoutePrefix) -> Self {
        self.prefix = place;
        self
    }
    /// The credentials that a request needs.
    pub const fn guard(&self) -> RequestGuard {
        self.page.guard()
    }
    /// The effect of a key that is limited to a folder, as text.
    pub(crate) const fn folder_effect(&self) -> &'static str {
        match self.page {
            SpecialPage::Health
            | SpecialPage::Healthz
            | SpecialPage::OpenApi
            | SpecialPage::Docs
            | SpecialPage::DocsFolder
            | SpecialPage::DocsFile
            | SpecialPage::ResourceMetadata => "unchanged",
            SpecialPage::Readyz
            | SpecialPage::Metrics
            | SpecialPage::Published
            | SpecialPage::PublishedIndex
            | SpecialPage::PublishedFolder
            | SpecialPage::SiteMap
            | SpecialPage::Robots
            | SpecialPage::PublicFile
            | SpecialPage::PublicTree
            | SpecialPage::Shared => "as without a key",
            SpecialPage::Llms | SpecialPage::Events => "only entries in the folder",
            SpecialPage::Raw => "the path must be in the folder",
            SpecialPage::Mcp => "as the operation of each tool",
        }
    }
    /// Whether a request may fail with this status, besides its own responses.
    pub(crate) fn may_refuse(&self, status: u16) -> bool {
        let is_guarded = self.guard() != RequestGuard::Open;
        match status {
            400 | 403 | 404 | 500 => true,
            401 | 503 => is_guarded,
            429 => !self.page.is_monitoring(),
            _ => false,
        }
    }
    /// The method.
    pub fn method(&self) -> svcfs_knowledge::kernel::HttpMethod {
        use svcfs_knowledge::kernel::HttpMethod;
        if self.page == SpecialPage::Mcp { HttpMethod::Post } else { HttpMethod::Get }
    }
}

/// Path of the metadata of `/mcp`.
const MCP_METADATA_PATH: &str = "/.well-known/oauth-protected-resource/mcp";

/// All special pages.
pub const SPECIAL_ROUTES: &[SpecialRoute] = &[
    SpecialRoute::root("/health", "health", SpecialPage::Health).with_summary("Check that the process runs"),
    SpecialRoute::root("/healthz", "healthz", SpecialPage::Healthz)
        .with_summary("Show uptime, version and index progress"),
    SpecialRoute::root("/readyz", "readyz", SpecialPage::Readyz)
        .with_summary("Check whether writes can be accepted")
        .with_responses(&[(200, "application/json"), (503, "application/json")]),
    SpecialRoute::root("/metrics", "metrics", SpecialPage::Metrics)
        .with_summary("Read metrics, as OpenMetrics where `Accept` asks for it, else in the Prometheus text format")
        .with_responses(&[(200, "text/plain"), (200, "application/openmetrics-text")]),
    SpecialRoute::root("/api/openapi.json", "openapi", SpecialPage::OpenApi).with_summary("Read the OpenAPI document"),
    SpecialRoute::root("/api/docs", "docs", SpecialPage::Docs)
        .with_summary("Open the API documentation in a browser")
        .with_responses(&[(301, "")]),
    SpecialRoute::root("/api/docs/", "docs_folder", SpecialPage::DocsFolder)
        .with_summary("Open the API documentation in a browser")
        .with_responses(&[(301, "")]),
    SpecialRoute::root("/api/docs/{*file}", "docs_file", SpecialPage::DocsFile)
        .with_summary("Read a file of the documentation browser")
        .with_responses(&[(200, "*/*"), (404, "application/json")]),
    SpecialRoute::root("/llms.txt", "llms", SpecialPage::Llms)
        .with_summary("Read an index of all pages, for agents")
        .with_responses(&[(200, "text/plain")]),
    SpecialRoute::root("/p", "published_folder", SpecialPage::PublishedFolder)
        .with_summary("Open the index of published pages")
        .with_responses(&[(301, "")]),
    SpecialRoute::root("/p/", "published_index", SpecialPage::PublishedIndex)
        .with_summary("Read the index of published pages as HTML, the latest first; `page` turns its pages")
        .with_responses(&[(200, "text/html"), (304, ""), (404, "application/json"), (404, "text/html")]),
    SpecialRoute::root("/sitemap.xml", "site_map", SpecialPage::SiteMap)
        .with_summary("Read which site maps of published pages there are; needs `server.public_url`")
        .with_responses(&[(200, "application/xml"), (404, "application/json")]),
    SpecialRoute::root("/robots.txt", "robots", SpecialPage::Robots)
        .with_summary("Read what search engines may read: published pages")
        .with_responses(&[(200, "text/plain")]),
    SpecialRoute::root("/p/{*path}", "published", SpecialPage::Published)
        .with_summary("Read a published page as HTML, or a file that one uses, without credentials")
        .with_responses(&[
            (200, "*/*"),
            (206, "*/*"),
            (304, ""),
            (400, "application/json"),
            (404, "application/json"),
            (404, "text/html"),
            (416, "application/json"),
        ]),
    SpecialRoute::root("/raw/{*path}", "raw", SpecialPage::Raw)
        .with_summary("Read a file's bytes, for embedding in a web page")
        .with_responses(&[
            (200, "*/*"),
            (206, "*/*"),
            (400, "application/json"),
            (404, "application/json"),
            (416, "application/json"),
        ]),
    SpecialRoute::root("/public/file", "public_file", SpecialPage::PublicFile)
        .with_summary("Read a page with `visibility: public` (query `path`), without credentials")
        .with_responses(&[(200, "*/*"), (304, ""), (400, "application/json"), (404, "application/json")])
        .with_prefix(RoutePrefix::Space),
    SpecialRoute::root("/public/tree", "public_tree", SpecialPage::PublicTree)
        .with_summary("List the pages with `visibility: public`, below the query `path` if there is one, as a tree")
        .with_responses(&[(200, "application/json"), (400, "application/json"), (404, "application/json")])
        .with_prefix(RoutePrefix::Space),
    SpecialRoute::root("/public/{token}", "shared", SpecialPage::Shared)
        .with_summary("Read a shared page: HTML for browsers, else its bytes; `X-Share-Password` or `password` opens a protected one")
        .with_responses(&[
            (200, "*/*"),
            (206, "*/*"),
            (400, "application/json"),
            (401, "application/json"),
            (404, "application/json"),
            (416, "application/json"),
        ])
        .with_prefix(RoutePrefix::Space),
    SpecialRoute::root("/events", "events", SpecialPage::Events)
        .with_summary("Follow changes as server-sent events; `Last-Event-ID` replays missed events")
        .with_responses(&[(200, "text/event-stream"), (400, "application/json"), (503, "application/json")])
        .with_prefix(RoutePrefix::Space),
    SpecialRoute::root(crate::oauth::METADATA_PATH, "resource_metadata", SpecialPage::ResourceMetadata)
        .with_summary("Find the identity provider of this server (RFC 9728); needs `auth.type = \"oidc\"`")
        .with_responses(&[(200, "application/json"), (404, "application/json")]),
    SpecialRoute::root(MCP_METADATA_PATH, "mcp_resource_metadata", SpecialPage::ResourceMetadata)
        .with_summary("Find the identity provider of `/mcp` (RFC 9728); needs `auth.type = \"oidc\"`")
        .with_responses(&[(200, "application/json"), (404, "application/json")]),
    SpecialRoute::root(crate::mcp::PATH, "mcp", SpecialPage::Mcp)
        .with_summary("Call agent tools over MCP (streamable HTTP)")
        .with_responses(&[
            (200, "application/json"),
            (200, "text/event-stream"),
            (202, ""),
            (400, "application/json"),
            (403, "application/json"),
            (406, "application/json"),
            (415, "application/json"),
        ])
        .with_prefix(RoutePrefix::Unrouted),
];

/// Whether a path is for monitoring.
pub(crate) fn is_monitoring(path: &str) -> bool {
    SPECIAL_ROUTES.iter().any(|special| special.path == path && special.page.is_monitoring())
}

/// Handles a request for a special page. Errors: those of the page.
pub(crate) async fn handle(
    app: &Arc<AppState>,
    space: Arc<Space>,
    (special, identity): (SpecialRequest, CallerIdentity),
) -> Result<Response, Fault> {
    let headers = &special.headers;
    let parameter = || special.address.parameters.first().map_or("", |(_, value)| value.as_str());
    match special.page {
        SpecialPage::Health => Ok(health::health()),
        SpecialPage::Healthz => Ok(health::healthz(app)),
        SpecialPage::Readyz => Ok(health::readyz(app, space, headers).await),
        SpecialPage::Metrics => metrics::metrics(app, headers).await,
        SpecialPage::OpenApi => Ok(docs::openapi(app)),
        SpecialPage::Docs => Ok(docs::redirect("docs/index.html")),
        SpecialPage::DocsFolder => Ok(docs::redirect("index.html")),
        SpecialPage::DocsFile => docs::file(parameter()),
        SpecialPage::Llms => llms::index(app, space, &identity).await,
        SpecialPage::Published | SpecialPage::PublishedIndex => {
            published::published(app, space, (&special, parameter())).await
        }
        SpecialPage::PublishedFolder => Ok(docs::redirect("p/")),
        SpecialPage::SiteMap => published::site_map(app, space).await,
        SpecialPage::Robots => published::robots(app, space).await,
        SpecialPage::PublicFile => public::file(app, &special).await,
        SpecialPage::PublicTree => public::tree(app, &special).await,
        SpecialPage::Shared => shared::shared(app, &special).await,
        SpecialPage::Raw => raw::raw(app, space, (headers, parameter(), &identity)).await,
        SpecialPage::ResourceMetadata => {
            Ok(crate::reply::json(http::StatusCode::OK, &crate::oauth::metadata(app, headers)?))
        }
        SpecialPage::Events => events::subscribe(app, space, (special, identity)),
        // The listener handles it; it is in the table for the lists only.
        SpecialPage::Mcp => Err(Fault::not_found("the agent protocol is at /mcp")),
    }
}
