//! A verb as a clap command, and its command line as arguments of the operation.

use clap::{Arg, ArgAction, ArgMatches, Args, Command};
use serde_json::{Map, Value};
use svcfs_knowledge::kernel::{InputField, InputKind, OperationInputs};

use super::tree_paths::TreePaths;
use super::{FixedValue, Positional, PositionalKind, Verb, VerbOption, content};
use crate::asking::RootTarget;
use crate::failure::{CommandFailure, ExitStatus};
use crate::manual;

/// Parameters that are paths of the tree.
const PATH_PARAMETERS: [&str; 5] = ["path", "paths", "path_prefix", "from", "to"];

pub const JSON: &str = "json";
pub const ACTOR: &str = "actor";
pub const IF_MATCH: &str = "if_match";

/// The clap command of a verb.
pub fn of_verb(verb: &Verb) -> Command {
    let mut command = Command::new(verb.name).args(verb.positionals.iter().map(positional));
    // The declarations are tested: each names an operation.
    let Ok(entry) = manual::find(verb.operation) else { return command };
    let inputs = OperationInputs::from_entry(entry);
    let options = verb.options.iter().filter_map(|declared| Some(option(declared, inputs.get(declared.parameter)?)));
    command = command.args(options);
    command =
        command.args(verb.flags.iter().map(|flag| {
            Arg::new(flag.name).long(flag.name).short(flag.short).help(flag.help).action(ArgAction::SetTrue)
        }));
    if !entry.is_read_only() && !verb.selects_by_actor() {
        command = command.arg(
            Arg::new(ACTOR).long("actor").value_name("NAME").help("Author of the commit [default: the login name]"),
        );
    }
    if entry.is_conditional {
        let help = "Refuse the change unless the page still has this ETag, which `svcfs read PATH --json` shows";
        command = command.arg(Arg::new(IF_MATCH).long("if-match").value_name("ETAG").help(help));
    }
    // The `--version` of `restore` is that of a page.
    if verb.options.iter().any(|option| option.long == "version") {
        command = command.disable_version_flag(true);
    }
    if let Some(alternative) = verb.alternative {
        command = (alternative.augment)(command);
    }
    let has_short_root = !verb.flags.iter().any(|flag| flag.short == Some('r'));
    let json = Arg::new(JSON).long("json").help("Print the result as JSON");
    // The flags of the target bring a description, which the verb's replaces.
    let mut command = RootTarget::augment_args(command.arg(json.action(ArgAction::SetTrue)));
    command = command.about(verb.about).after_help(verb.examples).long_about(match verb.details {
        "" => verb.about.to_owned(),
        details => format!("{}\n\n{details}", verb.about),
    });
    // `rm -r` is known from elsewhere.
    if has_short_root { command } else { command.mut_arg("root", |root| root.short(None)) }
}

fn positional(declared: &Positional) -> Arg {
    let arg = Arg::new(declared.parameter).value_name(declared.value_name).help(declared.help);
    let arg = arg.required(declared.is_required);
    match declared.kind {
        PositionalKind::Paths | PositionalKind::Words => arg.num_args(1..),
        // A text may be an item of a list.
        PositionalKind::Text => arg.allow_hyphen_values(true),
        PositionalKind::Path | PositionalKind::Value | PositionalKind::File => arg,
    }
}

fn option(declared: &VerbOption, field: &InputField) -> Arg {
    let description = field.schema.get("description").and_then(Value::as_str).unwrap_or_default().replace('\n', " ");
    let mut arg = Arg::new(declared.parameter).long(declared.long);
    if let Some(short) = declared.short {
        arg = arg.short(short);
    }
    if let Some(alias) = declared.alias {
        arg = arg.visible_alias(alias);
    }
    if field.kind == InputKind::Boolean && field.schema.get("default") != Some(&Value::Bool(true)) {
        let help = if declared.help.is_empty() { description } else { declared.help.to_owned() };
        return arg.help(help).action(ArgAction::SetTrue);
    }
    let help = match field.schema.get("default").filter(|default| !default.is_null()) {
        _ if !declared.help.is_empty() => declared.help.to_owned(),
        Some(default) => format!("{description} [default: {default}]"),
        None => description,
    };
    let value_name = match &field.kind {
        _ if !declared.value_name.is_empty() => declared.value_name,
        InputKind::Integer | InputKind::Number => "N",
        InputKind::Boolean => "true|false",
        InputKind::Text | InputKind::List(_) if PATH_PARAMETERS.contains(&declared.parameter) => "PATH",
        InputKind::Text | InputKind::List(_) | InputKind::Json => "TEXT",
    };
    arg.help(help).value_name(value_name)
}

/// The arguments of one call, without the paths of [`PositionalKind::Paths`].
///
/// # Errors
/// `Usage`, naming the argument; `Failed` when a file or standard input cannot be read.
pub fn arguments(verb: &Verb, matches: &ArgMatches, paths: &TreePaths) -> Result<Map<String, Value>, CommandFailure> {
    let mut arguments = Map::new();
    for (name, value) in verb.fixed {
        let value = match value {
            FixedValue::Number(number) => Value::from(*number),
            FixedValue::True => Value::from(true),
        };
        arguments.insert((*name).to_owned(), value);
    }
    let inputs = OperationInputs::from_entry(manual::find(verb.operation)?);
    for declared in verb.options {
        let Some(field) = inputs.get(declared.parameter) else { continue };
        if let Some(value) = option_value(declared, field, (matches, paths))? {
            arguments.insert(field.name.clone(), value);
        }
    }
    for declared in verb.positionals {
        if let Some(value) = positional_value(declared, matches, paths)? {
            arguments.insert(declared.parameter.to_owned(), value);
        }
    }
    Ok(arguments)
}

fn option_value(
    declared: &VerbOption,
    field: &InputField,
    (matches, paths): (&ArgMatches, &TreePaths),
) -> Result<Option<Value>, CommandFailure> {
    if let Ok(Some(is_on)) = matches.try_get_one::<bool>(declared.parameter) {
        return Ok(is_on.then_some(Value::from(true)));
    }
    let Some(text) = matches.get_one::<String>(declared.parameter) else { return Ok(None) };
    let is_path = PATH_PARAMETERS.contains(&declared.parameter);
    let text = if is_path { paths.resolve(text)? } else { text.clone() };
    let mut object = Map::new();
    field.parse_into(&mut object, &text).map_err(|fault| {
        let (name, option) = (format!("`{}`", field.name), format!("`--{}`", declared.long));
        let message = fault.message().replacen(&name, &option, 1);
        CommandFailure::saying(ExitStatus::Usage, message)
    })?;
    Ok(object.remove(&field.name))
}

fn positional_value(
    declared: &Positional,
    matches: &ArgMatches,
    paths: &TreePaths,
) -> Result<Option<Value>, CommandFailure> {
    let mut given = matches.get_many::<String>(declared.parameter).into_iter().flatten();
    Ok(match declared.kind {
        PositionalKind::Paths => None,
        PositionalKind::Path => match given.next() {
            Some(text) => Some(paths.resolve(text)?.into()),
            None if declared.is_required => None,
            None => Some(paths.current().to_owned()).filter(|path| !path.is_empty()).map(Value::from),
        },
        PositionalKind::Words => {
            let words = given.map(String::as_str).collect::<Vec<_>>().join(" ");
            if words.trim().is_empty() {
                let message = format!("{} is empty; give words to search", declared.value_name);
                return Err(CommandFailure::saying(ExitStatus::Usage, message));
            }
            Some(words.into())
        }
        PositionalKind::Value => given.next().map(|text| text.as_str().into()),
        PositionalKind::Text => Some(match given.next().filter(|text| *text != "-") {
            Some(text) if is_option_like(text) => {
                let message = format!("there is no option `{text}`; to append it as text, use standard input");
                return Err(CommandFailure::saying(ExitStatus::Usage, message));
            }
            Some(text) if text.ends_with('\n') => text.as_str().into(),
            Some(text) => format!("{text}\n").into(),
            None => content::standard_input()?,
        }),
        PositionalKind::File => Some(match given.next() {
            Some(file) if file != "-" => content::of_file(file)?,
            Some(_) | None => content::standard_input()?,
        }),
    })
}

/// Whether a text, which may begin with hyphens, is rather a mistyped option: `--actr`.
fn is_option_like(text: &str) -> bool {
    let name = text.strip_prefix("--").unwrap_or_default();
    name.starts_with(|first: char| first.is_ascii_lowercase()) && !name.contains(char::is_whitespace)
}
