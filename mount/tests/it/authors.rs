//! Whose name a change gets.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write;
use std::process::Command;

use svcfs_base::Actor;
use svcfs_mount::{AttributionPolicy, MountOptions};

use crate::mounted::{Mounted, options, wait_for};

const AGENT: &str = "agent:x";

impl Mounted {
    /// Runs a shell command in the mount as a process that says it works for somebody; it must
    /// succeed.
    fn shell_of(&self, actor: &str, command: &str) {
        self.run(Command::new("sh").args(["-ec", command]).env("SVC_ACTOR", actor));
    }

    fn run(&self, command: &mut Command) {
        let output = command.current_dir(self.at("")).output().unwrap();
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// The author of the newest version of a path, of which there are `count`.
    fn author(&self, path: &str, count: usize) -> String {
        self.authors(path, count).remove(0)
    }
}

fn attributing(attribution: AttributionPolicy) -> MountOptions {
    MountOptions { attribution, ..options() }
}

/// Shows: MNT-33
#[test]
fn a_process_started_with_svc_actor_is_that_actor() {
    let Some(space) = Mounted::new() else { return };
    let saves = [
        "echo text > {}",
        // Ends without closing: the kernel closes the file when there is no environment any more.
        "exec 3> {}; echo text >&3",
        "cp /etc/hostname {}",
        "dd if=/etc/hostname of={} conv=fsync status=none",
        "echo text > draft.tmp; mv draft.tmp {}",
        "ln -s target {}",
        "echo text > {} & wait",
    ];
    for (number, save) in saves.iter().enumerate() {
        let page = format!("{number}.md");
        space.shell_of(AGENT, &save.replace("{}", &page));
        assert_eq!(space.author(&page, 1), AGENT, "{save}");
    }
    let page = "0.md";
    for (count, change) in
        [(2, "chmod +x 0.md"), (3, "truncate -s 2 0.md"), (4, "> 0.md"), (5, "echo >> 0.md"), (6, "rm 0.md")]
    {
        space.shell_of(AGENT, change);
        assert_eq!(space.author(page, count), AGENT, "{change}");
    }
    space.shell_of(AGENT, "mkdir d; mv 1.md d/moved.md");
    assert_eq!(space.author("d/moved.md", 1), AGENT);
    space.shell("echo text >> 2.md");
    assert_eq!(space.author("2.md", 2), "root", "others stay themselves");
}

/// Shows: MNT-33
#[test]
fn the_actor_is_read_again_after_a_shell_executes_a_program() {
    let Some(space) = Mounted::new() else { return };
    // The shell opens the file, with the environment it has itself.
    space.shell("SVC_ACTOR=agent:x cat /etc/hostname > a.md; SVC_ACTOR=agent:y exec cat /etc/hostname > b.md");
    assert_eq!(space.author("a.md", 1), AGENT);
    assert_eq!(space.author("b.md", 1), "agent:y");
}

/// Shows: MNT-34
#[test]
fn a_handle_shared_by_two_processes_saves_for_the_last_writer() {
    let Some(space) = Mounted::new() else { return };
    space.shell("{ echo one; SVC_ACTOR=agent:x sh -c 'echo two; exit'; SVC_ACTOR=agent:y true; } > a.md");
    assert_eq!(fs::read_to_string(space.at("a.md")).unwrap(), "one\ntwo\n");
    assert_eq!(space.author("a.md", 1), AGENT);
}

/// Shows: MNT-35
#[test]
fn a_user_who_is_pinned_to_a_name_cannot_take_another() {
    let pinned = HashMap::from([(0, Actor::new("agent:pinned"))]);
    let options = attributing(AttributionPolicy { fixed_actors: pinned, ..AttributionPolicy::default() });
    let Some(space) = Mounted::with(&options) else { return };
    space.shell_of("ann", "echo text > a.md; mkdir d; echo text > b.md; mv b.md d/");
    assert_eq!(space.author("a.md", 1), "agent:pinned");
    assert_eq!(space.author("d/b.md", 1), "agent:pinned");
    space.shell("echo more >> a.md");
    assert_eq!(space.author("a.md", 2), "agent:pinned");
}

/// Shows: MNT-35
#[test]
fn programs_are_not_heard_where_they_must_not_be() {
    let options = attributing(AttributionPolicy { allow_process_actor: false, ..AttributionPolicy::default() });
    let Some(space) = Mounted::with(&options) else { return };
    space.shell_of(AGENT, "echo text > a.md");
    assert_eq!(space.author("a.md", 1), "root");
}

/// Shows: MNT-33
#[test]
fn what_a_process_says_is_a_name_or_nothing() {
    let Some(space) = Mounted::new() else { return };
    let long = "x".repeat(100_000);
    for (page, said, expected) in [
        ("a.md", "", "root"),
        ("b.md", "Eve <eve@example.org>\n\ncommit", "Eve eve@example.orgcommit"),
        ("c.md", long.as_str(), &long[..256]),
    ] {
        space.shell_of(said, &format!("echo text > {page}"));
        assert_eq!(space.author(page, 1), expected);
    }
    // Beyond what is looked at.
    let mut command = Command::new("sh");
    command.args(["-ec", "echo text > d.md"]).env_clear();
    for number in 0..5 {
        command.env(format!("A{number}"), &long);
    }
    space.run(command.env("SVC_ACTOR", AGENT));
    assert_eq!(space.author("d.md", 1), "root");
}

#[test]
fn a_process_started_during_a_write_is_not_waited_for() {
    let Some(space) = Mounted::new() else { return };
    // Closed in the child by execve(2), in the middle of its becoming another program.
    let mut open = File::create(space.at("page.md")).unwrap();
    for half in ["", "half ", "of "] {
        open.write_all(half.as_bytes()).unwrap();
        for _ in 0..20 {
            let mut child = Command::new("true").env("SVC_ACTOR", "agent:x").spawn().unwrap();
            wait_for(|| child.try_wait().unwrap().is_some());
        }
    }
    open.write_all(b"a save").unwrap();
    drop(open);
    assert_eq!(space.authors("page.md", 1), ["root"], "no half of it was a version");
    assert_eq!(fs::read(space.at("page.md")).unwrap(), b"half of a save");
}
