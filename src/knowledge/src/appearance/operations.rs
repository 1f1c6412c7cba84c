use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use svcfs_base::{ETag, Fault, TreePath};

use super::rules::{FormattedRules, RulesFormat, format_rules};
use crate::kernel::{FolderScope, Operation, OperationArea, OperationContext, OperationEntry, Route};

/// The operations of this area.
pub const AREA: OperationArea = OperationArea {
    title: "Appearance and rules",
    operations: &[
        OperationEntry::new::<GetTheme>(),
        OperationEntry::new::<SetTheme>(),
        OperationEntry::new::<GetUiConfig>(),
        OperationEntry::new::<GetRules>(),
        OperationEntry::new::<SetRules>(),
    ],
};

/// Read the theme of this space
///
/// Returns the JSON object that a user interface stored there, or `{}`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GetTheme {}

impl Operation for GetTheme {
    const NAME: &'static str = "get_theme";
    const HTTP: &'static [Route] = &[Route::get("/theme")];
    const FOLDER_SCOPE: FolderScope = FolderScope::Rows;
    type Output = Map<String, Value>;
    fn run(self, cx: &OperationContext<'_>) -> Result<Self::Output, Fault> {
        super::theme(cx)
    }
}

/// Set the theme of this space
///
/// Replaces the theme; names and values are up to the user interface. The theme is stored as a
/// version of `.svc/theme.json`. Returns the new theme.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SetTheme {
    /// A JSON object of at most 64 KiB, such as `{"primary": "#8a2be2", "mode": "dark"}`
    pub theme: Map<String, Value>,
}

impl Operation for SetTheme {
    const NAME: &'static str = "set_theme";
    const HTTP: &'static [Route] = &[Route::put("/theme").object("theme")];
    const CONDITIONAL: bool = true;
    type Output = Map<String, Value>;
    fn run(self, cx: &OperationContext<'_>) -> Result<Self::Output, Fault> {
        super::set_theme(cx, &self.theme)?;
        Ok(self.theme)
    }
}

/// Read the settings that a user interface needs for this space
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GetUiConfig {}

/// Settings for a user interface.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UiOptions {
    /// Whether the settings lock the theme
    pub theme_locked: bool,
}

impl Operation for GetUiConfig {
    const NAME: &'static str = "ui_config";
    const HTTP: &'static [Route] = &[Route::get("/ui-config")];
    const FOLDER_SCOPE: FolderScope = FolderScope::Rows;
    type Output = UiOptions;
    fn run(self, cx: &OperationContext<'_>) -> Result<UiOptions, Fault> {
        Ok(UiOptions { theme_locked: cx.settings().ui.theme_locked })
    }
}

/// Read the rules for agents that work in this space
///
/// Returns the text as stored, empty if there are no rules. With `format`, returns it in the form
/// that a certain program reads.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GetRules {
    /// The program to format the rules for; default: the text as stored
    #[serde(default)]
    pub format: Option<RulesFormat>,
}

/// The rules.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AgentRules {
    /// Rules as text
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Rules as settings, for `openclaw`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settings: Option<Value>,
}

impl Operation for GetRules {
    const NAME: &'static str = "get_rules";
    const HTTP: &'static [Route] =
        &[Route::get("/rules").text("content", "text/markdown; charset=utf-8").json_fallback("settings")];
    type Output = AgentRules;
    fn run(self, cx: &OperationContext<'_>) -> Result<AgentRules, Fault> {
        let text = super::rules(cx)?;
        let formatted = match self.format {
            None => FormattedRules::Text(text),
            Some(format) => format_rules(format, &cx.space.name, &text),
        };
        Ok(match formatted {
            FormattedRules::Text(text) => AgentRules { content: Some(text), settings: None },
            FormattedRules::Settings(settings) => AgentRules { content: None, settings: Some(settings) },
        })
    }
}

/// Write the rules for agents that work in this space
///
/// Replaces the rules; they are stored as a version of `.svc/rules.md`. Returns path and entity
/// tag.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SetRules {
    /// Markdown, at most 262144 bytes
    pub content: String,
}

/// The result of writing rules.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WrittenRules {
    /// Always `ok`
    pub status: &'static str,
    /// Path of the rules
    pub path: TreePath,
    /// Entity tag of the new version
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<ETag>,
}

impl Operation for SetRules {
    const NAME: &'static str = "set_rules";
    const HTTP: &'static [Route] = &[Route::put("/rules").raw("content").etag()];
    const CONDITIONAL: bool = true;
    type Output = WrittenRules;
    fn run(self, cx: &OperationContext<'_>) -> Result<WrittenRules, Fault> {
        let applied = super::set_rules(cx, self.content)?;
        let etag = applied.files.first().and_then(|file| file.etag);
        Ok(WrittenRules { status: "ok", path: TreePath::parse(super::RULES_PATH)?, etag })
    }
}
