//! Webhooks: how many notifications reach one receiver, with the durable queue.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;
use svcfs_measure::http::BenchClient;
use svcfs_measure::run::BenchRun;
use svcfs_measure::series::RoundSeries;
use svcfs_measure::server::{ServerPlace, ServerProcess};
use svcfs_measure::table::{MarkdownTable, TableCell, column, text};

use crate::plan::Extent;

const SETTINGS: &str = "[webhooks]\nenabled = true\n\n[net]\nallow = [\"127.0.0.1\"]\n";
/// Notifications of a round.
const COUNT: usize = 2_000;
/// Pages of one request.
const BULK: usize = 500;
const TIMEOUT: Duration = Duration::from_secs(120);

/// All that is measured of webhooks.
pub struct Webhooks {
    count: usize,
    delivered: RoundSeries,
    connections: usize,
}

/// Measures deliveries to one receiver.
///
/// # Errors
/// When the server refuses something or loses a notification, or when the run is to end.
pub fn measure(run: &BenchRun, extent: &Extent) -> Result<Webhooks> {
    run.report("webhooks to one receiver");
    let count = COUNT.min(extent.plan.pages.count);
    let root = run.path("webhooks");
    std::fs::create_dir_all(root.join(".svc"))?;
    std::fs::write(root.join(".svc/config.toml"), SETTINGS)?;
    let log = run.path("webhooks.log");
    let place = ServerPlace { root: &root, mountpoint: None, log: &log, idle_time: extent.plan.idle_time };
    let server = ServerProcess::start(run, place)?;
    let mut client = BenchClient::connect(server.address())?;
    let receiver = Receiver::start()?;
    client.post("/api/svc/webhooks", &json!({ "url": receiver.url, "path_glob": "w/**" }))?;
    let mut delivered = RoundSeries::default();
    for round in 0..extent.plan.rounds {
        server.wait_until_idle(run)?;
        run.flush_disk()?;
        let (before, started) = (receiver.received.load(Ordering::Relaxed), Instant::now());
        for first in (0..count).step_by(BULK) {
            let pages = first..(first + BULK).min(count);
            client
                .write_many(pages.map(|page| (format!("w/{page}.md"), format!("# Page {page}\n\nRound {round}.\n"))))?;
        }
        let is_complete = || Ok(receiver.received.load(Ordering::Relaxed) >= before + count);
        run.wait_until("all notifications are delivered", TIMEOUT, is_complete)?;
        delivered.add_counted(count, started.elapsed());
    }
    let connections = receiver.connections.load(Ordering::Relaxed);
    ensure!(connections < count, "the connections to the receiver are not used again");
    server.stop()?;
    std::fs::remove_dir_all(&root)?;
    Ok(Webhooks { count, delivered, connections })
}

/// A receiver that answers 204 and leaves connections open. Its threads end with their connections.
struct Receiver {
    url: String,
    received: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
}

impl Receiver {
    fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}/", listener.local_addr()?);
        let (received, connections) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let receiver = Self { url, received: Arc::clone(&received), connections: Arc::clone(&connections) };
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                connections.fetch_add(1, Ordering::Relaxed);
                let received = Arc::clone(&received);
                std::thread::spawn(move || serve(stream, &received));
            }
        });
        Ok(receiver)
    }
}

/// Answers requests until the connection ends.
fn serve(stream: TcpStream, received: &AtomicUsize) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.parse().ok()?;
            }
        }
        reader.read_exact(&mut vec![0; length]).ok()?;
        received.fetch_add(1, Ordering::Relaxed);
        reader.get_mut().write_all(b"HTTP/1.1 204 No Content\r\n\r\n").ok()?;
    }
}

impl Webhooks {
    /// Deliveries per second.
    pub fn rate(&self) -> Option<f64> {
        self.delivered.rate()
    }

    /// The table.
    pub fn table(&self) -> MarkdownTable {
        let columns = vec![column("webhooks, one receiver", "what"), column("per second", "rate")];
        let mut table = MarkdownTable::new("webhooks", columns);
        let what = format!(
            "{} notifications, from the request that writes the pages until the last is delivered; {} connections",
            self.count, self.connections
        );
        table.add_row([text(what), TableCell::Rate(self.rate())]);
        table
    }
}
