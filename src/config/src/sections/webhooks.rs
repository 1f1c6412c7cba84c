//! `[webhooks]` and `[[webhook_entries]]`

use globset::GlobBuilder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svcfs_base::WebhookEvent;

use super::auth::SecretText;

/// Notifications of other servers about changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WebhooksConfig {
    /// Send notifications. Without it, webhooks cannot be registered, and those that exist wait.
    pub enabled: bool,
    /// Maximum number of notifications that are sent at the same time.
    #[schemars(range(min = 1, max = 64))]
    pub max_workers: usize,
    /// Maximum number of further attempts after a failed one, from 5 s to 1 h apart.
    #[schemars(range(min = 0, max = 100))]
    pub max_retries: u32,
}

impl Default for WebhooksConfig {
    fn default() -> Self {
        Self { enabled: false, max_workers: 4, max_retries: 5 }
    }
}

/// A webhook of the settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WebhookEntry {
    /// Address that receives the notifications. `http://` and private addresses must be in
    /// `net.allow`.
    #[serde(default)]
    pub url: String,
    /// The events to send, such as `file.created`, `file.updated` and `file.deleted`. If absent:
    /// all.
    #[serde(default)]
    pub events: Vec<String>,
    /// The secret with which notifications are signed, such as `${HOOK_SECRET}`.
    #[serde(default)]
    #[schemars(with = "String")]
    pub secret: SecretText,
    /// The files whose events are sent.
    #[serde(default = "everything")]
    pub path_glob: String,
}

fn everything() -> String {
    "**".to_owned()
}

/// Validated settings of webhooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookSettings {
    /// Whether notifications are sent.
    pub enabled: bool,
    /// Maximum number of concurrent requests.
    pub max_workers: usize,
    /// Maximum number of further attempts.
    pub max_retries: u32,
    /// The webhooks of the settings.
    pub entries: Vec<WebhookEntrySettings>,
}

/// A validated webhook of the settings.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookEntrySettings {
    /// Address of the receiver.
    pub url: String,
    /// The chosen events; empty for all.
    pub events: Vec<WebhookEvent>,
    /// The secret.
    pub secret: String,
    /// The chosen files.
    pub path_glob: String,
}

impl std::fmt::Debug for WebhookEntrySettings {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { url, events, secret: _, path_glob } = self;
        formatter
            .debug_struct("WebhookEntrySettings")
            .field("url", url)
            .field("events", events)
            .field("path_glob", path_glob)
            .finish_non_exhaustive()
    }
}

/// A shorter secret could be guessed from one notification.
const MIN_SECRET_BYTES: usize = 16;

impl WebhooksConfig {
    /// Validates the settings; `report` takes a key and a message.
    pub(crate) fn resolve(self, entries: Vec<WebhookEntry>, report: &mut impl FnMut(&str, &str)) -> WebhookSettings {
        let mut resolved: Vec<WebhookEntrySettings> = Vec::with_capacity(entries.len());
        for (index, entry) in entries.into_iter().enumerate() {
            let WebhookEntry { url, events, secret: SecretText(secret), path_glob } = entry;
            let mut report = |field: &str, message: &str| report(&format!("webhook_entries[{index}].{field}"), message);
            if let Err(message) = check_url(&url) {
                report("url", message);
            } else if resolved.iter().any(|earlier| earlier.url == url) {
                report("url", "is also the address of an earlier entry; use one entry for each address");
            }
            if secret.len() < MIN_SECRET_BYTES {
                report(
                    "secret",
                    "must have at least 16 characters, such as `whsec_` and the output of `openssl rand -base64 32`",
                );
            }
            if let Err(message) = check_path_glob(&path_glob) {
                report("path_glob", &message);
            }
            let events = choose_events(&events).unwrap_or_else(|message| {
                report("events", &message);
                Vec::new()
            });
            resolved.push(WebhookEntrySettings { url, events, secret, path_glob });
        }
        let Self { enabled, max_workers, max_retries } = self;
        if !enabled && !resolved.is_empty() {
            report("webhook_entries", "has no effect without `webhooks.enabled = true`; set it, or remove the entries");
        }
        WebhookSettings { enabled, max_workers, max_retries, entries: resolved }
    }
}

/// Checks the form of an address; whether it may be reached is known when it is resolved.
fn check_url(url: &str) -> Result<(), &'static str> {
    if !(url.starts_with("https://") || url.starts_with("http://")) {
        return Err("must be an address that begins with `https://` or `http://`");
    }
    let uri: http::Uri = url
        .parse()
        .map_err(|_| "is not an address such as `https://example.org/path`; write a host in ASCII (`xn--…`)")?;
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    match uri.host() {
        None | Some("") => Err("has no host"),
        Some(_) if authority.contains('@') => Err("contains a user name or password; remove it"),
        Some(host) if authority.len() > host.len() && uri.port_u16().is_none_or(|port| port == 0) => {
            Err("has an invalid port")
        }
        Some(_) => Ok(()),
    }
}

/// Checks a glob over paths.
///
/// # Errors
/// What is wrong with it.
pub fn check_path_glob(glob: &str) -> Result<(), String> {
    if glob.is_empty() || glob.starts_with('/') || glob.starts_with("./") {
        return Err("must be a glob over paths relative to the root, such as `docs/**`".to_owned());
    }
    if glob.len() > 1024 {
        return Err("is longer than 1024 bytes".to_owned());
    }
    GlobBuilder::new(glob)
        .literal_separator(true)
        .build()
        .map(drop)
        .map_err(|error| format!("is not a glob: {}", error.kind()))
}

/// The events of a list of names; empty for all.
///
/// # Errors
/// The unknown name, and the known ones.
pub fn choose_events(names: &[String]) -> Result<Vec<WebhookEvent>, String> {
    let mut events = Vec::new();
    for name in names {
        let chosen: Vec<WebhookEvent> = WebhookEvent::choose(name).collect();
        if chosen.is_empty() {
            let known: Vec<&str> = WebhookEvent::ALL.iter().map(|event| event.name()).collect();
            let name: String = name.chars().take(40).flat_map(char::escape_debug).collect();
            return Err(format!("contains `{name}`, which is no event; the events are {}", known.join(", ")));
        }
        events.extend(chosen.into_iter().filter(|event| !events.contains(event)).collect::<Vec<_>>());
    }
    Ok(events)
}
