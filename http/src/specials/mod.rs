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

use svcfs_base::{Fault, Reach, Scope};
use svcfs_config::Visibility;
use svcfs_knowledge::access::{CallerIdentity, RequestGuard};
use svcfs_knowledge::kernel::Space;
use warp::reply::Response;

use crate::app::App;
use crate::edge::Pass;

/// Which special page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Page {
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

impl Page {
    /// What a request for it needs.
    pub(crate) const fn guard(self) -> RequestGuard {
        match self {
            Self::Health | Self::Healthz | Self::Readyz | Self::Metrics => RequestGuard::Open,
            // What the server can do, not what it knows.
            Self::OpenApi | Self::Docs | Self::DocsFile => RequestGuard::Open,
            // A reading key may call reading tools; each tool says what it needs.
            Self::Llms | Self::Raw | Self::Events | Self::Mcp => RequestGuard::Needs(Scope::Read),
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
            (Self::Llms, Visibility::Private | Visibility::Unlisted) => {
                Some(CallerIdentity { reach: Reach::READING, ..CallerIdentity::ANYBODY })
            }
            (Self::Mcp, _) | (_, Visibility::Private | Visibility::Unlisted) => None,
            (_, Visibility::Public) => Some(CallerIdentity { reach: Reach::READING, ..CallerIdentity::ANYBODY }),
        }
    }
}

/// Where a special page lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// At the root of the server.
    Root,
    /// Below `/api/svc` and `/api/svc/{space}`.
    Space,
    /// At the root, answered before the route table is asked.
    Elsewhere,
}

/// A page that is no operation. All of them are read by `GET`, except the agent protocol, which is `POST`.
#[derive(Debug)]
pub struct Special {
    /// Where it lives.
    pub place: Place,
    /// Path, below the prefix for [`Place::Space`]; `{name}` and `{*name}` are parameters.
    pub path: &'static str,
    /// Name in the OpenAPI document.
    pub name: &'static str,
    /// One line on what it is for.
    pub summary: &'static str,
    /// Status and media type of each answer (no media type: no body).
    pub answers: &'static [(u16, &'static str)],
    pub(crate) page: Page,
}

impl Special {
    const fn root(path: &'static str, name: &'static str, page: Page) -> Self {
        Self { place: Place::Root, path, name, summary: "", answers: &[(200, "application/json")], page }
    }
    const fn about(mut self, summary: &'static str) -> Self {
        self.summary = summary;
        self
    }
    const fn answers(mut self, answers: &'static [(u16, &'static str)]) -> Self {
        self.answers = answers;
        self
    }
    const fn at(mut self, place: Place) -> Self {
        self.place = place;
        self
    }
    /// What a request for it needs.
    pub const fn guard(&self) -> RequestGuard {
        self.page.guard()
    }
    /// What becomes of it with a key that is limited to a folder, in words.
    pub(crate) const fn within(&self) -> &'static str {
        match self.page {
            Page::Health | Page::Healthz | Page::OpenApi | Page::Docs | Page::DocsFile => "the same",
            Page::Readyz | Page::Metrics => "as without a key",
            Page::Llms | Page::Events => "only what lies there",
            Page::Raw => "the path must lie there",
            Page::Mcp => "each tool as its operation",
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
        if self.page == Page::Mcp { HttpMethod::Post } else { HttpMethod::Get }
    }
}

/// Every special page.
pub const SPECIAL: &[Special] = &[
    Special::root("/health", "health", Page::Health).about("Tell that the process answers"),
    Special::root("/healthz", "healthz", Page::Healthz).about("Tell uptime and version"),
    Special::root("/readyz", "readyz", Page::Readyz)
        .about("Tell whether writes can be accepted")
        .answers(&[(200, "application/json"), (503, "application/json")]),
    Special::root("/metrics", "metrics", Page::Metrics)
        .about("Read metrics, as OpenMetrics where `Accept` asks for it, else in the Prometheus text format")
        .answers(&[(200, "text/plain"), (200, "application/openmetrics-text")]),
    Special::root("/api/openapi.json", "openapi", Page::OpenApi).about("Read this description"),
    Special::root("/api/docs", "docs", Page::Docs).about("Read this description in a browser").answers(&[(301, "")]),
    Special::root("/api/docs/", "docs_folder", Page::Docs)
        .about("Read this description in a browser")
        .answers(&[(301, "")]),
    Special::root("/api/docs/{*file}", "docs_file", Page::DocsFile)
        .about("Read a part of the documentation browser")
        .answers(&[(200, "*/*"), (404, "application/json")]),
    Special::root("/llms.txt", "llms", Page::Llms)
        .about("Read an index of all pages, for agents")
        .answers(&[(200, "text/plain")]),
    Special::root("/raw/{*path}", "raw", Page::Raw).about("Read a file's bytes, as a browser embeds them").answers(&[
        (200, "*/*"),
        (206, "*/*"),
        (400, "application/json"),
        (404, "application/json"),
        (416, "application/json"),
    ]),
    Special::root("/events", "events", Page::Events)
        .about("Follow changes as server-sent events; `Last-Event-ID` replays what was missed")
        .answers(&[(200, "text/event-stream"), (400, "application/json"), (503, "application/json")])
        .at(Place::Space),
    Special::root(crate::mcp::PATH, "mcp", Page::Mcp)
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
        .at(Place::Elsewhere),
];

/// Whether a path is one of those that watch over the server.
pub(crate) fn is_watched(path: &str) -> bool {
    SPECIAL.iter().any(|special| special.path == path && special.page.is_watched())
}

/// Answers a special page.
///
/// # Errors
/// What the page refuses.
pub(crate) async fn answer(
    app: &Arc<App>,
    space: Arc<Space>,
    (pass, identity): (Pass, CallerIdentity),
) -> Result<Response, Fault> {
    let headers = &pass.headers;
    let parameter = || pass.address.parameters.first().map_or("", |(_, value)| value.as_str());
    match pass.page {
        Page::Health => Ok(health::health()),
        Page::Healthz => Ok(health::healthz(app)),
        Page::Readyz => Ok(health::readyz(app, space, headers).await),
        Page::Metrics => metrics::metrics(app, headers).await,
        Page::OpenApi => Ok(docs::openapi(app)),
        Page::Docs => Ok(docs::redirect()),
        Page::DocsFile => docs::file(parameter()),
        Page::Llms => llms::index(app, space, &identity).await,
        Page::Raw => raw::raw(app, space, (headers, parameter(), &identity)).await,
        Page::Events => events::follow(app, space, (pass, identity)),
        // The listener answers it; in this table it stands for the lists only.
        Page::Mcp => Err(Fault::not_found("the agent protocol is at /mcp")),
    }
}
