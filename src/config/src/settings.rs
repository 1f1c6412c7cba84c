//! Effective settings: the file, overridden by flags, validated.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use svcfs_base::HiddenFiles;

use crate::WebhookSettings;
use crate::config::ConfigOrigin;
use crate::sections::auth::{AuthConfig, SecretText};
use crate::sections::space::OtherSpace;
use crate::sections::{
    agents::AgentLimits,
    assets::AssetsConfig,
    assets::AssetsSettings,
    audit::AuditConfig,
    auth::AuthSettings,
    backup::BackupConfig,
    backup::BackupOverrides,
    backup::BackupSettings,
    claims::ClaimsConfig,
    dataview::DataviewConfig,
    dataview::DataviewSettings,
    drafts::DraftSettings,
    drafts::DraftsConfig,
    files::FilesConfig,
    janitor::JanitorConfig,
    janitor::JanitorSettings,
    links::LinksConfig,
    lint::LintSettings,
    mcp::McpConfig,
    memory::MemoryConfig,
    memory::MemorySettings,
    net::NetConfig,
    nfs::NfsConfig,
    protocols::S3Config,
    protocols::WebDav,
    publish::PublishConfig,
    render::RenderConfig,
    schema::SchemaConfig,
    search::{SearchConfig, SearchSettings},
    server::ServerConfig,
    tracing::TracingConfig,
    versioning::VersioningConfig,
    versioning::VersioningStrategy,
    webhooks::WebhookEntry,
    webhooks::WebhooksConfig,
    workflow::WorkflowConfig,
    workflow::WorkflowSettings,
};
use crate::{
    AuditSettings, AuthType, Config, ConfigError, ConfigProblem, ListenAddress, LogOutput, NetSettings, NfsFlags,
    NfsSettings, ProtocolFlags, ProtocolSettings, PublicUrl, ServerSettings, SpaceSettings, SpaceVisibility, UiConfig,
};

/// The effective settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Address and limits of the HTTP server.
    pub server: ServerSettings,
    /// Search by words and by meaning.
    pub search: SearchSettings,
    /// Limits and fields of queries.
    pub dataview: DataviewSettings,
    /// Version history.
    pub versioning: VersioningConfig,
    /// Authentication.
    pub auth: AuthSettings,
    /// Checks and formatting of written pages.
    pub lint: LintSettings,
    /// Schemas of pages.
    pub schema: SchemaConfig,
    /// Scratch files: valid globs over the last component of a path. Such files are stored but not
    /// versioned, linted or indexed.
    pub scratch: Vec<String>,
    /// Which hidden files REST, MCP, search and export serve.
    pub hidden_files: HiddenFiles,
    /// Uploads of files that are not pages.
    pub assets: AssetsSettings,
    /// Memory of agents.
    pub memory: MemorySettings,
    /// The protocol of agents.
    pub mcp: McpConfig,
    /// Scans for stale, broken and empty pages.
    pub janitor: JanitorSettings,
    /// Drafts.
    pub drafts: DraftSettings,
    /// Backups.
    pub backup: BackupSettings,
    /// Links between pages.
    pub links: LinksConfig,
    /// Write leases on pages.
    pub claims: ClaimsConfig,
    /// Limits for agents.
    pub agent_limits: AgentLimits,
    /// Transitions that writes may make.
    pub workflow: WorkflowSettings,
    /// Pages as HTML.
    pub render: RenderConfig,
    /// Published pages.
    pub publish: PublishConfig,
    /// Destination of the server log.
    pub log: LogOutput,
    /// Audit log; none when it is off.
    pub audit: Option<AuditSettings>,
    /// User interfaces.
    pub ui: UiConfig,
    /// Access to this space without credentials.
    pub visibility: SpaceVisibility,
    /// Whether `[[spaces]]` of the server sets the visibility; requests cannot change it then.
    pub visibility_is_fixed: bool,
    /// S3 server; none when it is off.
    pub s3: Option<ProtocolSettings>,
    /// WebDAV server; none when it is off.
    pub webdav: Option<ProtocolSettings>,
    /// NFS server; none when it is off.
    pub nfs: Option<NfsSettings>,
    /// Requests to URLs of callers.
    pub net: NetSettings,
    /// Webhooks.
    pub webhooks: WebhookSettings,
    /// Additional spaces of the server.
    pub spaces: Vec<SpaceSettings>,
    /// The configuration file, if it is not the one of the root (`--config`).
    pub config_file: Option<PathBuf>,
}

/// Settings from the command line; each present field overrides the file.
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
    /// Variables of `[backup]`.
    pub backup: BackupOverrides,
}

impl Settings {
    /// Applies the overrides and validates the result.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] with all errors, those of parsing included.
    pub fn resolve(config: Config, mut overrides: CliOverrides) -> Result<Self, ConfigError> {
        let Config {
            server,
            assets,
            search,
            dataview,
            versioning,
            auth,
            lint,
            schema,
            files,
            memory,
            mcp,
            janitor,
            drafts,
            backup,
            links,
            claims,
            agents,
            workflow,
            render,
            publish,
            tracing,
            audit,
            ui,
            s3,
            webdav,
            nfs,
            net,
            webhooks,
            webhook_entries,
            space,
            spaces: listed,
            origin: ConfigOrigin { path, lines, problems },
        } = config;
        let mut check = SettingsCheck::of((lines, problems), (&versioning, &assets, &files));

        let (spaces, workflow, search) = (check.spaces(listed), check.workflow(&workflow), check.search(search));
        let backup = check.backup(backup, &mut overrides, &versioning);
        let (dataview, memory, janitor, audit, log) = check.upkeep(dataview, memory, janitor, (&audit, tracing));
        let (drafts, auth) = (check.drafts(drafts), check.auth(override_auth(auth, &mut overrides)));
        let (nfs, webdav, s3) = check.protocols((nfs, webdav, s3), &overrides, auth.as_ref());
        let (net, webhooks) = check.requests(net, webhooks, webhook_entries);
        let server = check.server(server, (overrides.host, overrides.port, overrides.public_url), auth.as_ref());
        let complete = || {
            Some(Self {
                server: server?,
                search,
                dataview: dataview?,
                versioning,
                auth: auth?,
                lint: lint.into(),
                schema,
                hidden_files: files.exceptions(),
                scratch: files.scratch,
                assets: assets.resolve(),
                memory: memory?,
                mcp,
                janitor: janitor?,
                drafts: drafts?,
                backup: backup?,
                links,
                claims,
                agent_limits: agents.limits,
                workflow,
                render,
                publish,
                log: log?,
                audit,
                ui,
                visibility: space.visibility,
                visibility_is_fixed: false,
                s3,
                webdav,
                nfs,
                net,
                webhooks,
                spaces,
                config_file: None,
            })
        };
        check.finish(complete(), path)
    }
}

/// Flags of `[auth]` override the file.
fn override_auth(mut auth: AuthConfig, overrides: &mut CliOverrides) -> AuthConfig {
    auth.kind = overrides.auth.unwrap_or(auth.kind);
    auth.api_key = overrides.api_key.take().map(SecretText).or(auth.api_key.take());
    if let Some(issuer) = overrides.oidc_issuer.take() {
        auth.oidc.issuer = issuer;
    }
    if let Some(client_id) = overrides.oidc_client_id.take() {
        auth.oidc.client_id = client_id;
    }
    auth
}

/// What the server does in the background; none for what is invalid or off.
type UpkeepSettings = (
    Option<DataviewSettings>,
    Option<MemorySettings>,
    Option<JanitorSettings>,
    Option<AuditSettings>,
    Option<LogOutput>,
);

struct SettingsCheck {
    lines: BTreeMap<String, usize>,
    problems: Vec<ConfigProblem>,
}

impl SettingsCheck {
    fn of(
        (lines, problems): (BTreeMap<String, usize>, Vec<ConfigProblem>),
        (versioning, assets, files): (&VersioningConfig, &AssetsConfig, &FilesConfig),
    ) -> Self {
        let mut check = Self { lines, problems };
        check.check_combinations(versioning, assets, files);
        check
    }

    /// The settings, unless a value is invalid.
    fn finish(mut self, settings: Option<Settings>, path: Option<PathBuf>) -> Result<Settings, ConfigError> {
        self.problems.sort();
        let settings = settings.filter(|_| self.problems.is_empty());
        settings.ok_or(ConfigError::Invalid { path, problems: self.problems })
    }

    /// Whether all keys of `tracing.`, `versioning.` or `auth.` were accepted. These sections are
    /// validated as a unit: after a rejected key, a second error would mislead.
    fn is_valid(&self, section: &str) -> bool {
        !self.problems.iter().any(|problem| problem.key.starts_with(section))
    }

    fn drafts(&mut self, drafts: DraftsConfig) -> Option<DraftSettings> {
        self.value("drafts.auto_discard", drafts.resolve())
    }

    fn auth(&mut self, auth: AuthConfig) -> Option<AuthSettings> {
        if self.is_valid("auth.") { auth.resolve(&mut |key, message| self.report(key, message)) } else { None }
    }

    /// Requests to other servers.
    fn requests(
        &mut self,
        net: NetConfig,
        webhooks: WebhooksConfig,
        entries: Vec<WebhookEntry>,
    ) -> (NetSettings, WebhookSettings) {
        let mut report = |key: &str, message: &str| self.report(key, message);
        (net.resolve(&mut report), webhooks.resolve(entries, &mut report))
    }

    /// The servers besides HTTP; none for those that are off.
    fn protocols(
        &mut self,
        (nfs, webdav, s3): (NfsConfig, WebDav, S3Config),
        overrides: &CliOverrides,
        auth: Option<&AuthSettings>,
    ) -> (Option<NfsSettings>, Option<ProtocolSettings>, Option<ProtocolSettings>) {
        let (nfs, webdav) = (self.nfs(nfs, &overrides.nfs, auth), self.webdav(&webdav, &overrides.webdav));
        let s3 = self.value("--s3-port", s3.resolve(&overrides.s3)).flatten();
        (nfs, webdav, s3)
    }

    /// What the server does in the background, for how long and where.
    fn upkeep(
        &mut self,
        dataview: DataviewConfig,
        memory: MemoryConfig,
        janitor: JanitorConfig,
        (audit, tracing): (&AuditConfig, TracingConfig),
    ) -> UpkeepSettings {
        let dataview = self.value("dataview.query_timeout", dataview.resolve());
        let memory = memory.resolve(&mut |key, message| self.report(key, message));
        let janitor = self.value("janitor.interval", janitor.resolve());
        let audit = self.value("audit.max_size", audit.resolve()).flatten();
        let is_valid = self.is_valid("tracing.");
        let log = is_valid.then(|| self.value("tracing.file", tracing.resolve())).flatten();
        (dataview, memory, janitor, audit, log)
    }

    fn search(&mut self, search: SearchConfig) -> SearchSettings {
        let keys: BTreeSet<String> = self.lines.keys().cloned().collect();
        search.resolve(&|key| keys.contains(key), &mut |key, message| self.report(key, message))
    }

    fn backup(
        &mut self,
        backup: BackupConfig,
        overrides: &mut CliOverrides,
        versioning: &VersioningConfig,
    ) -> Option<BackupSettings> {
        let has_git = versioning.strategy == VersioningStrategy::Git;
        let resolved = backup.resolve(std::mem::take(&mut overrides.backup), has_git);
        resolved.map_err(|(key, error)| self.report(key, error)).ok()
    }

    fn nfs(&mut self, nfs: NfsConfig, flags: &NfsFlags, auth: Option<&AuthSettings>) -> Option<NfsSettings> {
        let auth_is_off = auth.is_none_or(|auth| *auth == AuthSettings::None);
        nfs.resolve(flags, auth_is_off, &mut |key, message| self.report(key, message))
    }

    fn webdav(&mut self, webdav: &WebDav, flags: &ProtocolFlags) -> Option<ProtocolSettings> {
        let public_url = self.value("webdav.public_url", webdav.public_url()).flatten();
        let served = self.value("--webdav-port", webdav.resolve(flags)).flatten()?;
        Some(ProtocolSettings { public_url, ..served })
    }

    /// The value, or none after reporting the error of `key`.
    fn value<T>(&mut self, key: &str, outcome: Result<T, &'static str>) -> Option<T> {
        outcome.map_err(|message| self.report(key, message)).ok()
    }

    /// Address, URL and limits of the server, overridden by flags; none without a valid address.
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
        let cors_is_valid = !self.problems.iter().any(|problem| problem.key.starts_with("server.cors"));
        let cors = server.cors.resolve(server.cors_origins, auth, &mut |key, message| {
            if cors_is_valid {
                self.report(key, message);
            }
        });
        let rate_limit = server.rate_limit.resolve();
        if rate_limit.is_none() && self.lines.contains_key("server.rate_limit.burst_size") {
            let message = "has no effect without `server.rate_limit.requests_per_minute`; set that, or remove it";
            self.report("server.rate_limit.burst_size", message);
        }
        let port = port.unwrap_or(server.port);
        Some(ServerSettings { host: host?, port, public_url, space_parents, cors, rate_limit })
    }

    /// Reports values that conflict with others of their section.
    fn check_combinations(&mut self, versioning: &VersioningConfig, assets: &AssetsConfig, files: &FilesConfig) {
        let is_valid = self.is_valid("versioning.");
        for (key, error) in versioning.unused_keys() {
            if is_valid && self.lines.contains_key(key) {
                self.report(key, error);
            }
        }
        if let Some((key, error)) = assets.problem() {
            self.report(key, error);
        }
        for (index, error) in files.invalid_globs() {
            self.report(&format!("files.scratch[{index}]"), &error);
        }
        for (index, error) in files.invalid_exceptions() {
            self.report(&format!("files.serve_hidden[{index}]"), &error);
        }
    }

    /// The transitions; reports an invalid one.
    fn workflow(&mut self, workflow: &WorkflowConfig) -> WorkflowSettings {
        workflow.resolve().unwrap_or_else(|(index, message)| {
            self.report(&format!("workflow.transitions[{index}]"), message);
            WorkflowSettings::default()
        })
    }

    /// Absolute paths of directories; reports the invalid ones.
    fn directories(&mut self, key: &str, texts: Vec<String>) -> Vec<PathBuf> {
        for (index, text) in texts.iter().enumerate().filter(|(_, text)| !Path::new(text).is_absolute()) {
            self.report(&format!("{key}[{index}]"), &format!("must be the absolute path of a directory, not `{text}`"));
        }
        texts.into_iter().map(PathBuf::from).collect()
    }

    /// The additional spaces; reports the invalid ones.
    fn spaces(&mut self, listed: Vec<OtherSpace>) -> Vec<SpaceSettings> {
        let mut spaces: Vec<SpaceSettings> = Vec::with_capacity(listed.len());
        for (index, other) in listed.into_iter().enumerate() {
            match other.resolve() {
                Ok(other) if spaces.iter().any(|earlier| earlier.name == other.name) => {
                    self.report(
                        &format!("spaces[{index}].name"),
                        "is also the name of an earlier space; choose another",
                    );
                }
                Ok(other) => spaces.push(other),
                Err((field, message)) => self.report(&format!("spaces[{index}].{field}"), message),
            }
        }
        spaces
    }

    fn report(&mut self, key: &str, message: &str) {
        // A missing key is reported at the line of its table.
        let table = key.rsplit_once('.').map_or("", |(table, _)| table);
        let line = self.lines.get(key).or_else(|| self.lines.get(table)).copied();
        self.problems.push(ConfigProblem { line, key: key.to_owned(), message: message.to_owned() });
    }
}
