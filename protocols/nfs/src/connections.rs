//! Connections: who may have one, how many there are, and what is on its way through them.

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
use crate::record_marking::{self, LONGEST, MessageBudget, kib};
use crate::rpc::RpcReply;
use crate::write_sessions::IDLE;

/// Connections at once; one more takes the place of another ([`crate::crowd`]).
const MAX_CONNECTIONS: usize = 256;
/// Questions of one connection that are answered at once.
const MAX_ASKED: usize = 32;
/// Long answers of one connection that are on their way at once: whoever takes none of theirs leaves room for those of others.
const MAX_LONG: usize = 8;
/// An answer from so many bytes on is sent while the next one is read: 1.3 times as much a second, for one client.
const MUCH: usize = 256 << 10;
/// KiB of messages and answers at once, of all connections.
const ROOM: usize = 128 << 10;
/// How long questions in progress may take once the server goes down.
const GRACE: Duration = Duration::from_secs(15);
/// The pause after the system refused to hand out a connection (out of file descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long a question waits for a place to be answered in; a client asks again by itself after a minute.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often is looked for numbers of files that are gone.
const TIDYING: Duration = Duration::from_secs(60 * 60);

/// Where procedures run.
pub(crate) fn lanes() -> Lanes {
    Lanes::new(32, 4, PATIENCE)
}

/// What connections share.
struct ConnectionContext {
    protocol: Arc<NfsServer>,
    /// For messages that come, and for answers that go.
    room: MessageBudget,
    answers: MessageBudget,
    stop: CancellationToken,
}

/// Those who are sent away.
#[derive(Default)]
struct RejectionNotice {
    has_told: AtomicBool,
}

impl RejectionNotice {
    /// Whether the log says that one is sent away: once, and not of this machine, which looks whether somebody listens.
    fn is_told_of(&self, address: IpAddr) -> bool {
        !address.to_canonical().is_loopback() && !self.has_told.swap(true, Ordering::Relaxed)
    }
}

/// Answers requests until `stop` is cancelled, then lets those in progress end and saves what is not in history yet.
pub(crate) async fn serve(listener: TcpListener, protocol: Arc<NfsServer>, stop: CancellationToken) {
    if let Ok(address) = listener.local_addr() {
        let _told = protocol.port.set(address.port());
    }
    let begun = Arc::clone(&protocol);
    // What a server that died had promised is done before anybody is heard.
    let _begun = protocol.lanes.run(Lane::Slow, move || drop(begun.exports())).await;
    let settling = tokio::spawn(settle(Arc::clone(&protocol), stop.clone()));
    let tidying = tokio::spawn(tidy(Arc::clone(&protocol), stop.clone()));
    let shared = Arc::new(ConnectionContext {
        protocol: Arc::clone(&protocol),
        room: MessageBudget::of(ROOM),
        answers: MessageBudget::of(ROOM),
        stop: stop.clone(),
    });
    let crowd = LruConnectionLimiter::of(MAX_CONNECTIONS);
    let mut connections = JoinSet::new();
    let strangers = RejectionNotice::default();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, from)) => {
                    if protocol.settings.allows(from.ip()) {
                        let place = tokio::select! {
                            () = stop.cancelled() => break,
                            place = crowd.place() => place,
                        };
                        connections.spawn(converse(stream, from, Arc::clone(&shared), place));
                    } else if strangers.is_told_of(from.ip()) {
                        tracing::warn!(%from, "a client that is not in `nfs.allow` was sent away; others will be without a word");
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
    if tokio::time::timeout(GRACE, ended).await.is_err() {
        tracing::warn!(connections = connections.len(), "requests still in progress were cut off");
    }
    connections.shutdown().await;
    if settling.await.is_err() {
        tracing::error!("the task that saves files written over NFS had died");
    }
    if tidying.await.is_err() {
        tracing::error!("the task that lets go of numbers of files that are gone had died");
    }
    let last = Arc::clone(&protocol);
    let settled = protocol.lanes.run(Lane::Slow, move || {
        let exports = std::mem::take(&mut *last.exports.lock()).open;
        exports.iter().for_each(|export| export.end());
    });
    if settled.await.is_err() {
        tracing::error!("files written over NFS were not saved at the end");
    }
}

/// Saves files when it is time.
async fn settle(protocol: Arc<NfsServer>, stop: CancellationToken) {
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
            // What is written from now on waits for less than what waits already.
            () = protocol.written.notified(), if next.is_none_or(|next| next > Instant::now() + IDLE) => {
                let soon = Instant::now() + IDLE;
                next = Some(next.map_or(soon, |next| next.min(soon)));
                continue;
            }
        }
        let settling = Arc::clone(&protocol);
        let settled = Lanes::run_unbounded(move || {
            let exports = settling.exports.lock().open.clone();
            exports.iter().filter_map(|export| export.settle_due(Instant::now())).min()
        });
        next = settled.await.unwrap_or_default();
    }
}

/// Lets go of what is kept of files that are gone, from time to time.
async fn tidy(protocol: Arc<NfsServer>, stop: CancellationToken) {
    let mut round = tokio::time::interval(TIDYING);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = round.tick() => {}
        }
        let exports = protocol.exports.lock().open.clone();
        for export in exports {
            match Lanes::run_unbounded(move || export.tidy()).await {
                Ok(Err(fault)) => {
                    tracing::warn!(error = ?fault, "numbers of files that are gone could not be let go of")
                }
                Ok(Ok(())) => {}
                Err(error) => tracing::error!(%error, "numbers of files that are gone were not looked through"),
            }
        }
    }
}

/// One connection, to its end; answers go on being sent until the last one.
async fn converse(stream: TcpStream, from: SocketAddr, shared: Arc<ConnectionContext>, place: SlotGuard) {
    // Answers are written whole; waiting to fill a packet only delays them.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY could not be set");
    }
    let (input, output) = stream.into_split();
    let line = ReplyWriter { from, output: Arc::new(Mutex::new(output)), gone: place.gone.clone() };
    let asked = Arc::new(Semaphore::new(MAX_ASKED));
    listen(BufReader::new(input), &shared, (&line, &place), &asked).await;
    // Until all are answered.
    let all = asked.acquire_many(MAX_ASKED as u32);
    tokio::select! {
        () = place.gone.cancelled() => {}
        _ = all => {}
    }
}

/// Where the answers of a connection go.
#[derive(Clone)]
struct ReplyWriter {
    from: SocketAddr,
    output: Arc<Mutex<OwnedWriteHalf>>,
    /// Cancelled when the connection must end.
    gone: CancellationToken,
}

impl ReplyWriter {
    /// Sends an answer, one after the other. What is not sent when the connection ends is let go of.
    async fn answer(&self, answer: &RpcReply) {
        let output = tokio::select! {
            biased;
            () = self.gone.cancelled() => return,
            output = self.output.lock() => output,
        };
        self.send(output, answer).await;
    }

    async fn send(&self, mut output: MutexGuard<'_, OwnedWriteHalf>, answer: &RpcReply) {
        let sent = tokio::select! {
            biased;
            () = self.gone.cancelled() => return,
            sent = record_marking::write(&mut *output, answer) => sent,
        };
        if let Err(error) = sent {
            tracing::debug!(%error, from = %self.from, "a client does not take its answers");
            self.gone.cancel();
        }
    }
}

/// Hears questions until the client or the server goes. What can be answered from memory is answered here; all else by a task of its own.
async fn listen(
    mut input: impl tokio::io::AsyncRead + Unpin,
    shared: &ConnectionContext,
    (line, place): (&ReplyWriter, &SlotGuard),
    asked: &Arc<Semaphore>,
) {
    let long = Arc::new(Semaphore::new(MAX_LONG));
    let client = NfsClient { address: line.from.ip().to_canonical(), user: None };
    loop {
        let next = async {
            let turn = Arc::clone(asked).acquire_owned().await.ok()?;
            match record_marking::read(&mut input, &shared.room).await {
                Ok(read) => read.map(|(record, room)| (record, room, turn)),
                Err(error) => {
                    tracing::debug!(%error, from = %line.from, "a connection ended early");
                    None
                }
            }
        };
        let (record, room, turn) = tokio::select! {
            () = shared.stop.cancelled() => return,
            () = place.gone.cancelled() => return,
            next = next => match next {
                Some(next) => next,
                None => return,
            },
        };
        let is_long = is_long(&record);
        let making_room = async {
            let share = if is_long { Some(Arc::clone(&long).acquire_owned().await.ok()?) } else { None };
            let room = shared.answers.take(kib(if is_long { LONGEST / 2 } else { 4096 })).await.ok()?;
            Some((room, share))
        };
        let made = tokio::select! {
            () = place.gone.cancelled() => return,
            made = making_room => made,
        };
        let Some(until_sent) = made else { return };
        let question = place.asks();
        if let Some(answer) = shared.protocol.at_once(client, &record) {
            drop((question, room));
            // Not behind longer ones: the next questions are heard meanwhile.
            if answer.length() < MUCH
                && let Ok(output) = line.output.try_lock()
            {
                line.send(output, &answer).await;
                continue;
            }
            let line = line.clone();
            tokio::spawn(async move {
                line.answer(&answer).await;
                drop((turn, until_sent));
            });
            elsewhere().await;
            continue;
        }
        let (protocol, line) = (Arc::clone(&shared.protocol), line.clone());
        tokio::spawn(async move {
            let answering = Arc::clone(&protocol);
            let answer = protocol.lanes.run(Lane::Quick, move || answering.answer(client, &record)).await;
            drop((question, room));
            match answer {
                // Nobody waits for it any more when it cannot be sent.
                Ok(Some(answer)) => line.answer(&answer).await,
                Ok(None) => {}
                Err(error) => tracing::error!(%error, "a question over NFS was not answered"),
            }
            drop((turn, until_sent));
        });
    }
}

/// Leaves this thread to what was just begun, and goes on at another one, if one is free.
async fn elsewhere() {
    let mut is_there = false;
    poll_fn(|context| {
        if std::mem::replace(&mut is_there, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Whether a message is a question with a long answer: READ, READDIR or READDIRPLUS, by the place of the procedure's number.
fn is_long(record: &[u8]) -> bool {
    matches!(record.get(20..24), Some([0, 0, 0, 6 | 16 | 17]))
}

#[cfg(test)]
mod tests {
    use super::RejectionNotice;

    #[test]
    fn the_first_stranger_is_told_of_and_no_program_of_this_machine() {
        let strangers = RejectionNotice::default();
        let told = ["127.0.0.1", "::1", "::ffff:127.0.0.1", "192.0.2.7", "192.0.2.7", "2001:db8::1", "127.0.0.1"]
            .map(|address| strangers.is_told_of(address.parse().unwrap()));
        assert_eq!(told, [false, false, false, true, false, false, false]);
    }
}
