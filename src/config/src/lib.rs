//! The settings of a server, and the templates that `svcfs init` writes into a new root.
//!
//! Invariant: nothing in `.svc/config.toml` is ignored. Each key is known and effective, or the
//! file is rejected with all its errors.
//!
//! The file has two forms. [`Config`] is the file as written: one struct per section, every field
//! documented; the published JSON schema is generated from it. [`Settings`] is the validated result
//! after flags override the file; the rest of the program uses only this form.
//!
//! ```
//! use svcfs_config::{CliOverrides, Config, Settings};
//!
//! let config = Config::parse("[server]\nport = 4000\n", &|_| None);
//! let settings = Settings::resolve(config, CliOverrides::default())?;
//! assert_eq!(settings.server.port, 4000);
//! # Ok::<(), svcfs_config::ConfigError>(())
//! ```
//!
//! serde does not report the errors: its derived code stops at the first one, and its messages name
//! Rust types. The file is validated against the schema of the same structs instead, so that editor
//! and server agree.

#![warn(missing_docs)]

mod config;
pub mod edit;
mod environment;
mod error;
mod reference;
mod sections;
mod settings;
pub mod templates;
#[cfg(test)]
mod tests;
mod unsupported;
mod validate;

pub use config::{Config, schema};
pub use environment::Environment;
pub use error::{ConfigError, ConfigProblem};
pub use reference::{SERVE_FLAGS, ServeFlag, render_reference};
pub use sections::agents::AgentLimits;
pub use sections::assets::AssetsSettings;
pub use sections::audit::AuditSettings;
pub use sections::auth::{AuthSettings, AuthType, KeyDigest, KeySettings, OidcSettings};
pub use sections::backup::{BackupOverrides, BackupSettings};
pub use sections::claims::ClaimsConfig;
pub use sections::cors::{AllowedOrigins, CorsMethod, CorsSettings};
pub use sections::dataview::DataviewSettings;
pub use sections::drafts::DraftSettings;
pub use sections::janitor::JanitorSettings;
pub use sections::links::{LinkResolution, LinksConfig};
pub use sections::lint::{LintSettings, RuleLevel, RuleLevels};
pub use sections::mcp::{McpConfig, McpProfile};
pub use sections::memory::MemorySettings;
pub use sections::net::NetSettings;
pub use sections::nfs::{NfsActors, NfsFlags, NfsSettings};
pub use sections::protocols::{ProtocolFlags, ProtocolSettings, is_plain_prefix};
pub use sections::publish::PublishConfig;
pub use sections::render::RenderConfig;
pub use sections::schema::SchemaConfig;
pub use sections::search::{SearchEngine, SearchSettings};
pub use sections::server::{ListenAddress, PublicUrl, RateLimitSettings, ServerSettings};
pub use sections::space::{SpaceSettings, SpaceVisibility, space_name_error};
pub use sections::tracing::LogOutput;
pub use sections::ui::UiConfig;
pub use sections::vector::{EmbedderProvider, EmbedderSettings, StoreProvider, StoreSettings, VectorSettings};
pub use sections::versioning::{VersioningConfig, VersioningStrategy};
pub use sections::webhooks::{WebhookEntrySettings, WebhookSettings, check_path_glob, choose_events};
pub use sections::workflow::{StatusTransitions, WorkflowSettings};
pub use settings::{CliOverrides, Settings};
pub use unsupported::UNSUPPORTED_KEYS;
