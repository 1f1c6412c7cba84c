//! Files that `svcfs init` and `POST /api/spaces` write into a new root.
//!
//! Invariant: these are ordinary files of this repository; nothing is generated. They are in this
//! low-level crate because both the command and the operation use them.

/// A file of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TemplateFile {
    /// Path relative to the root.
    pub path: &'static str,
    /// Content; ends with exactly one newline.
    pub content: &'static str,
}

/// A template for a new knowledge base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Template {
    /// Id for `--template` and the API.
    pub id: &'static str,
    /// Display name.
    pub name: &'static str,
    /// Its purpose, in one sentence.
    pub description: &'static str,
    /// Its pages, without those in [`COMMON`].
    pub pages: &'static [TemplateFile],
    /// Its definitions below `.svc`: schemas and workflows.
    pub definitions: &'static [TemplateFile],
}

impl Template {
    /// The template with this id.
    #[must_use]
    pub fn find(id: &str) -> Option<&'static Self> {
        TEMPLATES.iter().find(|template| template.id == id)
    }

    /// All files, those of [`COMMON`] first. Callers must not overwrite existing files.
    pub fn files(&self) -> impl Iterator<Item = &'static TemplateFile> + use<> {
        COMMON.iter().chain(self.pages).chain(self.definitions)
    }
}

macro_rules! pages {
    ($folder:literal: $($path:literal),* $(,)?) => {
        &[$(TemplateFile { path: $path, content: include_str!(concat!("../templates/", $folder, "/", $path)) }),*]
    };
}

/// Files below `.svc`; their sources are below `dot-svc`, see [`COMMON`].
macro_rules! definitions {
    ($folder:literal: $($path:literal),* $(,)?) => {
        &[$(TemplateFile {
            path: concat!(".svc/", $path),
            content: include_str!(concat!("../templates/", $folder, "/dot-svc/", $path)),
        }),*]
    };
}

/// The definition of the workflow `tasks`; a space without the template gets it with its first
/// task.
pub const TASK_WORKFLOW: &str = include_str!("../templates/tasks/dot-svc/workflows/tasks.json");

/// The id of the default template.
pub const DEFAULT: &str = "knowledge";

/// The configuration of a new root: every setting, commented out, with its default.
pub const CONFIG: TemplateFile =
    TemplateFile { path: ".svc/config.toml", content: include_str!("../templates/common/dot-svc/config.toml") };

/// Files of every template.
///
/// The sources have no leading dots: a `.gitignore` in the folders of this repository would be
/// effective there.
pub const COMMON: &[TemplateFile] = &[
    TemplateFile { path: ".gitignore", content: include_str!("../templates/common/gitignore") },
    CONFIG,
    TemplateFile {
        path: ".svc/templates/decision.md",
        content: include_str!("../templates/common/dot-svc/templates/decision.md"),
    },
    TemplateFile {
        path: ".svc/templates/onboarding.md",
        content: include_str!("../templates/common/dot-svc/templates/onboarding.md"),
    },
    TemplateFile {
        path: ".svc/templates/product-spec.md",
        content: include_str!("../templates/common/dot-svc/templates/product-spec.md"),
    },
];

/// All templates, the default first.
pub const TEMPLATES: &[Template] = &[
    Template {
        id: "knowledge",
        name: "Knowledge base",
        description: "Concepts, entities, decisions and episodes, for people and agents who learn together",
        pages: pages!["knowledge":
            "SCHEMA.md",
            "concepts/frontmatter.md",
            "concepts/wikilinks.md",
            "decisions/plain-files.md",
            "entities/example-project.md",
            "episodes/first-day.md",
            "index.md",
            "log.md",
            "welcome.md",
        ],
        definitions: &[],
    },
    Template {
        id: "wiki",
        name: "Team wiki",
        description: "Engineering, product and onboarding pages of a team, each with an owner",
        pages: pages!["wiki":
            "SCHEMA.md",
            "engineering/architecture.md",
            "engineering/deployment.md",
            "engineering/runbooks/service-down.md",
            "getting-started.md",
            "index.md",
            "onboarding/index.md",
            "product/roadmap.md",
            "product/specs/example-feature.md",
        ],
        definitions: &[],
    },
    Template {
        id: "runbook",
        name: "Runbooks",
        description: "Procedures, incidents and postmortems for people on call",
        pages: pages!["runbook":
            "SCHEMA.md",
            "incidents/template.md",
            "index.md",
            "postmortems/template.md",
            "procedures/deploy-rollback.md",
            "procedures/rotate-secrets.md",
            "procedures/scale-up.md",
        ],
        definitions: definitions!["runbook": "schemas/runbook.json"],
    },
    Template {
        id: "research",
        name: "Research notebook",
        description: "Literature, experiments and open questions around one research question",
        pages: pages!["research":
            "SCHEMA.md",
            "experiments/exp-001-baseline.md",
            "index.md",
            "literature/example-paper.md",
            "notes/open-questions.md",
        ],
        definitions: definitions!["research": "schemas/experiment.json", "schemas/paper.json"],
    },
    Template {
        id: "tasks",
        name: "Tasks",
        description: "One page per task, with its state, assignee and dependencies",
        pages: pages!["tasks":
            "SCHEMA.md",
            "WORKFLOW.md",
            "index.md",
            "tasks/blocked-example.md",
            "tasks/example-task.md",
        ],
        definitions: definitions!["tasks": "schemas/task.json", "workflows/tasks.json"],
    },
    Template {
        id: "blank",
        name: "Blank",
        description: "Settings and page templates only; for a tree that already has its pages",
        pages: &[],
        definitions: &[],
    },
];

#[cfg(test)]
mod tests;
