//! Pages that are no operations: health, metrics, documentation, raw files, the event stream, the agent protocol.
//!
//! They stand in one list, [`SPECIAL`], so that the OpenAPI document and the contract tests see them.

mod docs;
pub(crate) mod events;
mod health;
mod llms;
mod metrics;
mod raw;

pub(crate) use health::{VERSION, known};

use std::sync::Arc;

use svcfs_base::{Fault, Permissions, Scope};
use svcfs_config::SpaceVisibility;
use svcfs_knowledge::access::{CallerIdentity, RequestGuard};
use svcfs_knowledge::kernel::Space;
use warp::reply::Response;

use crate::app::AppState;
use crate::request_handler::SpecialRequest;

/// Which special page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpecialPage {
    Health,
    Healthz,
    Readyz,
    Metrics,
    OpenApi,
    Docs,
    DocsFile,
    Llms,
    Raw,
    Events,
    Mcp,
}

impl SpecialPage {
    /// What a request for it needs.
    pub(crate) const fn guard(self) -> RequestGuard {
        match self {
            Self::Health | Self::Healthz | Self::Readyz | Self::Metrics => RequestGuard::Open,
            // What the server can do, not what it knows.
            Self::OpenApi | Self::Docs | Self::DocsFile => RequestGuard::Open,
            // A reading key may call reading tools; each tool says what it needs.
            Self::Llms | Self::Raw | Self::Events | Self::Mcp => RequestGuard::RequiresScope(Scope::Read),
        }
    }
    /// Whether what watches over the server asks there: that needs no credentials, is not counted and not told of (contract 4.2).
    const fn is_watched(self) -> bool {
        matches!(self, Self::Health | Self::Healthz | Self::Readyz | Self::Metrics)
    }
    /// Whether a space can be named for it, where it needs no credentials.
    pub(crate) const fn is_about_a_space(self) -> bool {
        matches!(self, Self::Readyz)
    }
    /// Who comes for it without credentials, where a space lets strangers in.
    pub(crate) fn stranger(self, space: &Space) -> Option<CallerIdentity> {
        match (self, space.visibility()) {
            // Told of pages that say of themselves that they are public, and of no others (gaps.md 4.2).
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

/// Where a special page lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoutePrefix {
    /// At the root of the server.
    Root,
    /// Below `/api/svc` and `/api/svc/{space}`.
    Space,
    /// At the root, answered before the route table is asked.
    Unrouted,
}

/// A page that is no operation. All of them are read by `GET`, except the agent protocol, which is `POST`.
#[derive(Debug)]
pub struct SpecialRoute {
    /// Where it lives.
    pub prefix: RoutePrefix,
    /// Path, below the prefix for [`Place::Space`]; `{name}` and `{*name}` are parameters.
    pub path: &'static str,
    /// Name in the OpenAPI document.
    pub name: &'static str,
    /// One line on what it is for.
    pub summary: &'static str,
    /// Status and media type of each answer (no media type: no body).
    pub responses: &'static [(u16, &'static str)],
    pub(crate) page: SpecialPage,
}

impl SpecialRoute {
    const fn root(path: &'static str, name: &'static str, page: SpecialPage) -> Self {
        Self { prefix: RoutePrefix::Root, path, name, summary: "", responses: &[(200, "application/json")], page }
    }
    const fn about(mut self, summary: &'static str) -> Self {
        self.summary = summary;
        self
    }
    const fn answers(mut self, answers: &'static [(u16, &'static str)]) -> Self {
        self.responses = answers;
        self
    }
    const fn at(mut self, place: RoutePrefix) -> Self {
        self.prefix = place;
        self
    }
    /// What a request for it needs.
    pub const fn guard(&self) -> RequestGuard {
        self.page.guard()
    }
    /// What becomes of it with a key that is limited to a folder, in words.
    pub(crate) const fn within(&self) -> &'static str {
        match self.page {
            SpecialPage::Health
            | SpecialPage::Healthz
            | SpecialPage::OpenApi
            | SpecialPage::Docs
            | SpecialPage::DocsFile => "the same",
            SpecialPage::Readyz | SpecialPage::Metrics => "as without a key",
            SpecialPage::Llms | SpecialPage::Events => "only what lies there",
            SpecialPage::Raw => "the path must lie there",
            SpecialPage::Mcp => "each tool as its operation",
        }
    }
    /// Whether it can be refused with this status, beside what it answers itself.
    pub(crate) fn may_refuse(&self, status: u16) -> bool {
        let is_guarded = self.guard() != RequestGuard::Open;
        match status {
            400 | 403 | 404 | 500 => true,
            401 | 503 => is_guarded,
            429 => !self.page.is_watched(),
            _ => false,
        }
    }
    /// The method it is read by.
    pub fn method(&self) -> svcfs_knowledge::kernel::HttpMethod {
        use svcfs_knowledge::kernel::HttpMethod;
        if self.page == SpecialPage::Mcp { HttpMethod::Post } else { HttpMethod::Get }
    }
}

/// Every special page.
pub const SPECIAL_ROUTES: &[SpecialRoute] = &[
    SpecialRoute::root("/health", "health", SpecialPage::Health).about("Tell that the process answers"),
    SpecialRoute::root("/healthz", "healthz", SpecialPage::Healthz).about("Tell uptime and version"),
    SpecialRoute::root("/readyz", "readyz", SpecialPage::Readyz)
        .about("Tell whether writes can be accepted")
        .answers(&[(200, "application/json"), (503, "application/json")]),
    SpecialRoute::root("/metrics", "metrics", SpecialPage::Metrics)
        .about("Read metrics, as OpenMetrics where `Accept` asks for it, else in the Prometheus text format")
        .answers(&[(200, "text/plain"), (200, "application/openmetrics-text")]),
    SpecialRoute::root("/api/openapi.json", "openapi", SpecialPage::OpenApi).about("Read this description"),
    SpecialRoute::root("/api/docs", "docs", SpecialPage::Docs)
        .about("Read this description in a browser")
        .answers(&[(301, "")]),
    SpecialRoute::root("/api/docs/", "docs_folder", SpecialPage::Docs)
        .about("Read this description in a browser")
        .answers(&[(301, "")]),
    SpecialRoute::root("/api/docs/{*file}", "docs_file", SpecialPage::DocsFile)
        .about("Read a part of the documentation browser")
        .answers(&[(200, "*/*"), (404, "application/json")]),
    SpecialRoute::root("/llms.txt", "llms", SpecialPage::Llms)
        .about("Read an index of all pages, for agents")
        .answers(&[(200, "text/plain")]),
    SpecialRoute::root("/raw/{*path}", "raw", SpecialPage::Raw)
        .about("Read a file's bytes, as a browser embeds them")
        .answers(&[
            (200, "*/*"),
            (206, "*/*"),
            (400, "application/json"),
            (404, "application/json"),
            (416, "application/json"),
        ]),
    SpecialRoute::root("/events", "events", SpecialPage::Events)
        .about("Follow changes as server-sent events; `Last-Event-ID` replays what was missed")
        .answers(&[(200, "text/event-stream"), (400, "application/json"), (503, "application/json")])
        .at(RoutePrefix::Space),
    SpecialRoute::root(crate::mcp::PATH, "mcp", SpecialPage::Mcp)
        .about("Speak the agent tool protocol (MCP, streamable HTTP)")
        .answers(&[
            (200, "application/json"),
            (200, "text/event-stream"),
            (202, ""),
            (400, "application/json"),
            (403, "application/json"),
            (406, "application/json"),
            (415, "application/json"),
        ])
        .at(RoutePrefix::Unrouted),
];

/// Whether a path is one of those that watch over the server.
pub(crate) fn is_watched(path: &str) -> bool {
    SPECIAL_ROUTES.iter().any(|special| special.path == path && special.page.is_watched())
}

/// Answers a special page.
///
/// # Errors
/// What the page refuses.
pub(crate) async fn answer(
    app: &Arc<AppState>,
    space: Arc<Space>,
    (pass, identity): (SpecialRequest, CallerIdentity),
) -> Result<Response, Fault> {
    let headers = &pass.headers;
    let parameter = || pass.address.parameters.first().map_or("", |(_, value)| value.as_str());
    match pass.page {
        SpecialPage::Health => Ok(health::health()),
        SpecialPage::Healthz => Ok(health::healthz(app)),
        SpecialPage::Readyz => Ok(health::readyz(app, space, headers).await),
        SpecialPage::Metrics => metrics::metrics(app, headers).await,
        SpecialPage::OpenApi => Ok(docs::openapi(app)),
        SpecialPage::Docs => Ok(docs::redirect()),
        SpecialPage::DocsFile => docs::file(parameter()),
        SpecialPage::Llms => llms::index(app, space, &identity).await,
        SpecialPage::Raw => raw::raw(app, space, (headers, parameter(), &identity)).await,
        SpecialPage::Events => events::follow(app, space, (pass, identity)),
        // The listener answers it; in this table it stands for the lists only.
        SpecialPage::Mcp => Err(Fault::not_found("the agent protocol is at /mcp")),
    }
}
