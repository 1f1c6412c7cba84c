//! The configurations of docs/proxies.md: TLS, a path prefix, event streams, upload size.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::{block, free_port, printed, shell};
use crate::harness::{Place, Running, can_mount, eventually, program, request};

/// A proxy with a configuration of the documentation.
struct Proxy {
    child: Child,
    /// Certificate of its authority.
    authority: String,
    port: u16,
}

impl Proxy {
    /// Starts `nginx` or `caddy`; none, with the reason printed, where it is not installed.
    fn start(name: &str, place: &Place, (configuration, server, port): (&str, &str, u16)) -> Option<Self> {
        let tools = std::env::var_os("SVCFS_TOOLS").map(PathBuf::from).unwrap_or_default();
        let folder = if name == "nginx" { "usr/sbin" } else { "usr/bin" };
        let paths = [PathBuf::from("/").join(folder).join(name), tools.join(name).join(folder).join(name)];
        let Some(path) = paths.into_iter().find(|path| path.is_file()) else {
            assert!(tools.as_os_str().is_empty(), "{name} is missing; scripts/test.sh downloads it");
            println!("skipped: {name} is not installed; scripts/test.sh downloads it");
            return None;
        };
        let configuration = configuration.replace("127.0.0.1:3333", server.trim_start_matches("http://"));
        let mut command = Command::new(path);
        let authority = if name == "nginx" {
            let authority = make_certificate(place);
            place.write("nginx/conf", &nginx_configuration(&configuration, &authority, port));
            command.args(["-p", &place.at("nginx"), "-c", "conf", "-e", "log"]);
            authority
        } else {
            place.write("caddy/Caddyfile", &caddy_configuration(&configuration, port));
            command.args(["run", "--config", &place.at("caddy/Caddyfile")]);
            command.env("XDG_DATA_HOME", place.at("caddy")).env("XDG_CONFIG_HOME", place.at("caddy"));
            place.at("caddy/caddy/pki/authorities/local/root.crt")
        };
        let log = std::fs::File::create(place.path(&format!("{name}.log"))).unwrap();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let proxy = Self { child, authority, port };
        // Caddy opens its port before it has a certificate.
        let ask = ["-s", "-o", "/dev/null", "--cacert", &proxy.authority, &proxy.url("/")].map(str::to_owned);
        eventually("the proxy answers", || Command::new("curl").args(&ask).status().unwrap().success());
        Some(proxy)
    }

    fn url(&self, prefix: &str) -> String {
        format!("https://localhost:{}{prefix}", self.port)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // The workers of nginx end with their parent only when it ends by a signal that it handles.
        let pid = rustix::process::Pid::from_child(&self.child);
        let _gone_already = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _status = self.child.wait();
    }
}

/// A certificate for `localhost`, which is its own authority.
fn make_certificate(place: &Place) -> String {
    let typed = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -keyout key.pem \
                 -out cert.pem -subj /CN=localhost -addext subjectAltName=DNS:localhost \
                 -addext basicConstraints=critical,CA:FALSE 2>&1";
    printed(&shell(place, typed).output().unwrap());
    place.at("cert.pem")
}

/// The `server` block of the documentation within the smallest configuration, with test paths.
fn nginx_configuration(server: &str, certificate: &str, port: u16) -> String {
    let folder = certificate.trim_end_matches("cert.pem");
    let lines = server.lines().map(|line| match line.split_whitespace().next() {
        Some("listen") => format!("{}\n", line.replace("listen 443", &format!("listen 127.0.0.1:{port}"))),
        Some("server_name") => "server_name localhost;\n".to_owned(),
        Some("ssl_certificate") => format!("ssl_certificate {certificate};\n"),
        Some("ssl_certificate_key") => format!("ssl_certificate_key {folder}key.pem;\n"),
        _ => format!("{line}\n"),
    });
    let server: String = lines.collect();
    let folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let folders = folders.map(|name| format!("{name}_temp_path {name};\n")).concat();
    format!(
        "daemon off;\nuser root;\npid pid;\nerror_log log;\nevents {{ }}\nhttp {{\naccess_log off;\n{folders}{server}}}\n"
    )
}

/// The site of the documentation with the local authority of Caddy instead of a public one.
fn caddy_configuration(site: &str, port: u16) -> String {
    let (_, rest) = site.split_once('{').unwrap();
    let options = "admin off\n\tskip_install_trust\n\tauto_https disable_redirects";
    format!("{{\n\t{options}\n}}\nlocalhost:{port} {{\n\tbind 127.0.0.1{rest}")
}

/// `curl` through the proxy; its output.
#[track_caller]
fn curl(place: &Place, proxy: &Proxy, arguments: &str) -> String {
    let typed = format!("curl -sS --fail-with-body --cacert '{}' {arguments}", proxy.authority);
    printed(&shell(place, &typed).output().unwrap())
}

/// Everything that the page promises, through the proxy.
fn use_through(place: &Place, proxy: &Proxy, (url, server): (&str, &Running)) {
    let address = |target: &str| format!("'{url}{target}'");
    // Pages, with the address that clients see.
    curl(place, proxy, &format!("-X PUT --data-binary '# Tides' {}", address("/api/svc/file?path=tides.md")));
    let read = curl(place, proxy, &format!("-D - {}", address("/api/svc/file?path=tides.md")));
    assert!(read.contains("# Tides") && read.to_lowercase().contains(&format!("x-permalink: {url}/")), "{read}");
    // An upload that is larger than the default limits of proxies.
    let large = std::fs::File::create(place.path("large.bin")).unwrap();
    large.set_len(20 << 20).unwrap();
    curl(place, proxy, &format!("-T large.bin {}", address("/api/svc/file?path=large.bin")));
    assert_eq!(place.path("kb/large.bin").metadata().unwrap().len(), 20 << 20);
    // An event arrives while the stream stays open.
    let events = format!("-N {} | grep -m 1 '^data:.*seen.md'", address("/api/svc/events"));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let typed = format!("set +o pipefail; curl -sS --cacert '{}' --max-time 50 {events}", proxy.authority);
            printed(&shell(place, &typed).output().unwrap())
        });
        let mut number = 0;
        while !reader.is_finished() {
            number += 1;
            assert_eq!(request(server.url(), "PUT", "/api/svc/file?path=seen.md", &format!("# {number}\n")).0, 200);
            // Between two changes; no other thread unparks this one.
            std::thread::park_timeout(std::time::Duration::from_millis(100));
        }
        assert!(reader.join().unwrap().contains("seen.md"));
    });
    // An agent, and the documentation with its parts.
    let message = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#;
    let listed = curl(
        place,
        proxy,
        &format!(
            "-H 'Content-Type: application/json' -H 'Accept: application/json' -d '{message}' {}",
            address("/mcp")
        ),
    );
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert!(listed["result"]["tools"].as_array().is_some_and(|tools| tools.len() > 10), "{listed}");
    let index = curl(place, proxy, &format!("-L -w '%{{url_effective}}' {}", address("/api/docs")));
    assert!(index.ends_with(&format!("{url}/api/docs/index.html")), "{index}");
    curl(place, proxy, &format!("-o documentation.js {}", address("/api/docs/swagger-initializer.js")));
    assert!(place.read("documentation.js").contains("../openapi.json"));
    curl(place, proxy, &format!("-o openapi.json {}", address("/api/docs/../openapi.json")));
    if can_mount() {
        mount_through(place, proxy, url);
    }
}

/// `svcfs mount --remote` with the address of the proxy.
fn mount_through(place: &Place, proxy: &Proxy, url: &str) {
    let mountpoint = place.at("remote");
    std::fs::create_dir_all(&mountpoint).unwrap();
    let mut command = program();
    command.args(["mount", "--remote", url, "--state", &place.at("state"), &mountpoint]);
    // The authorities of the system; here that of the test.
    command.env("SSL_CERT_FILE", &proxy.authority);
    let mount = Running::start(command, "svcfs mounts");
    assert_eq!(place.read("remote/tides.md"), "# Tides\n");
    place.write("remote/saved.md", "# Saved\n");
    assert_eq!(place.read("kb/saved.md"), "# Saved\n");
    mount.stop();
}

/// Runs the configuration of the page for a name of its own, and the one below a path.
fn try_configurations(name: &str) {
    for (suffix, prefix) in [("", ""), (" prefix", "/notes")] {
        let place = Place::with_root();
        let (listener, port) = free_port();
        let public_url = format!("https://localhost:{port}{prefix}");
        let server = Running::serve(&place.at("kb"), &["--public-url", &public_url]);
        drop(listener);
        let configuration = block("docs/proxies.md", &format!("{name}{suffix}"));
        let Some(proxy) = Proxy::start(name, &place, (&configuration, server.url(), port)) else { return };
        use_through(&place, &proxy, (&proxy.url(prefix), &server));
        drop(proxy);
        server.stop();
    }
}

#[test]
fn the_documented_nginx_passes_uploads_events_agents_and_mounts() {
    try_configurations("nginx");
}

#[test]
fn the_documented_caddy_passes_uploads_events_agents_and_mounts() {
    try_configurations("caddy");
}
