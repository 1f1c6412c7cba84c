//! `svcfs tasks`

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Map, Value, json};

use crate::asking::RootTarget;
use crate::failure::CommandFailure;
use crate::root::cli_caller;
use crate::{manual, output};

const EXAMPLES: &str = "\
Examples:
  svcfs tasks next --actor agent:x                      take the most urgent task for 30 minutes
  svcfs tasks next --lease 2h --label docs --json
  svcfs tasks done tasks/fix-the-build.md --fence 1769904001 --actor agent:x --result 'It builds.'
  svcfs tasks done tasks/a.md --fence 1769904002 --actor agent:x --outcome failed";

/// Take tasks and finish them
///
/// A task is a page with `status: todo`. `next` claims the most urgent one that can be started and
/// prints its path and the number of the claim, `fence`, which `done` needs.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TasksArgs {
    #[command(subcommand)]
    what: TasksCommand,
}

#[derive(Debug, Subcommand)]
enum TasksCommand {
    Next(NextArgs),
    Done(DoneArgs),
}

/// Take the most urgent task that can be started
///
/// Prints path, fence and end of the claim; nothing when there is no such task.
#[derive(Debug, Args)]
struct NextArgs {
    /// Only tasks at or below this path
    #[arg(long, value_name = "PATH")]
    path_prefix: Option<String>,
    /// Only tasks with this label; may be repeated
    #[arg(long = "label", value_name = "LABEL")]
    labels: Vec<String>,
    /// Length of the lease, such as `30m` or `1h30m`
    #[arg(long, value_name = "TIME")]
    lease: Option<String>,
    #[command(flatten)]
    shared: SharedArgs,
}

/// End your work on a task
#[derive(Debug, Args)]
struct DoneArgs {
    /// Path of the task
    path: String,
    /// The fence that `next` printed
    #[arg(long, value_name = "NUMBER")]
    fence: u64,
    /// How the work ended
    #[arg(long, value_enum, default_value_t = Outcome::Done)]
    outcome: Outcome,
    /// What came of it, as markdown
    #[arg(long, value_name = "TEXT")]
    result: Option<String>,
    /// A page or file that was made; may be repeated
    #[arg(long = "artifact", value_name = "PATH")]
    artifacts: Vec<String>,
    #[command(flatten)]
    shared: SharedArgs,
}

#[derive(Debug, Args)]
struct SharedArgs {
    #[command(flatten)]
    target: RootTarget,
    /// Name of the worker [default: the login name]
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
    /// Print the exact output as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Outcome {
    Done,
    Failed,
    Blocked,
}

impl TasksArgs {
    /// Runs the operation and prints its output.
    ///
    /// # Errors
    /// The refusal of the operation.
    pub fn run(self) -> Result<(), CommandFailure> {
        match self.what {
            TasksCommand::Next(NextArgs { path_prefix, labels, lease, shared }) => {
                let mut arguments = Map::from_iter([("labels".to_owned(), json!(labels))]);
                arguments.extend(path_prefix.map(|path| ("path_prefix".to_owned(), json!(path))));
                arguments.extend(lease.map(|lease| ("lease".to_owned(), json!(lease))));
                shared.run("task_next", arguments, |taken| match taken["task"]["path"].as_str() {
                    Some(path) => {
                        let end = taken["claim"]["expires_at"].as_str().unwrap_or_default();
                        format!("{path}\tfence {}\tuntil {end}\n", taken["claim"]["fence"])
                    }
                    None => String::new(),
                })
            }
            TasksCommand::Done(DoneArgs { path, fence, outcome, result, artifacts, shared }) => {
                let outcome = match outcome {
                    Outcome::Done => "done",
                    Outcome::Failed => "failed",
                    Outcome::Blocked => "blocked",
                };
                let members = json!({ "path": path, "fence": fence, "outcome": outcome, "artifacts": artifacts });
                let mut arguments = members.as_object().cloned().unwrap_or_default();
                arguments.extend(result.map(|result| ("result".to_owned(), json!(result))));
                shared.run("task_done", arguments, |ended| {
                    let text = |name: &str| ended[name].as_str().unwrap_or_default().to_owned();
                    format!("{}\t{}\n", text("path"), text("status"))
                })
            }
        }
    }
}

impl SharedArgs {
    fn run(
        self,
        operation: &str,
        arguments: Map<String, Value>,
        to_text: impl Fn(&Value) -> String,
    ) -> Result<(), CommandFailure> {
        let Self { target, actor, json } = self;
        let answer = target.run_operation(manual::find(operation)?, arguments, cli_caller(actor.as_deref()), None)?;
        if json { output::json(&answer) } else { output::say(&to_text(&answer)) }
    }
}
