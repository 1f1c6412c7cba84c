//! `/metrics` for Prometheus: in OpenMetrics format if `Accept` contains it, else in the older text
//! format.

use std::collections::HashSet;
use std::sync::Arc;

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue, VARY};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::gauge::ConstGauge;
use svcfs_base::Fault;
use svcfs_knowledge::metrics::{MetricsAudience, build_registry, metric_family};
use svcfs_work::{Lane, LaneOccupancy};
use warp::reply::Response;

use super::health::audience;
use crate::app::AppState;

/// The output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MetricsFormat {
    /// The text format of Prometheus.
    Text,
    OpenMetrics,
}

impl MetricsFormat {
    /// The requested format. Current clients accept both and prefer OpenMetrics.
    fn from_accept(headers: &HeaderMap) -> Self {
        let mut accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        if accepted.any(|value| value.contains("application/openmetrics-text")) {
            Self::OpenMetrics
        } else {
            Self::Text
        }
    }
    const fn media_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        })
    }
}

/// The current metrics as text. Runs outside the lanes, which are among the metrics. Errors:
/// `Internal` when the encoder fails.
pub(super) async fn metrics(app: &Arc<AppState>, headers: &HeaderMap) -> Result<Response, Fault> {
    let (audience, format) = (audience(app, headers), MetricsFormat::from_accept(headers));
    let state = Arc::clone(app);
    let text = app.run_unbounded(move || encode_metrics(&state, audience)).await?;
    let text = match format {
        MetricsFormat::Text => as_text(&text),
        MetricsFormat::OpenMetrics => text,
    };
    let mut response = Response::new(text.into());
    response.headers_mut().insert(CONTENT_TYPE, format.media_type());
    response.headers_mut().append(VARY, HeaderValue::from_static("Accept, Authorization"));
    Ok(response)
}

/// Name, help text and value of a gauge.
type LaneGauge = (&'static str, &'static str, fn(LaneOccupancy) -> usize);

const LANE_GAUGES: [LaneGauge; 3] = [
    ("svc_lane_places", "Maximum number of concurrent requests", |lane| lane.capacity),
    ("svc_lane_busy", "Requests in progress", |lane| lane.busy),
    ("svc_lane_waiting", "Requests waiting for a place in the lane", |lane| lane.waiting),
];

fn encode_metrics(app: &AppState, audience: MetricsAudience) -> Result<String, Fault> {
    let mut registry = build_registry(&app.server, audience);
    let subscribers = ConstGauge::new(app.subscribers.count());
    registry.register("svc_sse_subscribers", "Clients of the event stream", subscribers);
    for (metric, help, value) in LANE_GAUGES {
        let of = |lane: Lane| ([("lane", lane.name())], ConstGauge::new(value(app.occupancy(lane))));
        registry.register(metric, help, metric_family(Lane::ALL.map(of)));
    }
    let audit_logs: Vec<_> =
        app.server.spaces().list_open().iter().filter_map(|space| Some(space.audit.as_ref()?.status())).collect();
    if !audit_logs.is_empty() {
        let waiting: usize = audit_logs.iter().map(|status| status.pending).sum();
        let help = "Requests waiting to be written to the audit logs";
        registry.register("svc_audit_waiting", help, ConstGauge::new(waiting as u64));
        let dropped: u64 = audit_logs.iter().map(|status| status.dropped).sum();
        let help = "Requests since the start that are missing in the audit logs";
        registry.register("svc_audit_lost", help, ConstGauge::new(dropped));
    }
    let mut text = String::new();
    encode(&mut text, &registry).map_err(Fault::internal)?;
    Ok(text)
}

/// Converts OpenMetrics to the text format: the names of counters in their descriptions, and the
/// end marker differ.
fn as_text(openmetrics: &str) -> String {
    let counter = |line: &'_ str| line.strip_prefix("# TYPE ")?.strip_suffix(" counter").map(str::to_owned);
    let counters: HashSet<String> = openmetrics.lines().filter_map(counter).collect();
    let mut text = String::with_capacity(openmetrics.len() + 64);
    for line in openmetrics.lines().filter(|line| *line != "# EOF") {
        let described =
            ["# HELP ", "# TYPE "].into_iter().find_map(|prefix| Some((prefix, line.strip_prefix(prefix)?)));
        match described.and_then(|(prefix, rest)| Some((prefix, rest.split_once(' ')?))) {
            Some((prefix, (name, rest))) if counters.contains(name) => {
                text.push_str(&format!("{prefix}{name}_total {rest}"));
            }
            Some(_) | None => text.push_str(line),
        }
        text.push('\n');
    }
    text
}
