//! Carries lines between an agent and the process that has the root.

use std::io;

use bytes::Bytes;
use parking_lot::Mutex;
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, Stdout, stdin, stdout};
use tokio::runtime::Runtime;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use super::session::{AgentSession, ConnectionEnd};

/// Lines read ahead.
const QUEUE_LINES: usize = 16;

/// Standard input and output, and the session on them.
pub struct AgentRelay {
    lines: mpsc::Receiver<Bytes>,
    output: Stdout,
    session: Mutex<AgentSession>,
    /// Ends the input, as the agent does.
    end: CancellationToken,
}

impl AgentRelay {
    /// Starts to read standard input, until its end or that of the process.
    pub fn start(runtime: &Runtime, end: CancellationToken) -> Self {
        let (sender, lines) = mpsc::channel(QUEUE_LINES);
        runtime.spawn(read(sender));
        Self { lines, output: stdout(), session: Mutex::default(), end }
    }

    /// Whether the agent has closed its side and waits for nothing.
    pub fn is_finished(&self) -> bool {
        self.lines.is_closed() && self.lines.is_empty() && !self.session.lock().has_pending()
    }

    /// Carries lines until the server closes the connection. When the agent closes its side, so
    /// does this, and the last answers follow.
    ///
    /// # Errors
    /// When the agent reads no more.
    pub async fn run(&mut self, connection: impl AsyncRead + AsyncWrite) -> io::Result<ConnectionEnd> {
        let (input, mut to_server) = tokio::io::split(connection);
        let Self { lines, output, session, end } = self;
        let received = Notify::new();
        let sending = async {
            let sent = async {
                let handshake = session.lock().repeat_handshake();
                to_server.write_all(&handshake.concat()).await?;
                while session.lock().is_shaking_hands() {
                    received.notified().await;
                }
                let pending = session.lock().resend_pending();
                for line in pending {
                    to_server.write_all(&line).await?;
                }
                while let Some(Some(line)) = end.run_until_cancelled(lines.recv()).await {
                    session.lock().send(&line);
                    to_server.write_all(&line).await?;
                }
                let cancelled = session.lock().cancel_subscriptions();
                to_server.write_all(&cancelled.concat()).await?;
                to_server.shutdown().await
            };
            if let Err(error) = sent.await {
                tracing::debug!(%error, "the process that has the root reads no more");
            }
            std::future::pending().await
        };
        let receiving = async {
            let (mut input, mut line) = (BufReader::new(input), Vec::new());
            // An incomplete last line is no message, and a read error is the end.
            while input.read_until(b'\n', &mut line).await.is_ok() && line.ends_with(b"\n") {
                let is_for_agent = session.lock().receive(&line);
                received.notify_one();
                if is_for_agent {
                    output.write_all(&line).await?;
                    output.flush().await?;
                }
                line.clear();
            }
            Ok(())
        };
        // Both use the connection at the same time, so neither side waits for the other.
        let outcome: io::Result<()> = tokio::select! {
            never = sending => never,
            outcome = receiving => outcome,
        };
        outcome?;
        let (end, answers) = session.lock().disconnect();
        self.answer(answers).await?;
        Ok(end)
    }

    /// Refuses all requests that wait.
    ///
    /// # Errors
    /// When the agent reads no more.
    pub async fn refuse_pending(&mut self, message: &str) -> io::Result<()> {
        while let Ok(line) = self.lines.try_recv() {
            self.session.lock().send(&line);
        }
        let answers = self.session.lock().refuse_pending(message);
        self.answer(answers).await
    }

    async fn answer(&mut self, answers: Vec<Value>) -> io::Result<()> {
        for answer in answers {
            self.output.write_all(format!("{answer}\n").as_bytes()).await?;
        }
        self.output.flush().await
    }
}

/// Whether a last line without a line break is complete: an agent that ended within a line sent no
/// request.
fn is_message(line: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(line).is_ok()
}

/// Reads standard input to its end.
async fn read(lines: mpsc::Sender<Bytes>) {
    let mut input = BufReader::new(stdin());
    loop {
        let mut line = Vec::new();
        match svcfs_http::next_line(&mut input, &mut line).await {
            Ok(true) => {
                if !line.ends_with(b"\n") {
                    line.push(b'\n');
                }
                if lines.send(line.into()).await.is_err() {
                    return;
                }
            }
            Ok(false) if is_message(&line) => {
                line.push(b'\n');
                // If the receiver has ended, the process ends.
                let _sent = lines.send(line.into()).await;
                return;
            }
            Ok(false) => {
                if !line.trim_ascii().is_empty() {
                    tracing::warn!("the last line of standard input was ignored: it is not complete");
                }
                return;
            }
            Err(error) => {
                tracing::debug!(%error, "standard input cannot be read");
                return;
            }
        }
    }
}
