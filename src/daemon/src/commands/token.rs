//! `svcfs token`

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use svcfs_base::{Scope, TreePath};
use svcfs_config::edit::{self, EditError, NewKey, WrittenKey};
use svcfs_config::{CliOverrides, KeyDigest, templates};
use svcfs_knowledge::access::SigningKey;
use svcfs_knowledge::spaces;

use crate::control::{self, ReloadResponse};
use crate::failure::{CommandFailure, ExitStatus};
use crate::replacing::{FileRights, replace};
use crate::root::must_be_initialised;
use crate::table::table;
use crate::{credentials, output, presence, root};

const EXAMPLES: &str = "\
Examples:
  svcfs token create --scope write --actor agent:scribe   a key that reads and writes
  svcfs token create --prefix docs --actor reviewer       one that reads the folder docs only
  svcfs token create --scope write --s3                   one that clients of S3 can sign with
  svcfs token list                                        who has keys, not the keys
  svcfs token revoke 3f9a1c                               the key whose id begins so

The first key closes the door: without one nobody is answered any more, but those who can read the
server's own files (svcfs call, query and the like on this machine). A server that runs has taken up
a change when the command ends; one that does not is told of, and ends it with 3.";

/// Make, list and revoke the keys that callers send as `Authorization: Bearer KEY`
///
/// Keys stand in `.svc/config.toml` of the root as SHA-256 digests, below `[[auth.api_keys]]`.
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

/// Make a key, and print it: this once
#[derive(Debug, Args)]
struct CreateArgs {
    #[command(flatten)]
    of: KeySelector,
    /// What it allows
    #[arg(long, value_parser = scopes(), default_value_t = Scope::Read)]
    scope: Scope,
    /// Name its changes are attributed to [default: the scope and `-token`]
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
    /// The only space it opens; all of them when absent
    #[arg(long, value_name = "NAME", value_parser = space_name)]
    space: Option<String>,
    /// The folder beyond which it shows and changes nothing; the whole tree when absent
    #[arg(long, value_name = "FOLDER")]
    prefix: Option<String>,
    /// Also print what clients of S3 sign with: the id of the key, and its secret
    #[arg(long)]
    s3: bool,
}

/// Print what clients of S3 sign with: the id of a key, and its secret
#[derive(Debug, Args)]
struct S3Args {
    #[command(flatten)]
    of: KeySelector,
    /// The id of the key, as `svcfs token list` shows it, or the key itself
    #[arg(value_name = "ID")]
    id: String,
}

/// List the keys: who has one, and what each allows
#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    of: KeySelector,
}

/// Revoke a key
#[derive(Debug, Args)]
struct RevokeArgs {
    #[command(flatten)]
    of: KeySelector,
    /// The beginning of its id, as `svcfs token list` shows it (at least 6 digits), or the key itself
    #[arg(value_name = "ID")]
    id: String,
}

#[derive(Debug, Args)]
struct KeySelector {
    /// Directory of the knowledge base
    #[arg(short, long, value_name = "DIR", default_value = "./knowledge")]
    root: PathBuf,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

/// What a scope may be, with what each allows.
fn scopes() -> impl TypedValueParser<Value = Scope> {
    let value = |(scope, help): (Scope, &'static str)| PossibleValue::new(scope.name()).help(help);
    let known = [
        (Scope::Read, "Read, search and ask"),
        (Scope::Write, "Also change pages"),
        (Scope::Admin, "Also change the server"),
    ];
    PossibleValuesParser::new(known.map(value)).try_map(move |name| {
        known.into_iter().map(|(scope, _)| scope).find(|scope| scope.name() == name).ok_or("there is no such scope")
    })
}

/// What keys of a scope begin with, so that one that turns up somewhere is known for what it is.
const fn lead(scope: Scope) -> &'static str {
    match scope {
        Scope::Read => "svc_ro_",
        Scope::Write => "svc_rw_",
        Scope::Admin => "svc_adm_",
    }
}

/// Digits of a whole id.
const ID_DIGITS: usize = 12;

/// Fewest digits by which a key is revoked, so that a slip does not revoke several.
const FEWEST_DIGITS: usize = 6;

impl TokenArgs {
    /// Does what is asked.
    ///
    /// # Errors
    /// `Refused` where there is no root, or its settings cannot take a key.
    pub fn run(self) -> Result<(), CommandFailure> {
        match self.what {
            TokenCommand::Create(create) => create.run(),
            TokenCommand::S3(s3) => s3.run(),
            TokenCommand::List(list) => list.run(),
            TokenCommand::Revoke(revoke) => revoke.run(),
        }
    }
}

impl CreateArgs {
    fn run(self) -> Result<(), CommandFailure> {
        let Self { of: KeySelector { root, json }, scope, actor, space, prefix, s3 } = self;
        must_be_initialised(&root)?;
        must_be_the_first(&root)?;
        if let Some(prefix) = &prefix {
            TreePath::parse(prefix).map_err(|fault| CommandFailure::new(ExitStatus::Usage, fault))?;
        }
        let key = credentials::fresh(lead(scope))?;
        let digest = KeyDigest::from_key(&key);
        let actor = actor.unwrap_or_else(|| format!("{scope}-token"));
        let new = NewKey { digest, space: space.as_deref(), actor: &actor, scope, prefix: prefix.as_deref() };
        change(&root, |text| edit::add_key(text, &new).map(|text| (text, ())))?;
        let id = edit::key_id(&digest);
        let told = tell_server(&root, &[&id], true);
        let secret = if s3 { Some(secret(&root, &id)?) } else { None };
        if json {
            let mut made = json!({ "id": id, "key": key, "actor": actor, "scope": scope });
            if let Some(secret) = secret {
                made["s3"] = signing(&id, &secret);
            }
            output::json(&made)?;
            return told.map(drop);
        }
        let taken_up = told.as_deref().unwrap_or_default();
        output::complain(&format!("svcfs: key {id} of {actor} for {scope}, told this once: it is not kept.{taken_up}"));
        if let Some(space) = space.filter(|space| !has_space(&root, space)) {
            let told = "neither the settings nor the spaces made so far have it; the key opens nothing until it is made, or served with `--space`";
            output::complain(&format!("svcfs: the space `{space}`: {told}"));
        }
        output::say(&key)?;
        secret.map_or(Ok(()), |secret| output::say(&lines(&id, &secret)))?;
        told.map(drop)
    }
}

impl S3Args {
    fn run(self) -> Result<(), CommandFailure> {
        let Self { of: KeySelector { root, json }, id } = self;
        must_be_initialised(&root)?;
        let id = match edit::list_keys(&read(&root)?).map_err(refused)?.into_iter().find(|key| key.id == id) {
            Some(key) => key.id,
            None if id.len() == ID_DIGITS => {
                let told = format!("no key has the id `{id}`; `svcfs token list` shows them");
                return Err(CommandFailure::saying(ExitStatus::Refused, told));
            }
            // The one key of `auth.type = "apikey"` is in no list.
            None => edit::key_id(&KeyDigest::from_key(&id)),
        };
        let secret = secret(&root, &id)?;
        if json { output::json(&signing(&id, &secret)) } else { output::say(&lines(&id, &secret)) }
    }
}

/// What `--space` takes.
fn space_name(text: &str) -> Result<String, String> {
    svcfs_config::space_name_error(text).map_or_else(|| Ok(text.to_owned()), |told| Err(told.to_owned()))
}

/// Whether the server of a root has a space of this name, as far as its settings and its list say.
fn has_space(root: &Path, name: &str) -> bool {
    let settings = root::understood(root, None, CliOverrides::default());
    let made = spaces::runtime_spaces(root).unwrap_or_default();
    settings.is_ok_and(|settings| root::is_space(name, &settings, &made))
}

/// The secret of a key, for clients that sign.
fn secret(root: &Path, id: &str) -> Result<String, CommandFailure> {
    Ok(SigningKey::load_or_create(root)?.derive_secret(id))
}

/// As clients of S3 call them.
fn signing(id: &str, secret: &str) -> Value {
    json!({ "access_key_id": id, "secret_access_key": secret })
}

/// As the environment of such a client has them.
fn lines(id: &str, secret: &str) -> String {
    format!("AWS_ACCESS_KEY_ID={id}\nAWS_SECRET_ACCESS_KEY={secret}")
}

impl ListArgs {
    fn run(self) -> Result<(), CommandFailure> {
        let KeySelector { root, json } = self.of;
        must_be_initialised(&root)?;
        let keys = edit::list_keys(&read(&root)?).map_err(refused)?;
        if json {
            return output::json(&keys);
        }
        if keys.is_empty() {
            output::complain("svcfs: there are no keys; `svcfs token create` makes one");
            return Ok(());
        }
        let rows = Value::from_iter(keys.iter().map(row));
        output::say(&table(&rows).unwrap_or_default())
    }
}

fn row(key: &WrittenKey) -> Value {
    let WrittenKey { id, space, actor, scope, prefix } = key;
    json!({ "id": id, "actor": actor, "scope": scope, "space": space, "prefix": prefix })
}

impl RevokeArgs {
    fn run(self) -> Result<(), CommandFailure> {
        let Self { of: KeySelector { root, json }, id } = self;
        must_be_initialised(&root)?;
        let is_key = id.starts_with("svc_");
        let id = if is_key { edit::key_id(&KeyDigest::from_key(&id)) } else { id.to_ascii_lowercase() };
        if id.len() < FEWEST_DIGITS {
            let told = format!("`{id}` is too short: give at least {FEWEST_DIGITS} digits of the id");
            return Err(CommandFailure::saying(ExitStatus::Usage, told));
        }
        let removed = change(&root, |text| {
            let (text, removed) = edit::remove_keys(text, &id)?;
            Ok((text, removed))
        })?;
        if removed.is_empty() {
            let told = format!("no key has an id that begins with `{id}`; `svcfs token list` shows them");
            return Err(CommandFailure::saying(ExitStatus::Refused, told));
        }
        let ids: Vec<&str> = removed.iter().map(|key| key.id.as_str()).collect();
        let told = tell_server(&root, &ids, false);
        if json {
            output::json(&removed)?;
        } else {
            output::say(&format!("revoked {}.{}", ids.join(", "), told.as_deref().unwrap_or_default()))?;
        }
        told.map(drop)
    }
}

fn read(root: &Path) -> Result<String, CommandFailure> {
    let path = root.join(templates::CONFIG.path);
    match fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        outcome => Ok(outcome.with_context(|| format!("cannot read `{}`", path.display()))?),
    }
}

/// Changes the root's settings: whole or not at all.
fn change<T>(root: &Path, edit: impl FnOnce(&str) -> Result<(String, T), EditError>) -> Result<T, CommandFailure> {
    let path = root.join(templates::CONFIG.path);
    let (text, answer) = edit(&read(root)?).map_err(refused)?;
    replace(&path, text.as_bytes(), FileRights::Kept).with_context(|| format!("cannot write `{}`", path.display()))?;
    Ok(answer)
}

fn refused(error: EditError) -> CommandFailure {
    CommandFailure::new(ExitStatus::Refused, error)
}

/// Refuses a root that is served as a space beside the first: keys have no effect in its settings, and keep it from being opened.
fn must_be_the_first(root: &Path) -> Result<(), CommandFailure> {
    let Some((space, pid)) = presence::beside_the_first(root) else { return Ok(()) };
    let told = format!(
        "`{}` is the space `{space}` of the server with process {pid}; its keys stand with the first space: \
         `svcfs token create --root THE-FIRST-ROOT --space {space}`",
        root.display()
    );
    Err(CommandFailure::saying(ExitStatus::Refused, told))
}

/// Lets the server of the root, if there is one, take up keys that were written down, or taken out; what there is to say of it.
///
/// # Errors
/// `Refused` when they are not as they should be now: whoever revoked a key, or closed a door, must not believe it done.
fn tell_server(root: &Path, ids: &[&str], are_good: bool) -> Result<String, CommandFailure> {
    let held = control::take_up_keys(root, ids).map_err(|failure| {
        let told = failure.told(false);
        let told = told.trim_start_matches("svcfs: ").trim_end();
        CommandFailure::saying(
            failure.exit(),
            format!("the settings are changed, and the server goes on as before: {told}"),
        )
    })?;
    let Some(ReloadResponse { pid, asks, ids: good }) = held else { return Ok(String::new()) };
    let is_as_said = if are_good { good.len() == ids.len() } else { good.is_empty() };
    match (asks, is_as_said) {
        (true, true) => Ok(format!(" The server (process {pid}) has taken it up.")),
        (false, _) => Err(CommandFailure::saying(
            ExitStatus::Refused,
            format!(
                "the settings are changed, and the server (process {pid}) still asks nobody for a key: {ELSEWHERE}"
            ),
        )),
        (true, false) => Err(CommandFailure::saying(
            ExitStatus::Refused,
            format!("the settings are changed, and the server (process {pid}) goes by other keys: {ELSEWHERE}"),
        )),
    }
}

/// Why a server does not go by the settings of its root.
const ELSEWHERE: &str = "its flags beat the settings of the root, or it reads them elsewhere (`--auth`, `--config`)";
