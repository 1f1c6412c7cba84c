//! `/metrics` (contract 4.2): everything that is measured, for Prometheus and its like.
//!
//! Written as OpenMetrics for whoever asks for that, as Prometheus does, and in the older text format for everybody else.

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

/// How metrics are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MetricsFormat {
    /// The text format of Prometheus, which everything reads.
    Text,
    /// Its successor.
    OpenMetrics,
}

impl MetricsFormat {
    /// The one a client asks for. Clients that take both say so by preference; OpenMetrics is what those of today prefer.
    fn wanted(headers: &HeaderMap) -> Self {
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

/// The metrics as text, gathered at the moment of asking. Not in a lane: they tell how full those are.
///
/// # Errors
/// `Internal` when the encoder fails.
pub(super) async fn metrics(app: &Arc<AppState>, headers: &HeaderMap) -> Result<Response, Fault> {
    let (audience, form) = (audience(app, headers), MetricsFormat::wanted(headers));
    let asked = Arc::clone(app);
    let text = app.aside(move || gathered(&asked, audience)).await?;
    let text = match form {
        MetricsFormat::Text => as_text(&text),
        MetricsFormat::OpenMetrics => text,
    };
    let mut response = Response::new(text.into());
    response.headers_mut().insert(CONTENT_TYPE, form.media_type());
    response.headers_mut().append(VARY, HeaderValue::from_static("Accept, Authorization"));
    Ok(response)
}

/// A number of a lane.
type LaneGauge = (&'static str, &'static str, fn(LaneOccupancy) -> usize);

const OF_LANES: [LaneGauge; 3] = [
    ("svc_lane_places", "Requests that are worked on at once, at most", |lane| lane.capacity),
    ("svc_lane_busy", "Requests that are worked on", |lane| lane.busy),
    ("svc_lane_waiting", "Requests that wait for a place", |lane| lane.waiting),
];

fn gathered(app: &AppState, audience: MetricsAudience) -> Result<String, Fault> {
    let mut registry = build_registry(&app.server, audience);
    let subscribers = ConstGauge::new(app.subscribers.count());
    registry.register("svc_sse_subscribers", "Clients that follow the event stream", subscribers);
    for (metric, told, number) in OF_LANES {
        let of = |lane: Lane| ([("lane", lane.name())], ConstGauge::new(number(app.occupancy(lane))));
        registry.register(metric, told, metric_family(Lane::ALL.map(of)));
    }
    let keeping: Vec<_> =
        app.server.spaces().list_open().iter().filter_map(|space| Some(space.audit.as_ref()?.status())).collect();
    if !keeping.is_empty() {
        let waiting: usize = keeping.iter().map(|keeping| keeping.pending).sum();
        let told = "Requests that wait to be written to the audit logs";
        registry.register("svc_audit_waiting", told, ConstGauge::new(waiting as u64));
        let lost: u64 = keeping.iter().map(|keeping| keeping.dropped).sum();
        let told = "Requests since the start that could not be kept in the audit logs";
        registry.register("svc_audit_lost", told, ConstGauge::new(lost));
    }
    let mut text = String::new();
    encode(&mut text, &registry).map_err(Fault::internal)?;
    Ok(text)
}

/// The same in the older format. They differ in two things: the name of a counter in what describes it, and the mark of the end.
fn as_text(open: &str) -> String {
    let counter = |line: &'_ str| line.strip_prefix("# TYPE ")?.strip_suffix(" counter").map(str::to_owned);
    let counters: HashSet<String> = open.lines().filter_map(counter).collect();
    let mut text = String::with_capacity(open.len() + 64);
    for line in open.lines().filter(|line| *line != "# EOF") {
        let described = ["# HELP ", "# TYPE "].into_iter().find_map(|lead| Some((lead, line.strip_prefix(lead)?)));
        match described.and_then(|(lead, rest)| Some((lead, rest.split_once(' ')?))) {
            Some((lead, (name, rest))) if counters.contains(name) => {
                text.push_str(&format!("{lead}{name}_total {rest}"));
            }
            Some(_) | None => text.push_str(line),
        }
        text.push('\n');
    }
    text
}
