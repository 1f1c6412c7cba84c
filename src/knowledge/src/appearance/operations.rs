//! The wire shapes of theme and rules.

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

/// Read how this space looks
///
/// Whatever an interface keeps there; `{}` when there is nothing.
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

/// Say how this space looks
///
/// Names and values are the interface's own; they replace what was there. A version of `.svc/theme.json`.
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

/// Read what an interface must know of this space before it shows it
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GetUiConfig {}

/// What an interface must know.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UiOptions {
    /// Whether the theme is fixed by the settings
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

/// Read the rules for those who work here
///
/// As they were written, empty when there are none; or as a program reads them that helps to work here.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GetRules {
    /// For which program; as they were written when absent
    #[serde(default)]
    pub format: Option<RulesFormat>,
}

/// The rules.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AgentRules {
    /// As a text
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// As settings, for `openclaw`
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
        let shown = match self.format {
            None => FormattedRules::Text(text),
            Some(format) => format_rules(format, &cx.space.name, &text),
        };
        Ok(match shown {
            FormattedRules::Text(text) => AgentRules { content: Some(text), settings: None },
            FormattedRules::Settings(settings) => AgentRules { content: None, settings: Some(settings) },
        })
    }
}

/// Write the rules for those who work here
///
/// A version of `.svc/rules.md`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SetRules {
    /// Markdown, at most 262144 bytes
    pub content: String,
}

/// Rules that are written.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WrittenRules {
    /// Always `ok`
    pub status: &'static str,
    /// Where they lie
    pub path: TreePath,
    /// What they are now
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
        Ok(WrittenRules { status: "ok", path: TreePath::parse(super::RULES)?, etag })
    }
}
