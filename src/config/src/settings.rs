//! What holds: the file, beaten by flags, checked.

use std::collections::BTreeMap;

use crate::config::Origin;
use crate::sections::auth::Secret;
use crate::sections::{
    assets::AssetsSettings, auth::AuthSettings, dataview::DataviewSettings, janitor::JanitorSettings,
    lint::LintSettings, memory::MemorySettings, search::Search, versioning::Versioning,
};
use crate::{AuthType, Complaint, Config, Error, Host, LogOutput, PublicUrl, ServerSettings};

/// Everything the rest of the program needs to know, decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where to listen.
    pub server: ServerSettings,
    /// How pages are found.
    pub search: Search,
    /// What queries may do.
    pub dataview: DataviewSettings,
    /// How history is kept.
    pub versioning: Versioning,
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
    /// Where the log goes.
    pub log: LogOutput,
}

/// What the command line says; each field that is given beats the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides {
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
}

impl Settings {
    /// Decide what holds.
    ///
    /// # Errors
    /// [`Error::Refused`] with every complaint, those of reading the file included.
    pub fn resolve(config: Config, overrides: Overrides) -> Result<Self, Error> {
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
            tracing,
            origin,
        } = config;
        let Overrides { host, port, public_url, auth: auth_type, api_key } = overrides;
        let Origin { path, lines, complaints } = origin;
        // The keys of some sections are judged together: with one of them unread, a second complaint would mislead.
        let is_read = |section: &str| !complaints.iter().any(|complaint| complaint.key.starts_with(section));
        let (tracing_is_read, versioning_is_read) = (is_read("tracing."), is_read("versioning."));
        let auth_is_read = is_read("auth.");
        let mut check = Check { lines, complaints };

        let (key, text) = host.map_or(("server.host", server.host), |text| ("--host", text));
        let host = check.value(key, Host::parse(&text));
        let (key, text) =
            public_url.map_or(("server.public_url", server.public_url), |text| ("--public-url", Some(text)));
        let public_url =
            text.filter(|text| !text.is_empty()).and_then(|text| check.value(key, PublicUrl::parse(&text)));
        for (key, fault) in versioning.faults().filter(|_| versioning_is_read) {
            if check.lines.contains_key(key) {
                check.complain(key, fault);
            }
        }
        if let Some((key, fault)) = assets.fault() {
            check.complain(key, fault);
        }
        for (index, fault) in files.faults() {
            check.complain(&format!("files.scratch[{index}]"), &fault);
        }
        let dataview = check.value("dataview.query_timeout", dataview.resolve());
        let memory = check.value("memory.episodes_path_prefix", memory.resolve());
        let janitor = check.value("janitor.interval", janitor.resolve());
        auth.kind = auth_type.unwrap_or(auth.kind);
        auth.api_key = api_key.map(Secret).or(auth.api_key);
        let auth = if auth_is_read { auth.resolve(&mut |key, told| check.complain(key, told)) } else { None };
        let log = if tracing_is_read { check.value("tracing.file", tracing.resolve()) } else { None };

        let mut complaints = check.complaints;
        match (host, dataview, memory, janitor, auth, log) {
            (Some(host), Some(dataview), Some(memory), Some(janitor), Some(auth), Some(log))
                if complaints.is_empty() =>
            {
                Ok(Self {
                    server: ServerSettings { host, port: port.unwrap_or(server.port), public_url },
                    search,
                    dataview,
                    versioning,
                    auth,
                    lint: lint.into(),
                    scratch: files.scratch,
                    assets: assets.resolve(),
                    memory,
                    janitor,
                    log,
                })
            }
            _ => {
                complaints.sort();
                Err(Error::Refused { path, complaints })
            }
        }
    }
}

/// Gathers what is wrong.
struct Check {
    lines: BTreeMap<String, usize>,
    complaints: Vec<Complaint>,
}

impl Check {
    /// The value, or `None` and a complaint about `key`.
    fn value<T>(&mut self, key: &str, outcome: Result<T, &'static str>) -> Option<T> {
        outcome.map_err(|message| self.complain(key, message)).ok()
    }

    fn complain(&mut self, key: &str, message: &str) {
        // A key that is missing is looked for in its table.
        let table = key.rsplit_once('.').map_or("", |(table, _)| table);
        let line = self.lines.get(key).or_else(|| self.lines.get(table)).copied();
        self.complaints.push(Complaint { line, key: key.to_owned(), message: message.to_owned() });
    }
}
