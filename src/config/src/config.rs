//! The file as it is written.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::sections::{
    assets::AssetsConfig, audit::AuditConfig, auth::AuthConfig, dataview::DataviewConfig, files::FilesConfig,
    janitor::JanitorConfig, links::LinksConfig, lint::LintConfig, memory::MemoryConfig, nfs::NfsConfig,
    protocols::S3Config, protocols::WebDav, search::SearchConfig, server::ServerConfig, space::OtherSpace,
    space::SpaceConfig, ui::UiConfig, versioning::VersioningConfig,
};
use crate::{ConfigError, ConfigProblem, Environment, reading, sections::tracing::TracingConfig};

/// `.svc/config.toml`, exactly as written: `${VAR}` expanded, nothing else decided.
///
/// What could not be understood is carried along, and [`Settings::resolve`](crate::Settings::resolve) refuses it together
/// with its own complaints. Only settings can be read by the rest of the program, so a doubtful file is never used.
///
/// Why `Serialize`? The schema shows every default by writing it.
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
    pub(crate) files: FilesConfig,
    pub(crate) assets: AssetsConfig,
    pub(crate) memory: MemoryConfig,
    pub(crate) janitor: JanitorConfig,
    pub(crate) links: LinksConfig,
    pub(crate) tracing: TracingConfig,
    pub(crate) ui: UiConfig,
    pub(crate) s3: S3Config,
    pub(crate) webdav: WebDav,
    pub(crate) nfs: NfsConfig,
    pub(crate) space: SpaceConfig,
    /// More spaces of the server, each with a root and settings of its own.
    pub(crate) spaces: Vec<OtherSpace>,
    #[serde(skip)]
    pub(crate) origin: ConfigOrigin,
}

/// Where a configuration comes from, to say so in complaints.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ConfigOrigin {
    /// The file; `None` for defaults and for text from elsewhere.
    pub path: Option<PathBuf>,
    /// Line of each key that was accepted.
    pub lines: BTreeMap<String, usize>,
    /// What was not accepted.
    pub complaints: Vec<ConfigProblem>,
}

impl Config {
    /// Read the configuration of a root; an absent file is the defaults.
    ///
    /// # Errors
    /// [`Error::Unreadable`] when the file is there and cannot be read, or is not UTF-8.
    pub fn read(path: &Path, environment: Environment<'_>) -> Result<Self, ConfigError> {
        match Self::read_existing(path, environment) {
            Err(ConfigError::Unreadable { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(Self::default())
            }
            outcome => outcome,
        }
    }

    /// Read a configuration that was asked for by name (`--config FILE`); an absent file is an error.
    ///
    /// # Errors
    /// [`Error::Unreadable`] when the file cannot be read, or is not UTF-8.
    pub fn read_existing(path: &Path, environment: Environment<'_>) -> Result<Self, ConfigError> {
        let text = read_text(path).map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
        let mut config = Self::parse(&text, environment);
        config.origin.path = Some(path.to_owned());
        Ok(config)
    }

    /// Understand `text` as far as possible; what is wrong with it is told when it is resolved.
    pub fn parse(text: &str, environment: Environment<'_>) -> Self {
        let read = reading::read(text, schema_of_config().as_value(), environment);
        let mut complaints = read.complaints;
        // What the schema accepts, the structs accept: were that ever untrue, the file is refused, not half used.
        let mut config: Self = serde_json::from_value(read.accepted).unwrap_or_else(|error| {
            complaints.push(ConfigProblem { line: None, key: String::new(), message: error.to_string() });
            Self::default()
        });
        complaints.sort();
        config.origin = ConfigOrigin { path: None, lines: read.lines, complaints };
        config
    }
}

/// Bytes a configuration may have; a root may come from anywhere, and so may a file that never ends.
const LONGEST: u64 = 1 << 20;

fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(LONGEST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LONGEST {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the file is larger than 1 MiB"));
    }
    Ok(text)
}

/// The JSON schema of the file, as published in `src/config/config.schema.json`; ends with a newline.
#[must_use]
pub fn schema() -> String {
    let Value::Object(generated) = schema_of_config().to_value() else {
        return String::new();
    };
    // What it is comes first, as a reader expects; the generator adds it last.
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
