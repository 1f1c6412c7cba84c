//! The first screen of README.md, and what the quickstart prints.

use std::process::{Command, Stdio};

use super::{TypedCommand, blocks, commands, free_port, page, printed, shell, workspace};
use crate::harness::{Place, Running, can_mount, svcfs};

/// The quickstart with the program of this test instead of a build: `cargo` builds nothing.
fn quickstart(place: &Place, typed: &str, port: u16) -> Running {
    place.write("bin/cargo", "#!/bin/sh\n[ \"$1\" != --version ] || echo cargo 99.0.0\n");
    std::fs::create_dir_all(place.path("target/release")).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_svcfs"), place.path("target/release/svcfs")).unwrap();
    let made = Command::new("chmod").args(["+x", &place.at("bin/cargo")]).status().unwrap();
    assert!(made.success());
    let typed = typed.split('#').next().unwrap().trim();
    let script = format!("cd '{}' && exec {typed} --port {port}", workspace().display());
    let mut command = shell(place, &script);
    let path = format!("{}:{}", place.at("bin"), std::env::var("PATH").unwrap_or_default());
    command.env("PATH", path).env("CARGO_TARGET_DIR", place.at("target")).env("XDG_CACHE_HOME", place.at("cache"));
    Running::start(command, "Ctrl-C")
}

/// Runs the commands one right after the other; what each printed.
fn type_all(place: &Place, typed: &[String]) -> Vec<String> {
    let script: String = typed.iter().map(|text| format!("{text}\necho; echo '=='\n")).collect();
    let output = shell(place, &script).stdin(Stdio::null()).output().unwrap();
    printed(&output).split("\n==\n").map(|text| text.trim().to_owned()).collect()
}

/// Whether a printed line is as documented; `…` and the score of a search are different each time.
fn is_as_documented(documented: &str, line: &str, user: &str) -> bool {
    let documented = documented.replace("ann", user);
    let start = documented.split('…').next().unwrap().split("\"score\":").next().unwrap();
    line.starts_with(start)
}

#[test]
fn each_command_of_the_first_screen_works_right_after_the_one_before() {
    if !can_mount() {
        return;
    }
    let text = page("README.md");
    let typed: Vec<TypedCommand> = blocks(&text)
        .into_iter()
        .filter(|(language, _)| *language == "console")
        .take(2)
        .flat_map(|(_, block)| commands(&block))
        .collect();
    let (start, rest) = typed.split_first().unwrap();
    assert!(start.text.starts_with("./scripts/quickstart.sh") && rest.len() >= 4, "{typed:?}");
    let place = Place::new();
    let (listener, port) = free_port();
    drop(listener);
    let server = quickstart(&place, &start.text, port);
    let address = format!("127.0.0.1:{port}");
    let texts: Vec<String> = rest.iter().map(|command| command.text.replace("127.0.0.1:3333", &address)).collect();
    let user = printed(&Command::new("id").arg("-un").output().unwrap());
    for (command, output) in rest.iter().zip(type_all(&place, &texts)) {
        for (documented, line) in command.output.iter().zip(output.lines()) {
            assert!(is_as_documented(documented, line, user.trim()), "{command:?}\n{output}");
        }
        assert!(output.lines().count() >= command.output.len(), "{command:?}\n{output}");
    }
    // What the quickstart itself suggests, in its order.
    let suggested: Vec<String> = server
        .greeting
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split_once(' '))
        .map(|(_, text)| text.trim())
        .map(|text| if text.starts_with("http") { format!("curl -sL '{text}'") } else { text.to_owned() })
        .collect();
    assert!(suggested.len() >= 5, "{}", server.greeting);
    let outputs = type_all(&place, &suggested);
    for (command, output) in suggested.iter().zip(&outputs) {
        assert_eq!(output.is_empty(), command.starts_with("printf"), "{command}\n{output}");
    }
    assert!(outputs.iter().any(|output| output.contains("hello.md")), "{outputs:?}");
    server.stop();
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
    assert!(!mounts.contains(&place.at("notes.mnt")), "the mount is left behind");
}

/// A repository, and a clone of a knowledge base.
#[test]
fn the_quickstart_adopts_with_consent_only() {
    if !can_mount() {
        return;
    }
    for is_clone in [false, true] {
        let place = Place::new();
        place.write("origin/a.md", "# A\n");
        place.git("origin", &["init", "-q", "-b", "main"]);
        place.git("origin", &["add", "."]);
        place.git("origin", &["commit", "-q", "-m", "base"]);
        if is_clone {
            svcfs(&["init", "--root", &place.at("origin")]).assert().success();
        }
        place.git("origin", &["clone", "-q", ".", "../kb"]);
        place.write("kb/.env", "SECRET=walrus\n");
        place.write("kb/a.md", "# Changed\n");
        let (listener, port) = free_port();
        drop(listener);
        let typed = format!("./scripts/quickstart.sh --adopt=tracked {}", place.at("kb"));
        quickstart(&place, &typed, port).stop();
        assert_eq!(place.git("kb", &["status", "--porcelain"]), "?? .env", "a clone: {is_clone}");
        assert_eq!(place.git("kb", &["show", "HEAD:a.md"]), "# Changed", "a clone: {is_clone}");
    }
}
