//! The stdio transport: one JSON message, or one batch of messages, per line.
//!
//! The transport of `rmcp` does not support batches, which version 2025-03-26 requires, and drops
//! invalid lines and lines over 16 MiB without a reply, so that clients wait forever.
//!
//! Invariant: the replies to a batch are written as one array, after the last of them.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ClientNotification, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::connections::ConnectionStop;
use super::messages::{self, MessageBody};
use crate::bind::MAX_BODY_BYTES;

/// Messages read ahead.
const QUEUE_MESSAGES: usize = 16;

/// How long requests in flight may take after the last message; `rmcp` then waits 5 s more.
const REPLY_TIMEOUT: Duration = Duration::from_secs(4);

/// The method whose reply comes when the subscription ends.
const SUBSCRIBE: &str = "subscriptions/listen";

/// How long the last line may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

type IncomingMessage = RxJsonRpcMessage<RoleServer>;
type OutgoingMessage = TxJsonRpcMessage<RoleServer>;

/// The transport; see the module.
pub(super) struct StdioTransport<W> {
    output: Arc<Mutex<StdioOutput<W>>>,
    messages: mpsc::Receiver<IncomingMessage>,
    /// Number of requests in flight, without those that last until they are cancelled.
    in_flight: watch::Receiver<usize>,
    /// Until when they are waited for, once there are no more messages.
    reply_deadline: Option<Instant>,
    reader: JoinHandle<()>,
    stop: ConnectionStop,
}

impl<W: AsyncWrite + Send + Unpin + 'static> StdioTransport<W> {
    pub(super) fn new(input: impl AsyncRead + Send + Unpin + 'static, output: W, stop: ConnectionStop) -> Self {
        let (count, in_flight) = watch::channel(0);
        let output = StdioOutput { writer: Some(output), batches: Vec::new(), in_flight: Vec::new(), count };
        let output = Arc::new(Mutex::new(output));
        let (sender, messages) = mpsc::channel(QUEUE_MESSAGES);
        let (reading, reader_output) = (stop.token.clone(), Arc::clone(&output));
        let reader = tokio::spawn(async move {
            tokio::select! {
                biased;
                // A message that was read in part only is not executed.
                () = reading.cancelled() => {}
                () = read(BufReader::new(input), reader_output, sender) => {}
            }
        });
        Self { output, messages, in_flight, reply_deadline: None, reader, stop }
    }

    pub(super) fn closer(&self) -> ConnectionCloser<W> {
        ConnectionCloser { output: Arc::clone(&self.output), stop: self.stop.clone() }
    }
}

/// Closes the output. A client that does not read gets no last line.
async fn close<W: AsyncWrite + Send + Unpin>(
    output: &Mutex<StdioOutput<W>>,
    stop: &ConnectionStop,
) -> std::io::Result<()> {
    let closed = async { output.lock().await.close(stop).await };
    tokio::time::timeout(CLOSE_TIMEOUT, closed).await.unwrap_or(Ok(()))
}

/// Closes a connection that `rmcp` has not, because no session began.
pub(super) struct ConnectionCloser<W> {
    output: Arc<Mutex<StdioOutput<W>>>,
    stop: ConnectionStop,
}

impl<W: AsyncWrite + Send + Unpin> ConnectionCloser<W> {
    pub(super) async fn close(self) {
        if let Err(error) = close(&self.output, &self.stop).await {
            tracing::debug!(error = %error, "MCP over stdio failed");
        }
    }
}

impl<W> Drop for StdioTransport<W> {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl<W: AsyncWrite + Send + Unpin + 'static> Transport<RoleServer> for StdioTransport<W> {
    type Error = std::io::Error;

    fn send(&mut self, message: OutgoingMessage) -> impl Future<Output = std::io::Result<()>> + Send + 'static {
        let output = Arc::clone(&self.output);
        async move {
            let id = match &message {
                JsonRpcMessage::Response(reply) => Some(reply.id.clone()),
                JsonRpcMessage::Error(error) => error.id.clone(),
                JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
            };
            output.lock().await.write_reply(id.as_ref(), serde_json::to_vec(&message)?).await
        }
    }

    async fn receive(&mut self) -> Option<IncomingMessage> {
        if let Some(message) = self.messages.recv().await {
            return Some(message);
        }
        let deadline = *self.reply_deadline.get_or_insert_with(|| Instant::now() + REPLY_TIMEOUT);
        // Both outcomes end the connection.
        let _in_time = tokio::time::timeout_at(deadline, self.in_flight.wait_for(|count| *count == 0)).await;
        None
    }

    async fn close(&mut self) -> std::io::Result<()> {
        close(&self.output, &self.stop).await
    }
}

/// The output, the requests without a reply, and the batches with missing replies.
struct StdioOutput<W> {
    writer: Option<W>,
    batches: Vec<PendingBatch>,
    /// With each, whether it lasts until it is cancelled.
    in_flight: Vec<(RequestId, bool)>,
    /// Announces the number of the others.
    count: watch::Sender<usize>,
}

/// A batch with missing replies.
#[derive(Default)]
struct PendingBatch {
    pending: Vec<RequestId>,
    replies: Vec<Vec<u8>>,
}

impl<W: AsyncWrite + Send + Unpin> StdioOutput<W> {
    /// Records a request.
    fn start(&mut self, id: RequestId, is_stream: bool) {
        self.in_flight.push((id, is_stream));
        self.announce_count();
    }

    /// Removes a request: no reply will follow.
    fn finish(&mut self, id: Option<&RequestId>) {
        if let Some(index) = self.in_flight.iter().position(|(started, _)| Some(started) == id) {
            self.in_flight.swap_remove(index);
            self.announce_count();
        }
    }

    fn announce_count(&self) {
        let count = self.in_flight.iter().filter(|(_, is_stream)| !is_stream).count();
        self.count.send_replace(count);
    }

    /// Closes the output, after the last line if all requests are answered.
    async fn close(&mut self, stop: &ConnectionStop) -> std::io::Result<()> {
        let is_drained = self.writer.is_some() && stop.token.is_cancelled() && self.in_flight.is_empty();
        let outcome = match is_drained {
            true => self.write(stop.drained_line().to_string().as_bytes()).await,
            false => Ok(()),
        };
        self.writer = None;
        outcome
    }

    /// Writes a reply, or adds it to its batch.
    async fn write_reply(&mut self, id: Option<&RequestId>, reply: Vec<u8>) -> std::io::Result<()> {
        let outcome = self.write_or_gather(id, reply).await;
        self.finish(id);
        outcome
    }

    async fn write_or_gather(&mut self, id: Option<&RequestId>, reply: Vec<u8>) -> std::io::Result<()> {
        match self.batches.iter_mut().find(|batch| id.is_some_and(|id| batch.pending.contains(id))) {
            None => self.write(&reply).await,
            Some(batch) => {
                batch.replies.push(reply);
                self.remove_pending(id).await
            }
        }
    }

    /// Removes a message from its batch: no more replies will follow.
    async fn remove_pending(&mut self, id: Option<&RequestId>) -> std::io::Result<()> {
        let index = self.batches.iter().position(|batch| id.is_some_and(|id| batch.pending.contains(id)));
        let Some(index) = index else { return Ok(()) };
        let batch = &mut self.batches[index];
        let position = batch.pending.iter().position(|pending| Some(pending) == id);
        position.into_iter().for_each(|position| drop(batch.pending.remove(position)));
        if batch.pending.is_empty() {
            let batch = self.batches.remove(index);
            self.write_batch(&batch).await?;
        }
        Ok(())
    }

    async fn write_batch(&mut self, batch: &PendingBatch) -> std::io::Result<()> {
        if batch.replies.is_empty() {
            return Ok(());
        }
        let array = [b"[", &*batch.replies.join(&b","[..]), b"]"].concat();
        self.write(&array).await
    }

    async fn write(&mut self, line: &[u8]) -> std::io::Result<()> {
        let closed = || std::io::Error::new(std::io::ErrorKind::NotConnected, "the connection is closed");
        let writer = self.writer.as_mut().ok_or_else(closed)?;
        writer.write_all(line).await?;
        writer.write_all(b"\n").await?;
        writer.flush().await
    }
}

/// Reads lines until the end of the input, or until the receiver is closed.
async fn read<W: AsyncWrite + Send + Unpin>(
    mut input: BufReader<impl AsyncRead + Send + Unpin>,
    output: Arc<Mutex<StdioOutput<W>>>,
    messages: mpsc::Sender<IncomingMessage>,
) {
    let mut line = Vec::new();
    loop {
        line.clear();
        let outcome = match next_line(&mut input, &mut line).await {
            Ok(true) => handle_line(&line, &output, &messages).await,
            // An incomplete last line is not a message.
            Ok(false) => return,
            Err(error) => Err(error),
        };
        if let Err(error) = outcome {
            tracing::debug!(error = %error, "MCP over stdio failed");
            return;
        }
    }
}

/// Reads the next message into an empty buffer; false at the end. A line that is too long is cut,
/// which makes it invalid JSON.
///
/// # Errors
/// Those of the input.
pub async fn next_line(input: &mut BufReader<impl AsyncRead + Unpin>, line: &mut Vec<u8>) -> std::io::Result<bool> {
    let limit = MAX_BODY_BYTES as u64 + 1;
    input.take(limit).read_until(b'\n', line).await?;
    if line.len() as u64 == limit && !line.ends_with(b"\n") {
        line.truncate(1);
        let mut rest = Vec::new();
        while input.take(1 << 16).read_until(b'\n', &mut rest).await? > 0 && !rest.ends_with(b"\n") {
            rest.clear();
        }
        return Ok(true);
    }
    Ok(line.ends_with(b"\n"))
}

/// Forwards the messages of a line, or replies with an error.
async fn handle_line<W: AsyncWrite + Send + Unpin>(
    line: &[u8],
    output: &Mutex<StdioOutput<W>>,
    messages: &mpsc::Sender<IncomingMessage>,
) -> std::io::Result<()> {
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line).trim_ascii();
    let closed = || std::io::Error::new(std::io::ErrorKind::BrokenPipe, "the message queue is closed");
    let parsed = match messages::classify_text(line, None) {
        _ if line.is_empty() => Vec::new(),
        MessageBody::Message => match parse_message(line) {
            Ok(message) => vec![message],
            Err(error) => {
                output.lock().await.write(error.to_string().as_bytes()).await?;
                Vec::new()
            }
        },
        MessageBody::Batch(batch) => parse_batch(batch, &mut *output.lock().await).await?,
        MessageBody::Invalid(error) => {
            output.lock().await.write(error.to_string().as_bytes()).await?;
            Vec::new()
        }
    };
    for message in parsed {
        if let JsonRpcMessage::Notification(notification) = &message
            && let ClientNotification::CancelledNotification(cancelled) = &notification.notification
        {
            let (mut output, id) = (output.lock().await, cancelled.params.request_id.as_ref());
            output.finish(id);
            output.remove_pending(id).await?;
        }
        if let JsonRpcMessage::Request(request) = &message {
            output.lock().await.start(request.id.clone(), request.request.method() == SUBSCRIBE);
        }
        messages.send(message).await.map_err(|_| closed())?;
    }
    Ok(())
}

/// Parses the messages of a batch and stores the batch until it is complete.
async fn parse_batch<W: AsyncWrite + Send + Unpin>(
    batch: Vec<Value>,
    output: &mut StdioOutput<W>,
) -> std::io::Result<Vec<IncomingMessage>> {
    let (mut open, mut parsed) = (PendingBatch::default(), Vec::new());
    for part in batch {
        let outcome =
            messages::batch_member_error(&part).map_or_else(|| parse_message(part.to_string().as_bytes()), Err);
        match outcome {
            Ok(message) => {
                if let JsonRpcMessage::Request(request) = &message {
                    open.pending.push(request.id.clone());
                }
                parsed.push(message);
            }
            Err(error) => open.replies.push(error.to_string().into_bytes()),
        }
    }
    if open.pending.is_empty() {
        output.write_batch(&open).await?;
    } else {
        output.batches.push(open);
    }
    Ok(parsed)
}

/// Parses a message, or returns the error reply.
fn parse_message(line: &[u8]) -> Result<IncomingMessage, Value> {
    serde_json::from_slice(line).map_err(|_| {
        let id = serde_json::from_slice::<Value>(line).map(|message| messages::id_of(&message)).unwrap_or_default();
        messages::invalid(messages::NOT_A_MESSAGE, id)
    })
}
