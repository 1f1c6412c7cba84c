//! `svcfs completions`

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::CommandFailure;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  svcfs completions bash > ~/.local/share/bash-completion/completions/svcfs
  svcfs completions zsh  > ~/.zfunc/_svcfs          with ~/.zfunc in $fpath
  svcfs completions fish > ~/.config/fish/completions/svcfs.fish";

/// Print a shell completion script
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

impl CompletionsArgs {
    /// Prints the script.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub fn run(self) -> Result<(), CommandFailure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "svcfs", &mut script);
        output::written(&script)
    }
}
