//! The running HTTP door: what every request shares, and the one dispatcher.

use std::sync::Arc;

use http::HeaderMap;
use svcfs_base::{Caller, Fault, Kind};
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
use crate::specials::events::SubscriberRegistry;
use crate::{HttpError, openapi};

/// What every request shares.
pub(crate) struct AppState {
    /// The operations this door offers; tests bring their own.
    pub catalogue: &'static [OperationArea],
    /// What answers.
    pub server: Arc<ServerState>,
    /// What paths lead to.
    pub table: RouteTable,
    /// Which hosts and origins may ask.
    pub hosts: AllowedHosts,
    /// Who follows the event stream.
    pub subscribers: SubscriberRegistry,
    /// The OpenAPI document.
    pub openapi: bytes::Bytes,
    /// Asked for when the server goes down; ends streams.
    pub stop: CancellationToken,
    /// Memory for long answers.
    pub sending: ResponseBudget,
    /// Where work is done that waits.
    pub lanes: Arc<Lanes>,
}

impl AppState {
    /// A door to `server`'s spaces.
    ///
    /// # Errors
    /// `Routes` when two operations cannot be told apart.
    pub(crate) fn new(
        catalogue: &'static [OperationArea],
        server: Arc<ServerState>,
        stop: CancellationToken,
    ) -> Result<Arc<Self>, HttpError> {
        Ok(Arc::new(Self {
            catalogue,
            table: RouteTable::new(catalogue)?,
            hosts: AllowedHosts::new(&server.settings().server),
            subscribers: SubscriberRegistry::new(),
            openapi: openapi::document(catalogue).into(),
            stop,
            sending: ResponseBudget::default(),
            lanes: Arc::default(),
            server,
        }))
    }

    /// The space of a name; the primary one when none is given.
    ///
    /// # Errors
    /// `NotFound` for a name that is no space's; there is no falling back (contract 4.1).
    pub(crate) fn space(&self, name: Option<&str>) -> Result<Arc<Space>, Fault> {
        match name {
            None => Ok(Arc::clone(self.server.primary())),
            Some(name) => self.server.spaces().find(name),
        }
    }

    /// The space of a name, for somebody with credentials.
    ///
    /// # Errors
    /// `Unauthenticated` when they open another space only: said before the name is looked up, so that they tell nothing of which spaces there
    /// are. As of [`App::space`].
    pub(crate) fn enter(&self, identity: &CallerIdentity, name: Option<&str>) -> Result<Arc<Space>, Fault> {
        identity.check_space(name.unwrap_or(&self.server.primary().name))?;
        self.space(name)
    }

    /// Who sent a request.
    ///
    /// # Errors
    /// `Unauthenticated` when that is not known, and must be; `Unavailable` when it cannot be found out.
    pub(crate) async fn identify(&self, headers: &HeaderMap) -> Result<CallerIdentity, Fault> {
        let access = self.server.access();
        // Where nothing is asked for, a header that other servers ask for does no harm.
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

    /// Runs an operation as `ask` does, [`Entry::call`], [`Entry::write`] or [`Entry::tell`]: what it answers, and what is to be told
    /// beside it.
    ///
    /// # Errors
    /// The operation's own, or `Unavailable` when the lane is full.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        (entry, ask): (&OperationEntry, OperationHandler<T>),
        space: Arc<Space>,
        caller: Caller,
        arguments: serde_json::Value,
    ) -> Result<(T, ResponseMeta), Fault> {
        let server = Arc::clone(&self.server);
        let work = move || {
            let cx = OperationContext::new(&server, &space, &caller);
            Ok((ask(arguments, &cx)?, cx.response_meta()))
        };
        self.blocking(entry.lane, work).await
    }

    /// How full a lane is.
    pub(crate) fn occupancy(&self, lane: Lane) -> LaneOccupancy {
        self.lanes.occupancy(lane)
    }

    /// Runs blocking work beside the lanes: what tells how full they are must not wait for them.
    ///
    /// # Errors
    /// The work's own; `Internal` when it panicked, `Unavailable` when the runtime is shutting down.
    pub(crate) async fn aside<T, W>(&self, work: W) -> Result<T, Fault>
    where
        T: Send + 'static,
        W: FnOnce() -> Result<T, Fault> + Send + 'static,
    {
        let span = tracing::Span::current();
        told(Lanes::run_unbounded(move || span.in_scope(work)).await)
    }

    /// Runs blocking work in a lane, inside the present tracing span.
    ///
    /// # Errors
    /// The work's own; `Unavailable` when the lane stays full; `Internal` when it panicked.
    pub(crate) async fn blocking<T, W>(&self, lane: Lane, work: W) -> Result<T, Fault>
    where
        T: Send + 'static,
        W: FnOnce() -> Result<T, Fault> + Send + 'static,
    {
        let span = tracing::Span::current();
        told(self.lanes.run(lane, move || span.in_scope(work)).await)
    }

    /// The same, for whoever gives it up when it takes too long.
    ///
    /// # Errors
    /// As of [`App::blocking`].
    pub(crate) async fn watched<T, W>(&self, lane: Lane, work: W) -> Result<T, Fault>
    where
        T: Send + 'static,
        W: FnOnce() -> Result<T, Fault> + Send + 'static,
    {
        let span = tracing::Span::current();
        told(self.lanes.run_spawned(lane, move || span.in_scope(work)).await)
    }
}

/// What became of blocking work, for whoever asked for it.
fn told<T>(outcome: Result<Result<T, Fault>, LaneError>) -> Result<T, Fault> {
    match outcome {
        Ok(outcome) => outcome,
        Err(error @ LaneError::Busy { retry_after, .. }) => {
            Err(Fault::unavailable(error.to_string()).with_detail(RETRY_AFTER_KEY, retry_after.as_secs()))
        }
        Err(error @ LaneError::Panicked(_)) => Err(Fault::internal(error)),
        Err(error @ LaneError::Stopped) => Err(Fault::unavailable(error.to_string())),
    }
}

/// Logs a fault once, at the edge, as loudly as its kind deserves.
pub(crate) fn log(fault: &Fault, what: &str, request_id: &str) {
    let kind: Kind = fault.kind();
    match kind.level() {
        svcfs_base::LogLevel::Debug => {
            tracing::debug!(request.id = request_id, kind = kind.name(), error = ?fault, "`{what}` found nothing");
        }
        svcfs_base::LogLevel::Info => {
            tracing::info!(request.id = request_id, kind = kind.name(), error = ?fault, "`{what}` was refused");
        }
        svcfs_base::LogLevel::Error => {
            tracing::error!(request.id = request_id, kind = kind.name(), error = ?fault, "`{what}` failed");
        }
    }
}
