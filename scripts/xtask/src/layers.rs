//! Who may depend on whom: the layer table of ARCHITECTURE.md, executed.

use crate::finding::Finding;
use crate::metadata::Package;

/// A crate and the crates of this workspace that it may use outside its tests.
struct Room {
    name: &'static str,
    may_use: MayUse,
}

enum MayUse {
    /// These and no others.
    Only(&'static [&'static str]),
    /// Whatever it needs: it stands on top.
    Everything,
}

use MayUse::{Everything, Only};

const ROOMS: &[Room] = &[
    // 0
    Room { name: "svcfs-base", may_use: Only(&[]) },
    Room { name: "svcfs-work", may_use: Only(&[]) },
    Room { name: "svcfs-net", may_use: Only(&[]) },
    // 1
    Room { name: "svcfs-config", may_use: Only(&["svcfs-base", "svcfs-work"]) },
    Room { name: "svcfs-text", may_use: Only(&["svcfs-base", "svcfs-work"]) },
    // 2: index is handed documents and never sees store
    Room { name: "svcfs-store", may_use: Only(&["svcfs-base", "svcfs-work", "svcfs-config", "svcfs-text"]) },
    Room { name: "svcfs-index", may_use: Only(&["svcfs-base", "svcfs-work", "svcfs-config", "svcfs-text"]) },
    // 3
    Room { name: "svcfs-vfs", may_use: Only(&["svcfs-base", "svcfs-work", "svcfs-store"]) },
    // 4
    Room {
        name: "svcfs-knowledge",
        may_use: Only(&[
            "svcfs-base",
            "svcfs-work",
            "svcfs-net",
            "svcfs-config",
            "svcfs-text",
            "svcfs-store",
            "svcfs-index",
            "svcfs-vfs",
        ]),
    },
    // 5: what the doors that listen have in common, then the doors, which know nothing of each other
    Room { name: "svcfs-listener", may_use: Only(&["svcfs-base", "svcfs-work", "svcfs-config"]) },
    Room { name: "svcfs-mount", may_use: Only(&["svcfs-base", "svcfs-net", "svcfs-vfs"]) },
    Room {
        name: "svcfs-http",
        may_use: Only(&["svcfs-base", "svcfs-work", "svcfs-config", "svcfs-knowledge", "svcfs-listener"]),
    },
    Room {
        name: "svcfs-nfs",
        may_use: Only(&["svcfs-base", "svcfs-work", "svcfs-config", "svcfs-vfs", "svcfs-knowledge"]),
    },
    Room {
        name: "svcfs-s3",
        may_use: Only(&["svcfs-base", "svcfs-work", "svcfs-config", "svcfs-vfs", "svcfs-knowledge", "svcfs-listener"]),
    },
    Room {
        name: "svcfs-webdav",
        may_use: Only(&["svcfs-base", "svcfs-work", "svcfs-config", "svcfs-vfs", "svcfs-knowledge", "svcfs-listener"]),
    },
    // It drives the built program from outside, as a user would.
    Room { name: "svcfs-measure", may_use: Only(&["svcfs-work"]) },
    // 6
    Room { name: "svcfs", may_use: Everything },
    Room { name: "svcfs-tests", may_use: Everything },
    Room {
        name: "svcfs-bench",
        may_use: Only(&[
            "svcfs-base",
            "svcfs-work",
            "svcfs-text",
            "svcfs-store",
            "svcfs-index",
            "svcfs-vfs",
            "svcfs-measure",
        ]),
    },
    Room { name: "xtask", may_use: Everything },
];

/// A crate from outside, and the only crates of this workspace that may use it outside their tests.
///
/// `svcfs-tests` may use all of them: it looks at what the doors did with the tools of the trade.
const OWNED: &[(&str, &[&str])] = &[
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
    ("jsonwebtoken", &["svcfs-knowledge"]),
    ("libgit2-sys", &["svcfs-store"]),
    ("listenfd", &["svcfs"]),
    ("matchit", &["svcfs-http"]),
    ("nfs3_types", &["svcfs-nfs", "svcfs-bench"]),
    ("notify", &["svcfs-vfs"]),
    ("procfs", &["svcfs-knowledge"]),
    ("prometheus-client", &["svcfs-http", "svcfs-knowledge"]),
    ("pulldown-cmark", &["svcfs-text", "xtask"]),
    ("rmcp", &["svcfs-http"]),
    ("rusqlite", &["svcfs-store", "svcfs-index", "svcfs-bench"]),
    ("rustls", &["svcfs-mount", "svcfs-net"]),
    ("s3s", &["svcfs-s3"]),
    ("sd-notify", &["svcfs"]),
    ("serde-saphyr", &["svcfs-text"]),
    ("toml", &["svcfs-config"]),
    ("tracing-appender", &["svcfs"]),
    ("tracing-journald", &["svcfs"]),
    ("tracing-subscriber", &["svcfs"]),
    ("ureq", &["svcfs-mount", "svcfs-net"]),
    ("utoipa-swagger-ui", &["svcfs-http"]),
    ("warp", &["svcfs-http"]),
    ("yaml-edit", &["svcfs-text"]),
];

/// The crate that may use whatever is owned by others.
const TESTS: &str = "svcfs-tests";

/// Dependencies that the tables do not allow, and crates that they do not know.
pub fn check(packages: &[Package]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        let Some(room) = ROOMS.iter().find(|room| room.name == package.name) else {
            let message = "is in no layer; add it to `ROOMS` in scripts/xtask/src/layers.rs and to ARCHITECTURE.md";
            findings.push(Finding::about(&package.manifest, format!("`{}` {message}", package.name)));
            continue;
        };
        for dependency in &package.dependencies {
            findings.extend(objection(room, dependency).map(|message| Finding::about(&package.manifest, message)));
        }
    }
    findings
}

/// Why a crate may not use another one, if it may not.
fn objection(room: &Room, dependency: &str) -> Option<String> {
    let name = room.name;
    if let Some((_, owners)) = OWNED.iter().find(|(owned, _)| *owned == dependency) {
        let allowed = name == TESTS || owners.contains(&name);
        return (!allowed).then(|| {
            format!("`{name}` uses `{dependency}`, which belongs to `{}`; ask that crate instead", owners.join("`, `"))
        });
    }
    let is_ours = ROOMS.iter().any(|room| room.name == dependency);
    match &room.may_use {
        Only(allowed) if is_ours && !allowed.contains(&dependency) => Some(format!(
            "`{name}` must not use `{dependency}`; dependencies go downwards only (ARCHITECTURE.md, layers)"
        )),
        Only(_) | Everything => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{ROOMS, check};
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
    fn downward_dependencies_and_free_crates_are_fine() {
        assert_eq!(messages("svcfs-vfs", &["svcfs-base", "svcfs-store", "notify", "serde"]), [""; 0]);
        assert_eq!(messages("svcfs", &["svcfs-http", "svcfs-mount", "clap"]), [""; 0]);
        assert_eq!(messages("svcfs-tests", &["git2", "svcfs-store"]), [""; 0]);
    }

    #[test]
    fn upward_and_sideways_dependencies_are_found() {
        let expected = "svcfs-index/Cargo.toml: `svcfs-index` must not use `svcfs-store`; \
                        dependencies go downwards only (ARCHITECTURE.md, layers)";
        assert_eq!(messages("svcfs-index", &["svcfs-store"]), [expected]);
        assert_eq!(messages("svcfs-mount", &["svcfs-http"]).len(), 1);
        assert_eq!(messages("svcfs-base", &["svcfs"]).len(), 1);
    }

    #[test]
    fn a_crate_that_belongs_to_another_room_is_found() {
        let expected = "svcfs-vfs/Cargo.toml: `svcfs-vfs` uses `git2`, which belongs to `svcfs-store`; \
                        ask that crate instead";
        assert_eq!(messages("svcfs-vfs", &["git2"]), [expected]);
    }

    #[test]
    fn a_crate_in_no_layer_is_found() {
        assert_eq!(messages("svcfs-new", &[]).len(), 1);
    }

    #[test]
    fn every_allowed_dependency_stands_lower_in_the_table() {
        for (position, room) in ROOMS.iter().enumerate() {
            if let super::Only(allowed) = &room.may_use {
                for name in *allowed {
                    assert!(ROOMS.iter().take(position).any(|lower| lower.name == *name), "{} -> {name}", room.name);
                }
            }
        }
    }
}
