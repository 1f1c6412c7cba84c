#![expect(clippy::disallowed_methods, reason = "these tests put configuration files into a temporary directory")]

use std::collections::BTreeSet;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::RuleLevel;
use crate::sections::files::FilesConfig;
use crate::unsupported::{self, KeyStatus};
use svcfs_base::Protocol;

use crate::{
    CliOverrides, Config, ConfigError, ListenAddress, NfsFlags, ProtocolFlags, PublicUrl, Settings, UNSUPPORTED_KEYS,
    environment, schema, templates,
};

mod scratch;

/// The variables that are set in these tests.
fn variables(name: &str) -> Option<String> {
    let value = match name {
        "HOME" => "/home/ada",
        "NAME" => "notes",
        "SECRET" => "hunter2",
        "NESTED" => "${SECRET}",
        _ => return None,
    };
    Some(value.to_owned())
}

fn resolve(text: &str) -> Result<Settings, ConfigError> {
    Settings::resolve(Config::parse(text, &variables), CliOverrides::default())
}

fn complaints(outcome: Result<Settings, ConfigError>) -> Vec<String> {
    match outcome {
        Ok(_) => Vec::new(),
        Err(ConfigError::Invalid { problems: complaints, .. }) => complaints.iter().map(ToString::to_string).collect(),
        Err(error @ ConfigError::Unreadable { .. }) => panic!("{error}"),
    }
}

/// Each `*.toml` in `tests/<folder>` must yield the text beside it in `*.txt`.
///
/// `SVCFS_ACCEPT=1` writes the texts instead; read the difference before committing it.
fn run_samples(folder: &str, outcome: impl Fn(&str) -> String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let mut samples: Vec<PathBuf> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    samples.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    assert!(!samples.is_empty(), "no samples in {}", folder.display());
    for sample in samples {
        let actual = outcome(&std::fs::read_to_string(&sample).unwrap());
        let beside = sample.with_extension("txt");
        if std::env::var_os("SVCFS_ACCEPT").is_some() {
            std::fs::write(&beside, &actual).unwrap();
        }
        let expected = std::fs::read_to_string(&beside).unwrap_or_default();
        assert_eq!(actual, expected, "{}", sample.display());
    }
}

#[test]
fn valid_samples_resolve_to_the_settings_beside_them() {
    run_samples("valid", |text| format!("{:#?}\n", resolve(text).unwrap()));
}

#[test]
fn invalid_samples_are_refused_with_the_complaints_beside_them() {
    run_samples("invalid", |text| {
        let complaints = complaints(resolve(text));
        assert!(!complaints.is_empty(), "accepted:\n{text}");
        complaints.join("\n") + "\n"
    });
}

#[test]
fn a_missing_file_means_defaults_unless_named_explicitly() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    assert_eq!(Config::read(&path, &variables).unwrap(), Config::default());
    let error = Config::read_existing(&path, &variables).unwrap_err();
    assert!(matches!(error, ConfigError::Unreadable { .. }), "{error}");
}

#[test]
fn an_unreadable_file_is_an_error_and_never_the_defaults() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    std::fs::create_dir(&path).unwrap();
    assert!(matches!(Config::read(&path, &variables), Err(ConfigError::Unreadable { .. })));

    let path = folder.path().join("latin1.toml");
    std::fs::write(&path, b"[server]\nhost = \"\xe9\"\n").unwrap();
    let message = Config::read(&path, &variables).unwrap_err().to_string();
    assert!(message.starts_with(&format!("cannot read the configuration `{}`: ", path.display())), "{message}");
}

#[test]
fn a_file_without_end_is_refused() {
    let message = Config::read(Path::new("/dev/zero"), &variables).unwrap_err().to_string();
    assert_eq!(message, "cannot read the configuration `/dev/zero`: the file is larger than 1 MiB");
}

#[test]
fn a_refusal_names_the_file_and_lists_one_complaint_per_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    std::fs::write(&path, "[server]\nprot = 1\nport = 'x'\n").unwrap();
    let config = Config::read(&path, &variables).unwrap();
    let message = Settings::resolve(config, CliOverrides::default()).unwrap_err().to_string();
    let expected = format!(
        "invalid configuration `{}`:\n  \
         line 2: `server.prot` is not a known setting; did you mean `server.port`?\n  \
         line 3: `server.port` must be an integer from 0 to 65535, not a string",
        path.display()
    );
    assert_eq!(message, expected);
}

#[test]
fn flags_beat_the_file() {
    let text = "[server]\nhost = \"10.0.0.1\"\nport = 1\npublic_url = \"https://file.example.org\"\n";
    let overrides = CliOverrides {
        host: Some("localhost".to_owned()),
        port: Some(2),
        public_url: Some("https://flag.example.org/".to_owned()),
        ..CliOverrides::default()
    };
    let settings = Settings::resolve(Config::parse(text, &variables), overrides).unwrap();
    assert_eq!(settings.server.authority(), "localhost:2");
    assert_eq!(settings.server.public_url.unwrap().as_str(), "https://flag.example.org");
}

#[test]
fn webdav_is_enabled_by_file_or_flag_and_port_alone_is_an_error() {
    let resolved = |text: &str, enabled: bool, port: Option<u16>| {
        let overrides = CliOverrides { webdav: ProtocolFlags { enabled, port }, ..CliOverrides::default() };
        Settings::resolve(Config::parse(text, &variables), overrides)
    };
    let port = |text: &str, enabled, port| resolved(text, enabled, port).unwrap().webdav.map(|webdav| webdav.port);
    assert_eq!(port("", false, None), None);
    assert_eq!(port("", true, None), Some(3335));
    assert_eq!(port("webdav = { enabled = true, port = 7 }", false, None), Some(7));
    assert_eq!(port("webdav = { enabled = true, port = 7 }", false, Some(8)), Some(8));
    let expected = ["`--webdav-port` has no effect while the protocol is off; add `--webdav`"];
    assert_eq!(complaints(resolved("", false, Some(8))), expected);
}

#[test]
fn nfs_is_served_to_those_who_are_named_else_to_this_machine() {
    let resolved = |text: &str, flags: NfsFlags| {
        let overrides = CliOverrides { nfs: flags, ..CliOverrides::default() };
        Settings::resolve(Config::parse(text, &variables), overrides)
    };
    let enabled = || NfsFlags { enabled: true, ..NfsFlags::default() };
    let address = |text: &str| text.parse::<std::net::IpAddr>().unwrap();
    assert_eq!(resolved("", NfsFlags::default()).unwrap().nfs, None);
    let here = resolved("", enabled()).unwrap().nfs.unwrap();
    assert!(here.port == 2049 && here.allows(address("127.0.0.1")) && here.allows(address("::1")));
    assert!(here.allows(address("::ffff:127.0.0.1")) && !here.allows(address("10.0.0.1")));
    let text = "[nfs]\nenabled = true\nallow = [\"10.0.0.0/24\", \"fd00::1\"]\nactors = { 7 = \"ann\", \"10.0.0.0/24\" = \"office\" }\n";
    let office = resolved(text, NfsFlags::default()).unwrap().nfs.unwrap();
    assert!(
        office.allows(address("10.0.0.9")) && office.allows(address("fd00::1")) && !office.allows(address("127.0.0.1"))
    );
    assert_eq!(office.actors.name(Some(7), address("10.0.0.9")), Some("ann"));
    assert_eq!(office.actors.name(Some(8), address("10.0.0.9")), Some("office"));
    assert_eq!(office.actors.name(Some(8), address("10.0.1.9")), None);
    let flagged = NfsFlags { allow: Some(vec!["10.0.0.7".to_owned()]), port: Some(1), enabled: true };
    let flagged = resolved(text, flagged).unwrap().nfs.unwrap();
    assert!(flagged.port == 1 && flagged.allows(address("10.0.0.7")) && !flagged.allows(address("10.0.0.9")));
    let slip = resolved("nfs.allow = [\"nowhere\"]", NfsFlags { port: Some(8), ..NfsFlags::default() });
    assert_eq!(
        complaints(slip),
        [
            "`--nfs-port` has no effect while the protocol is off; add `--nfs`",
            "line 1: `nfs.allow[0]` is not an address or network such as `10.0.0.5` or `10.0.0.0/24`: `nowhere`"
        ]
    );
    let keyed = "auth = { type = \"apikey\", api_key = \"k\" }\n";
    let told = complaints(resolved(keyed, enabled()));
    assert!(told.len() == 1 && told[0].contains("`nfs.allow` must list trusted addresses"), "{told:?}");
    assert!(resolved(&format!("{keyed}nfs.allow = [\"127.0.0.1\"]\n"), enabled()).unwrap().nfs.unwrap().has_allow_list);
}

#[test]
fn s3_is_enabled_by_file_or_flag_and_port_alone_is_an_error() {
    let resolved = |text: &str, enabled: bool, port: Option<u16>| {
        let overrides = CliOverrides { s3: ProtocolFlags { enabled, port }, ..CliOverrides::default() };
        Settings::resolve(Config::parse(text, &variables), overrides)
    };
    let port = |text: &str, enabled, port| resolved(text, enabled, port).unwrap().s3.map(|s3| s3.port);
    assert_eq!(port("", false, None), None);
    assert_eq!(port("", true, None), Some(3334));
    assert_eq!(port("s3 = { enabled = true, port = 7 }", false, Some(8)), Some(8));
    let expected = ["`--s3-port` has no effect while the protocol is off; add `--s3`"];
    assert_eq!(complaints(resolved("", false, Some(8))), expected);
}

#[test]
fn a_wrong_flag_is_reported_by_name_beside_file_errors() {
    let overrides = CliOverrides { host: Some("a b".to_owned()), ..CliOverrides::default() };
    let outcome = Settings::resolve(Config::parse("x = 1\n", &variables), overrides);
    let expected =
        ["`--host` is neither an IP address nor a host name", "line 1: `x` is not a known setting; remove it"];
    assert_eq!(complaints(outcome), expected);
}

#[test]
fn variables_are_expanded_once_and_only_when_well_formed() {
    let cases = [
        ("", ""),
        ("${NAME}", "notes"),
        ("a${NAME}b${NAME}c", "anotesbnotesc"),
        ("${UNSET}", ""),
        ("${NESTED}", "${SECRET}"),
        ("$NAME $ { ${", "$NAME $ { ${"),
        ("${} ${1A} ${A-B} ${NAME", "${} ${1A} ${A-B} ${NAME"),
        ("${${NAME}}", "${notes}"),
        ("é${NAME}é", "énotesé"),
    ];
    for (written, expected) in cases {
        assert_eq!(environment::expand(written, &variables), expected, "{written}");
    }
}

#[test]
fn the_value_of_a_variable_never_appears_in_a_complaint() {
    let text = "[search]\nengine = \"${SECRET}\"\n";
    assert_eq!(
        complaints(resolve(text)),
        ["line 2: `search.engine` must be one of \"sqlite\", \"grep\", not \"${SECRET}\""]
    );
}

#[test]
fn hosts_are_addresses_or_names() {
    for good in ["127.0.0.1", "0.0.0.0", "::", "[::1]", "localhost", "notes.example.org", "under_score", "a"] {
        assert!(ListenAddress::parse(good).is_ok(), "{good}");
    }
    let long_label = "a".repeat(64);
    for bad in ["", " ", "127.0.0", "1.2.3.4.5", "a b", "http://a", "a/b", "-a", "a-", "a..b", "a:80", "é", &long_label]
    {
        assert!(ListenAddress::parse(bad).is_err(), "{bad}");
    }
    assert_eq!(ListenAddress::parse("[::1]"), Ok(ListenAddress::Address(Ipv6Addr::LOCALHOST.into())));
}

#[test]
fn only_loopback_hosts_are_called_loopback() {
    for (host, expected) in [
        ("127.0.0.1", true),
        ("127.8.8.8", true),
        ("::1", true),
        ("::ffff:127.0.0.1", true),
        ("LocalHost", true),
        ("0.0.0.0", false),
        ("::", false),
        ("10.0.0.1", false),
        ("localhost.example.org", false),
    ] {
        assert_eq!(ListenAddress::parse(host).unwrap().is_loopback(), expected, "{host}");
    }
}

#[test]
fn public_urls_are_http_addresses_without_query_or_password() {
    let url = PublicUrl::parse("https://notes.example.org:8443/base/").unwrap();
    assert_eq!((url.as_str(), url.host()), ("https://notes.example.org:8443/base", "notes.example.org"));
    for bad in [
        "notes.example.org",
        "/base",
        "ftp://notes.example.org",
        "https://",
        "https://:80",
        "https://a/?q=1",
        "https://a/#x",
        "https://ada:secret@a/",
        "https://a b/",
    ] {
        assert!(PublicUrl::parse(bad).is_err(), "{bad}");
    }
}

/// Shows: LINT-1
#[test]
fn pages_are_formatted_only_at_listed_protocols_when_enabled() {
    let tidied = |text: &str| {
        let lint = resolve(text).unwrap().lint;
        let protocols =
            [Protocol::Http, Protocol::Mcp, Protocol::Cli, Protocol::Fuse, Protocol::Direct, Protocol::Internal];
        protocols
            .into_iter()
            .filter(|protocol| lint.should_format(*protocol))
            .map(Protocol::name)
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(tidied(""), "http mcp cli");
    assert_eq!(tidied("lint.format_protocols = ['mcp', 'fuse']"), "mcp fuse");
    assert_eq!(tidied("lint.format_protocols = []"), "");
    assert_eq!(tidied("lint.auto_format = false"), "");
}

#[test]
fn lint_errors_reject_only_at_listed_protocols_when_enabled() {
    let rejecting = |text: &str| {
        let lint = resolve(text).unwrap().lint;
        let protocols = Protocol::ALL.iter().copied().filter(|protocol| lint.should_reject(*protocol));
        protocols.map(Protocol::name).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(rejecting(""), "http mcp cli");
    assert_eq!(rejecting("lint.reject_protocols = ['fuse', 'webdav']"), "fuse remote webdav");
    assert_eq!(rejecting("lint.reject_errors = false"), "");
}

#[test]
fn lint_rules_have_a_level_each_and_unknown_ones_are_refused() {
    let rules = |text: &str| resolve(text).unwrap().lint.rules;
    assert_eq!(rules("").frontmatter_missing_required, RuleLevel::Off);
    let set = rules("[lint.rules]\nheading-skip-level = 'off'\nfrontmatter-missing-required = 'info'\n");
    assert_eq!((set.heading_skip_level, set.frontmatter_missing_required), (RuleLevel::Off, RuleLevel::Info));
    for (text, message) in [
        (
            "heading-skip = 'off'",
            "`lint.rules.heading-skip` is not a known setting; did you mean `lint.rules.heading-skip-level`?",
        ),
        ("fence_unclosed = 'off'", "did you mean `lint.rules.fence-unclosed`?"),
        ("fence-unclosed = 'ignore'", "must be one of \"off\", \"info\", \"warning\", \"error\", not \"ignore\""),
    ] {
        let error = resolve(&format!("[lint.rules]\n{text}\n")).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn hostile_files_are_refused_without_a_panic() {
    let deep_table = format!("[{}]\n", vec!["a"; 5_000].join("."));
    let deep_list = format!("a = {}{}", "[".repeat(5_000), "]".repeat(5_000));
    let many_keys: String = (0..2_000).map(|number| format!("k{number} = 1\n")).collect();
    let huge_number = format!("server.port = {}", "9".repeat(500));
    for text in [
        &deep_table,
        &deep_list,
        &many_keys,
        &huge_number,
        "\0",
        "\u{feff}x = 1",
        "\"\" = 1",
        "\"a.b\" = 1",
        "[server]\n\"=\" = 1\n",
        "= 1",
        "[[server]]\nport = 1\n",
        "server = [{port = 1}]",
        "\"server.port\" = 1",
        "\"auth.type=oidc\" = 1",
        "[auth]\n\"type=oidc\" = 1",
    ] {
        assert!(!complaints(resolve(text)).is_empty(), "{}", &text[..text.len().min(80)]);
    }
}

/// Key paths of all settings in the published schema.
fn schema_keys() -> BTreeSet<String> {
    fn collect(schema: &Value, path: &str, keys: &mut BTreeSet<String>) {
        match schema["properties"].as_object() {
            Some(properties) => {
                for (name, below) in properties {
                    collect(below, format!("{path}.{name}").trim_start_matches('.'), keys);
                }
            }
            None => {
                keys.insert(path.to_owned());
            }
        }
    }
    let mut keys = BTreeSet::new();
    collect(&serde_json::from_str(&schema()).unwrap(), "", &mut keys);
    keys
}

#[test]
fn every_contract_key_is_effective_or_listed_as_not_built() {
    let effective = schema_keys();
    for key in include_str!("../tests/contract_keys.txt").lines() {
        let listed = unsupported::key_status(key) == KeyStatus::Unsupported;
        assert!(listed != effective.contains(key), "`{key}`: listed {listed}");
    }
}

#[test]
fn the_not_built_list_is_sorted_and_names_no_effective_key() {
    assert!(UNSUPPORTED_KEYS.is_sorted());
    let effective = schema_keys();
    for entry in UNSUPPORTED_KEYS {
        match entry.split_once('=') {
            None => assert!(!effective.contains(*entry), "`{entry}` has an effect; delete its line"),
            Some((key, value)) => {
                assert!(effective.contains(key), "`{entry}`: the key itself is not built");
                let in_list = format!("{key} = [\"{value}\"]");
                let alone = format!("{key} = \"{value}\"");
                let refused = [alone, in_list].iter().all(|text| !complaints(resolve(text)).is_empty());
                assert!(refused, "`{entry}` is accepted; delete its line");
            }
        }
    }
}

#[test]
fn every_setting_of_the_schema_is_documented() {
    fn check(schema: &Value, path: &str) {
        assert!(path.is_empty() || schema["description"].is_string(), "`{path}` has no description");
        for (name, below) in schema["properties"].as_object().into_iter().flatten() {
            check(below, &format!("{path}.{name}"));
        }
    }
    check(&serde_json::from_str(&schema()).unwrap(), "");
}

#[test]
fn the_init_configuration_contains_every_default_in_comments() {
    let written = templates::CONFIG.content;
    assert_eq!(resolve(written).unwrap(), resolve("[search.vector]\nenabled = true\n").unwrap());
    let uncommented: String = written
        .lines()
        .filter_map(|line| line.strip_prefix('#'))
        .filter(|line| !line.starts_with(' '))
        .collect::<Vec<_>>()
        .join("\n");
    let settings = resolve(&uncommented).unwrap();
    assert_eq!(settings, Settings::resolve(Config::default(), CliOverrides::default()).unwrap());
    for key in schema_keys() {
        let name = key.rsplit('.').next().unwrap();
        assert!(
            uncommented.contains(&format!("{name} = "))
                || written.contains(&format!("# {name} = "))
                || written.contains(&format!("{{ {name} = "))
                || written.contains(&format!(", {name} = ")),
            "`{key}` is not shown"
        );
    }
}

#[test]
fn the_snapshot_limit_defaults_to_100_and_negative_is_unlimited() {
    let kept = |number: &str| {
        let text = format!("[versioning]\nstrategy = \"cow\"\nmax_versions = {number}\n");
        let settings = Settings::resolve(Config::parse(&text, &|_| None), CliOverrides::default()).unwrap();
        settings.versioning.max_snapshots().map(std::num::NonZero::get)
    };
    assert_eq!(["0", "1", "250"].map(kept), [Some(100), Some(1), Some(250)]);
    assert_eq!(["-1", "-9223372036854775808"].map(kept), [None, None]);
}

#[test]
fn the_address_of_webdav_has_a_path_that_a_proxy_can_take_off() {
    let resolved = |url: &str| {
        let text = format!("[webdav]\nenabled = true\npublic_url = \"{url}\"\n");
        Settings::resolve(Config::parse(&text, &|_| None), CliOverrides::default())
    };
    let path = |url: &str| {
        let webdav = resolved(url).unwrap().webdav.unwrap();
        webdav.public_url.map(|url| (url.host().to_owned(), url.path().to_owned()))
    };
    let host = || "notes.example.org".to_owned();
    assert_eq!(path("https://notes.example.org/dav/"), Some((host(), "/dav".to_owned())));
    assert_eq!(path("https://notes.example.org:8443/a/b-c"), Some((host(), "/a/b-c".to_owned())));
    assert_eq!(path("https://notes.example.org"), Some((host(), String::new())));
    assert_eq!(path(""), None);
    for other in
        ["notes.example.org/dav", "https://h/a b", "https://h/a%20b", "https://h/../x", "https://h//x", "https://h/x?y"]
    {
        assert!(resolved(other).unwrap_err().to_string().contains("webdav.public_url"), "{other}");
    }
}
