//! The settings of a server, and what `svcfs init` puts into a new root.
//!
//! One rule: nothing in `.svc/config.toml` is ever ignored. A key is either known and effective, or the file is refused
//! with every complaint at once.
//!
//! The file has two forms. [`Config`] is what is written: one struct per section, every field documented, and the source
//! of the published JSON schema. [`Settings`] is what holds after flags have beaten the file and values have been
//! checked; the rest of the program sees only this form.
//!
//! ```
//! use svcfs_config::{Config, Overrides, Settings};
//!
//! let config = Config::parse("[server]\nport = 4000\n", &|_| None);
//! let settings = Settings::resolve(config, Overrides::default())?;
//! assert_eq!(settings.server.port, 4000);
//! # Ok::<(), svcfs_config::Error>(())
//! ```
//!
//! Why not let serde report the errors? Its derived code stops at the first one, and its messages speak of Rust types.
//! The file is held against the schema derived from the same structs instead, so that editor and server cannot disagree.

#![warn(missing_docs)]

mod complaint;
mod config;
pub mod edit;
mod environment;
mod not_built;
mod reading;
mod reference;
mod sections;
mod settings;
pub mod templates;
#[cfg(test)]
mod tests;

pub use complaint::{ConfigError, ConfigProblem};
pub use config::{Config, schema};
pub use environment::Environment;
pub use not_built::UNSUPPORTED_KEYS;
pub use reference::{SERVE_FLAGS, ServeFlag, render_reference};
pub use sections::assets::AssetsSettings;
pub use sections::audit::AuditSettings;
pub use sections::auth::{AuthSettings, AuthType, KeyDigest, KeySettings, OidcSettings};
pub use sections::cors::{AllowedOrigins, CorsMethod, CorsSettings};
pub use sections::dataview::DataviewSettings;
pub use sections::janitor::JanitorSettings;
pub use sections::links::LinksConfig;
pub use sections::lint::LintSettings;
pub use sections::memory::MemorySettings;
pub use sections::nfs::{NfsActors, NfsFlags, NfsSettings};
pub use sections::protocols::{ProtocolFlags, ProtocolSettings, is_plain_prefix};
pub use sections::search::{SearchConfig, SearchEngine};
pub use sections::server::{ListenAddress, PublicUrl, RateLimitSettings, ServerSettings};
pub use sections::space::{SpaceSettings, SpaceVisibility, space_name_error};
pub use sections::tracing::LogOutput;
pub use sections::ui::UiConfig;
pub use sections::versioning::{VersioningConfig, VersioningStrategy};
pub use settings::{CliOverrides, Settings};
