//! An agent with a key of scope `propose` edits pages over MCP and on a remote mount; a person
//! reviews its draft by hunks.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use svcfs_base::SystemClock;
use svcfs_mount::{MountOptions, RemoteMount, RemoteOptions};

use crate::space::client::{Client, Reply};
use crate::space::{TestSpace, mount_turn, wait};

const KEYS: &str = "[auth]\ntype = \"perspace\"\n[[auth.api_keys]]\nkey = \"people\"\nscope = \"write\"\n\
                    [[auth.api_keys]]\nkey = \"agent\"\nscope = \"propose\"\nactor = \"agent\"\n";
const PAGES: usize = 20;
/// Pages that are edited on the mount; the others are written over MCP.
const MOUNTED: usize = 10;

fn page(first: &str, second: &str, last: &str) -> String {
    format!("---\ntitle: Page\n---\n\n# Page\n\n{first}\n\n{second}\n\nthree\n\n{last}\n")
}

struct Caller<'a> {
    client: &'a Client,
    key: &'a str,
    actor: &'a str,
}

impl Caller<'_> {
    fn send(&self, method: &str, target: &str, body: &str) -> Reply {
        let key = format!("Bearer {}", self.key);
        let headers = [
            ("Authorization", key.as_str()),
            ("X-Actor", self.actor),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
        ];
        let reply = self.client.send(method, target, &headers, body.to_owned());
        assert!((200..300).contains(&reply.status), "{method} {target}: {} {}", reply.status, reply.text());
        reply
    }

    fn ask(&self, method: &str, target: &str, body: &str) -> Reply {
        self.send(method, &format!("/api/svc{target}"), body)
    }

    fn tool(&self, name: &str, arguments: &Value) {
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": name, "arguments": arguments } });
        let reply = self.send("POST", "/mcp", &call.to_string());
        assert_ne!(reply.json()["result"]["isError"], true, "{}", reply.text());
        assert!(reply.text().contains("draft"), "the answer names the draft: {}", reply.text());
    }
}

/// Edits a page as a person does; without vim, as vim saves.
fn edit(folder: &Path, name: &str) {
    let script = format!(
        "if command -v vim > /dev/null; then vim -u NONE -i NONE -N -es -c 'set noswapfile' \
         -c '%s/^one$/one, by agent/' -c '%s/^four$/four, by agent/' -c wq {name}; \
         else sed 's/^one$/one, by agent/; s/^four$/four, by agent/' {name} > ../new; \
         mv {name} {name}~; cat ../new > {name}; rm {name}~; fi"
    );
    let mut shell = Command::new("timeout");
    let output = shell.args(["30", "sh", "-ec", &script]).env("HOME", folder).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
}

fn git(root: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn an_agent_proposes_and_a_person_accepts_half() {
    let Some(_turn) = mount_turn() else { return };
    let space = TestSpace::with(KEYS, false);
    let client = space.client();
    let [agent, paula, bob] = [("agent", "someone"), ("people", "paula"), ("people", "bob")]
        .map(|(key, actor)| Caller { client: &client, key, actor });
    for n in 0..PAGES {
        bob.ask("PUT", &format!("/file?path={n}.md"), &page("one", "two", "four"));
    }
    space.settle();
    let before = git(&space.root(), &["rev-parse", "HEAD"]);

    let mountpoint = space.aside().join("remote");
    std::fs::create_dir(&mountpoint).unwrap();
    let remote = RemoteOptions {
        url: format!("http://{}", client.address()),
        space: None,
        token: Some("agent".to_owned()),
        timeout: Duration::from_secs(10),
        owner: None,
        rejected_dir: space.aside().join("rejected"),
    };
    let mount = RemoteMount::start(&remote, &mountpoint, &MountOptions::new(Arc::new(SystemClock), 4)).unwrap();
    for n in 0..MOUNTED {
        edit(&mountpoint, &format!("{n}.md"));
    }
    for n in MOUNTED..PAGES {
        let text = page("one, by agent", "two", "four, by agent");
        agent.tool("svc_write", &json!({ "path": format!("{n}.md"), "content": text }));
    }
    let proposed = page("one, by agent", "two", "four, by agent");
    for n in 0..PAGES {
        assert_eq!(agent.ask("GET", &format!("/file?path={n}.md"), "").text(), proposed, "{n}");
        assert_eq!(space.text(&format!("{n}.md")), page("one", "two", "four"), "{n}");
        wait::until("the mount shows the draft", || {
            std::fs::read_to_string(mountpoint.join(format!("{n}.md"))).is_ok_and(|text| text == proposed)
        });
    }
    mount.stop(Duration::from_secs(10)).unwrap();
    assert_eq!(git(&space.root(), &["rev-parse", "HEAD"]), before, "main is unchanged");

    let drafts = paula.ask("GET", "/drafts", "").json();
    let [draft] = &drafts.as_array().unwrap()[..] else { panic!("{drafts}") };
    assert_eq!(draft["actor"], "agent");
    let id = draft["id"].as_str().unwrap();
    // Another person edits one of the pages meanwhile.
    bob.ask("PUT", "/file?path=0.md", &page("one", "two, by bob", "four"));
    let diff = paula.ask("GET", &format!("/drafts/{id}/diff?format=hunks"), "").json();
    let hunks = diff["hunks"].as_array().unwrap();
    assert_eq!(hunks.len(), 2 * PAGES);
    let accepted = hunks.iter().filter(|hunk| hunk.to_string().contains("one, by agent"));
    let accepted: Vec<_> = accepted.map(|hunk| hunk["id"].clone()).collect();
    assert_eq!(accepted.len(), PAGES);
    let merge = json!({ "hunks": accepted }).to_string();
    paula.ask("POST", &format!("/drafts/{id}/merge"), &merge);
    paula.ask("DELETE", &format!("/drafts/{id}"), "");
    space.settle();
    for n in 0..PAGES {
        let second = if n == 0 { "two, by bob" } else { "two" };
        assert_eq!(space.text(&format!("{n}.md")), page("one, by agent", second, "four"), "{n}");
        let name = format!("{n}.md");
        let newest = git(&space.root(), &["log", "-1", "--format=%an%n%B", "--", &name]);
        assert!(newest.starts_with("agent\n") && newest.contains("paula"), "{n}: {newest}");
    }
    assert!(git(&space.root(), &["log", "-2", "--format=%an", "--", "0.md"]).contains("bob"));
}
