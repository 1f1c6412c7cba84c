//! Rules in the formats of the programs that read them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A program with its own format of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RulesFormat {
    /// A rule file of Cursor, always applied.
    Cursor,
    /// A part of `CLAUDE.md`.
    Claude,
    /// A part of `AGENTS.md`.
    Agents,
    /// An entry in the settings of `OpenClaw`.
    Openclaw,
}

/// Rules in a program's format.
#[derive(Debug, PartialEq, Eq)]
pub enum FormattedRules {
    Text(String),
    Settings(Value),
}

/// The most important tools, for a short introduction.
const TOOLS: [(&str, &str); 5] = [
    ("write", "write a page, creating it when absent"),
    ("read", "read a page"),
    ("search", "find pages by words"),
    ("tree", "list a folder"),
    ("context", "read the playbook, the schema and the index"),
];

const NONE: &str = "(no rules defined)";

/// The rules of the space `name` in this format.
#[must_use]
pub fn format_rules(format: RulesFormat, name: &str, rules: &str) -> FormattedRules {
    let rules = if rules.trim().is_empty() { NONE } else { rules.trim_end() };
    let tools: String = TOOLS.iter().map(|(tool, what)| format!("- `svc_{tool}`: {what}\n")).collect();
    let intro = format!(
        "Knowledge is kept as markdown pages in the space `{name}` of svcfs. Read and change it with the tools of its MCP server, not with \
         the files of this project:"
    );
    match format {
        RulesFormat::Cursor => FormattedRules::Text(format!(
            "---\ndescription: How to work with the knowledge base `{name}`\nglobs: \"**/*\"\nalwaysApply: true\n---\n\n{intro}\n\n{tools}\n\
             ## User rules\n\n{rules}\n"
        )),
        RulesFormat::Claude => {
            FormattedRules::Text(format!("## {name} Knowledge Base\n\n{intro}\n\n{tools}\n### Rules\n\n{rules}\n"))
        }
        RulesFormat::Agents => FormattedRules::Text(format!(
            "## {name} Knowledge Base\n\n{intro}\n\n{tools}\n### Agent Rules\n\n{rules}\n"
        )),
        RulesFormat::Openclaw => FormattedRules::Settings(json!({
            "svcfs": { "type": "mcp", "tools": TOOLS.map(|(tool, _)| tool), "rules": rules },
        })),
    }
}
