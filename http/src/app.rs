//! The state of the HTTP server, and the dispatcher of operations.

use std::sync::{Arc, OnceLock};

use http::HeaderMap;
use svcfs_base::{Caller, Fault, Kind, Protocol};
use svcfs_knowledge::access::{CallerIdentity, RETRY_AFTER_KEY};
use svcfs_knowledge::kernel::{
    OperationArea, OperationContext, OperationEntry, OperationHandler, ResponseMeta, ServerState, Space,
};
use svcfs_work::{Lane, LaneError, LaneOccupancy, Lanes};
use tokio_util::sync::CancellationToken;

use crate::bind::bearer;
use crate::hosts::AllowedHosts;
use crate::response_budget::ResponseBudget;
use crate::routes::RouteTable;
use crate::single_flight::SingleFlight;
use crate::specials::events::SubscriberRegistry;
use crate::{HttpError, openapi};

/// Header of remote mounts.
const MOUNT_CLIENT: &str = "X-Svc-Mount";

/// State that all requests share.
pub(crate) struct AppState {
    /// The served operations; tests use their own.
    pub catalogue: &'static [OperationArea],
    pub server: Arc<ServerState>,
    pub routes: RouteTable,
    /// Allowed hosts and origins.
    pub hosts: AllowedHosts,
    /// Clients of the event stream.
    pub subscribers: SubscriberRegistry,
    /// The OpenAPI document, made for the first request.
    openapi: OnceLock<bytes::Bytes>,
    /// Cancelled at shutdown; ends streams.
    pub stop: CancellationToken,
    /// Memory for large responses.
    pub response_budget: ResponseBudget,
    /// The documents of `/p` that are made.
    pub page_renders: SingleFlight<(String, String)>,
    /// The requests with an id that are in flight.
    pub requests_in_flight: SingleFlight<(String, [u8; 16])>,
    /// Where blocking work runs.
    pub lanes: Arc<Lanes>,
}

impl AppState {
    /// Creates the state for `server`'s spaces. Errors: `Routes` when two operations have the same
    /// route.
    pub(crate) fn new(
        catalogue: &'static [OperationArea],
        server: Arc<ServerState>,
        stop: CancellationToken,
    ) -> Result<Arc<Self>, HttpError> {
        Ok(Arc::new(Self {
            catalogue,
            routes: RouteTable::new(catalogue)?,
            hosts: AllowedHosts::new(&server.settings().server),
            subscribers: SubscriberRegistry::new(),
            openapi: OnceLock::new(),
            stop,
            response_budget: ResponseBudget::default(),
            page_renders: SingleFlight::default(),
            requests_in_flight: SingleFlight::default(),
            lanes: Arc::default(),
            server,
        }))
    }

    /// The OpenAPI document.
    pub(crate) fn openapi(&self) -> bytes::Bytes {
        self.openapi.get_or_init(|| openapi::document(self.catalogue).into()).clone()
    }

    /// The space of a name; the primary one for `None`. Errors: `NotFound` for an unknown name.
    pub(crate) fn space(&self, name: Option<&str>) -> Result<Arc<Space>, Fault> {
        match name {
            None => Ok(Arc::clone(self.server.primary())),
            Some(name) => self.server.spaces().find(name),
        }
    }

    /// The space of a name, for an identified caller. Errors: `Unauthenticated` when the
    /// credentials are for another space. This is checked before the lookup, so that it does not
    /// reveal which spaces exist. Those of [`AppState::space`].
    pub(crate) fn enter_space(&self, identity: &CallerIdentity, name: Option<&str>) -> Result<Arc<Space>, Fault> {
        identity.check_space(name.unwrap_or(&self.server.primary().name))?;
        self.space(name)
    }

    /// Identifies the caller of a request. Errors: `Unauthenticated` for missing or wrong
    /// credentials, when they are required; `Unavailable` when they cannot be checked.
    pub(crate) async fn identify(&self, headers: &HeaderMap) -> Result<CallerIdentity, Fault> {
        let access = self.server.access();
        // Without authentication, credentials are ignored, even malformed ones.
        if access.is_open() {
            return Ok(CallerIdentity::UNRESTRICTED);
        }
        let bearer = bearer(headers)?;
        if bearer.is_some_and(|token| access.needs_issuer_keys(token)) {
            let server = Arc::clone(&self.server);
            self.blocking(Lane::Slow, move || server.access().fetch_issuer_keys()).await?;
        }
        access.identify(bearer)
    }

    /// The protocol of a request to the REST interface. A remote mount says that it is one: it gets
    /// the files that file protocols show, with the same credentials. Web pages get no hidden
    /// files: browsers send `Sec-Fetch-Site`; and callers without the required credentials get
    /// none.
    pub(crate) fn protocol_of(&self, headers: &HeaderMap, identity: &CallerIdentity) -> Protocol {
        let is_anonymous = identity.token.is_none() && !self.server.access().is_open();
        let is_mount = headers.contains_key(MOUNT_CLIENT) && !headers.contains_key("sec-fetch-site");
        if is_mount && !is_anonymous { Protocol::Remote } else { Protocol::Http }
    }

    /// Runs an operation with one of its handlers ([`OperationEntry::call`] and its variants) and
    /// returns the output with its metadata. Errors: those of the operation; `Unavailable` when the
    /// lane is full.
    pub(crate) async fn run_operation<T: Send + 'static>(
        &self,
        (entry, handler): (&OperationEntry, OperationHandler<T>),
        space: Arc<Space>,
        caller: Caller,
        arguments: serde_json::Value,
    ) -> Result<(T, ResponseMeta), Fault> {
        let server = Arc::clone(&self.server);
        let work = move || {
            let cx = OperationContext::new(&server, &space, &caller);
            Ok((handler(arguments, &cx)?, cx.response_meta()))
        };
        self.blocking(entry.lane, work).await
    }

    pub(crate) fn occupancy(&self, lane: Lane) -> LaneOccupancy {
        self.lanes.occupancy(lane)
    }

    /// Runs blocking work outside the lanes: metrics of the lanes must not wait for a place in one.
    /// Errors: those of the work; `Internal` when it panicked, `Unavailable` when the runtime is
    /// shutting down.
    pub(crate) async fn run_unbounded<T, W>(&self, work: W) -> Result<T, Fault>
    where
        T: Send + 'static,
        W: FnOnce() -> Result<T, Fault> + Send + 'static,
    {
        let span = tracing::Span::current();
        flatten(Lanes::run_unbounded(move || span.in_scope(work)).await)
    }

    /// Runs blocking work in a lane, inside the current tracing span. Errors: those of the work;
    /// `Unavailable` when the lane stays full; `Internal` when it panicked.
    pub(crate) async fn blocking<T, W>(&self, lane: Lane, work: W) -> Result<T, Fault>
    where
        T: Send + 'static,
        W: FnOnce() -> Result<T, Fault> + Send + 'static,
    {
        let span = tracing::Span::current();
        flatten(self.lanes.run(lane, move || span.in_scope(work)).await)
    }

    /// As [`AppState::blocking`], for callers that give up after a timeout; the work continues.
    /// Errors: those of [`AppState::blocking`].
    pub(crate) async fn blocking_spawned<T, W>(&self, lane: Lane, work: W) -> Result<T, Fault>
    where
        T: Send + 'static,
        W: FnOnce() -> Result<T, Fault> + Send + 'static,
    {
        let span = tracing::Span::current();
        flatten(self.lanes.run_spawned(lane, move || span.in_scope(work)).await)
    }
}

/// Converts lane errors to faults.
fn flatten<T>(outcome: Result<Result<T, Fault>, LaneError>) -> Result<T, Fault> {
    match outcome {
        Ok(outcome) => outcome,
        Err(error @ LaneError::Busy { retry_after, .. }) => {
            Err(Fault::unavailable(error.to_string()).with_detail(RETRY_AFTER_KEY, retry_after.as_secs()))
        }
        Err(error @ LaneError::Panicked(_)) => Err(Fault::internal(error)),
        Err(error @ LaneError::Stopped) => Err(Fault::unavailable(error.to_string())),
    }
}

/// Logs a fault once, at the level of its kind.
pub(crate) fn log(fault: &Fault, what: &str, request_id: &str) {
    let kind: Kind = fault.kind();
    match kind.level() {
        svcfs_base::LogLevel::Debug => {
            tracing::debug!(request.id = request_id, kind = kind.name(), error = ?fault, "`{what}`: not found");
        }
        svcfs_base::LogLevel::Info => {
            tracing::info!(request.id = request_id, kind = kind.name(), error = ?fault, "`{what}` was refused");
        }
        // The caller tries again: nothing has failed.
        svcfs_base::LogLevel::Error if kind == Kind::Unavailable && fault.detail().contains_key(RETRY_AFTER_KEY) => {
            tracing::warn!(request.id = request_id, kind = kind.name(), error = ?fault, "`{what}` has to wait");
        }
        svcfs_base::LogLevel::Error => {
            tracing::error!(request.id = request_id, kind = kind.name(), error = ?fault, "`{what}` failed");
        }
    }
}
