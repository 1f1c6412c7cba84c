//! `svcfs token`

use std::fs;
use std::path::Path;

use anyhow::Context;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use svcfs_base::{Scope, TreePath};
use svcfs_config::edit::{self, EditError, NewKey, WrittenKey};
use svcfs_config::{CliOverrides, KeyDigest, templates};
use svcfs_knowledge::access::SigningKey;
use svcfs_knowledge::spaces;
use svcfs_store::{FileRights, replace_file};

use crate::control::{self, ReloadResponse};
use crate::failure::{CommandFailure, ExitStatus};
use crate::root::require_initialised;
use crate::root_flag::RootFlag;
use crate::table::table;
use crate::{credentials, output, presence, root};

const EXAMPLES: &str = "\
Examples:
  svcfs token create --scope write --actor agent:scribe   a key to read and write
  svcfs token create --prefix docs --actor reviewer       a key to read the folder docs only
  svcfs token create --scope write --s3                   a key for S3 clients
  svcfs token list                                        list the keys, without the secrets
  svcfs token revoke 3f9a1c                               revoke the key whose id starts with this

Creating a key enables authentication: from then on the server refuses requests without a key. The
commands on this machine that can read the server's own files (svcfs call, search and others) need
no key. A running server has loaded the change when the command ends; if it cannot, the exit code
is 3.";

/// Create, list and revoke API keys
///
/// Callers send a key as `Authorization: Bearer KEY`. The file `.svc/config.toml` of the root
/// contains the SHA-256 digests of the keys, in `[[auth.api_keys]]`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TokenArgs {
    #[command(subcommand)]
    what: TokenCommand,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    Create(CreateArgs),
    S3(S3Args),
    List(ListArgs),
    Revoke(RevokeArgs),
}

/// Create a key and print it; it cannot be shown again
#[derive(Debug, Args)]
struct CreateArgs {
    #[command(flatten)]
    selector: KeySelector,
    /// Scope of the key
    #[arg(long, value_parser = scopes(), default_value_t = Scope::Read)]
    scope: Scope,
    /// Author of changes made with the key [default: the scope and `-token`]
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
    /// Restrict the key to this space [default: all spaces]
    #[arg(long, value_name = "NAME", value_parser = space_name)]
    space: Option<String>,
    /// Restrict the key to this folder [default: the complete tree]
    #[arg(long, value_name = "FOLDER")]
    prefix: Option<String>,
    /// Apply the limits of agents (`[agents.limits]`) to all requests with the key
    #[arg(long)]
    limits: bool,
    /// Also print the access key id and secret for S3 clients
    #[arg(long)]
    s3: bool,
}

/// Print the access key id and secret of a key for S3 clients
#[derive(Debug, Args)]
struct S3Args {
    #[command(flatten)]
    selector: KeySelector,
    /// Id of the key, as `svcfs token list` shows it, or the key itself
    #[arg(value_name = "ID")]
    id: String,
}

/// List the keys with their authors, scopes and folders
#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    selector: KeySelector,
}

/// Revoke a key
#[derive(Debug, Args)]
struct RevokeArgs {
    #[command(flatten)]
    selector: KeySelector,
    /// At least 6 leading digits of the id, as `svcfs token list` shows it, or the key itself
    #[arg(value_name = "ID")]
    id: String,
}

#[derive(Debug, Args)]
struct KeySelector {
    #[command(flatten)]
    root: RootFlag,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The scopes with their help.
pub(super) fn scopes() -> impl TypedValueParser<Value = Scope> {
    let value = |(scope, help): (Scope, &'static str)| PossibleValue::new(scope.name()).help(help);
    let scopes = [
        (Scope::Read, "Read, search and query"),
        (Scope::Propose, "Also change pages in a draft, which a person reviews and merges"),
        (Scope::Write, "Also change pages"),
        (Scope::Admin, "Also change the server"),
    ];
    PossibleValuesParser::new(scopes.map(value)).try_map(move |name| {
        scopes.into_iter().map(|(scope, _)| scope).find(|scope| scope.name() == name).ok_or("there is no such scope")
    })
}

/// Prefix of the keys of a scope, by which secret scanners can recognise them.
const fn key_prefix(scope: Scope) -> &'static str {
    match scope {
        Scope::Read => "svc_ro_",
        Scope::Propose => "svc_pr_",
        Scope::Write => "svc_rw_",
        Scope::Admin => "svc_adm_",
    }
}

/// Digits of a complete id.
const ID_DIGITS: usize = 12;

/// Minimum number of digits to revoke a key, so that a typo does not revoke several.
const MIN_DIGITS: usize = 6;

impl TokenArgs {
    /// Runs the subcommand.
    ///
    /// # Errors
    /// `Refused` when there is no root, or its settings cannot contain a key.
    pub fn run(self) -> Result<(), CommandFailure> {
        match self.what {
            TokenCommand::Create(create) => create.run(),
            TokenCommand::S3(s3) => s3.run(),
            TokenCommand::List(list) => list.run(),
            TokenCommand::Revoke(revoke) => revoke.run(),
        }
    }
}

/// A key to create.
#[derive(Debug)]
pub(super) struct KeyRequest<'a> {
    /// Its scope.
    pub scope: Scope,
    /// Author of its changes.
    pub actor: &'a str,
    /// The only space that it permits.
    pub space: Option<&'a str>,
    /// The folder to which it is restricted.
    pub prefix: Option<&'a str>,
    /// Whether the limits of agents apply to all its requests.
    pub limits: bool,
}

/// A new key.
pub(super) struct CreatedKey {
    /// Its id.
    pub id: String,
    /// The key itself.
    pub key: String,
    /// A note for the user, or why the running server does not use the key.
    pub reloaded: Result<String, CommandFailure>,
}

/// Creates a key in the settings of a root, and lets the running server load it.
///
/// # Errors
/// `Refused` when the settings cannot contain a key.
pub(super) fn create_key(root: &Path, request: &KeyRequest<'_>) -> Result<CreatedKey, CommandFailure> {
    refuse_secondary_root(root)?;
    let KeyRequest { scope, actor, space, prefix, limits } = *request;
    let key = credentials::generate_key(key_prefix(scope))?;
    let digest = KeyDigest::from_key(&key);
    let new = NewKey { digest, space, actor, scope, prefix, limits };
    change(root, |text| edit::add_key(text, &new).map(|text| (text, ())))?;
    let id = edit::key_id(&digest);
    let reloaded = reload_server(root, &[&id], true);
    Ok(CreatedKey { id, key, reloaded })
}

/// Revokes the key with a complete id; false if the root does not have it.
///
/// # Errors
/// Those of the settings, and `Refused` when the running server still accepts the key.
pub(super) fn revoke_key(root: &Path, id: &str) -> Result<bool, CommandFailure> {
    if !edit::list_keys(&read(root)?).map_err(refused)?.iter().any(|key| key.id == id) {
        return Ok(false);
    }
    change(root, |text| edit::remove_keys(text, id))?;
    reload_server(root, &[id], false).map(|_| true)
}

impl CreateArgs {
    fn run(self) -> Result<(), CommandFailure> {
        let Self { selector: KeySelector { root, json }, scope, actor, space, prefix, limits, s3 } = self;
        let root = root.find()?;
        require_initialised(&root)?;
        if let Some(prefix) = &prefix {
            TreePath::parse(prefix).map_err(|fault| CommandFailure::new(ExitStatus::Usage, fault))?;
        }
        if limits && scope == Scope::Admin {
            let message = "--limits has no effect on keys of scope `admin`; choose another --scope";
            return Err(CommandFailure::saying(ExitStatus::Usage, message));
        }
        let actor = actor.unwrap_or_else(|| format!("{scope}-token"));
        let request = KeyRequest { scope, actor: &actor, space: space.as_deref(), prefix: prefix.as_deref(), limits };
        let CreatedKey { id, key, reloaded } = create_key(&root, &request)?;
        let secret = if s3 { Some(secret(&root, &id)?) } else { None };
        if json {
            let mut created = json!({ "id": id, "key": key, "actor": actor, "scope": scope });
            if let Some(secret) = secret {
                created["s3"] = s3_credentials_json(&id, &secret);
            }
            output::json(&created)?;
            return reloaded.map(drop);
        }
        let note = reloaded.as_deref().unwrap_or_default();
        output::complain(&format!(
            "svcfs: key {id} of {actor}, scope {scope}: save it now; it cannot be shown again.{note}"
        ));
        if let Some(space) = space.filter(|space| !has_space(&root, space)) {
            output::complain(&format!(
                "svcfs: the space `{space}` does not exist yet; the key works once it is created, or served with `--space`"
            ));
        }
        output::say(&key)?;
        secret.map_or(Ok(()), |secret| output::say(&s3_environment(&id, &secret)))?;
        reloaded.map(drop)
    }
}

impl S3Args {
    fn run(self) -> Result<(), CommandFailure> {
        let Self { selector: KeySelector { root, json }, id } = self;
        let root = root.find()?;
        require_initialised(&root)?;
        let id = match edit::list_keys(&read(&root)?).map_err(refused)?.into_iter().find(|key| key.id == id) {
            Some(key) => key.id,
            None if id.len() == ID_DIGITS => {
                let message = format!("no key has the id `{id}`; `svcfs token list` shows them");
                return Err(CommandFailure::saying(ExitStatus::Refused, message));
            }
            // The single key of `auth.type = "apikey"` is not in the list.
            None => edit::key_id(&KeyDigest::from_key(&id)),
        };
        let secret = secret(&root, &id)?;
        if json { output::json(&s3_credentials_json(&id, &secret)) } else { output::say(&s3_environment(&id, &secret)) }
    }
}

/// Parses `--space`.
pub(super) fn space_name(text: &str) -> Result<String, String> {
    svcfs_config::space_name_error(text).map_or_else(|| Ok(text.to_owned()), |message| Err(message.to_owned()))
}

/// Whether the settings or the list of created spaces contain a space.
fn has_space(root: &Path, name: &str) -> bool {
    let settings = root::read_settings(root, None, CliOverrides::default());
    let created = spaces::runtime_spaces(root).unwrap_or_default();
    settings.is_ok_and(|settings| root::is_space(name, &settings, &created))
}

/// The secret with which S3 clients sign.
fn secret(root: &Path, id: &str) -> Result<String, CommandFailure> {
    Ok(SigningKey::load_or_create(root)?.derive_secret(id))
}

/// The credentials with the names of the S3 SDKs.
fn s3_credentials_json(id: &str, secret: &str) -> Value {
    json!({ "access_key_id": id, "secret_access_key": secret })
}

/// The credentials as environment variables of S3 clients.
fn s3_environment(id: &str, secret: &str) -> String {
    format!("AWS_ACCESS_KEY_ID={id}\nAWS_SECRET_ACCESS_KEY={secret}")
}

impl ListArgs {
    fn run(self) -> Result<(), CommandFailure> {
        let KeySelector { root, json } = self.selector;
        let root = root.find()?;
        require_initialised(&root)?;
        let keys = edit::list_keys(&read(&root)?).map_err(refused)?;
        if json {
            return output::json(&keys);
        }
        if keys.is_empty() {
            output::complain("svcfs: there are no keys; create one with `svcfs token create`");
            return Ok(());
        }
        let rows = Value::from_iter(keys.iter().map(row));
        output::say(&table(&rows).unwrap_or_default())
    }
}

fn row(key: &WrittenKey) -> Value {
    let WrittenKey { id, space, actor, scope, prefix, limits } = key;
    json!({ "id": id, "actor": actor, "scope": scope, "space": space, "prefix": prefix, "limits": limits })
}

impl RevokeArgs {
    fn run(self) -> Result<(), CommandFailure> {
        let Self { selector: KeySelector { root, json }, id } = self;
        let root = root.find()?;
        require_initialised(&root)?;
        let is_key = id.starts_with("svc_");
        let id = if is_key { edit::key_id(&KeyDigest::from_key(&id)) } else { id.to_ascii_lowercase() };
        if id.len() < MIN_DIGITS {
            let message = format!("`{id}` is too short: give at least {MIN_DIGITS} digits of the id");
            return Err(CommandFailure::saying(ExitStatus::Usage, message));
        }
        let removed = change(&root, |text| {
            let (text, removed) = edit::remove_keys(text, &id)?;
            Ok((text, removed))
        })?;
        if removed.is_empty() {
            let message = format!("no key has an id that starts with `{id}`; `svcfs token list` shows them");
            return Err(CommandFailure::saying(ExitStatus::Refused, message));
        }
        let ids: Vec<&str> = removed.iter().map(|key| key.id.as_str()).collect();
        let reloaded = reload_server(&root, &ids, false);
        if json {
            output::json(&removed)?;
        } else {
            output::say(&format!("revoked {}.{}", ids.join(", "), reloaded.as_deref().unwrap_or_default()))?;
        }
        reloaded.map(drop)
    }
}

fn read(root: &Path) -> Result<String, CommandFailure> {
    let path = root.join(templates::CONFIG.path);
    match fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        outcome => Ok(outcome.with_context(|| format!("cannot read `{}`", path.display()))?),
    }
}

/// Changes the settings of the root atomically.
fn change<T>(root: &Path, edit: impl FnOnce(&str) -> Result<(String, T), EditError>) -> Result<T, CommandFailure> {
    let path = root.join(templates::CONFIG.path);
    let (text, result) = edit(&read(root)?).map_err(refused)?;
    replace_file(&path, text.as_bytes(), FileRights::Preserve)
        .with_context(|| format!("cannot write `{}`", path.display()))?;
    Ok(result)
}

fn refused(error: EditError) -> CommandFailure {
    CommandFailure::new(ExitStatus::Refused, error)
}

/// Refuses a root that is served as a secondary space: keys in its settings have no effect and
/// prevent its opening.
fn refuse_secondary_root(root: &Path) -> Result<(), CommandFailure> {
    let Some((space, pid)) = presence::secondary_space(root) else { return Ok(()) };
    let message = format!(
        "`{}` is the space `{space}` of the server with process {pid}; its keys are in the root of the first space: \
         `svcfs token create --root THE-FIRST-ROOT --space {space}`",
        root.display()
    );
    Err(CommandFailure::saying(ExitStatus::Refused, message))
}

/// Lets the running server, if any, reload keys that were added or removed; returns a note for the
/// user.
///
/// # Errors
/// `Refused` when the server does not use the new keys: the user must not believe that a key is
/// revoked while it still works.
fn reload_server(root: &Path, ids: &[&str], are_valid: bool) -> Result<String, CommandFailure> {
    let response = control::reload_keys(root, ids).map_err(|failure| {
        let message = failure.message(false);
        let message = message.trim_start_matches("svcfs: ").trim_end();
        CommandFailure::saying(
            failure.exit(),
            format!("the settings were changed, but the server still uses the previous ones: {message}"),
        )
    })?;
    let Some(ReloadResponse { pid, requires_key, ids: valid }) = response else { return Ok(String::new()) };
    let is_applied = if are_valid { valid.len() == ids.len() } else { valid.is_empty() };
    match (requires_key, is_applied) {
        (true, true) => Ok(format!(" The server (process {pid}) has loaded the change.")),
        (false, _) => Err(CommandFailure::saying(
            ExitStatus::Refused,
            format!(
                "the settings were changed, but the server (process {pid}) still requires no key: {OTHER_SETTINGS}"
            ),
        )),
        (true, false) => Err(CommandFailure::saying(
            ExitStatus::Refused,
            format!("the settings were changed, but the server (process {pid}) uses other keys: {OTHER_SETTINGS}"),
        )),
    }
}

/// Why a server does not use the settings of its root.
const OTHER_SETTINGS: &str =
    "its flags override the settings of the root, or it reads another file (`--auth`, `--config`)";
