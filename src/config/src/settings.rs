//! What holds: the file, beaten by flags, checked.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::config::ConfigOrigin;
use crate::sections::auth::{AuthConfig, SecretText};
use crate::sections::space::OtherSpace;
use crate::sections::{
    assets::AssetsConfig, assets::AssetsSettings, auth::AuthSettings, dataview::DataviewSettings, files::FilesConfig,
    janitor::JanitorSettings, links::LinksConfig, lint::LintSettings, memory::MemorySettings, nfs::NfsConfig,
    protocols::WebDav, search::SearchConfig, server::ServerConfig, versioning::VersioningConfig,
};
use crate::{
    AuditSettings, AuthType, Config, ConfigError, ConfigProblem, ListenAddress, LogOutput, NfsFlags, NfsSettings,
    ProtocolFlags, ProtocolSettings, PublicUrl, ServerSettings, SpaceSettings, SpaceVisibility, UiConfig,
};

/// Everything the rest of the program needs to know, decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where to listen.
    pub server: ServerSettings,
    /// How pages are found.
    pub search: SearchConfig,
    /// What queries may do.
    pub dataview: DataviewSettings,
    /// How history is kept.
    pub versioning: VersioningConfig,
    /// Who may ask.
    pub auth: AuthSettings,
    /// What is checked and tidied when a page is written.
    pub lint: LintSettings,
    /// Globs over the last component of a path: files that are kept but are not knowledge (gaps.md D8). All of them compile.
    pub scratch: Vec<String>,
    /// What may be uploaded beside pages.
    pub assets: AssetsSettings,
    /// Where agents keep what they remember.
    pub memory: MemorySettings,
    /// When the health of the tree is looked at.
    pub janitor: JanitorSettings,
    /// What leads from one page to another.
    pub links: LinksConfig,
    /// Where the log goes.
    pub log: LogOutput,
    /// How much is kept of who asked for what; none for nothing.
    pub audit: Option<AuditSettings>,
    /// What interfaces may change.
    pub ui: UiConfig,
    /// Who may read this space without credentials.
    pub visibility: SpaceVisibility,
    /// Whether the settings of the server say that of this space (`[[spaces]]`): no request changes it then.
    pub visibility_is_fixed: bool,
    /// Where S3 is served; none when it is not.
    pub s3: Option<ProtocolSettings>,
    /// Where WebDAV is served; none when it is not.
    pub webdav: Option<ProtocolSettings>,
    /// How NFS is served; none when it is not.
    pub nfs: Option<NfsSettings>,
    /// More spaces of the server.
    pub spaces: Vec<SpaceSettings>,
    /// The file they were read from, where it is not the root's own: `--config`.
    pub config_file: Option<PathBuf>,
}

/// What the command line says; each field that is given beats the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CliOverrides {
    /// `--host`
    pub host: Option<String>,
    /// `--port`
    pub port: Option<u16>,
    /// `--public-url`, or `SVC_PUBLIC_URL`.
    pub public_url: Option<String>,
    /// `--auth`, or `SVC_AUTH_TYPE`.
    pub auth: Option<AuthType>,
    /// `--api-key`, or `SVC_API_KEY`.
    pub api_key: Option<String>,
    /// `--oidc-issuer`
    pub oidc_issuer: Option<String>,
    /// `--oidc-client-id`
    pub oidc_client_id: Option<String>,
    /// `--s3` and `--s3-port`
    pub s3: ProtocolFlags,
    /// `--webdav` and `--webdav-port`
    pub webdav: ProtocolFlags,
    /// `--nfs`, `--nfs-port` and `--nfs-allow`
    pub nfs: NfsFlags,
}

impl Settings {
    /// Decide what holds.
    ///
    /// # Errors
    /// [`Error::Refused`] with every complaint, those of reading the file included.
    pub fn resolve(config: Config, overrides: CliOverrides) -> Result<Self, ConfigError> {
        let Config {
            server,
            assets,
            search,
            dataview,
            versioning,
            mut auth,
            lint,
            files,
            memory,
            janitor,
            links,
            tracing,
            audit,
            ui,
            s3,
            webdav,
            nfs,
            space,
            spaces: listed,
            origin: ConfigOrigin { path, lines, complaints },
        } = config;
        let CliOverrides {
            host,
            port,
            public_url,
            auth: auth_type,
            api_key,
            oidc_issuer,
            oidc_client_id,
            s3: s3_flags,
            webdav: webdav_flags,
            nfs: nfs_flags,
        } = overrides;
        // The keys of some sections are judged together: with one of them unread, a second complaint would mislead.
        let is_read = |section: &str| !complaints.iter().any(|complaint| complaint.key.starts_with(section));
        let [tracing_is_read, versioning_is_read, auth_is_read] = ["tracing.", "versioning.", "auth."].map(is_read);
        let mut check = SettingsCheck { lines, complaints };

        check.faults(Some(&versioning).filter(|_| versioning_is_read), &assets, &files);
        let spaces = check.spaces(listed);
        let dataview = check.value("dataview.query_timeout", dataview.resolve());
        let memory = check.value("memory.episodes_path_prefix", memory.resolve());
        let janitor = check.value("janitor.interval", janitor.resolve());
        let audit = check.value("audit.max_size", audit.resolve()).flatten();
        beat(&mut auth, (auth_type, api_key), (oidc_issuer, oidc_client_id));
        let auth = if auth_is_read { auth.resolve(&mut |key, told| check.complain(key, told)) } else { None };
        let nfs = check.nfs(nfs, &nfs_flags, auth.as_ref());
        let s3 = check.value("--s3-port", s3.resolve(&s3_flags)).flatten();
        let webdav = check.webdav(&webdav, &webdav_flags);
        let log = if tracing_is_read { check.value("tracing.file", tracing.resolve()) } else { None };

        let server = check.server(server, (host, port, public_url), auth.as_ref());

        match (server, dataview, memory, janitor, auth, log) {
            (Some(server), Some(dataview), Some(memory), Some(janitor), Some(auth), Some(log))
                if check.complaints.is_empty() =>
            {
                Ok(Self {
                    server,
                    search,
                    dataview,
                    versioning,
                    auth,
                    lint: lint.into(),
                    scratch: files.scratch,
                    assets: assets.resolve(),
                    memory,
                    janitor,
                    links,
                    log,
                    audit,
                    ui,
                    visibility: space.visibility,
                    visibility_is_fixed: false,
                    s3,
                    webdav,
                    nfs,
                    spaces,
                    config_file: None,
                })
            }
            _ => Err(ConfigError::Invalid { path, problems: check.in_order() }),
        }
    }
}

/// What flags say of `[auth]` takes the place of what the file says.
fn beat(
    auth: &mut AuthConfig,
    (kind, api_key): (Option<AuthType>, Option<String>),
    (issuer, client_id): (Option<String>, Option<String>),
) {
    auth.kind = kind.unwrap_or(auth.kind);
    auth.api_key = api_key.map(SecretText).or(auth.api_key.take());
    if let Some(issuer) = issuer {
        auth.oidc.issuer = issuer;
    }
    if let Some(client_id) = client_id {
        auth.oidc.client_id = client_id;
    }
}

/// Gathers what is wrong.
struct SettingsCheck {
    lines: BTreeMap<String, usize>,
    complaints: Vec<ConfigProblem>,
}

impl SettingsCheck {
    fn nfs(&mut self, nfs: NfsConfig, flags: &NfsFlags, auth: Option<&AuthSettings>) -> Option<NfsSettings> {
        let is_open = auth.is_none_or(|auth| *auth == AuthSettings::None);
        nfs.resolve(flags, is_open, &mut |key, told| self.complain(key, told))
    }

    /// Where WebDAV is served, and how clients reach it.
    fn webdav(&mut self, webdav: &WebDav, flags: &ProtocolFlags) -> Option<ProtocolSettings> {
        let public_url = self.value("webdav.public_url", webdav.public_url()).flatten();
        let served = self.value("--webdav-port", webdav.resolve(flags)).flatten()?;
        Some(ProtocolSettings { public_url, ..served })
    }

    /// All complaints, as they come in the file.
    fn in_order(self) -> Vec<ConfigProblem> {
        let mut complaints = self.complaints;
        complaints.sort();
        complaints
    }

    /// The value, or `None` and a complaint about `key`.
    fn value<T>(&mut self, key: &str, outcome: Result<T, &'static str>) -> Option<T> {
        outcome.map_err(|message| self.complain(key, message)).ok()
    }

    /// Where the server listens and who may ask it, beaten by flags; none with a complaint about where it listens.
    fn server(
        &mut self,
        server: ServerConfig,
        (host, port, public_url): (Option<String>, Option<u16>, Option<String>),
        auth: Option<&AuthSettings>,
    ) -> Option<ServerSettings> {
        let (key, text) = host.map_or(("server.host", server.host), |text| ("--host", text));
        let host = self.value(key, ListenAddress::parse(&text));
        let (key, text) =
            public_url.map_or(("server.public_url", server.public_url), |text| ("--public-url", Some(text)));
        let public_url = text.filter(|text| !text.is_empty()).and_then(|text| self.value(key, PublicUrl::parse(&text)));
        let space_parents = self.directories("server.space_parents", server.space_parents);
        let cors_is_read = !self.complaints.iter().any(|complaint| complaint.key.starts_with("server.cors"));
        let cors = server.cors.resolve(server.cors_origins, auth, &mut |key, told| {
            if cors_is_read {
                self.complain(key, told);
            }
        });
        let rate_limit = server.rate_limit.resolve();
        if rate_limit.is_none() && self.lines.contains_key("server.rate_limit.burst_size") {
            let told = "has no effect without `server.rate_limit.requests_per_minute`";
            self.complain("server.rate_limit.burst_size", told);
        }
        let port = port.unwrap_or(server.port);
        Some(ServerSettings { host: host?, port, public_url, space_parents, cors, rate_limit })
    }

    /// A complaint about each value that does not fit the others of its section.
    fn faults(&mut self, versioning: Option<&VersioningConfig>, assets: &AssetsConfig, files: &FilesConfig) {
        for (key, fault) in versioning.into_iter().flat_map(VersioningConfig::faults) {
            if self.lines.contains_key(key) {
                self.complain(key, fault);
            }
        }
        if let Some((key, fault)) = assets.fault() {
            self.complain(key, fault);
        }
        for (index, fault) in files.faults() {
            self.complain(&format!("files.scratch[{index}]"), &fault);
        }
    }

    /// Absolute paths of directories; a complaint about each that is none.
    fn directories(&mut self, key: &str, texts: Vec<String>) -> Vec<PathBuf> {
        for (index, text) in texts.iter().enumerate().filter(|(_, text)| !Path::new(text).is_absolute()) {
            self.complain(&format!("{key}[{index}]"), &format!("is no absolute path of a directory: `{text}`"));
        }
        texts.into_iter().map(PathBuf::from).collect()
    }

    /// The spaces beside the first; a complaint about each that cannot be one.
    fn spaces(&mut self, listed: Vec<OtherSpace>) -> Vec<SpaceSettings> {
        let mut spaces: Vec<SpaceSettings> = Vec::with_capacity(listed.len());
        for (index, other) in listed.into_iter().enumerate() {
            match other.resolve() {
                Ok(other) if spaces.iter().any(|known| known.name == other.name) => {
                    self.complain(&format!("spaces[{index}].name"), "is the name of an earlier space, too");
                }
                Ok(other) => spaces.push(other),
                Err((field, told)) => self.complain(&format!("spaces[{index}].{field}"), told),
            }
        }
        spaces
    }

    fn complain(&mut self, key: &str, message: &str) {
        // A key that is missing is looked for in its table.
        let table = key.rsplit_once('.').map_or("", |(table, _)| table);
        let line = self.lines.get(key).or_else(|| self.lines.get(table)).copied();
        self.complaints.push(ConfigProblem { line, key: key.to_owned(), message: message.to_owned() });
    }
}
