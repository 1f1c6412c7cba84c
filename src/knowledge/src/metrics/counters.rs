//! What is counted while the server runs.
//!
//! Every label is one of few values: what callers send never becomes one.

use std::borrow::Cow;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use svcfs_base::{Fault, Protocol};
use svcfs_vfs::{FlushKind, Vfs};

/// Bounds of the buckets, in seconds: from what memory answers to what somebody gives up on.
const BOUNDS: [f64; 13] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

type StaticLabel = (&'static str, &'static str);
/// A label whose values a protocol names.
type DynamicLabel = (&'static str, Cow<'static, str>);
type DurationHistograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// Methods that are counted by their name; others are counted together.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
/// Those of WebDAV beside them.
const METHODS_OF_WEBDAV: [&str; 7] = ["PROPFIND", "PROPPATCH", "MKCOL", "COPY", "MOVE", "LOCK", "UNLOCK"];
/// What is counted together.
const OTHER: &str = "other";
/// What was done.
const OK: &str = "ok";

/// What the doors of a server count.
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
            operation_times: Family::new_with_constructor(times),
            requests: Family::default(),
            request_times: times(),
            mount_requests: Family::default(),
            mount_times: Family::new_with_constructor(times),
        }
    }
}

fn times() -> Histogram {
    Histogram::new(BOUNDS)
}

impl RequestMetrics {
    /// An operation was asked through a door, and answered or refused.
    pub fn record_operation<T>(
        &self,
        protocol: Protocol,
        operation: &'static str,
        outcome: &Result<T, Fault>,
        took: Duration,
    ) {
        let outcome = outcome.as_ref().map_or_else(|fault| fault.kind().name(), |_| OK);
        self.served(protocol, operation, Cow::Borrowed(outcome), took);
    }

    /// An operation of a protocol, by the protocol's names for it and for what became of it (none when it was done).
    pub fn record_protocol_call(
        &self,
        protocol: Protocol,
        operation: &'static str,
        refusal: Option<String>,
        took: Duration,
    ) {
        self.served(protocol, operation, refusal.map_or(Cow::Borrowed(OK), Cow::Owned), took);
    }

    /// A request of a protocol over HTTP was answered, as far as the head of its answer; `operation` is the protocol's name for it, where it has
    /// one beside the method.
    pub(crate) fn requested(
        &self,
        protocol: Protocol,
        (operation, method): (Option<&str>, &str),
        status: u16,
        took: Duration,
    ) {
        let mut methods = METHODS.into_iter().chain(METHODS_OF_WEBDAV);
        let operation = match (protocol, operation) {
            (Protocol::S3, Some(operation)) => Cow::Owned(operation.to_owned()),
            (Protocol::S3, None) => Cow::Borrowed(OTHER),
            _ => Cow::Borrowed(methods.find(|known| *known == method).unwrap_or(OTHER)),
        };
        let outcome = if status < 400 { Cow::Borrowed(OK) } else { Cow::Owned(status.to_string()) };
        self.served(protocol, operation, outcome, took);
    }

    fn served(
        &self,
        protocol: Protocol,
        operation: impl Into<Cow<'static, str>>,
        outcome: Cow<'static, str>,
        took: Duration,
    ) {
        let (protocol, operation) = (("protocol", Cow::Borrowed(protocol.name())), ("operation", operation.into()));
        self.operations.get_or_create(&[protocol.clone(), operation.clone(), ("outcome", outcome)]).inc();
        self.operation_times.get_or_create(&[protocol, operation]).observe(took.as_secs_f64());
    }

    /// An HTTP request was answered, as far as the head of its answer.
    pub fn record_http_response(&self, method: &str, status: u16, took: Duration) {
        let method = METHODS.into_iter().find(|known| *known == method).unwrap_or(OTHER);
        let labels = [("method", method.to_owned()), ("status", status.to_string())];
        self.requests.get_or_create(&labels).inc();
        self.request_times.observe(took.as_secs_f64());
    }

    /// A request of the kernel for a mount was answered; `outcome` is `ok`, or what it was refused with.
    pub fn record_mount_request(&self, operation: &'static str, outcome: &'static str, took: Duration) {
        let operation = ("operation", operation);
        self.mount_requests.get_or_create(&[operation, ("outcome", outcome)]).inc();
        self.mount_times.get_or_create(&[operation]).observe(took.as_secs_f64());
    }

    /// Has a registry show all of it.
    pub(super) fn show(&self, registry: &mut Registry) {
        let Self { operations, operation_times, requests, request_times, mount_requests, mount_times } = self;
        let told = "Operations asked, by door and outcome (`ok`, or the kind of the fault; over WebDAV, S3 and NFS the status)";
        registry.register("svc_operations", told, operations.clone());
        let told = "Time an operation took, in seconds; over HTTP and MCP without waiting for its lane";
        registry.register("svc_operation_seconds", told, operation_times.clone());
        registry.register("svc_http_requests", "HTTP requests answered, by method and status", requests.clone());
        let told = "Time until the head of an HTTP answer, in seconds";
        registry.register("svc_http_request_seconds", told, request_times.clone());
        let told =
            "Requests of the kernel for mounts, by outcome (`ok`, `word` for ordinary noes, or the kind of the fault)";
        registry.register("svc_mount_requests", told, mount_requests.clone());
        let told = "Time a request of the kernel for a mount took, in seconds";
        registry.register("svc_mount_request_seconds", told, mount_times.clone());
    }
}

/// How long the disk of a space takes.
#[derive(Debug, Clone)]
pub struct FlushTimes([(FlushKind, Histogram); 2]);

impl FlushTimes {
    /// Those of a tree, from here on.
    pub fn new(vfs: &Vfs) -> Self {
        let flushes = Self(FlushKind::ALL.map(|flush| (flush, times())));
        let counted = flushes.clone();
        vfs.on_flush(Box::new(move |flush, took| {
            if let Some((_, times)) = counted.0.iter().find(|(known, _)| *known == flush) {
                times.observe(took.as_secs_f64());
            }
        }));
        flushes
    }

    /// The times of each kind.
    pub(super) fn each(&self) -> impl Iterator<Item = (FlushKind, Histogram)> {
        self.0.iter().cloned()
    }
}
