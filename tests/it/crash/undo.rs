//! kill -9 during an undo: it happened completely or not at all.

use std::fs;
use std::thread;
use std::time::Duration;

use serde_json::json;

use super::random::Random;
use super::server::Binary;
use super::setting;
use crate::space::client::{Client, PREFIX};
use crate::space::folder;

const PAGES: usize = 40;
const ROUNDS: u64 = 3;
/// An undo of so many pages takes about this long.
const MAX_MILLISECONDS: usize = 60;

#[test]
fn a_crash_during_an_undo_leaves_no_half_undo() {
    let rounds = setting("SVCFS_UNDO_ROUNDS").unwrap_or(ROUNDS);
    let mut random = Random::new(setting("SVCFS_CRASH_SEED").unwrap_or(38));
    let binary = Binary::build();
    let folder = folder();
    let root = folder.path().join("root");
    let target = |path: &str| format!("{PREFIX}{path}");
    for round in 0..rounds {
        let mut server = binary.serve(&root, None);
        let address = server.address();
        let write = |actor: &str, text: &str| {
            let file =
                |page| json!({ "path": format!("p{page}.md"), "content": format!("# {page}\n\n{text} {round}\n") });
            let files: Vec<_> = (0..PAGES).map(file).collect();
            let body = json!({ "files": files, "actor": actor }).to_string();
            let headers = [("Content-Type", "application/json")];
            Client::new(address).send("POST", &target("/bulk"), &headers, body).success().unwrap();
        };
        write("base", "base");
        write(&format!("bot{round}"), "bot");
        let delay = Duration::from_millis(random.below(MAX_MILLISECONDS) as u64);
        let undo = thread::spawn(move || {
            let body = json!({ "actor": format!("bot{round}") }).to_string();
            let headers = [("Content-Type", "application/json")];
            Client::new(address)
                .try_send("POST", &format!("{PREFIX}/revert"), &headers, body)
                .is_ok_and(|reply| reply.status == 200)
        });
        thread::sleep(delay);
        server.kill();
        let is_acknowledged = undo.join().unwrap();
        binary.serve(&root, None).stop();
        let texts = (0..PAGES).map(|page| fs::read_to_string(root.join(format!("p{page}.md"))).unwrap());
        let undone = texts.filter(|text| text.contains("base")).count();
        assert!(undone == 0 || undone == PAGES, "round {round}: {undone} of {PAGES} pages are undone");
        assert!(!is_acknowledged || undone == PAGES, "round {round}: an acknowledged undo is lost");
    }
}
