//! `/health`, `/healthz`, `/readyz` (contract 4.2).

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use serde_json::json;
use svcfs_knowledge::kernel::Space;
use svcfs_work::Lane;
use warp::reply::Response;

use crate::app::{App, log};
use crate::reply;

/// How long the storage may take to show that it works.
const PATIENCE: Duration = Duration::from_millis(500);

/// The version in `/healthz`, metrics and the OpenAPI document.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// `{status: ok}`: the process answers.
pub(super) fn health() -> Response {
    reply::json(StatusCode::OK, &json!({ "status": "ok" }))
}

/// The same with uptime (`1h2m3.4s`) and version.
pub(super) fn healthz(app: &App) -> Response {
    let uptime = duration_text(uptime(app));
    reply::json(StatusCode::OK, &json!({ "status": "ok", "uptime": uptime, "version": VERSION }))
}

/// Whether writes can be accepted; 503 when the storage does not show it within 500 ms.
pub(super) async fn readyz(app: &App, space: Arc<Space>) -> Response {
    let probe = app.blocking(Lane::Quick, move || space.vfs.health());
    let error = match tokio::time::timeout(PATIENCE, probe).await {
        Ok(Ok(())) => return reply::json(StatusCode::OK, &json!({ "status": "ready" })),
        Ok(Err(fault)) => {
            log(&fault, "readyz", "-");
            fault.message().to_owned()
        }
        Err(_) => format!("the storage did not answer within {} ms", PATIENCE.as_millis()),
    };
    let body = json!({ "status": "storage-unreachable", "error": error });
    reply::json(StatusCode::SERVICE_UNAVAILABLE, &body)
}

/// Time since the server started.
pub(super) fn uptime(app: &App) -> Duration {
    let time = app.server.now().duration_since(app.server.started());
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
