//! The configuration file as written.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::sections::{
    agents::AgentsConfig, assets::AssetsConfig, audit::AuditConfig, auth::AuthConfig, backup::BackupConfig,
    claims::ClaimsConfig, dataview::DataviewConfig, drafts::DraftsConfig, files::FilesConfig, janitor::JanitorConfig,
    links::LinksConfig, lint::LintConfig, mcp::McpConfig, memory::MemoryConfig, net::NetConfig, nfs::NfsConfig,
    protocols::S3Config, protocols::WebDav, publish::PublishConfig, render::RenderConfig, schema::SchemaConfig,
    search::SearchConfig, server::ServerConfig, space::OtherSpace, space::SpaceConfig, ui::UiConfig,
    versioning::VersioningConfig, webhooks::WebhookEntry, webhooks::WebhooksConfig, workflow::WorkflowConfig,
};
use crate::{ConfigError, ConfigProblem, Environment, sections::tracing::TracingConfig, validate};

/// `.svc/config.toml` as written, with `${VAR}` expanded.
///
/// Errors found while parsing are stored in it; [`Settings::resolve`](crate::Settings::resolve)
/// reports them with its own. The rest of the program can read only [`Settings`](crate::Settings),
/// so an invalid file is never used.
///
/// `Serialize` is needed because the schema contains the defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(
    title = "svcfs settings",
    description = "The settings of one knowledge root, in `.svc/config.toml`. `${NAME}` in a text is replaced by that environment variable."
)]
#[must_use = "a configuration takes effect when it is resolved into settings"]
pub struct Config {
    pub(crate) server: ServerConfig,
    pub(crate) search: SearchConfig,
    pub(crate) dataview: DataviewConfig,
    pub(crate) versioning: VersioningConfig,
    pub(crate) auth: AuthConfig,
    pub(crate) audit: AuditConfig,
    pub(crate) lint: LintConfig,
    pub(crate) schema: SchemaConfig,
    pub(crate) files: FilesConfig,
    pub(crate) assets: AssetsConfig,
    pub(crate) memory: MemoryConfig,
    pub(crate) mcp: McpConfig,
    pub(crate) janitor: JanitorConfig,
    pub(crate) drafts: DraftsConfig,
    pub(crate) backup: BackupConfig,
    pub(crate) links: LinksConfig,
    pub(crate) claims: ClaimsConfig,
    pub(crate) agents: AgentsConfig,
    pub(crate) workflow: WorkflowConfig,
    pub(crate) render: RenderConfig,
    pub(crate) publish: PublishConfig,
    pub(crate) tracing: TracingConfig,
    pub(crate) ui: UiConfig,
    pub(crate) s3: S3Config,
    pub(crate) webdav: WebDav,
    pub(crate) nfs: NfsConfig,
    pub(crate) net: NetConfig,
    pub(crate) webhooks: WebhooksConfig,
    /// Webhooks of the settings, besides those that are registered over the API.
    pub(crate) webhook_entries: Vec<WebhookEntry>,
    pub(crate) space: SpaceConfig,
    /// Additional spaces of the server, each with its own root and settings.
    pub(crate) spaces: Vec<OtherSpace>,
    #[serde(skip)]
    pub(crate) origin: ConfigOrigin,
}

/// The source of a configuration, for error messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ConfigOrigin {
    /// The file; none for defaults and for text from elsewhere.
    pub path: Option<PathBuf>,
    pub lines: BTreeMap<String, usize>,
    pub problems: Vec<ConfigProblem>,
}

impl Config {
    /// Reads the configuration of a root; if the file does not exist, returns the defaults.
    ///
    /// # Errors
    /// [`ConfigError::Unreadable`] when the file exists and cannot be read, or is not UTF-8.
    pub fn read(path: &Path, environment: Environment<'_>) -> Result<Self, ConfigError> {
        match Self::read_existing(path, environment) {
            Err(ConfigError::Unreadable { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(Self::default())
            }
            outcome => outcome,
        }
    }

    /// Reads a configuration that the user named (`--config FILE`); the file must exist.
    ///
    /// # Errors
    /// [`ConfigError::Unreadable`] when the file cannot be read, or is not UTF-8.
    pub fn read_existing(path: &Path, environment: Environment<'_>) -> Result<Self, ConfigError> {
        let text = read_text(path).map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
        let mut config = Self::parse(&text, environment);
        config.origin.path = Some(path.to_owned());
        Ok(config)
    }

    /// Parses `text` as far as possible; [`Settings::resolve`](crate::Settings::resolve) reports
    /// the errors.
    pub fn parse(text: &str, environment: Environment<'_>) -> Self {
        let checked = validate::validate(text, schema_of_config().as_value(), environment);
        let mut problems = checked.problems;
        // The structs accept what the schema accepts. If they ever differ, the file is rejected.
        let mut config: Self = serde_json::from_value(checked.accepted).unwrap_or_else(|error| {
            problems.push(ConfigProblem { line: None, key: String::new(), message: error.to_string() });
            Self::default()
        });
        problems.sort();
        config.origin = ConfigOrigin { path: None, lines: checked.lines, problems };
        config
    }
}

/// A root may come from an untrusted source, and the file may be endless (`/dev/zero`).
const MAX_CONFIG_BYTES: u64 = 1 << 20;

fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_CONFIG_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_CONFIG_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the file is larger than 1 MiB"));
    }
    Ok(text)
}

/// The JSON schema of the file, as published in `src/config/config.schema.json`; ends with a
/// newline.
#[must_use]
pub fn schema() -> String {
    let Value::Object(generated) = schema_of_config().to_value() else {
        return String::new();
    };
    // Title and description first, as readers expect; the generator adds them last.
    let (mut head, body): (Map<_, _>, Map<_, _>) =
        generated.into_iter().partition(|(key, _)| matches!(key.as_str(), "$schema" | "title" | "description"));
    head.sort_keys();
    head.extend(body);
    format!("{:#}\n", Value::Object(head))
}

pub(crate) fn schema_of_config() -> Schema {
    SchemaSettings::draft2020_12()
        .with(|settings| settings.inline_subschemas = true)
        .into_generator()
        .into_root_schema_for::<Config>()
}
