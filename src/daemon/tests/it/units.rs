//! The units that systemd is given, judged by its own tools.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::harness::Place;

/// How exposed a unit may be at most, in tenths, by `systemd-analyze security`: 0 is closed, 100
/// open. The first two mount through a setuid helper, which rules most of the sandbox out (see the
/// unit).
const MOST_EXPOSED: [(&str, u32); 3] = [("svcfs.service", 75), ("svcfs@.service", 75), ("no-mount", 15)];

fn units() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../systemd").canonicalize().unwrap()
}

/// The units with the built program in the place of the installed one, and with the drop-in as a
/// unit of its own.
fn installed(place: &Place) -> PathBuf {
    let directory = place.path("units");
    for entry in fs::read_dir(units()).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        let text = fs::read_to_string(entry.path()).unwrap();
        place.write(&format!("units/{name}"), &text.replace("/usr/bin/svcfs", env!("CARGO_BIN_EXE_svcfs")));
    }
    let (unit, dropped) = (
        fs::read_to_string(directory.join("svcfs.service")).unwrap(),
        fs::read_to_string(directory.join("no-mount.conf")).unwrap(),
    );
    let whole = unit.replace("[Install]", &format!("{dropped}\n[Install]"));
    place.write("units/no-mount/svcfs.service", &whole);
    directory
}

/// None, with the reason printed, where systemd is not installed.
fn analyze(arguments: &[&str], files: &[PathBuf]) -> Option<Output> {
    let output = Command::new("systemd-analyze").args(arguments).args(files).output();
    if output.is_err() {
        println!("skipped: systemd-analyze is not installed");
    }
    output.ok()
}

#[test]
fn systemd_finds_nothing_wrong_with_the_units() {
    let place = Place::new();
    let directory = installed(&place);
    for files in [&["svcfs.service", "svcfs.socket"][..], &["svcfs@.service"], &["no-mount/svcfs.service"]] {
        let files: Vec<PathBuf> = files.iter().map(|name| directory.join(name)).collect();
        let Some(output) = analyze(&["verify", "--man=no", "--recursive-errors=no"], &files) else { return };
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && told.is_empty(), "{files:?}: {told}");
    }
}

#[test]
fn a_reload_is_refused_only_for_settings_that_cannot_apply() {
    let place = Place::with_root();
    let reload = |name: &str| {
        let text = fs::read_to_string(installed(&place).join(name)).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("ExecReload=")).unwrap().replace("$$", "$");
        let root = if name.contains('@') { "/var/lib/svcfs/%i" } else { "/var/lib/svcfs/knowledge" };
        assert!(line.contains(root), "{line}");
        Command::new("sh").args(["-c", &line.replace(root, &place.at("kb"))]).output().unwrap().status.success()
    };
    for name in ["svcfs.service", "svcfs@.service"] {
        place.write("kb/.svc/config.toml", "[server]\nport = 0\n");
        assert!(reload(name), "{name}");
        let elsewhere =
            format!("[server]\nport = 0\n[tracing]\noutput = \"file\"\nfile = \"{}/none/x.log\"\n", place.at(""));
        place.write("kb/.svc/config.toml", &elsewhere);
        assert!(reload(name), "{name} with a log that cannot be written");
        place.write("kb/.svc/config.toml", "[server]\nport = \"many\"\n");
        assert!(!reload(name), "{name} with a slip");
    }
}

/// Exit codes 2 and 3: the command line, and a refusal, such as the plan of an adoption.
#[test]
fn no_unit_is_restarted_when_a_restart_cannot_help() {
    for name in ["svcfs.service", "svcfs@.service"] {
        let text = fs::read_to_string(units().join(name)).unwrap();
        let codes = text.lines().find_map(|line| line.strip_prefix("RestartPreventExitStatus=")).unwrap();
        assert_eq!(codes.split(' ').collect::<Vec<_>>(), ["2", "3"], "{name}");
    }
}

#[test]
fn no_unit_is_more_exposed_than_its_mount_makes_it() {
    let place = Place::new();
    let directory = installed(&place);
    for (name, most) in MOST_EXPOSED {
        let file = if name == "no-mount" { "no-mount/svcfs.service" } else { name };
        let (threshold, file) = (format!("--threshold={most}"), directory.join(file));
        let Some(output) = analyze(&["security", "--offline=true", "--no-pager", &threshold], &[file]) else { return };
        let told = String::from_utf8_lossy(&output.stdout);
        let score = told.lines().last().unwrap_or_default();
        assert!(output.status.success(), "{name} is more exposed than {most} tenths: {score}\n{told}");
        println!("{name}: {score}");
    }
}
