//! What holds: the file, beaten by flags, checked.

use crate::sections::{auth::Auth, lint::Lint, search::Search, versioning::Versioning};
use crate::{Complaint, Config, Error, Host, LogOutput, PublicUrl, ServerSettings};

/// Everything the rest of the program needs to know, decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where to listen.
    pub server: ServerSettings,
    /// How pages are found.
    pub search: Search,
    /// How history is kept.
    pub versioning: Versioning,
    /// Who may ask.
    pub auth: Auth,
    /// What is checked and tidied when a page is written.
    pub lint: Lint,
    /// Globs over the last component of a path: files that are kept but are not knowledge (gaps.md D8). All of them compile.
    pub scratch: Vec<String>,
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
}

impl Settings {
    /// Decide what holds.
    ///
    /// # Errors
    /// [`Error::Refused`] with every complaint, those of reading the file included.
    pub fn resolve(config: Config, overrides: Overrides) -> Result<Self, Error> {
        let Config { server, search, versioning, auth, lint, files, tracing, mut origin } = config;
        let Overrides { host, port, public_url } = overrides;
        let mut check = Check { lines: &origin.lines, complaints: Vec::new() };

        let host = Chosen::of("--host", host).unwrap_or(Chosen { key: "server.host", value: server.host });
        let host = check.value(host.key, Host::parse(&host.value));
        let public_url = Chosen::of("--public-url", public_url)
            .or_else(|| Chosen::of("server.public_url", server.public_url))
            .filter(|chosen| !chosen.value.is_empty());
        let public_url = public_url.map(|chosen| check.value(chosen.key, PublicUrl::parse(&chosen.value)));
        for (index, fault) in files.faults() {
            check.complain(&format!("files.scratch[{index}]"), &fault);
        }
        let log = check.value("tracing.file", tracing.resolve());

        origin.complaints.extend(check.complaints);
        origin.complaints.sort();
        match (host, public_url.transpose(), log) {
            (Some(host), Some(public_url), Some(log)) if origin.complaints.is_empty() => Ok(Self {
                server: ServerSettings { host, port: port.unwrap_or(server.port), public_url },
                search,
                versioning,
                auth,
                lint,
                scratch: files.scratch,
                log,
            }),
            _ => Err(Error::Refused { path: origin.path, complaints: origin.complaints }),
        }
    }
}
