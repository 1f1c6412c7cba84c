//! Names that mean something to a path and nothing to a directory.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use nfs3_types::nfs3::{READ3args, createhow3, sattr3};
use nfs3_types::xdr_codec::Void;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Served;

#[test]
fn names_that_lead_out_of_the_tree_lead_nowhere() {
    let served = Served::new();
    let outside = served.folder.path().join("outside.md");
    std::os::unix::fs::symlink("nowhere", &outside).unwrap();
    served.put("a.md", "# A\n");
    let root = served.root();
    let names: Vec<String> = serde_json::from_str(include_str!("../../../../tests/it/corpora/paths.json")).unwrap();
    for name in names {
        let is_path = name.contains(['/', '\0']) || name == ".." || name.eq_ignore_ascii_case(".git");
        if !is_path {
            continue;
        }
        let created = served.create_as(&root, &name, createhow3::UNCHECKED(sattr3::default()));
        assert!(created.is_err(), "{name:?} was made");
        assert!(served.mkdir(&root, &name).is_err(), "{name:?} was made a directory");
        assert!(served.rename((&root, "a.md"), (&root, &name)).is_err(), "something was renamed to {name:?}");
        assert!(served.rename((&root, &name), (&root, "b.md")).is_err(), "{name:?} was renamed");
        assert!(served.remove(&root, &name).is_err() && served.rmdir(&root, &name).is_err(), "{name:?} was removed");
        match served.lookup(&root, &name) {
            // Above the root there is nothing but the root.
            Ok(found) => assert_eq!((name.as_str(), found), ("..", root.clone())),
            Err(_) => assert_ne!(name, ".."),
        }
    }
    assert_eq!(served.text("a.md").as_deref(), Some("# A\n"));
    let mut beside: Vec<_> =
        std::fs::read_dir(served.folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    beside.sort();
    assert_eq!(beside, ["outside.md", "root"]);
}

/// A door that is served, until this is dropped.
pub(super) struct Network {
    runtime: Runtime,
    address: SocketAddr,
    stop: CancellationToken,
    serving: Option<JoinHandle<()>>,
}

impl Network {
    pub(super) fn of(served: &Served) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let serving = runtime.spawn(crate::connections::serve(listener, Arc::clone(&served.protocol), stop.clone()));
        Self { runtime, address, stop, serving: Some(serving) }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        // Far less than a client may take to send or to take something.
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(serving) = self.serving.take() {
            self.runtime.block_on(serving).unwrap();
        }
    }
}

fn says(stream: &mut TcpStream, question: &[u8]) {
    stream.write_all(&(0x8000_0000 | question.len() as u32).to_be_bytes()).unwrap();
    stream.write_all(question).unwrap();
}

/// Sends a question, and hears the answer.
fn asks(stream: &mut TcpStream, question: &[u8]) -> Vec<u8> {
    says(stream, question);
    let mut head = [0; 4];
    stream.read_exact(&mut head).unwrap();
    let mut answer = vec![0; (u32::from_be_bytes(head) & 0x7fff_ffff) as usize];
    stream.read_exact(&mut answer).unwrap();
    answer
}

#[test]
fn three_hundred_half_sent_messages_block_no_other_client() {
    let served = Served::new();
    let network = Network::of(&served);
    // NULL (RFC 1813 3.3.0)
    let question = served.message((100_003, 0), &Void);
    let mut early = network.connect();
    asks(&mut early, &question);
    let half: Vec<_> = (0..300)
        .map(|_| {
            let mut stream = network.connect();
            stream.write_all(&0x8010_0000_u32.to_be_bytes()).unwrap();
            stream.write_all(&[0; 100]).unwrap();
            stream
        })
        .collect();
    let mut late = network.connect();
    let answer = asks(&mut late, &question);
    assert_eq!(answer[..4], question[..4], "whoever comes after them is heard");
    asks(&mut early, &question);
    asks(&mut late, &question);
    drop(half);
}

#[test]
fn clients_that_read_no_replies_leave_memory_for_others() {
    let served = Served::new();
    let root = served.root();
    let content = "x".repeat(1 << 20);
    served.put("large.txt", &content);
    let file = served.lookup(&root, "large.txt").unwrap();
    let network = Network::of(&served);
    let question = served.message((100_003, 6), &READ3args { file, offset: 0, count: 1 << 20 });
    let deaf: Vec<_> = (0..8)
        .map(|_| {
            let mut stream = network.connect();
            (0..32).for_each(|_| says(&mut stream, &question));
            // What it asked is being answered.
            stream.peek(&mut [0]).unwrap();
            stream
        })
        .collect();
    let answer = asks(&mut network.connect(), &question);
    assert!(answer.len() > content.len(), "an answer of {} bytes", answer.len());
    drop(deaf);
}
