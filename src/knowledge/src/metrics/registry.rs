use std::sync::Arc;

use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Metric, Registry};
use svcfs_work::TaskState;

use super::{MountReport, ProcessUsage};
use crate::kernel::{ServerState, Space};
use crate::spaces::SpaceStatus;
use crate::webhooks::WebhookCounts;

/// Audience of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsAudience {
    /// An unauthenticated caller: server-wide metrics only, without names of spaces.
    Public,
    /// A caller with credentials for the server.
    Operator,
}

/// All metrics except those that only a protocol server knows.
pub fn build_registry(server: &ServerState, audience: MetricsAudience) -> Registry {
    let mut registry = Registry::default();
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    let build = metric_family([(version, ConstGauge::new(1_i64))]);
    registry.register("svc_build_info", "The running version, always 1", build);
    let uptime = u64::try_from(server.now().duration_since(server.started_at()).as_secs()).unwrap_or_default();
    registry.register("svc_uptime_seconds", "Seconds since the server started", ConstGauge::new(uptime));
    register_process(&mut registry, server);
    let findings: Vec<usize> =
        server.spaces().list_open().iter().filter_map(|space| space.survey_cache.finding_count()).collect();
    if !findings.is_empty() {
        let help = "Findings of the last content quality survey; absent before the first one";
        registry.register("svc_janitor_issues", help, ConstGauge::new(findings.iter().sum::<usize>()));
    }
    server.metrics().requests.register(&mut registry);
    if audience == MetricsAudience::Operator {
        register_spaces(&mut registry, server);
        register_components(&mut registry, server);
    }
    registry
}

/// The names follow the client libraries of Prometheus.
fn register_process(registry: &mut Registry, server: &ServerState) {
    let start_time = ConstGauge::new(server.started_at().as_second());
    registry.register("process_start_time_seconds", "Start time of the server in seconds since 1970", start_time);
    let Some(ProcessUsage { memory_bytes, peak_memory_bytes: _, threads, open_files, cpu_seconds }) =
        ProcessUsage::current()
    else {
        return;
    };
    let help = "Processor time since the start";
    registry.register("process_cpu_seconds", help, ConstCounter::new(cpu_seconds));
    registry.register("process_resident_memory_bytes", "Resident memory in bytes", ConstGauge::new(memory_bytes));
    registry.register("process_open_fds", "Open file descriptors", ConstGauge::new(open_files));
    registry.register("process_threads", "Threads", ConstGauge::new(threads));
}

/// Name, help text and value of a gauge of each space.
type SpaceGauge = (&'static str, &'static str, fn(&Space) -> u64);

const SPACE_GAUGES: [SpaceGauge; 8] = [
    ("svc_space_writable", "Whether a space accepts writes: 1 or 0", |space| u64::from(space.vfs.health().is_ok())),
    ("svc_space_pages", "Pages in the search index", |space| space.index.page_count().map_or(0, |count| count as u64)),
    ("svc_queue_sets", "Change sets queued for the committer", |space| space.vfs.queue_load().queued_sets as u64),
    ("svc_queue_bytes", "Bytes of the queued change sets", |space| space.vfs.queue_load().queued_bytes as u64),
    ("svc_pending_sets", "Change sets accepted and not committed", |space| space.vfs.queue_load().pending_sets),
    ("svc_log_unsettled_bytes", "Bytes in the log since the last checkpoint", |space| {
        space.vfs.queue_load().uncheckpointed_bytes
    }),
    ("svc_log_bytes", "Size of the log files in bytes", |space| space.vfs.queue_load().log_bytes),
    ("svc_index_behind_changes", "Changes that are not indexed yet", unindexed_changes),
];

/// Number of changes of a space that are not indexed yet.
pub(super) fn unindexed_changes(space: &Space) -> u64 {
    space.vfs.last_seq().0.saturating_sub(space.index_watermark.level())
}

fn register_spaces(registry: &mut Registry, server: &ServerState) {
    let open = server.spaces().list_open();
    let name = |space: &Space| [("space", space.name.clone())];
    let is_open = server.spaces().list_all().into_iter().map(|known| {
        let label = [("space", known.name().to_owned())];
        (label, ConstGauge::new(u64::from(matches!(known, SpaceStatus::Open(_)))))
    });
    registry.register("svc_space_open", "Whether a space is open: 1 or 0", metric_family(is_open));
    for (metric, help, number) in SPACE_GAUGES {
        let numbers = open.iter().map(|space| (name(space), ConstGauge::new(number(space))));
        registry.register(metric, help, metric_family(numbers));
    }
    let vectors = open.iter().filter_map(|space| Some((name(space), space.vectors.as_ref()?.index.status())));
    let vectors: Vec<_> = vectors.collect();
    if !vectors.is_empty() {
        let pending = vectors.iter().map(|(name, status)| (name.clone(), ConstGauge::new(status.pending as u64)));
        registry.register("svc_vectors_pending_pages", "Pages that are not embedded yet", metric_family(pending));
        let chunks = vectors.iter().map(|(name, status)| (name.clone(), ConstGauge::new(status.chunks as u64)));
        registry.register("svc_vectors_chunks", "Parts of pages that can be found by meaning", metric_family(chunks));
    }
    let now = server.now();
    let ages: Vec<_> = open
        .iter()
        .filter_map(|space| Some((name(space), ConstGauge::new(space.backup.age(now)?.as_secs()))))
        .collect();
    if !ages.is_empty() {
        let help = "Seconds since the last verified backup, or since the first attempt";
        registry.register("svc_backup_age_seconds", help, metric_family(ages));
    }
    let positions = open.iter().map(|space| (name(space), ConstCounter::new(space.vfs.last_seq().0)));
    registry.register(
        "svc_changes",
        "Announced change sets: the newest position of the feed",
        metric_family(positions),
    );
    register_webhooks(registry, &open);
    let flushes = open.iter().flat_map(|space| {
        let read = |(flush, times): (svcfs_vfs::FlushKind, _)| {
            ([("space", space.name.clone()), ("what", flush.name().to_owned())], times)
        };
        space.flush_times.by_kind().map(read).collect::<Vec<_>>()
    });
    let help = "Duration of log transactions and checkpoints in seconds";
    registry.register("svc_flush_seconds", help, metric_family(flushes));
}

/// The counters of webhooks, of the spaces that have some.
fn register_webhooks(registry: &mut Registry, open: &[Arc<Space>]) {
    let counts: Vec<_> = open
        .iter()
        .filter_map(|space| Some(([("space", space.name.clone())], space.webhooks.as_ref()?.counts())))
        .collect();
    if counts.is_empty() {
        return;
    }
    let read =
        |number: fn(&WebhookCounts) -> u64| counts.iter().map(move |(label, counts)| (label.clone(), number(counts)));
    let outcomes = counts.iter().flat_map(|([space], counts)| {
        let of = |outcome: &'static str, number| {
            ([space.clone(), ("outcome", outcome.to_owned())], ConstCounter::new(number))
        };
        [of("delivered", counts.delivered), of("failed", counts.failed), of("given_up", counts.given_up)]
    });
    let help = "Webhook notifications since the start by outcome; `failed` counts attempts";
    registry.register("svc_webhook_deliveries", help, metric_family(outcomes));
    let gauge = |(label, number)| (label, ConstGauge::new(number));
    let queued = metric_family(read(|counts| counts.queued).map(gauge));
    registry.register("svc_webhook_queued", "Webhook notifications that wait", queued);
    let disabled = metric_family(read(|counts| counts.disabled).map(gauge));
    registry.register("svc_webhooks_disabled", "Webhooks that were disabled because they failed", disabled);
}

fn register_components(registry: &mut Registry, server: &ServerState) {
    let tasks: Vec<_> = server
        .spaces()
        .list_open()
        .iter()
        .flat_map(|space| {
            space
                .tasks()
                .into_iter()
                .map(|task| ([("space", space.name.clone()), ("task", task.name.to_owned())], task))
        })
        .collect();
    let read = |number: fn(&svcfs_work::TaskStatus) -> u64| {
        tasks.iter().map(move |(labels, task)| (labels.clone(), number(task)))
    };
    let failing = read(|task| u64::from(task.state == TaskState::BackingOff));
    let failing = metric_family(failing.map(|(labels, number)| (labels, ConstGauge::new(number))));
    registry.register("svc_task_failing", "Whether a background task backs off after a failure: 1 or 0", failing);
    let failures = read(|task| task.errors + task.panics);
    let failures = metric_family(failures.map(|(labels, number)| (labels, ConstCounter::new(number))));
    registry.register("svc_task_failures", "Failed steps of background tasks", failures);
    let mounts: Vec<MountReport> = server.metrics().mounts();
    registry.register("svc_mounts", "Mounts of the first space", ConstGauge::new(mounts.len()));
    let mut protocols = server.metrics().protocol_reports();
    protocols.retain(|_, protocol| protocol.enabled);
    if !protocols.is_empty() {
        let healthy = protocols
            .into_iter()
            .map(|(name, protocol)| ([("protocol", name)], ConstGauge::new(u64::from(protocol.healthy == Some(true)))));
        registry.register("svc_protocol_healthy", "Whether a protocol server answers: 1 or 0", metric_family(healthy));
    }
}

/// Values of one metric with their labels.
#[derive(Debug)]
struct LabelledMetric<L, M>(Vec<(L, M)>, MetricType);

/// A metric with several labelled values, computed on request.
pub fn metric_family<L, M>(values: impl IntoIterator<Item = (L, M)>) -> impl Metric
where
    L: EncodeLabelSet + std::fmt::Debug + Send + Sync + 'static,
    M: Metric + prometheus_client::metrics::TypedMetric,
{
    LabelledMetric(values.into_iter().collect(), M::TYPE)
}

impl<L, M> EncodeMetric for LabelledMetric<L, M>
where
    L: EncodeLabelSet,
    M: EncodeMetric,
{
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        self.0.iter().try_for_each(|(labels, value)| value.encode(encoder.encode_family(labels)?))
    }
    fn metric_type(&self) -> MetricType {
        self.1
    }
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
