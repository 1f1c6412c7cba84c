//! `/metrics` (contract 4.2): gauges only, no per-request counters.

use http::header::{CONTENT_TYPE, HeaderValue};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use svcfs_base::Fault;
use warp::reply::Response;

use super::health::{VERSION, uptime};
use crate::app::App;

/// The metrics as text, gathered at the moment of asking.
///
/// # Errors
/// `Internal` when the encoder fails.
pub(super) fn metrics(app: &App) -> Result<Response, Fault> {
    let mut registry = Registry::default();
    let build = Family::<Vec<(&str, &str)>, Gauge>::default();
    build.get_or_create(&vec![("version", VERSION)]).set(1);
    registry.register("svc_build_info", "The running version, always 1", build);
    let mut gauge = |name: &str, help: &str, value: i64| {
        let gauge = Gauge::<i64>::default();
        gauge.set(value);
        registry.register(name, help, gauge);
    };
    let seconds = i64::try_from(uptime(app).as_secs()).unwrap_or(i64::MAX);
    gauge("svc_uptime_seconds", "Seconds since the server started", seconds);
    let subscribers = i64::try_from(app.subscribers.count()).unwrap_or(i64::MAX);
    gauge("svc_sse_subscribers", "Clients that follow the event stream", subscribers);
    let looks: Vec<usize> = app.server.spaces().open().iter().filter_map(|space| space.health.findings()).collect();
    if !looks.is_empty() {
        let found = i64::try_from(looks.iter().sum::<usize>()).unwrap_or(i64::MAX);
        gauge("svc_janitor_issues", "What the last look through the trees found; absent before the first one", found);
    }
    let mut text = String::new();
    encode(&mut text, &registry).map_err(Fault::internal)?;
    let mut response = Response::new(text.into());
    let mime = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, mime);
    Ok(response)
}
