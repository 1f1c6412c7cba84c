//! Which crate may depend on which: enforces the tables of `docs/design/crates.md`.

use crate::finding::Finding;
use crate::metadata::Package;

/// A crate and the crates of this workspace that it may use outside its tests.
struct LayeredCrate {
    name: &'static str,
    may_use: MayUse,
}

enum MayUse {
    /// These and no others.
    Only(&'static [&'static str]),
    /// Every crate: it belongs to the top layer.
    Everything,
}

use MayUse::{Everything, Only};

const LAYERS: &[LayeredCrate] = &[
    // 0
    LayeredCrate { name: "svcfs-base", may_use: Only(&[]) },
    LayeredCrate { name: "svcfs-work", may_use: Only(&[]) },
    LayeredCrate { name: "svcfs-net", may_use: Only(&[]) },
    LayeredCrate { name: "svcfs-sqlite", may_use: Only(&[]) },
    // 1
    LayeredCrate { name: "svcfs-config", may_use: Only(&["svcfs-base", "svcfs-work"]) },
    LayeredCrate { name: "svcfs-text", may_use: Only(&["svcfs-base", "svcfs-work"]) },
    LayeredCrate { name: "svcfs-render", may_use: Only(&["svcfs-text"]) },
    LayeredCrate { name: "svcfs-dataview", may_use: Only(&["svcfs-base", "svcfs-text"]) },
    // 2: index receives documents and does not use store
    LayeredCrate { name: "svcfs-store", may_use: Only(&["svcfs-base", "svcfs-work", "svcfs-config", "svcfs-text"]) },
    LayeredCrate {
        name: "svcfs-index",
        may_use: Only(&["svcfs-base", "svcfs-work", "svcfs-sqlite", "svcfs-config", "svcfs-text", "svcfs-dataview"]),
    },
    LayeredCrate {
        name: "svcfs-vectors",
        may_use: Only(&["svcfs-base", "svcfs-work", "svcfs-net", "svcfs-sqlite", "svcfs-text"]),
    },
    // 3
    LayeredCrate { name: "svcfs-backup", may_use: Only(&["svcfs-base", "svcfs-net", "svcfs-config", "svcfs-store"]) },
    LayeredCrate { name: "svcfs-vfs", may_use: Only(&["svcfs-base", "svcfs-work", "svcfs-store"]) },
    // 4
    LayeredCrate {
        name: "svcfs-knowledge",
        may_use: Only(&[
            "svcfs-base",
            "svcfs-work",
            "svcfs-net",
            "svcfs-config",
            "svcfs-text",
            "svcfs-render",
            "svcfs-dataview",
            "svcfs-store",
            "svcfs-index",
            "svcfs-vectors",
            "svcfs-vfs",
            "svcfs-backup",
        ]),
    },
    // 5: listener has the common parts of the protocols that listen; protocols do not know each
    // other
    LayeredCrate { name: "svcfs-listener", may_use: Only(&["svcfs-base", "svcfs-work", "svcfs-config"]) },
    LayeredCrate { name: "svcfs-mount", may_use: Only(&["svcfs-base", "svcfs-net", "svcfs-text", "svcfs-vfs"]) },
    LayeredCrate {
        name: "svcfs-http",
        may_use: Only(&["svcfs-base", "svcfs-work", "svcfs-config", "svcfs-knowledge", "svcfs-listener"]),
    },
    LayeredCrate {
        name: "svcfs-nfs",
        may_use: Only(&["svcfs-base", "svcfs-work", "svcfs-config", "svcfs-vfs", "svcfs-knowledge"]),
    },
    LayeredCrate {
        name: "svcfs-s3",
        may_use: Only(&["svcfs-base", "svcfs-work", "svcfs-config", "svcfs-vfs", "svcfs-knowledge", "svcfs-listener"]),
    },
    LayeredCrate {
        name: "svcfs-webdav",
        may_use: Only(&["svcfs-base", "svcfs-work", "svcfs-config", "svcfs-vfs", "svcfs-knowledge", "svcfs-listener"]),
    },
    // Runs the built program from outside, as a user does.
    LayeredCrate { name: "svcfs-measure", may_use: Only(&["svcfs-work"]) },
    // 6
    LayeredCrate { name: "svcfs", may_use: Everything },
    LayeredCrate { name: "svcfs-tests", may_use: Everything },
    LayeredCrate {
        name: "svcfs-bench",
        may_use: Only(&[
            "svcfs-base",
            "svcfs-work",
            "svcfs-text",
            "svcfs-store",
            "svcfs-index",
            "svcfs-vectors",
            "svcfs-vfs",
            "svcfs-measure",
        ]),
    },
    LayeredCrate { name: "xtask", may_use: Everything },
];

/// A third-party crate, and the only crates of this workspace that may use it outside their tests.
///
/// `svcfs-tests` may use all of them: it checks the results of the protocols with these libraries.
const OWNED: &[(&str, &[&str])] = &[
    ("ammonia", &["svcfs-render"]),
    ("anyhow", &["svcfs", "svcfs-measure", "svcfs-bench", "xtask"]),
    ("clap", &["svcfs", "svcfs-bench"]),
    ("clap_complete", &["svcfs"]),
    ("clap_mangen", &["svcfs"]),
    ("dav-server", &["svcfs-webdav"]),
    ("fuser", &["svcfs-mount"]),
    ("git2", &["svcfs-store"]),
    ("governor", &["svcfs-knowledge"]),
    ("hyper", &["svcfs-http", "svcfs-listener", "svcfs-s3", "svcfs-webdav", "svcfs", "svcfs-measure"]),
    ("hyper-util", &["svcfs-http", "svcfs-listener", "svcfs", "svcfs-measure"]),
    ("indicatif", &["svcfs"]),
    ("jsonwebtoken", &["svcfs-knowledge", "svcfs-vectors"]),
    ("libz-sys", &["svcfs-store"]),
    ("listenfd", &["svcfs"]),
    ("matchit", &["svcfs-http"]),
    ("nfs3_types", &["svcfs-nfs", "svcfs-bench"]),
    ("notify", &["svcfs-vfs"]),
    ("procfs", &["svcfs-knowledge"]),
    ("prometheus-client", &["svcfs-http", "svcfs-knowledge"]),
    ("pulldown-cmark", &["svcfs-render", "svcfs-text", "xtask"]),
    ("pulldown-latex", &["svcfs-render"]),
    ("rmcp", &["svcfs-http"]),
    ("rusqlite", &["svcfs-sqlite", "svcfs-store", "svcfs-index", "svcfs-vectors", "svcfs-bench"]),
    ("rusty-s3", &["svcfs-backup"]),
    ("rustls", &["svcfs-mount", "svcfs-net"]),
    ("s3s", &["svcfs-s3"]),
    ("sd-notify", &["svcfs"]),
    ("serde-saphyr", &["svcfs-text"]),
    ("toml", &["svcfs-config"]),
    ("tokio-postgres", &["svcfs-vectors"]),
    ("tracing-appender", &["svcfs"]),
    ("tracing-journald", &["svcfs"]),
    ("tracing-subscriber", &["svcfs"]),
    ("ureq", &["svcfs-mount", "svcfs-net"]),
    ("utoipa-swagger-ui", &["svcfs-http"]),
    ("warp", &["svcfs-http"]),
    ("yaml-edit", &["svcfs-text"]),
];

/// The crate that may use all third-party crates.
const TESTS: &str = "svcfs-tests";

/// Dependencies that the tables do not allow, and crates that are not in them.
pub fn check(packages: &[Package]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        let Some(user) = LAYERS.iter().find(|entry| entry.name == package.name) else {
            let message = "is in no layer; add it to scripts/xtask/src/layers.rs and docs/design/crates.md";
            findings.push(Finding::about(&package.manifest, format!("`{}` {message}", package.name)));
            continue;
        };
        for dependency in &package.dependencies {
            findings.extend(objection(user, dependency).map(|message| Finding::about(&package.manifest, message)));
        }
    }
    findings
}

/// The reason why a crate must not use another one; `None` if it may.
fn objection(user: &LayeredCrate, dependency: &str) -> Option<String> {
    let name = user.name;
    if let Some((_, owners)) = OWNED.iter().find(|(owned, _)| *owned == dependency) {
        let allowed = name == TESTS || owners.contains(&name);
        return (!allowed).then(|| {
            format!("`{name}` must not use `{dependency}`; call `{}`, which may use it", owners.join("`, `"))
        });
    }
    let is_member = LAYERS.iter().any(|entry| entry.name == dependency);
    match &user.may_use {
        Only(allowed) if is_member && !allowed.contains(&dependency) => Some(format!(
            "`{name}` must not use `{dependency}`; a crate uses only lower layers (docs/design/crates.md)"
        )),
        Only(_) | Everything => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{LAYERS, check};
    use crate::metadata::Package;

    fn package(name: &str, dependencies: &[&str]) -> Package {
        Package {
            name: name.to_owned(),
            manifest: format!("{name}/Cargo.toml"),
            dependencies: dependencies.iter().map(ToString::to_string).collect(),
            targets: Vec::new(),
        }
    }

    fn messages(name: &str, dependencies: &[&str]) -> Vec<String> {
        check(&[package(name, dependencies)]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn downward_dependencies_and_unrestricted_crates_are_allowed() {
        assert_eq!(messages("svcfs-vfs", &["svcfs-base", "svcfs-store", "notify", "serde"]), [""; 0]);
        assert_eq!(messages("svcfs", &["svcfs-http", "svcfs-mount", "clap"]), [""; 0]);
        assert_eq!(messages("svcfs-tests", &["git2", "svcfs-store"]), [""; 0]);
    }

    #[test]
    fn upward_and_sideways_dependencies_are_found() {
        let expected = "svcfs-index/Cargo.toml: `svcfs-index` must not use `svcfs-store`; \
                        a crate uses only lower layers (docs/design/crates.md)";
        assert_eq!(messages("svcfs-index", &["svcfs-store"]), [expected]);
        assert_eq!(messages("svcfs-mount", &["svcfs-http"]).len(), 1);
        assert_eq!(messages("svcfs-base", &["svcfs"]).len(), 1);
    }

    #[test]
    fn a_third_party_of_another_crate_is_found() {
        let expected = "svcfs-vfs/Cargo.toml: `svcfs-vfs` must not use `git2`; call `svcfs-store`, which may use it";
        assert_eq!(messages("svcfs-vfs", &["git2"]), [expected]);
    }

    #[test]
    fn a_crate_in_no_layer_is_found() {
        assert_eq!(messages("svcfs-new", &[]).len(), 1);
    }

    #[test]
    fn every_allowed_dependency_is_lower_in_the_table() {
        for (position, entry) in LAYERS.iter().enumerate() {
            if let super::Only(allowed) = &entry.may_use {
                for name in *allowed {
                    let mut lower = LAYERS.iter().take(position);
                    assert!(lower.any(|lower| lower.name == *name), "{} -> {name}", entry.name);
                }
            }
        }
    }
}
