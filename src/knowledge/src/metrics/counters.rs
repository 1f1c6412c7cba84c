//! Counters and histograms of requests.
//!
//! Every label has few values: text from clients never becomes a label.

use std::borrow::Cow;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use svcfs_base::{Fault, Protocol};
use svcfs_vfs::{FlushKind, Vfs};

/// Histogram bucket bounds in seconds, from memory access to client timeouts.
const BOUNDS: [f64; 13] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

type StaticLabel = (&'static str, &'static str);
/// A label with protocol-specific values.
type DynamicLabel = (&'static str, Cow<'static, str>);
type DurationHistograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// HTTP methods counted by name; others are counted as [`OTHER`].
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
/// Additional methods of WebDAV.
const WEBDAV_METHODS: [&str; 7] = ["PROPFIND", "PROPPATCH", "MKCOL", "COPY", "MOVE", "LOCK", "UNLOCK"];
const OTHER: &str = "other";
/// Outcome of a success.
const OK: &str = "ok";

/// Metrics of requests, of all protocols.
pub struct RequestMetrics {
    operations: Family<[DynamicLabel; 3], Counter>,
    operation_times: DurationHistograms<[DynamicLabel; 2]>,
    requests: Family<[(&'static str, String); 2], Counter>,
    request_times: Histogram,
    mount_requests: Family<[StaticLabel; 2], Counter>,
    mount_times: DurationHistograms<[StaticLabel; 1]>,
}

impl Default for RequestMetrics {
    fn default() -> Self {
        Self {
            operations: Family::default(),
            operation_times: Family::new_with_constructor(histogram),
            requests: Family::default(),
            request_times: histogram(),
            mount_requests: Family::default(),
            mount_times: Family::new_with_constructor(histogram),
        }
    }
}

fn histogram() -> Histogram {
    Histogram::new(BOUNDS)
}

impl RequestMetrics {
    /// Counts an operation.
    pub fn record_operation<T>(
        &self,
        protocol: Protocol,
        operation: &'static str,
        outcome: &Result<T, Fault>,
        duration: Duration,
    ) {
        let outcome = outcome.as_ref().map_or_else(|fault| fault.kind().name(), |_| OK);
        self.record(protocol, operation, Cow::Borrowed(outcome), duration);
    }

    /// Counts a call by the protocol's own names of operation and error (none on success).
    pub fn record_protocol_call(
        &self,
        protocol: Protocol,
        operation: &'static str,
        refusal: Option<String>,
        duration: Duration,
    ) {
        self.record(protocol, operation, refusal.map_or(Cow::Borrowed(OK), Cow::Owned), duration);
    }

    /// Counts a request of a protocol over HTTP when the response head is sent; `operation` is the
    /// protocol's name, if it is not the method.
    pub(crate) fn record_request(
        &self,
        protocol: Protocol,
        (operation, method): (Option<&str>, &str),
        status: u16,
        duration: Duration,
    ) {
        let mut methods = METHODS.into_iter().chain(WEBDAV_METHODS);
        let operation = match (protocol, operation) {
            (Protocol::S3, Some(operation)) => Cow::Owned(operation.to_owned()),
            (Protocol::S3, None) => Cow::Borrowed(OTHER),
            _ => Cow::Borrowed(methods.find(|known| *known == method).unwrap_or(OTHER)),
        };
        let outcome = if status < 400 { Cow::Borrowed(OK) } else { Cow::Owned(status.to_string()) };
        self.record(protocol, operation, outcome, duration);
    }

    fn record(
        &self,
        protocol: Protocol,
        operation: impl Into<Cow<'static, str>>,
        outcome: Cow<'static, str>,
        duration: Duration,
    ) {
        let (protocol, operation) = (("protocol", Cow::Borrowed(protocol.name())), ("operation", operation.into()));
        self.operations.get_or_create(&[protocol.clone(), operation.clone(), ("outcome", outcome)]).inc();
        self.operation_times.get_or_create(&[protocol, operation]).observe(duration.as_secs_f64());
    }

    /// Counts an HTTP request when the response head is sent.
    pub fn record_http_response(&self, method: &str, status: u16, duration: Duration) {
        let method = METHODS.into_iter().find(|known| *known == method).unwrap_or(OTHER);
        let labels = [("method", method.to_owned()), ("status", status.to_string())];
        self.requests.get_or_create(&labels).inc();
        self.request_times.observe(duration.as_secs_f64());
    }

    /// Counts a kernel request of a mount; `outcome` is `ok` or the error.
    pub fn record_mount_request(&self, operation: &'static str, outcome: &'static str, duration: Duration) {
        let operation = ("operation", operation);
        self.mount_requests.get_or_create(&[operation, ("outcome", outcome)]).inc();
        self.mount_times.get_or_create(&[operation]).observe(duration.as_secs_f64());
    }

    /// Adds the metrics to a registry.
    pub(super) fn register(&self, registry: &mut Registry) {
        let Self { operations, operation_times, requests, request_times, mount_requests, mount_times } = self;
        let help = "Operations by protocol and outcome (`ok` or the fault kind; the status for WebDAV, S3 and NFS)";
        registry.register("svc_operations", help, operations.clone());
        let help = "Duration of operations in seconds; for HTTP and MCP without the wait for a lane";
        registry.register("svc_operation_seconds", help, operation_times.clone());
        registry.register("svc_http_requests", "HTTP requests by method and status", requests.clone());
        let help = "Time to the head of HTTP responses in seconds";
        registry.register("svc_http_request_seconds", help, request_times.clone());
        let help = "Kernel requests of mounts by outcome (`ok`, `word` for ordinary errno results, or the fault kind)";
        registry.register("svc_mount_requests", help, mount_requests.clone());
        let help = "Duration of kernel requests of mounts in seconds";
        registry.register("svc_mount_request_seconds", help, mount_times.clone());
    }
}

/// Durations of disk flushes of a space.
#[derive(Debug, Clone)]
pub struct FlushTimes([(FlushKind, Histogram); 2]);

impl FlushTimes {
    /// Starts to measure the flushes of a tree.
    pub fn new(vfs: &Vfs) -> Self {
        let flushes = Self(FlushKind::ALL.map(|flush| (flush, histogram())));
        let observed = flushes.clone();
        vfs.on_flush(Box::new(move |flush, duration| {
            if let Some((_, histogram)) = observed.0.iter().find(|(known, _)| *known == flush) {
                histogram.observe(duration.as_secs_f64());
            }
        }));
        flushes
    }

    /// The durations by kind.
    pub(super) fn by_kind(&self) -> impl Iterator<Item = (FlushKind, Histogram)> {
        self.0.iter().cloned()
    }
}
