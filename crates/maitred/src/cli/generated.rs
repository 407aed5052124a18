//! What is made from the table of commands: completions and the manual page.

use std::io::{self, Write as _};

use clap::{Command, CommandFactory as _};
use clap_complete::Shell;
use clap_mangen::Man;

use super::{Arguments, beside, sections};

/// Shells whose completion scripts are published in `docs/completions`.
pub const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// The completion script of a shell.
pub fn completions(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut visible(), "maitred", &mut script);
    script
}

/// The table without the commands that are not for people; the generators do not leave those out by themselves.
fn visible() -> Command {
    let all = Arguments::command();
    let subcommands = all.get_subcommands().filter(|sub| !sub.is_hide_set()).cloned();
    Command::new("maitred")
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_subcommand(true)
        .arg_required_else_help(true)
        .about(all.get_about().cloned().unwrap_or_default())
        .subcommands(subcommands)
}

/// The page about what an import of nginx's configuration answers in another way.
pub fn nginx_differences() -> String {
    beside::differences_page()
}

/// The manual page: one for the program and all its commands.
pub fn man() -> io::Result<Vec<u8>> {
    let mut command = visible();
    command.build();
    // No date: the page would differ each day that it is made.
    let man = Man::new(command.clone()).section("1").date("").manual("Maitred");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    writeln!(page, ".SH COMMANDS")?;
    for sub in command.get_subcommands() {
        render_command(sub, &mut page)?;
    }
    page.extend_from_slice(sections::roff(sections::ALL).as_bytes());
    man.render_version_section(&mut page)?;
    Ok(page)
}

/// A command as a subsection: its synopsis, what it does, its flags.
fn render_command(command: &Command, page: &mut Vec<u8>) -> io::Result<()> {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    writeln!(page, ".SS \"{}\"", sections::escape(usage))?;
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    for paragraph in about.split("\n\n") {
        writeln!(page, "{}\n.PP", sections::escape(paragraph))?;
    }
    let mut options = Vec::new();
    Man::new(command.clone()).render_options_section(&mut options)?;
    // The section's heading would end the subsection.
    for line in String::from_utf8_lossy(&options).lines().filter(|line| *line != ".SH OPTIONS") {
        writeln!(page, "{line}")?;
    }
    Ok(())
}
