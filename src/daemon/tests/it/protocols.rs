//! Protocols beside HTTP: `svcfs serve --webdav`.

use std::io::{BufRead, BufReader};

use crate::harness::{Place, Running, eventually, exchange, refusal, request, svcfs};

#[test]
fn a_page_that_was_put_over_webdav_is_seen_over_http_and_in_git() {
    let place = Place::with_root();
    let server = Running::serve(&place.at("kb"), &["--webdav", "--webdav-port", "0"]);
    let told = server.greeting.lines().find_map(|line| line.trim().strip_prefix("webdav")).unwrap();
    let webdav = told.trim().to_owned();
    assert_eq!(request(&webdav, "PUT", "/over%20there.md", "# There\n").0, 201);
    assert!(request(server.url(), "GET", "/api/svc/file?path=over%20there.md", "").1.contains("# There"));
    let ready = request(server.url(), "GET", "/readyz", "").1;
    assert!(ready.contains(r#""webdav":{"enabled":true,"healthy":true"#), "{ready}");
    for off in [r#""nfs":{"enabled":false}"#, r#""s3":{"enabled":false}"#] {
        assert!(ready.contains(off), "{off} is not in {ready}");
    }
    let status = svcfs(&["status", "--root", &place.at("kb")]).assert().success();
    assert!(String::from_utf8_lossy(&status.get_output().stdout).contains("protocol  s3: off"));
    server.stop();
    assert_eq!(place.git("kb", &["show", "HEAD:over there.md"]), "# There");
}

/// Shows: DAV-4
#[test]
fn an_interrupted_replace_is_rolled_back_without_webdav_enabled() {
    let place = Place::with_root();
    let note = r#"{"place":"old.md","beside":".svc-replaced-1.md","from":"new","is_copy":false,"actor":"ann","is_done":false}"#;
    place.write("kb/.svc/state/webdav/1.json", note);
    place.write("kb/.svc-replaced-1.md", "# Old\n");
    let server = Running::serve(&place.at("kb"), &[]);
    assert!(request(server.url(), "GET", "/api/svc/file?path=old.md", "").1.contains("# Old"), "{}", server.errors());
    server.stop();
    assert!(!place.has("kb/.svc-replaced-1.md") && !place.has("kb/.svc/state/webdav/1.json"));
    assert_eq!(place.git("kb", &["log", "-1", "--format=%an"]), "ann");
}

#[test]
fn an_unavailable_protocol_is_reported_before_touching_the_root() {
    let place = Place::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let kb = place.at("kb");
    let serve = ["serve", "--create", "--root", &kb, "--port", "0"];
    let told = refusal(&[&serve[..], &["--webdav", "--webdav-port", &port]].concat(), 1);
    assert!(told.contains(&port) && told.contains("--webdav-port"), "{told}");
    let told = refusal(&[&serve[..], &["--webdav-port", "1"]].concat(), 2);
    assert!(told.contains("`--webdav-port`") && told.contains("add `--webdav`"), "{told}");
    assert!(!place.has("kb"));
}

/// Runs one of libnfs's programs on a file of the first space; what it prints.
fn libnfs(program: &str, port: &str, arguments: impl Fn(&dyn Fn(&str) -> String) -> Vec<String>) -> String {
    let at = |path: &str| format!("nfs://127.0.0.1/default/{path}?nfsport={port}&mountport={port}");
    let output = std::process::Command::new(program).args(arguments(&at)).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_file_copied_over_nfs_is_visible_over_http_and_reads_back() {
    let place = Place::with_root();
    let server = Running::serve(&place.at("kb"), &["--nfs", "--nfs-port", "0"]);
    let told = server.greeting.lines().find_map(|line| line.trim().strip_prefix("nfs ")).unwrap();
    let port = told.rsplit(':').next().unwrap().trim().to_owned();
    let (there, back) = (place.at("there.md"), place.at("back.md"));
    std::fs::write(&there, "# There\n").unwrap();
    libnfs("nfs-cp", &port, |at| vec![there.clone(), at("there.md")]);
    assert!(request(server.url(), "GET", "/api/svc/file?path=there.md", "").1.contains("# There"));
    assert!(libnfs("nfs-ls", &port, |at| vec![at("")]).contains("there.md"));
    libnfs("nfs-cp", &port, |at| vec![at("there.md"), back.clone()]);
    assert_eq!(std::fs::read_to_string(&back).unwrap(), "# There\n");
    let ready = request(server.url(), "GET", "/readyz", "").1;
    assert!(ready.contains(r#""nfs":{"enabled":true,"healthy":true"#), "{ready}");
    server.stop();
}

#[test]
fn pages_are_formatted_at_named_protocols_and_raw_at_others() {
    const SENT: &str = "# Page\n\n* one \n* two";
    let place = Place::with_root();
    place.write("kb/.svc/config.toml", "[lint]\nformat_protocols = [\"webdav\", \"nfs\"]\n");
    place.write("sent.md", SENT);
    let protocols = ["--webdav", "--webdav-port", "0", "--s3", "--s3-port", "0", "--nfs", "--nfs-port", "0"];
    let server = Running::serve(&place.at("kb"), &protocols);
    let at = |protocol: &str| {
        let told = server.greeting.lines().find_map(|line| line.trim().strip_prefix(protocol));
        told.unwrap_or_else(|| panic!("{}", server.greeting)).trim().to_owned()
    };
    let (status, head, _) = exchange(&at("webdav"), "PUT", "/webdav.md", ("", SENT));
    assert_eq!(status, 201);
    assert_eq!(request(&at("s3"), "PUT", "/default/s3.md", SENT).0, 200);
    let port = at("nfs ").rsplit(':').next().unwrap().to_owned();
    libnfs("nfs-cp", &port, |at| vec![place.at("sent.md"), at("nfs.md")]);
    let ready = request(server.url(), "GET", "/readyz", "").1;
    for protocol in ["webdav", "s3", "nfs"] {
        assert!(ready.contains(&format!(r#""{protocol}":{{"enabled":true,"healthy":true"#)), "{protocol}: {ready}");
    }
    // What was answered is the hash of what is there.
    let etag = head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap().trim_matches('"').to_owned();
    server.stop();
    let tidy = "# Page\n\n- one\n- two\n";
    assert_eq!(["webdav", "nfs", "s3"].map(|protocol| place.read(&format!("kb/{protocol}.md"))), [tidy, tidy, SENT]);
    assert_eq!(place.git("kb", &["rev-parse", "HEAD:webdav.md"]), etag);
}

#[test]
fn nfs_needs_an_explicit_access_setting_where_keys_are_required() {
    let place = Place::new();
    let serve =
        ["serve", "--create", "--root", &place.at("kb"), "--port", "0", "--auth", "apikey", "--api-key", "k", "--nfs"];
    let told = refusal(&serve, 2);
    assert!(told.contains("nfs.allow") && told.contains("NFS has no keys"), "{told}");
}

/// Where `scripts/nfs/guest.sh` leaves what a small machine starts from; none, with the reason
/// printed, where there is none.
fn guest() -> Option<std::path::PathBuf> {
    let cache = std::env::var_os("SVCFS_CACHE").map(std::path::PathBuf::from);
    let cache = cache.or_else(|| Some(std::path::PathBuf::from(std::env::var_os("HOME")?).join(".cache/svcfs")))?;
    let guest = cache.join("nfs");
    let emulates = std::process::Command::new("qemu-system-x86_64").arg("--version").output().is_ok();
    if !emulates || !guest.join("initramfs.gz").exists() {
        let is_made = cfg!(target_arch = "x86_64") && std::env::var_os("SVCFS_TOOLS").is_some();
        assert!(!is_made, "there is no machine in `{}`; scripts/test.sh makes it", guest.display());
        println!("skipped: no machine can be emulated here; on amd64, scripts/nfs/guest.sh makes one");
        return None;
    }
    Some(guest)
}

/// The small machine, which finds the server at a port of its host; `more` is for its first
/// process.
fn machine(guest: &std::path::Path, port: &str, more: &str) -> std::process::Command {
    let mut command = std::process::Command::new("timeout");
    command
        .args(["300", "qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-m", "384", "-nographic", "-no-reboot"])
        .args(["-monitor", "none", "-serial", "stdio", "-netdev", "user,id=net"])
        .args(["-device", "virtio-net-pci,netdev=net,romfile=", "-kernel"])
        .arg(guest.join("vmlinuz"))
        .arg("-initrd")
        .arg(guest.join("initramfs.gz"))
        .arg("-append")
        .arg(format!(
            "console=ttyS0 quiet panic=-1 mitigations=off nokaslr tsc=unstable random.trust_cpu=on PORT={port} {more}"
        ))
        .stdin(std::process::Stdio::null());
    command
}

#[test]
fn a_kernel_mounts_what_is_served_and_programs_work_there() {
    let Some(guest) = guest() else { return };
    let place = Place::with_root();
    let server = Running::serve(&place.at("kb"), &["--nfs", "--nfs-port", "0"]);
    let told = server.greeting.lines().find_map(|line| line.trim().strip_prefix("nfs ")).unwrap();
    let port = told.rsplit(':').next().unwrap().trim();
    let output = machine(&guest, port, "").output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("guest: all is well"), "{told}\n{}", server.errors());
    // A kernel that writes little asks for no commit: the file is a version when it has rested.
    let page = || request(server.url(), "GET", "/api/svc/file?path=kernel.md", "").1;
    eventually("other doors see what the kernel wrote", || page().contains("# From the kernel"));
    server.stop();
    assert_eq!(place.git("kb", &["show", "HEAD:kernel.md"]), "# From the kernel\nmore");
    let versions = place.git("kb", &["log", "--format=%s", "--", "big.bin"]);
    assert!(versions.lines().count() <= 5, "not one for each write:\n{versions}");
}

#[test]
fn kernel_nfs_writes_during_a_server_crash_lose_nothing() {
    let Some(guest) = guest() else { return };
    let place = Place::with_root();
    let mut server = Running::serve(&place.at("kb"), &["--nfs", "--nfs-port", "0"]);
    let told = server.greeting.lines().find_map(|line| line.trim().strip_prefix("nfs ")).unwrap();
    let port = told.rsplit(':').next().unwrap().trim().to_owned();
    let mut running = machine(&guest, &port, "WORK=restart").stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(running.stdout.take().unwrap()).split(b'\n');
    let mut says =
        |what: &str| lines.by_ref().map_while(Result::ok).any(|line| String::from_utf8_lossy(&line).contains(what));
    let is_there = says("guest: kill the server");
    assert!(is_there, "is the machine of today? scripts/nfs/guest.sh makes it anew\n{}", server.errors());
    server.signal(rustix::process::Signal::KILL);
    server.ended();
    let server = Running::serve(&place.at("kb"), &["--nfs", "--nfs-port", &port]);
    assert_eq!(request(server.url(), "PUT", "/api/svc/file?path=after.md", "# After\n").0, 200);
    assert!(says("guest: all is well"), "{}", server.errors());
    assert!(running.wait().unwrap().success());
    // What is safe and not saved yet is saved now.
    server.stop();
    assert_eq!(place.read("kb/before.md"), "# Before\nmore\n");
    assert_eq!(std::fs::metadata(place.path("kb/half.bin")).unwrap().len(), 4 << 20);
}
