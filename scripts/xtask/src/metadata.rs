//! The packages of the workspace, from `cargo metadata`.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use serde_json::Value;

/// A crate of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its manifest, relative to the workspace root.
    pub manifest: String,
    /// Names of its dependencies outside tests.
    pub dependencies: Vec<String>,
    /// The root file of each of its targets, relative to the workspace root.
    pub targets: Vec<String>,
}

impl Package {
    /// All members of the workspace at `root`, which must be canonical.
    pub fn all(root: &Path) -> anyhow::Result<Vec<Self>> {
        let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["metadata", "--no-deps", "--format-version=1", "--offline"])
            .current_dir(root)
            .output()
            .context("starting `cargo metadata`")?;
        if !output.status.success() {
            bail!("`cargo metadata` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let metadata: Value =
            serde_json::from_slice(&output.stdout).context("parsing the output of `cargo metadata`")?;
        let packages = metadata["packages"].as_array().context("`cargo metadata` printed no packages")?;
        packages.iter().map(|package| Self::parse(package, root)).collect()
    }

    fn parse(package: &Value, root: &Path) -> anyhow::Result<Self> {
        let name = text(package, "name")?;
        let relative = |path: String| -> anyhow::Result<String> {
            let relative =
                Path::new(&path).strip_prefix(root).with_context(|| format!("`{name}` is outside the workspace"))?;
            Ok(relative.to_string_lossy().into_owned())
        };
        let dependencies = package["dependencies"].as_array().context("a package has no `dependencies`")?;
        let targets = package["targets"].as_array().context("a package has no `targets`")?;
        Ok(Self {
            manifest: relative(text(package, "manifest_path")?)?,
            dependencies: dependencies
                .iter()
                .filter(|dependency| dependency["kind"] != "dev")
                .map(|dependency| text(dependency, "name"))
                .collect::<anyhow::Result<_>>()?,
            targets: targets.iter().map(|target| relative(text(target, "src_path")?)).collect::<anyhow::Result<_>>()?,
            name,
        })
    }
}

fn text(value: &Value, key: &str) -> anyhow::Result<String> {
    let text = value[key].as_str().with_context(|| format!("`cargo metadata` printed no `{key}`"))?;
    Ok(text.to_owned())
}
