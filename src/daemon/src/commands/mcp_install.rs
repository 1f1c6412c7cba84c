//! `svcfs mcp install` and `svcfs mcp uninstall`

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{env, fs, io};

use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};
use svcfs_base::Scope;
use svcfs_config::{AuthSettings, CliOverrides, KeyDigest, edit};
use svcfs_store::{FileRights, create_file, replace_file};

use super::token::{self, KeyRequest};
use crate::failure::{CommandFailure, ExitStatus};
use crate::mcp_clients::{self, ClientFileError, ConfigLevel, McpClient, ServerEntry};
use crate::root::require_initialised;
use crate::root_flag::RootFlag;
use crate::{credentials, output, presence, remote, root};

const EXAMPLES: &str = "\
Examples:
  svcfs mcp install claude-code --root ~/notes
  svcfs mcp install cursor --remote https://notes.example.org --token-file key
  svcfs mcp install codex --root ~/notes --scope propose    a key of its own at the running server
  svcfs mcp install zed --root ~/notes --dry-run            print the entry and write nothing
  svcfs mcp uninstall claude-code --name notes

With --root, the client starts `svcfs mcp` and has all permissions, like any program of yours. With
--remote, or with --scope, it connects to a server with a key. docs/mcp-clients.md shows the entries.";

/// Profiles of the tool list.
const PROFILES: [&str; 10] = [
    "core",
    "core/readonly",
    "full",
    "full/readonly",
    "memory",
    "memory/readonly",
    "read",
    "read/readonly",
    "tasks",
    "tasks/readonly",
];

/// Stands for a key that --dry-run does not create.
const KEY_PLACEHOLDER: &str = "YOUR-KEY";

/// Set a client up: write an entry into its configuration
///
/// The rest of the file stays as it is, and the old file is copied to a backup beside it. An entry
/// of the same name is only replaced with --force.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct InstallArgs {
    #[command(flatten)]
    target: EntrySelector,
    #[command(flatten)]
    root: RootFlag,
    /// Connect to a server over HTTP, such as https://notes.example.org
    #[arg(long, value_name = "URL", value_parser = remote::address)]
    remote: Option<String>,
    /// File with the key for --remote in its first line (mode 0600) [default: $SVC_API_KEY]
    #[arg(long, value_name = "FILE", requires = "remote")]
    token_file: Option<PathBuf>,
    /// Create a key of this scope at the server of the root, and connect with it over HTTP
    #[arg(long, value_parser = token::scopes(), conflicts_with = "token_file")]
    scope: Option<Scope>,
    /// Space of the server [default: its first space]
    #[arg(long, value_name = "NAME", value_parser = token::space_name)]
    space: Option<String>,
    /// Show the client the tools of this profile only
    #[arg(long, value_parser = PROFILES)]
    profile: Option<String>,
    /// Replace an entry of the same name
    #[arg(long)]
    force: bool,
    /// Print the entry, and write nothing
    #[arg(long)]
    dry_run: bool,
}

/// Remove the entry from a client's configuration
///
/// The key in the entry is revoked, if the root that has it can be found (--root).
#[derive(Debug, Args)]
pub struct UninstallArgs {
    #[command(flatten)]
    target: EntrySelector,
    #[command(flatten)]
    root: RootFlag,
}

#[derive(Debug, Args)]
struct EntrySelector {
    /// The client
    #[arg(value_enum)]
    client: McpClient,
    /// Name of the entry [default: the name of the space or of the root's directory, else svcfs]
    #[arg(long, value_name = "NAME", value_parser = entry_name)]
    name: Option<String>,
    /// Use the configuration of the project in this directory [default: that of the user]
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = ".")]
    project: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Parses `--name`: clients make names of tools from it.
fn entry_name(text: &str) -> Result<String, String> {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if text.is_empty() || text.len() > 40 || !text.chars().all(is_valid) {
        return Err("use 1 to 40 letters, digits, `-` and `_`".to_owned());
    }
    Ok(text.to_owned())
}

/// A name made of any text; none if nothing is left of it.
fn name_from(text: &str) -> Option<String> {
    let name: String = text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' }).collect();
    let name: String = name.trim_matches('-').chars().take(40).collect();
    (!name.is_empty()).then_some(name)
}

/// The configuration file of a client.
struct ClientFile {
    client: McpClient,
    path: PathBuf,
    /// None if it does not exist.
    text: Option<String>,
}

impl EntrySelector {
    fn open(&self) -> Result<ClientFile, CommandFailure> {
        let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let level = match &self.project {
            Some(project) => ConfigLevel::Project(project),
            None => ConfigLevel::User(&variable),
        };
        if let Some(project) = self.project.as_deref().filter(|project| !project.is_dir()) {
            let message = format!("there is no directory `{}`", project.display());
            return Err(CommandFailure::saying(ExitStatus::Usage, message));
        }
        let path = self.client.file(level).map_err(|error| CommandFailure::new(ExitStatus::Usage, error))?;
        let path = std::path::absolute(path).context("the current directory does not exist any more")?;
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && path.is_symlink() => {
                let message = format!("`{}` is a link to a file that does not exist; create that file", path.display());
                return Err(CommandFailure::saying(ExitStatus::Refused, message));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            outcome => Some(outcome.with_context(|| format!("cannot read `{}`", path.display()))?),
        };
        Ok(ClientFile { client: self.client, path, text })
    }
}

impl ClientFile {
    fn text(&self) -> &str {
        self.text.as_deref().unwrap_or_default()
    }

    fn failure(&self, error: ClientFileError) -> CommandFailure {
        let message = format!("`{}`: {error}", self.path.display());
        CommandFailure::new(ExitStatus::Refused, anyhow::Error::new(error).context(message))
    }

    /// The text with an entry.
    fn with_entry(&self, name: &str, entry: &Value) -> Result<String, CommandFailure> {
        mcp_clients::set_entry(self.client, self.text(), name, entry).map_err(|error| self.failure(error))
    }

    /// Copies the file beside it and replaces it; returns the path of the copy.
    fn replace(&self, text: &str) -> Result<Option<PathBuf>, CommandFailure> {
        let Self { path, text: before, .. } = self;
        let cannot_write = || format!("cannot write `{}`", path.display());
        // Clients write their files, too, while they run.
        if fs::read_to_string(path).ok() != *before {
            let message =
                format!("another program has changed `{}` in the meantime; run the command again", path.display());
            return Err(CommandFailure::saying(ExitStatus::Refused, message));
        }
        let Some(before) = before else {
            let folder = path.parent().unwrap_or(path);
            fs::create_dir_all(folder).with_context(|| format!("cannot create `{}`", folder.display()))?;
            // It may have a key.
            create_file(path, text.as_bytes(), 0o600).with_context(cannot_write)?;
            return Ok(None);
        };
        let seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let backups = (seconds..).map(|seconds| path.with_added_extension(format!("svcfs-{seconds}.bak")));
        let backup =
            backups.take(1000).find(|backup| !backup.exists()).unwrap_or_else(|| path.with_added_extension("bak"));
        create_file(&backup, before.as_bytes(), 0o600)
            .with_context(|| format!("cannot write the backup `{}`", backup.display()))?;
        replace_file(path, text.as_bytes(), FileRights::Preserve).with_context(cannot_write)?;
        Ok(Some(backup))
    }

    /// Warns of a key in a file that was readable by others before.
    fn warn_if_public(&self) {
        let path = &self.path;
        if fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0) {
            let path = path.display();
            output::complain(&format!("svcfs: other users may read the key in `{path}`; `chmod 600` prevents that"));
        }
    }
}

/// What the client will use.
enum EntryPlan {
    /// A root on this machine, through `svcfs mcp`.
    Root(PathBuf),
    /// A server.
    Server { url: String, key: KeyPlan },
}

enum KeyPlan {
    None,
    Given(String),
    /// To be created in the settings of this root.
    Create(PathBuf, Scope),
}

impl InstallArgs {
    /// Runs the command.
    ///
    /// # Errors
    /// `Refused` when there is such an entry already, or the file cannot be edited.
    pub fn run(self) -> Result<(), CommandFailure> {
        let file = self.target.open()?;
        let plan = self.plan()?;
        let name = self.target.name.clone().or_else(|| self.default_name(&plan)).unwrap_or_else(|| "svcfs".to_owned());
        let existing = mcp_clients::find_entry(file.client, file.text(), &name).map_err(|error| file.failure(error))?;
        if self.dry_run {
            let entry = self.entry(&plan, plan.placeholder())?;
            return self.print_plan(&file, (&name, &entry), existing.is_some());
        }
        if let Some(existing) = &existing
            && !matches!(plan, EntryPlan::Server { key: KeyPlan::Create(..), .. })
            && *existing == self.entry(&plan, plan.given_key())?
        {
            return self.report(&file, (&name, "unchanged"), (None, None));
        }
        if existing.is_some() && !self.force {
            let message = format!(
                "`{}` has an entry `{name}` already; --force replaces it, --name chooses another name",
                file.path.display()
            );
            return Err(CommandFailure::saying(ExitStatus::Refused, message));
        }
        // A file that cannot be edited is refused before there is a key for it.
        file.with_entry(&name, &self.entry(&plan, plan.placeholder())?)?;
        let (key, created) = match &plan {
            EntryPlan::Server { key: KeyPlan::Create(root, scope), .. } => {
                let actor = format!("agent:{}", self.target.client.id());
                let space = self.space.as_deref();
                let request = KeyRequest { scope: *scope, actor: &actor, space, prefix: None, limits: false };
                let created = token::create_key(root, &request)?;
                (Some(created.key.clone()), Some(created))
            }
            plan => (plan.given_key().map(str::to_owned), None),
        };
        let entry = self.entry(&plan, key.as_deref())?;
        let written = file.with_entry(&name, &entry).and_then(|text| file.replace(&text));
        let backup = written.inspect_err(|_| {
            if let (EntryPlan::Server { key: KeyPlan::Create(root, _), .. }, Some(created)) = (&plan, &created) {
                // The first error is the meaningful one.
                let _revoked = token::revoke_key(root, &created.id);
            }
        })?;
        if key.is_some() {
            file.warn_if_public();
        }
        let action = if existing.is_some() { "replaced" } else { "added" };
        self.report(&file, (&name, action), (backup.as_deref(), created.as_ref().map(|created| created.id.as_str())))?;
        created.map_or(Ok(()), |created| created.reloaded.map(drop))
    }

    fn plan(&self) -> Result<EntryPlan, CommandFailure> {
        if let Some(url) = &self.remote {
            let key = match self.scope {
                Some(scope) => KeyPlan::Create(self.root_with_keys()?, scope),
                None => credentials::load(self.token_file.as_deref())?.map_or(KeyPlan::None, KeyPlan::Given),
            };
            return Ok(EntryPlan::Server { url: url.clone(), key });
        }
        let Some(scope) = self.scope else {
            if self.space.is_some() {
                let message = "--space needs a server: add --scope to use the running one of the root, or --remote URL";
                return Err(CommandFailure::saying(ExitStatus::Usage, message));
            }
            return Ok(EntryPlan::Root(self.find_root()?));
        };
        let root = self.root_with_keys()?;
        match presence::announced(&root).and_then(|served| served.url) {
            Some(url) => Ok(EntryPlan::Server { url, key: KeyPlan::Create(root, scope) }),
            None => {
                let message = format!(
                    "--scope needs a server, and none serves `{}`: start `svcfs serve`, or give its address with --remote",
                    root.display()
                );
                Err(CommandFailure::saying(ExitStatus::Refused, message))
            }
        }
    }

    fn find_root(&self) -> Result<PathBuf, CommandFailure> {
        let root = self.root.clone().find()?;
        require_initialised(&root)?;
        Ok(std::path::absolute(root).context("the current directory does not exist any more")?)
    }

    /// The root whose server knows keys. Without authentication a key would limit nothing.
    fn root_with_keys(&self) -> Result<PathBuf, CommandFailure> {
        let root = self.find_root()?;
        let settings = root::read_settings(&root, None, CliOverrides::default())?;
        match settings.auth {
            AuthSettings::PerSpace(_) => Ok(root),
            AuthSettings::None => {
                let message = format!(
                    "the server of `{}` needs no key, so a key would not limit the client; `svcfs token create --scope \
                     admin` enables authentication, or leave out --scope",
                    root.display()
                );
                Err(CommandFailure::saying(ExitStatus::Refused, message))
            }
            AuthSettings::ApiKey(_) | AuthSettings::Oidc(_) => {
                let message = "keys of a scope need `auth.type = \"perspace\"`; give a token of yours with --remote URL \
                               and --token-file";
                Err(CommandFailure::saying(ExitStatus::Refused, message))
            }
        }
    }

    fn default_name(&self, plan: &EntryPlan) -> Option<String> {
        let of_root = |root: &Path| name_from(&root.file_name()?.to_string_lossy());
        self.space.as_deref().and_then(name_from).or_else(|| match plan {
            EntryPlan::Root(root) | EntryPlan::Server { key: KeyPlan::Create(root, _), .. } => of_root(root),
            EntryPlan::Server { .. } => None,
        })
    }

    fn entry(&self, plan: &EntryPlan, key: Option<&str>) -> Result<Value, CommandFailure> {
        let client = self.target.client;
        let key = key.map(str::to_owned);
        let profile = self.profile.as_deref();
        let server = match plan {
            EntryPlan::Root(root) => {
                let root = root.to_str().ok_or_else(|| {
                    CommandFailure::saying(ExitStatus::Usage, "the path of the root is not valid UTF-8")
                })?;
                let mut arguments = vec!["mcp".to_owned(), "--root".to_owned(), root.to_owned()];
                arguments.extend(profile.iter().flat_map(|profile| ["--profile".to_owned(), (*profile).to_owned()]));
                ServerEntry::Stdio { command: program()?, arguments, key }
            }
            EntryPlan::Server { url, .. } if client.has_http() => {
                ServerEntry::Http { url: mcp_clients::endpoint(url, profile), key, space: self.space.clone() }
            }
            EntryPlan::Server { url, .. } => {
                let url = mcp_clients::endpoint(url, profile);
                let mut arguments = vec!["mcp".to_owned(), "--remote".to_owned(), url];
                arguments.extend(self.space.iter().flat_map(|space| ["--space".to_owned(), space.clone()]));
                ServerEntry::Stdio { command: program()?, arguments, key }
            }
        };
        Ok(client.entry(&server))
    }

    /// Prints the entry as it would be in a file without others.
    fn print_plan(&self, file: &ClientFile, (name, entry): (&str, &Value), exists: bool) -> Result<(), CommandFailure> {
        let path = file.path.display();
        if self.target.json {
            return output::json(&json!({ "client": file.client.id(), "file": file.path, "name": name, "entry": entry,
                                         "action": if exists { "exists" } else { "none" } }));
        }
        let conflict = if exists { "; it has an entry of this name already" } else { "" };
        output::complain(&format!("svcfs: for `{path}`{conflict}; nothing was written"));
        let text = mcp_clients::set_entry(file.client, "", name, entry).map_err(|error| file.failure(error))?;
        output::say(&text)
    }

    fn report(
        &self,
        file: &ClientFile,
        (name, action): (&str, &str),
        (backup, key): (Option<&Path>, Option<&str>),
    ) -> Result<(), CommandFailure> {
        let client = file.client;
        if self.target.json {
            return output::json(&json!({ "client": client.id(), "file": file.path, "name": name, "action": action,
                                         "backup": backup, "key": key, "check": client.check() }));
        }
        let mut lines = vec![format!("{}: {action} `{name}` in {}", client.name(), file.path.display())];
        lines.extend(backup.map(|backup| format!("backup of the old file: {}", backup.display())));
        lines.extend(key.map(|id| format!("created key {id}; `svcfs token revoke {id}` revokes it")));
        if self.target.project.is_some() && (key.is_some() || self.token_file.is_some()) {
            lines.push("the file has a key: do not commit it to a shared repository".to_owned());
        }
        lines.push(format!("to check: {}", client.check()));
        output::say(&lines.join("\n"))
    }
}

impl EntryPlan {
    /// The key of the user.
    fn given_key(&self) -> Option<&str> {
        match self {
            Self::Server { key: KeyPlan::Given(key), .. } => Some(key.as_str()),
            Self::Server { key: KeyPlan::None | KeyPlan::Create(..), .. } | Self::Root(_) => None,
        }
    }

    /// The key that --dry-run shows.
    fn placeholder(&self) -> Option<&str> {
        match self {
            Self::Server { key: KeyPlan::Given(_) | KeyPlan::Create(..), .. } => Some(KEY_PLACEHOLDER),
            Self::Server { key: KeyPlan::None, .. } | Self::Root(_) => None,
        }
    }
}

/// The path of this program: desktop programs do not have the `PATH` of a shell.
fn program() -> Result<String, CommandFailure> {
    let program = env::current_exe().context("the path of this program cannot be found out")?;
    Ok(program.to_string_lossy().into_owned())
}

impl UninstallArgs {
    /// Runs the command.
    ///
    /// # Errors
    /// `Refused` when there is no such entry, or the file cannot be edited.
    pub fn run(self) -> Result<(), CommandFailure> {
        let Self { target, root } = self;
        let file = target.open()?;
        let root = root.find().ok();
        let of_root = || name_from(&root.as_deref()?.file_name()?.to_string_lossy());
        let name = target.name.clone().or_else(of_root).unwrap_or_else(|| "svcfs".to_owned());
        let entry = mcp_clients::find_entry(file.client, file.text(), &name).map_err(|error| file.failure(error))?;
        let Some(entry) = entry else {
            let message = format!("`{}` has no entry `{name}`; --name NAME names another", file.path.display());
            return Err(CommandFailure::saying(ExitStatus::Refused, message));
        };
        let text = mcp_clients::remove_entry(file.client, file.text(), &name).map_err(|error| file.failure(error))?;
        let backup = file.replace(&text)?;
        let id = mcp_clients::key_of(&entry).map(|key| edit::key_id(&KeyDigest::from_key(key)));
        let revoked = match (&id, &root) {
            (Some(id), Some(root)) => token::revoke_key(root, id),
            _ => Ok(false),
        };
        let is_revoked = matches!(revoked, Ok(true));
        if target.json {
            output::json(&json!({ "client": file.client.id(), "file": file.path, "name": name, "action": "removed",
                                  "backup": backup, "key": id, "revoked": is_revoked }))?;
            return revoked.map(drop);
        }
        let mut lines = vec![format!("{}: removed `{name}` from {}", file.client.name(), file.path.display())];
        lines.extend(backup.map(|backup| format!("backup of the old file: {}", backup.display())));
        lines.extend(id.map(|id| match is_revoked {
            true => format!("revoked key {id}"),
            false => format!("its key {id} is still valid: `svcfs token revoke {id} --root DIR` revokes it"),
        }));
        output::say(&lines.join("\n"))?;
        revoked.map(drop)
    }
}
