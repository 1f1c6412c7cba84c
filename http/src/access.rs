//! The page that shows what every request needs, made from the operations and the special pages themselves.

use svcfs_knowledge::CATALOGUE;
use svcfs_knowledge::kernel::{FolderScope, OperationEntry};

use crate::specials::{RoutePrefix, SPECIAL_ROUTES, SpecialRoute};

const HEAD: &str = "\
# Who may do what

Made by `cargo run -p xtask -- generate` from the operations themselves; a test walks every line of it with every kind of credentials.

With `auth.type = \"none\"` everybody may do everything. Else a caller sends `Authorization: Bearer KEY`, on every door and every route but those
that need nothing, and gets 401 when the key is missing, unknown or another space's. What a key allows is its scope (`read` below `write` below
`admin`): what needs more is answered 403. The one key of `apikey` is an `admin`; `svcfs token create` makes keys of all scopes for `perspace`.

With `auth.type = \"oidc\"` KEY is a token of the identity provider `auth.oidc.issuer` (OpenID Connect: a JWT, signed by RSA, ECDSA or Ed25519) that names
`auth.oidc.client_id` in `aud` and is good now; a minute's difference of clocks is allowed. Its `email`, unless unverified, else its `sub`, signs the changes, and it is an `admin`.
The provider is asked for its keys at the start, every hour, and when a token names one that is new; without them nobody is let in, and the server does not start.

A key may be limited to a folder. It then reads, finds, lists and changes what lies there and nothing else, by whatever link or rename;
what cannot be answered from one folder alone is refused. Messages of commits, which may name other files, are left out. To such a key there is
nothing else: a link that leads elsewhere leads nowhere, and nothing links from there; PageRank, groups and bridges are those of the folder's own pages
and links; `/context` tells the `playbook.md`, `SCHEMA.md` and `index.md` of the folder itself. Refused are saved views, templates and rules, which are files
elsewhere (`query` asks what a view would), `janitor` and the `analytics`, which count the whole tree and all its readers (`health_check`, `stale`,
`contradictions`, `graph_analytics` and `velocity` tell of the folder), and what is about the server.

Spaces are administered with a key that is for no single space. Strangers read what `space.visibility` lets them: all that is read by `GET` in a `public`
space, `/file`, `/peek` and `/section` in an `unlisted` one, nothing in a `private` one.

";

/// The text of `docs/access.md`; ends with a newline.
pub fn page() -> String {
    let mut text = HEAD.to_owned();
    text.push_str("| operation | routes (those below `/api/svc` also below `/api/svc/{space}`) | scope | with a key of a folder |\n");
    text.push_str("| --- | --- | --- | --- |\n");
    CATALOGUE.iter().flat_map(|area| area.operations).for_each(|entry| text.push_str(&line(entry)));
    text.push_str("\n| other pages | scope | with a key of a folder |\n| --- | --- | --- |\n");
    SPECIAL_ROUTES.iter().for_each(|special| text.push_str(&special_line(special)));
    text.push_str(
        "\n`/mcp` asks for a key that may read; each tool is the operation of its name, and needs what that needs. The resources `svc://file/…` and `svc://tree/…`\n\
         must lie in the folder of a key that has one; `svc://schema` is the `SCHEMA.md` of that folder then, or an overview of that folder.\n",
    );
    text
}

fn line(entry: &OperationEntry) -> String {
    let routes: Vec<String> =
        entry.http.iter().map(|route| format!("`{} {}`", route.method.name(), route.full_path())).collect();
    let routes = if routes.is_empty() { "for agents only".to_owned() } else { routes.join(", ") };
    let within = match entry.folder_scope {
        FolderScope::WholeTree => "refused".to_owned(),
        FolderScope::GivenPaths => "every path must lie there".to_owned(),
        FolderScope::Folder(input) => format!("`{input}` must lie there, and is that folder when absent"),
        FolderScope::Rows | FolderScope::CallerFolder => "only what lies there".to_owned(),
    };
    format!("| `{}` | {routes} | {} | {within} |\n", entry.name, entry.required_scope())
}

fn special_line(special: &SpecialRoute) -> String {
    let prefix = if special.prefix == RoutePrefix::Space { "/api/svc" } else { "" };
    let (method, path, scope) = (special.method().name(), special.path, special.guard().name());
    format!("| `{method} {prefix}{path}` | {scope} | {} |\n", special.within())
}
