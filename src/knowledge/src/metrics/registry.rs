//! Everything that is measured, at the moment of asking.

use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Metric, Registry};
use svcfs_work::TaskState;

use super::{MountReport, ProcessUsage};
use crate::kernel::{ServerState, Space};
use crate::spaces::SpaceStatus;

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsAudience {
    /// Somebody unknown, who is told of the server as a whole: not which spaces it has.
    Public,
    /// Somebody with credentials for all of it.
    Operator,
}

/// What is measured, without what only a door knows.
pub fn build_registry(server: &ServerState, audience: MetricsAudience) -> Registry {
    let mut registry = Registry::default();
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    let build = metric_family([(version, ConstGauge::new(1_i64))]);
    registry.register("svc_build_info", "The running version, always 1", build);
    let uptime = u64::try_from(server.now().duration_since(server.started_at()).as_secs()).unwrap_or_default();
    registry.register("svc_uptime_seconds", "Seconds since the server started", ConstGauge::new(uptime));
    of_process(&mut registry, server);
    let looks: Vec<usize> =
        server.spaces().list_open().iter().filter_map(|space| space.survey_cache.finding_count()).collect();
    if !looks.is_empty() {
        let told = "What the last look through the trees found; absent before the first one";
        registry.register("svc_janitor_issues", told, ConstGauge::new(looks.iter().sum::<usize>()));
    }
    server.metrics().requests.show(&mut registry);
    if audience == MetricsAudience::Operator {
        of_spaces(&mut registry, server);
        of_parts(&mut registry, server);
    }
    registry
}

/// The names are those of Prometheus's own client libraries.
fn of_process(registry: &mut Registry, server: &ServerState) {
    let started = ConstGauge::new(server.started_at().as_second());
    registry.register("process_start_time_seconds", "When the server started, in seconds since 1970", started);
    let Some(ProcessUsage { memory_bytes, peak_memory_bytes: _, threads, open_files, cpu_seconds }) =
        ProcessUsage::current()
    else {
        return;
    };
    let told = "Time on processors since the start";
    registry.register("process_cpu_seconds", told, ConstCounter::new(cpu_seconds));
    registry.register("process_resident_memory_bytes", "Memory in use", ConstGauge::new(memory_bytes));
    registry.register("process_open_fds", "Open file descriptors", ConstGauge::new(open_files));
    registry.register("process_threads", "Threads", ConstGauge::new(threads));
}

/// A number of every space.
type SpaceGauge = (&'static str, &'static str, fn(&Space) -> u64);

const OF_SPACES: [SpaceGauge; 8] = [
    ("svc_space_writable", "Whether a space takes writes: 1 or 0", |space| u64::from(space.vfs.health().is_ok())),
    ("svc_space_pages", "Pages that the search index has", |space| {
        space.index.page_count().map_or(0, |count| count as u64)
    }),
    ("svc_queue_sets", "Change sets that wait for the committer", |space| space.vfs.queue_load().queued_sets as u64),
    ("svc_queue_bytes", "What they bring, in bytes", |space| space.vfs.queue_load().queued_bytes as u64),
    ("svc_pending_sets", "Change sets accepted and not settled, queued or in work", |space| {
        space.vfs.queue_load().pending_sets
    }),
    ("svc_log_unsettled_bytes", "What the log holds until the next checkpoint", |space| {
        space.vfs.queue_load().uncheckpointed_bytes
    }),
    ("svc_log_bytes", "The log's files on the disk", |space| space.vfs.queue_load().log_bytes),
    ("svc_index_behind_changes", "Changes that the search index has not read yet", behind),
];

/// How many changes the search index of a space has not read.
pub(super) fn behind(space: &Space) -> u64 {
    space.vfs.last_seq().0.saturating_sub(space.index_watermark.level())
}

fn of_spaces(registry: &mut Registry, server: &ServerState) {
    let open = server.spaces().list_open();
    let name = |space: &Space| [("space", space.name.clone())];
    let is_open = server.spaces().list_all().into_iter().map(|known| {
        let label = [("space", known.name().to_owned())];
        (label, ConstGauge::new(u64::from(matches!(known, SpaceStatus::Open(_)))))
    });
    registry.register("svc_space_open", "Whether a space could be opened: 1 or 0", metric_family(is_open));
    for (metric, told, number) in OF_SPACES {
        let numbers = open.iter().map(|space| (name(space), ConstGauge::new(number(space))));
        registry.register(metric, told, metric_family(numbers));
    }
    let positions = open.iter().map(|space| (name(space), ConstCounter::new(space.vfs.last_seq().0)));
    registry.register(
        "svc_changes",
        "Change sets ever announced: the newest position of the feed",
        metric_family(positions),
    );
    let flushes = open.iter().flat_map(|space| {
        let of = |(flush, times): (svcfs_vfs::FlushKind, _)| {
            ([("space", space.name.clone()), ("what", flush.name().to_owned())], times)
        };
        space.flush_times.each().map(of).collect::<Vec<_>>()
    });
    let told = "Time the disk took, in seconds, for a transaction of the log and for a checkpoint";
    registry.register("svc_flush_seconds", told, metric_family(flushes));
}

fn of_parts(registry: &mut Registry, server: &ServerState) {
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
    let of = |number: fn(&svcfs_work::TaskStatus) -> u64| {
        tasks.iter().map(move |(labels, task)| (labels.clone(), number(task)))
    };
    let failing = of(|task| u64::from(task.state == TaskState::BackingOff));
    let failing = metric_family(failing.map(|(labels, number)| (labels, ConstGauge::new(number))));
    registry.register("svc_task_failing", "Whether a background task pauses after a failure: 1 or 0", failing);
    let failures = of(|task| task.errors + task.panics);
    let failures = metric_family(failures.map(|(labels, number)| (labels, ConstCounter::new(number))));
    registry.register("svc_task_failures", "Steps of background tasks that failed", failures);
    let mounts: Vec<MountReport> = server.metrics().mounts();
    registry.register("svc_mounts", "Places where the first space is mounted", ConstGauge::new(mounts.len()));
    let mut protocols = server.metrics().protocol_reports();
    protocols.retain(|_, protocol| protocol.enabled);
    if !protocols.is_empty() {
        let healthy = protocols
            .into_iter()
            .map(|(name, protocol)| ([("protocol", name)], ConstGauge::new(u64::from(protocol.healthy == Some(true)))));
        registry.register("svc_protocol_healthy", "Whether a protocol server answers: 1 or 0", metric_family(healthy));
    }
}

/// Values of one metric, each with its labels.
#[derive(Debug)]
struct LabelledMetric<L, M>(Vec<(L, M)>, MetricType);

/// Several values of one metric, made at the moment of asking.
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
