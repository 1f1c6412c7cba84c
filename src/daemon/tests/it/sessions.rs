//! Agents on standard input and output share a root with each other, with servers and with
//! commands: their sessions go on, whichever process has the root.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::harness::{Place, Running, can_mount, eventually, json_of, program, refusal, request, svcfs};

/// Longer than every hand-over may take.
const ANSWER: Duration = Duration::from_secs(30);

/// An agent with its `svcfs mcp`.
struct Agent {
    child: Child,
    stdin: Option<ChildStdin>,
    answers: Receiver<Value>,
    last_id: u64,
}

impl Agent {
    /// Starts it and shakes hands.
    #[track_caller]
    fn start(place: &Place) -> Self {
        Self::start_at(&place.at("kb"))
    }
    #[track_caller]
    fn start_at(root: &str) -> Self {
        let mut command = program();
        command.args(["mcp", "--root", root]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let answers = messages(child.stdout.take().unwrap());
        let mut agent = Self { stdin: child.stdin.take(), child, answers, last_id: 0 };
        let client = json!({ "name": "test", "version": "1" });
        let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
        assert_eq!(agent.request("initialize", hello)["result"]["serverInfo"]["name"], "svcfs");
        agent.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        agent
    }
    fn pid(&self) -> String {
        self.child.id().to_string()
    }
    fn say(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }
    /// Sends a request; its id.
    fn send(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }
    /// The next message, which answers this request.
    #[track_caller]
    fn answer(&self, id: u64) -> Value {
        let answer = self.answers.recv_timeout(ANSWER).expect("an answer in time");
        assert_eq!(answer["id"], id, "exactly one answer to each request: {answer}");
        answer
    }
    #[track_caller]
    fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.answer(id)
    }
    /// The answer to a call of a tool: the first text of the result, or the error.
    #[track_caller]
    fn tool(&mut self, name: &str, arguments: Value) -> Result<String, String> {
        let answer = self.request("tools/call", json!({ "name": name, "arguments": arguments }));
        match (&answer["result"], &answer["error"]["message"]) {
            (result, Value::Null) if result["isError"] == false => {
                Ok(result["content"][0]["text"].as_str().unwrap().to_owned())
            }
            (Value::Null, message) => Err(message.to_string()),
            (result, _) => Err(result.to_string()),
        }
    }
    #[track_caller]
    fn write(&mut self, path: &str) {
        self.tool("svc_write", json!({ "path": path, "content": format!("# {path}\n"), "actor": "agent:1" })).unwrap();
    }
    #[track_caller]
    fn sees(&mut self, paths: &[&str]) {
        for path in paths {
            let text = self.tool("svc_read", json!({ "path": path })).unwrap();
            assert!(text.contains(&format!("# {path}")), "{text}");
        }
    }
    /// Closes standard input and expects a good end.
    #[track_caller]
    fn leave(mut self) {
        drop(self.stdin.take());
        let mut status = None;
        eventually("it ends with its agent", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        assert_eq!(status.unwrap().code(), Some(0));
        assert_eq!(self.answers.iter().count(), 0, "nothing else was said");
    }
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let _gone_already = self.child.kill();
            let _status = self.child.wait();
        }
    }
}

/// The messages of a process, as they come.
fn messages(output: ChildStdout) -> Receiver<Value> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let message = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            if sender.send(message).is_err() {
                return;
            }
        }
    });
    receiver
}

fn owner(place: &Place) -> String {
    place.read("kb/.svc/state/server.lock").trim().to_owned()
}

fn authors(place: &Place, path: &str) -> String {
    place.git("kb", &["log", "--format=%an", "--", path])
}

#[track_caller]
fn http_has(server: &Running, path: &str) {
    let (status, text) = request(server.url(), "GET", &format!("/api/svc/file?path={path}"), "");
    assert!(status == 200 && text.contains(&format!("# {path}")), "{status} {text}");
}

#[test]
fn an_agent_beside_a_server_is_its_client_and_then_takes_over() {
    let place = Place::with_root();
    let server = Running::serve(&place.at("kb"), &[]);
    let mut agent = Agent::start(&place);
    agent.write("beside.md");
    http_has(&server, "beside.md");
    assert_eq!(owner(&place), server.pid().to_string());
    server.stop();
    agent.write("after.md");
    agent.sees(&["beside.md", "after.md"]);
    assert_eq!(owner(&place), agent.pid());
    agent.leave();
    assert_eq!([authors(&place, "beside.md"), authors(&place, "after.md")], ["agent:1", "agent:1"]);
}

#[test]
fn a_second_agent_is_a_client_of_the_first_and_takes_over_when_it_leaves() {
    let place = Place::with_root();
    let (mut first, mut second) = (Agent::start(&place), Agent::start(&place));
    first.write("first.md");
    second.write("second.md");
    first.sees(&["first.md", "second.md"]);
    second.sees(&["first.md", "second.md"]);
    assert_eq!(owner(&place), first.pid());
    first.leave();
    second.write("alone.md");
    assert_eq!(owner(&place), second.pid());
    let mut third = Agent::start(&place);
    third.sees(&["first.md", "second.md", "alone.md"]);
    // A client leaves, and the owner stays.
    third.leave();
    second.sees(&["alone.md"]);
    second.leave();
    assert!(!place.has("kb/.svc/state/control.sock") && !place.has("kb/.svc/state/server.json"));
}

#[test]
fn a_server_takes_the_root_over_from_agents_whose_sessions_go_on() {
    let place = Place::with_root();
    let (mut first, mut second) = (Agent::start(&place), Agent::start(&place));
    first.write("before.md");
    let server = Running::serve(&place.at("kb"), &[]);
    assert_eq!(owner(&place), server.pid().to_string());
    first.write("first.md");
    second.write("second.md");
    for path in ["before.md", "first.md", "second.md"] {
        http_has(&server, path);
    }
    let told = refusal(&["serve", "--root", &place.at("kb"), "--port", "0"], 3);
    assert!(told.contains(&format!("already served by process {}", server.pid())), "{told}");
    server.stop();
    first.sees(&["before.md", "first.md", "second.md"]);
    second.write("end.md");
    first.leave();
    second.sees(&["end.md"]);
    second.leave();
}

#[test]
fn requests_that_wait_during_a_hand_over_are_answered_once() {
    let place = Place::with_root();
    let mut agent = Agent::start(&place);
    let mut ids = Vec::new();
    let append = |number: u32| {
        let arguments = json!({ "path": "log.md", "content": format!("line {number}.\n"), "separator": "" });
        json!({ "name": "svc_append", "arguments": arguments })
    };
    ids.extend((0..20).map(|number| agent.send("tools/call", append(number))));
    let server = Running::serve(&place.at("kb"), &[]);
    ids.extend((20..40).map(|number| agent.send("tools/call", append(number))));
    let mut answered: Vec<u64> = ids
        .iter()
        .map(|_| {
            let answer = agent.answers.recv_timeout(ANSWER).unwrap();
            assert_eq!(answer["result"]["isError"], false, "{answer}");
            answer["id"].as_u64().unwrap()
        })
        .collect();
    answered.sort_unstable();
    assert_eq!(answered, ids);
    agent.leave();
    server.stop();
    let log = place.read("kb/log.md");
    for number in 0..40 {
        assert_eq!(log.matches(&format!("line {number}.")).count(), 1, "{log}");
    }
}

#[test]
fn the_next_agent_takes_over_from_a_killed_one() {
    let place = Place::with_root();
    let (mut first, mut second) = (Agent::start(&place), Agent::start(&place));
    first.write("first.md");
    second.write("second.md");
    first.signal(Signal::KILL);
    second.sees(&["first.md", "second.md"]);
    second.write("after.md");
    second.leave();
    assert_eq!(["first.md", "second.md", "after.md"].map(|path| authors(&place, path)), ["agent:1"; 3]);
}

#[test]
fn a_crash_leaves_the_outcome_of_a_change_unknown_and_repeats_a_read() {
    let place = Place::with_root();
    let (first, mut second) = (Agent::start(&place), Agent::start(&place));
    second.write("page.md");
    // It reads nothing more, so both requests are in flight when it is killed.
    first.signal(Signal::STOP);
    let arguments = json!({ "path": "late.md", "content": "# Late\n" });
    let write = second.send("tools/call", json!({ "name": "svc_write", "arguments": arguments }));
    let read = second.send("tools/call", json!({ "name": "svc_read", "arguments": { "path": "page.md" } }));
    thread::park_timeout(Duration::from_millis(200));
    first.signal(Signal::KILL);
    // The repeated read may be answered before the write is refused.
    let answers: [Value; 2] = std::array::from_fn(|_| second.answers.recv_timeout(ANSWER).unwrap());
    let answer = |id: u64| answers.iter().find(|answer| answer["id"] == id).unwrap();
    let refused = answer(write);
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.contains("outcome is unknown"), "{message}");
    let text = answer(read);
    assert!(text["result"]["content"][0]["text"].as_str().unwrap().contains("# page.md"), "{text}");
    second.leave();
}

#[test]
fn a_server_names_the_process_that_does_not_release_the_root() {
    let place = Place::with_root();
    let agent = Agent::start(&place);
    agent.signal(Signal::STOP);
    let started = Instant::now();
    let told = refusal(&["serve", "--root", &place.at("kb"), "--port", "0"], 3);
    assert!(started.elapsed() < Duration::from_secs(20));
    assert!(told.contains(&format!("process {}", agent.pid())) && told.contains("kill"), "{told}");
    agent.signal(Signal::CONT);
    agent.leave();
}

#[test]
fn commands_run_in_the_process_of_an_agent() {
    let place = Place::with_root();
    let mut agent = Agent::start(&place);
    let root = place.at("kb");
    agent.write("agent.md");
    svcfs(&["call", "read", "path=agent.md", "-r", &root]).assert().success().stdout("# agent.md\n");
    svcfs(&["call", "write", "path=b.md", "content=# b.md", "-r", &root]).assert().success();
    agent.sees(&["b.md"]);
    let page = json_of(&["call", "read", "path=b.md", "--json", "-r", &root]);
    let etag = page["etag"].as_str().unwrap();
    let write = ["call", "write", "path=b.md", "content=# New", "-r", &root, "--if-match"];
    svcfs(&[&write[..], &[etag]].concat()).assert().success();
    let told = refusal(&[&write[..], &[etag]].concat(), 3);
    assert!(told.contains("b.md"), "{told}");
    let told = refusal(&["call", "read", "path=none.md", "-r", &root], 3);
    assert!(told.contains("none.md"), "{told}");
    let told = refusal(&["call", "tree", "--space", "other", "-r", &root], 3);
    assert!(told.contains("space not found: other"), "{told}");
    svcfs(&["reindex", "--check", "-r", &root]).assert().success();
    agent.leave();
    assert_eq!(authors(&place, "b.md"), "tester\ntester");
}

#[test]
fn a_mount_takes_the_root_over_from_an_agent() {
    if !can_mount() {
        return;
    }
    let place = Place::with_root();
    std::fs::create_dir(place.path("mnt")).unwrap();
    let mut agent = Agent::start(&place);
    agent.write("before.md");
    let mut command = program();
    command.args(["mount", &place.at("mnt"), "--root", &place.at("kb")]);
    let mount = Running::start(command, "svcfs mounts");
    agent.write("beside.md");
    assert_eq!(place.read("mnt/beside.md"), "# beside.md\n");
    assert_eq!(owner(&place), mount.pid().to_string());
    svcfs(&["call", "read", "path=beside.md", "-r", &place.at("kb")]).assert().success().stdout("# beside.md\n");
    mount.stop();
    agent.sees(&["before.md", "beside.md"]);
    agent.leave();
}

#[test]
fn a_server_may_mount_over_the_root_of_an_agent() {
    if !can_mount() || !rustix::process::geteuid().is_root() {
        return;
    }
    let place = Place::with_root();
    let mut agent = Agent::start(&place);
    agent.write("before.md");
    let server = Running::serve(&place.at("kb"), &["--mount", &place.at("kb")]);
    agent.write("covered.md");
    assert_eq!(place.read("kb/covered.md"), "# covered.md\n");
    server.stop();
    agent.write("after.md");
    agent.sees(&["before.md", "covered.md"]);
    agent.leave();
}

#[test]
fn an_agent_of_a_secondary_space_is_a_client_of_its_server() {
    let place = Place::with_root();
    svcfs(&["init", "--root", &place.at("team")]).assert().success();
    let server = Running::serve(&place.at("kb"), &["--space", &format!("team={}", place.at("team"))]);
    let mut agent = Agent::start_at(&place.at("team"));
    agent.write("team.md");
    let (status, text) = request(server.url(), "GET", "/api/svc/team/file?path=team.md", "");
    assert!(status == 200 && text.contains("# team.md"), "{status} {text}");
    server.stop();
    agent.sees(&["team.md"]);
    agent.leave();
}

#[test]
fn twenty_hand_overs_lose_and_repeat_no_acknowledged_change() {
    let place = Place::with_root();
    let mut agents = [Agent::start(&place), Agent::start(&place)];
    let (is_done, counts) = (AtomicBool::new(false), [AtomicU32::new(0), AtomicU32::new(0)]);
    thread::scope(|scope| {
        for (index, (agent, count)) in agents.iter_mut().zip(&counts).enumerate() {
            let is_done = &is_done;
            scope.spawn(move || {
                while !is_done.load(Ordering::Relaxed) {
                    let line = format!("line {}.\n", count.load(Ordering::Relaxed));
                    let arguments = json!({ "path": format!("log-{index}.md"), "content": line, "separator": "" });
                    agent.tool("svc_append", arguments).unwrap();
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let both_write = || {
            let before = counts.each_ref().map(|count| count.load(Ordering::Relaxed));
            eventually("both agents write", || {
                counts.iter().zip(before).all(|(count, before)| count.load(Ordering::Relaxed) > before + 2)
            });
        };
        for _ in 0..10 {
            let server = Running::serve(&place.at("kb"), &[]);
            both_write();
            server.stop();
            both_write();
        }
        is_done.store(true, Ordering::Relaxed);
    });
    agents.into_iter().for_each(Agent::leave);
    for (index, count) in counts.into_iter().map(AtomicU32::into_inner).enumerate() {
        let log = place.read(&format!("kb/log-{index}.md"));
        let lines: Vec<&str> = log.lines().filter(|line| line.starts_with("line ")).collect();
        let expected: Vec<String> = (0..count).map(|number| format!("line {number}.")).collect();
        assert_eq!(lines, expected);
    }
}
