//! Connections: access check, limits, and the messages in flight.

use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use svcfs_work::{Lane, Lanes};
use tokio::io::BufReader;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, MutexGuard, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::NfsServer;
use crate::clients::NfsClient;
use crate::connection_limiter::{LruConnectionLimiter, SlotGuard};
use crate::record_marking::{self, MAX_RECORD_BYTES, MessageBudget, kib};
use crate::rpc::RpcReply;
use crate::write_sessions::IDLE_TIMEOUT;

/// Maximum number of connections; beyond it, an idle one is evicted
/// ([`crate::connection_limiter`]).
const MAX_CONNECTIONS: usize = 256;
/// Concurrent calls of one connection.
const MAX_CONNECTION_CALLS: usize = 32;
/// Large replies of one connection in flight: a client that does not read its replies must not use
/// up the budget of the others.
const MAX_LARGE_REPLIES: usize = 8;
/// Replies from this size on are sent while the next call is read: 1.3 times the throughput for one
/// client.
const DETACHED_REPLY_BYTES: usize = 256 << 10;
/// Memory budget of all connections for calls, and the same again for replies, in KiB.
const BUDGET_KIB: usize = 128 << 10;
/// Time for calls in progress to finish at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(15);
/// Pause after `accept` failed (out of file descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Time that a call may wait for a free lane; clients retransmit after a minute.
const LANE_TIMEOUT: Duration = Duration::from_secs(60);

/// How often inodes of removed files are looked for.
const INODE_CLEANUP_INTERVAL: Duration = Duration::from_secs(60 * 60);

pub(crate) fn lanes() -> Lanes {
    Lanes::new(32, 4, LANE_TIMEOUT)
}

struct ConnectionContext {
    protocol: Arc<NfsServer>,
    /// Memory for calls received, and for replies to send.
    call_budget: MessageBudget,
    reply_budget: MessageBudget,
    stop: CancellationToken,
}

/// Logs the first rejected client only.
#[derive(Default)]
struct RejectionNotice {
    was_logged: AtomicBool,
}

impl RejectionNotice {
    /// Whether to log a rejection: once, and not for loopback, where programs probe the port.
    fn should_log(&self, address: IpAddr) -> bool {
        !address.to_canonical().is_loopback() && !self.was_logged.swap(true, Ordering::Relaxed)
    }
}

pub(crate) async fn serve(listener: TcpListener, protocol: Arc<NfsServer>, stop: CancellationToken) {
    if let Ok(address) = listener.local_addr() {
        let _already_set = protocol.port.set(address.port());
    }
    let opening = Arc::clone(&protocol);
    // The stable writes of a crashed server are replayed before the first call is read.
    let _opened = protocol.lanes.run(Lane::Slow, move || drop(opening.exports())).await;
    let saving = tokio::spawn(save_due_files(Arc::clone(&protocol), stop.clone()));
    let cleaning = tokio::spawn(clean_inodes(Arc::clone(&protocol), stop.clone()));
    let shared = Arc::new(ConnectionContext {
        protocol: Arc::clone(&protocol),
        call_budget: MessageBudget::new(BUDGET_KIB),
        reply_budget: MessageBudget::new(BUDGET_KIB),
        stop: stop.clone(),
    });
    let limiter = LruConnectionLimiter::new(MAX_CONNECTIONS);
    let mut connections = JoinSet::new();
    let rejection_notice = RejectionNotice::default();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, from)) => {
                    if protocol.settings.allows(from.ip()) {
                        let slot = tokio::select! {
                            () = stop.cancelled() => break,
                            slot = limiter.acquire() => slot,
                        };
                        connections.spawn(serve_connection(stream, from, Arc::clone(&shared), slot));
                    } else if rejection_notice.should_log(from.ip()) {
                        tracing::warn!(%from, "rejected a client that is not in `nfs.allow`; further rejections are not logged");
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "accepting a connection failed");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(SHUTDOWN_TIMEOUT, ended).await.is_err() {
        tracing::warn!(connections = connections.len(), "calls in progress were aborted: shutdown took too long");
    }
    connections.shutdown().await;
    if saving.await.is_err() {
        tracing::error!("the task that saves files written over NFS panicked");
    }
    if cleaning.await.is_err() {
        tracing::error!("the task that removes inodes of deleted files panicked");
    }
    let closing = Arc::clone(&protocol);
    let saved = protocol.lanes.run(Lane::Slow, move || {
        let exports = std::mem::take(&mut *closing.exports.lock()).open;
        exports.iter().for_each(|export| export.close_all());
    });
    if saved.await.is_err() {
        tracing::error!(
            "files written over NFS were not saved at shutdown; stable writes are replayed at the next start"
        );
    }
}

async fn save_due_files(protocol: Arc<NfsServer>, stop: CancellationToken) {
    let mut next: Option<Instant> = None;
    loop {
        let due = async {
            match next {
                Some(due) => tokio::time::sleep_until(due.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = due => {}
            // A file written from now on is due after `IDLE_TIMEOUT` at the earliest.
            () = protocol.write_notify.notified(), if next.is_none_or(|next| next > Instant::now() + IDLE_TIMEOUT) => {
                let soon = Instant::now() + IDLE_TIMEOUT;
                next = Some(next.map_or(soon, |next| next.min(soon)));
                continue;
            }
        }
        let saving = Arc::clone(&protocol);
        let saved = Lanes::run_unbounded(move || {
            let exports = saving.exports.lock().open.clone();
            exports.iter().filter_map(|export| export.save_due(Instant::now())).min()
        });
        next = saved.await.unwrap_or_default();
    }
}

async fn clean_inodes(protocol: Arc<NfsServer>, stop: CancellationToken) {
    let mut round = tokio::time::interval(INODE_CLEANUP_INTERVAL);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = round.tick() => {}
        }
        let exports = protocol.exports.lock().open.clone();
        for export in exports {
            match Lanes::run_unbounded(move || export.remove_stale_inodes()).await {
                Ok(Err(fault)) => {
                    tracing::warn!(error = ?fault, "removing inodes of deleted files failed; it is retried in an hour")
                }
                Ok(Ok(())) => {}
                Err(error) => tracing::error!(%error, "the scan for deleted files panicked; it is retried in an hour"),
            }
        }
    }
}

async fn serve_connection(stream: TcpStream, from: SocketAddr, shared: Arc<ConnectionContext>, slot: SlotGuard) {
    // Replies are written completely; waiting to fill a packet only delays them.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY could not be set");
    }
    let (input, output) = stream.into_split();
    let writer = ReplyWriter { from, output: Arc::new(Mutex::new(output)), closed: slot.closed.clone() };
    let call_slots = Arc::new(Semaphore::new(MAX_CONNECTION_CALLS));
    read_calls(BufReader::new(input), &shared, (&writer, &slot), &call_slots).await;
    let all = call_slots.acquire_many(MAX_CONNECTION_CALLS as u32);
    tokio::select! {
        () = slot.closed.cancelled() => {}
        _ = all => {}
    }
}

#[derive(Clone)]
struct ReplyWriter {
    from: SocketAddr,
    output: Arc<Mutex<OwnedWriteHalf>>,
    closed: CancellationToken,
}

impl ReplyWriter {
    /// Sends a reply after those before it. It is dropped when the connection closes first.
    async fn send_reply(&self, reply: &RpcReply) {
        let output = tokio::select! {
            biased;
            () = self.closed.cancelled() => return,
            output = self.output.lock() => output,
        };
        self.send_locked(output, reply).await;
    }

    async fn send_locked(&self, mut output: MutexGuard<'_, OwnedWriteHalf>, reply: &RpcReply) {
        let sent = tokio::select! {
            biased;
            () = self.closed.cancelled() => return,
            sent = record_marking::write(&mut *output, reply) => sent,
        };
        if let Err(error) = sent {
            tracing::debug!(%error, from = %self.from, "sending a reply failed; closing the connection");
            self.closed.cancel();
        }
    }
}

/// Reads calls until the client or the server closes. Calls that the cache can answer are answered
/// here, all others in their own task.
async fn read_calls(
    mut input: impl tokio::io::AsyncRead + Unpin,
    shared: &ConnectionContext,
    (writer, slot): (&ReplyWriter, &SlotGuard),
    call_slots: &Arc<Semaphore>,
) {
    let large_replies = Arc::new(Semaphore::new(MAX_LARGE_REPLIES));
    let client = NfsClient { address: writer.from.ip().to_canonical(), user: None };
    loop {
        let next = async {
            let call_slot = Arc::clone(call_slots).acquire_owned().await.ok()?;
            match record_marking::read(&mut input, &shared.call_budget).await {
                Ok(read) => read.map(|(record, permits)| (record, permits, call_slot)),
                Err(error) => {
                    tracing::debug!(%error, from = %writer.from, "reading a call failed; closing the connection");
                    None
                }
            }
        };
        let (record, permits, call_slot) = tokio::select! {
            () = shared.stop.cancelled() => return,
            () = slot.closed.cancelled() => return,
            next = next => match next {
                Some(next) => next,
                None => return,
            },
        };
        let has_large_reply = has_large_reply(&record);
        let reserving = async {
            let reply_slot =
                if has_large_reply { Some(Arc::clone(&large_replies).acquire_owned().await.ok()?) } else { None };
            let permits =
                shared.reply_budget.take(kib(if has_large_reply { MAX_RECORD_BYTES / 2 } else { 4096 })).await.ok()?;
            Some((permits, reply_slot))
        };
        let reserved = tokio::select! {
            () = slot.closed.cancelled() => return,
            reserved = reserving => reserved,
        };
        let Some(reply_permits) = reserved else { return };
        let active_call = slot.start_call();
        if let Some(reply) = shared.protocol.try_answer_cached(client, &record) {
            drop((active_call, permits));
            // Small replies do not wait for large ones: then the next call is read first.
            if reply.length() < DETACHED_REPLY_BYTES
                && let Ok(output) = writer.output.try_lock()
            {
                writer.send_locked(output, &reply).await;
                continue;
            }
            let writer = writer.clone();
            tokio::spawn(async move {
                writer.send_reply(&reply).await;
                drop((call_slot, reply_permits));
            });
            yield_once().await;
            continue;
        }
        let (protocol, writer) = (Arc::clone(&shared.protocol), writer.clone());
        tokio::spawn(async move {
            let executing = Arc::clone(&protocol);
            let reply = protocol.lanes.run(Lane::Quick, move || executing.dispatch(client, &record)).await;
            drop((active_call, permits));
            match reply {
                Ok(Some(reply)) => writer.send_reply(&reply).await,
                Ok(None) => {}
                Err(error) => tracing::error!(%error, "an NFS call was not executed; clients retransmit it"),
            }
            drop((call_slot, reply_permits));
        });
    }
}

/// Yields once, so that the task just spawned runs on this thread and the caller resumes on another
/// one if one is free.
async fn yield_once() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Whether a message is a call with a large reply: READ, READDIR or READDIRPLUS, by the offset of
/// the procedure number.
fn has_large_reply(record: &[u8]) -> bool {
    matches!(record.get(20..24), Some([0, 0, 0, 6 | 16 | 17]))
}

#[cfg(test)]
mod tests {
    use super::RejectionNotice;

    #[test]
    fn only_the_first_remote_stranger_is_logged_and_no_local_client() {
        let rejection_notice = RejectionNotice::default();
        let told = ["127.0.0.1", "::1", "::ffff:127.0.0.1", "192.0.2.7", "192.0.2.7", "2001:db8::1", "127.0.0.1"]
            .map(|address| rejection_notice.should_log(address.parse().unwrap()));
        assert_eq!(told, [false, false, false, true, false, false, false]);
    }
}
