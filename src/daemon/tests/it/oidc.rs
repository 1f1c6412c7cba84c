//! Tokens of an identity provider that somebody else wrote.

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{Place, Running, eventually, refusal, request_with};

/// Where what comes from PyPI is installed; scripts/test.sh sets it.
const TOOLS: &str = "SVCFS_TOOLS";

/// A provider that knows Ann, with keys made when it started.
struct Provider {
    address: String,
    port: u16,
    child: Child,
}

impl Provider {
    /// None, with the reason said, where there is no such program.
    fn start(port: u16) -> Option<Self> {
        let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/svcfs/tools");
        let told = std::env::var_os(TOOLS);
        let program = told.clone().map_or_else(home, PathBuf::from).join("python/bin/oidc-provider-mock");
        if !program.exists() {
            assert!(told.is_none(), "`{}` is missing; scripts/test.sh installs it", program.display());
            println!("skipped: `{}` is not installed; scripts/test.sh installs it", program.display());
            return None;
        }
        let ann = r#"{"sub": "7", "email": "ann@example.org"}"#;
        let mut command = Command::new(program);
        command.args(["--port", &port.to_string(), "--user-claims", ann]).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        eventually("the provider answers", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Some(Self { address: format!("http://127.0.0.1:{port}"), port, child })
    }

    /// What Ann's browser has in the end, when she logged in for this client.
    fn token(&self, client: &str) -> String {
        let asked = "response_type=code&redirect_uri=http://localhost/back&scope=openid+email";
        let login = format!("{}/oauth2/authorize?{asked}&client_id={client}", self.address);
        let back = curl(&["--output", "/dev/null", "--write-out", "%{redirect_url}", "--data", "sub=7", &login]);
        let (_, code) = back.split_once("code=").unwrap();
        let grant = format!("grant_type=authorization_code&redirect_uri=http://localhost/back&code={code}");
        let exchange = format!("{}/oauth2/token", self.address);
        let answer = curl(&["--user", &format!("{client}:secret"), "--data", &grant, &exchange]);
        serde_json::from_str::<Value>(&answer).unwrap()["id_token"].as_str().unwrap().to_owned()
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn curl(arguments: &[&str]) -> String {
    let output = Command::new("curl").args(["--silent", "--show-error"]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn an_oidc_login_writes_under_its_name_across_key_rotation() {
    let Some(provider) = Provider::start(free_port()) else { return };
    let place = Place::with_root();
    let flags = ["--auth", "oidc", "--oidc-issuer", &provider.address, "--oidc-client-id", "svcfs"];
    let server = Running::serve(&place.at("kb"), &[&flags[..], &["--webdav", "--webdav-port", "0"]].concat());
    let webdav = server.greeting.lines().find_map(|line| line.trim().strip_prefix("webdav")).unwrap().trim();
    let write = |key: Option<&str>, path: &str| {
        request_with(server.url(), key, "PUT", &format!("/api/svc/file?path={path}"), "# A\n").0
    };
    let token = provider.token("svcfs");
    assert_eq!(write(Some(&token), "a.md"), 200, "{}", server.errors());
    assert_eq!(write(Some(&provider.token("another")), "b.md"), 401, "a token for another client");
    assert_eq!(write(None, "b.md"), 401);
    assert_eq!(request_with(server.url(), None, "GET", "/health", "").0, 200);
    let put = |key: Option<&str>, path: &str| request_with(webdav, key, "PUT", path, "# Over WebDAV\n").0;
    assert_eq!(put(Some(&token), "/webdav.md"), 201, "{}", server.errors());
    for wrong in [Some(&*provider.token("another")), Some(&token[..token.len() - 9]), Some("nonsense"), None] {
        assert_eq!(put(wrong, "/b.md"), 401, "{wrong:?}");
    }
    assert_eq!(request_with(webdav, Some("nonsense"), "GET", "/webdav.md", "").0, 401);

    // The same address, other keys: what had the old ones is worth nothing any more.
    let port = provider.port;
    drop(provider);
    let provider = Provider::start(port).unwrap();
    let fresh = provider.token("svcfs");
    eventually("the new keys are known", || write(Some(&fresh), "c.md") == 200);
    assert_eq!(write(Some(&token), "d.md"), 401);
    assert_eq!((put(Some(&token), "/d.md"), put(Some(&fresh), "/webdav.md")), (401, 204));
    let log = server.stop();
    assert!(!log.contains(&token) && !log.contains(&fresh), "a token is in the log: {log}");
    for page in ["a.md", "webdav.md"] {
        assert_eq!(place.git("kb", &["log", "-1", "--format=%an", "--", page]), "ann@example.org");
    }
    assert!(!place.has("kb/b.md") && !place.has("kb/d.md"));
}

#[test]
fn an_absent_oidc_provider_blocks_startup_only() {
    let place = Place::with_root();
    let away = format!("http://127.0.0.1:{}", free_port());
    let root = place.at("kb");
    let told = refusal(
        &[
            "serve",
            "--root",
            &root,
            "--port",
            "0",
            "--auth",
            "oidc",
            "--oidc-issuer",
            &away,
            "--oidc-client-id",
            "svcfs",
        ],
        1,
    );
    assert!(told.contains("auth.oidc.issuer") && told.contains(&away), "{told}");
    let told = refusal(&["serve", "--root", &root, "--port", "0", "--auth", "oidc"], 2);
    assert!(told.contains("auth.oidc.issuer") && told.contains("auth.oidc.client_id"), "{told}");

    place.write("kb/.svc/config.toml", "[auth]\ntype = \"apikey\"\napi_key = \"right\"\n");
    let server = Running::serve(&root, &[]);
    let elsewhere = format!("[auth]\ntype = \"oidc\"\noidc = {{ issuer = \"{away}\", client_id = \"svcfs\" }}\n");
    place.write("kb/.svc/config.toml", &elsewhere);
    server.signal(Signal::HUP);
    eventually("the reload was refused", || server.errors().contains("previous settings stay active"));
    let read = |key| request_with(server.url(), Some(key), "GET", "/api/svc/file?path=index.md", "").0;
    assert_eq!((read("right"), read("wrong")), (200, 401));
    server.stop();
}

#[test]
fn an_unresponsive_oidc_provider_blocks_no_work_or_shutdown() {
    let place = Place::with_root();
    place.write("kb/.svc/config.toml", "[auth]\ntype = \"apikey\"\napi_key = \"right\"\n");
    let server = Running::serve(&place.at("kb"), &[]);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let issuer = format!("http://{}", silent.local_addr().unwrap());
    let elsewhere = format!("[auth]\ntype = \"oidc\"\noidc = {{ issuer = \"{issuer}\", client_id = \"svcfs\" }}\n");
    place.write("kb/.svc/config.toml", &elsewhere);
    server.signal(Signal::HUP);
    let (_asked, _) = silent.accept().unwrap();
    let read = |key| request_with(server.url(), Some(key), "GET", "/api/svc/file?path=index.md", "").0;
    assert_eq!((read("right"), read("wrong")), (200, 401), "what held before holds on");
    let begun = Instant::now();
    server.stop();
    // The provider is waited for ten seconds.
    assert!(begun.elapsed() < Duration::from_secs(8), "it took {:?}", begun.elapsed());
}
