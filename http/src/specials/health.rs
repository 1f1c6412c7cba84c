//! `/health`, `/healthz`, `/readyz` (contract 4.2).

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use serde_json::json;
use svcfs_base::{Fault, Permissions};
use svcfs_knowledge::access::CallerIdentity;
use svcfs_knowledge::kernel::Space;
use svcfs_knowledge::metrics::{MetricsAudience, ServerReadiness, index_progress, readiness_report};
use svcfs_work::Lane;
use warp::reply::Response;

use crate::app::{AppState, log};
use crate::bind::bearer;
use crate::reply;

/// How long the storage may take to show that it works.
const PATIENCE: Duration = Duration::from_millis(500);

/// The version in `/healthz`, metrics and the OpenAPI document.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// `{status: ok}`: the process answers.
pub(super) fn health() -> Response {
    reply::json(StatusCode::OK, &json!({ "status": "ok" }))
}

/// The same with uptime (`1h2m3.4s`), version, and how far the search indexes of all spaces have come.
pub(super) fn healthz(app: &AppState) -> Response {
    let uptime = duration_text(uptime(app));
    let index = index_progress(&app.server);
    reply::json(StatusCode::OK, &json!({ "status": "ok", "uptime": uptime, "version": VERSION, "index": index }))
}

/// Whether writes can be accepted; 503 when a space's storage, or a protocol server, does not show that it can within 500 ms. Operators are
/// told of every space and of each part that is sick.
pub(super) async fn readyz(app: &Arc<AppState>, space: Arc<Space>, headers: &HeaderMap) -> Response {
    let (asked, audience) = (Arc::clone(app), audience(app, headers));
    let probe = app.watched(Lane::Quick, move || Ok(readiness_report(&asked.server, &space, audience)));
    let error = match tokio::time::timeout(PATIENCE, probe).await {
        Ok(Ok(report)) => {
            let status = match report.status {
                ServerReadiness::Ready => StatusCode::OK,
                ServerReadiness::StorageUnreachable | ServerReadiness::ProtocolUnhealthy => {
                    StatusCode::SERVICE_UNAVAILABLE
                }
            };
            return reply::json(status, &json!(report));
        }
        Ok(Err(fault)) => {
            log(&fault, "readyz", "-");
            fault.message().to_owned()
        }
        Err(_) => format!("the storage did not answer within {} ms", PATIENCE.as_millis()),
    };
    let body = json!({ "status": ServerReadiness::StorageUnreachable, "error": error });
    reply::json(StatusCode::SERVICE_UNAVAILABLE, &body)
}

/// Who asks how the server is doing. Nobody needs credentials for that; whoever has some for all of it is told more.
pub(super) fn audience(app: &AppState, headers: &HeaderMap) -> MetricsAudience {
    match known(app, headers) {
        Ok(CallerIdentity { space: None, permissions: Permissions { folder: None, scope: _ }, .. }) => {
            MetricsAudience::Operator
        }
        Ok(_) | Err(_) => MetricsAudience::Public,
    }
}

/// Who has these credentials. Nobody else is asked who that might be: an identity provider whose keys are not here yet makes a stranger of its
/// callers, for the moment.
///
/// # Errors
/// `Unauthenticated` when that is nobody who is known.
pub(crate) fn known(app: &AppState, headers: &HeaderMap) -> Result<CallerIdentity, Fault> {
    let access = app.server.access();
    // Where nothing is asked for, a header that other servers ask for does no harm.
    if access.is_open() {
        return Ok(CallerIdentity::UNRESTRICTED);
    }
    bearer(headers).and_then(|bearer| access.identify(bearer))
}

/// Time since the server started.
pub(super) fn uptime(app: &AppState) -> Duration {
    let time = app.server.now().duration_since(app.server.started_at());
    Duration::try_from(time).unwrap_or_default()
}

/// `1h2m3.4s`: hours and minutes only when there are any, seconds to a tenth.
fn duration_text(time: Duration) -> String {
    let (hours, minutes) = (time.as_secs() / 3600, time.as_secs() / 60 % 60);
    let seconds = format!("{}.{}s", time.as_secs() % 60, time.subsec_millis() / 100);
    match (hours, minutes) {
        (0, 0) => seconds,
        (0, _) => format!("{minutes}m{seconds}"),
        _ => format!("{hours}h{minutes}m{seconds}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_reads_as_hours_minutes_and_seconds() {
        for (millis, text) in [(0, "0.0s"), (61_450, "1m1.4s"), (3_723_400, "1h2m3.4s"), (7_200_000, "2h0m0.0s")] {
            assert_eq!(duration_text(Duration::from_millis(millis)), text);
        }
    }
}
